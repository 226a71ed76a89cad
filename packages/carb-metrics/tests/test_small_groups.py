"""Intervals where they are hard: small groups, extreme shares, few and unequal clusters, unequal sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_data import CarbError, ScoreTable
from carb_metrics import bon_accuracy, compare, rank
from carb_metrics.clusters import share_interval
from carb_metrics.intervals import wilson
from carb_metrics.paired import paired
from carb_metrics.tally import Tally

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("sizes", "p"), [([5, 200, 200, 200, 200], 0.9), ([5, 500, 500], 0.95), ([1, 50, 50], 0.9)])
def test_the_macro_interval_covers_beside_a_small_group(sizes, p):
    rng, hits, rounds = np.random.default_rng(0), 0, 400
    group = np.repeat(np.arange(len(sizes)), sizes)
    frame = pl.DataFrame({"scorer": "s", "culture": [f"c{g}" for g in group], "item_id": np.arange(len(group))})
    frame = frame.with_columns(tied=pl.lit(0), error=pl.lit(value=False))
    for _ in range(rounds):
        sets = frame.with_columns(credit=pl.Series((rng.random(len(group)) < p).astype(float)))
        tally = Tally(sets, ("culture",), "wrong", 0.95)
        cell = tally.average(np.arange(len(sizes)), np.ones(len(sizes)), None)
        hits += cell.low <= p <= cell.high
    assert hits / rounds >= 0.92


@pytest.mark.parametrize("sizes", [[5] * 6, [5] * 8, [1, 1, 2, 3, 10, 20]])
@pytest.mark.parametrize("p", [0.5, 0.9])
def test_a_share_of_few_clusters_covers(sizes, p):
    rng, hits, rounds = np.random.default_rng(1), 0, 400
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(rounds):
        easy = rng.beta(p, 1 - p, len(sizes))  # intracluster correlation 0.5
        _, low, high = share_interval((rng.random(len(cluster)) < easy[cluster]).astype(float), cluster, 0.95)
        hits += low <= p <= high
    assert hits / rounds >= 0.93


@pytest.mark.parametrize("clusters", [None, 7])
def test_the_paired_interval_covers_and_agrees_with_its_p(clusters):
    rng, hits, rounds = np.random.default_rng(2), 0, 600
    n = 30 if clusters is None else clusters * 6
    cluster = None if clusters is None else np.arange(n) % clusters
    for _ in range(rounds):
        if cluster is None:
            d = rng.choice([-1.0, 0.0, 1.0], n, p=[0.05, 0.75, 0.2])
        else:
            d = np.where(
                rng.random(n) < 0.5, rng.choice([-1.0, 0.0, 1.0], clusters, p=[0.05, 0.75, 0.2])[cluster], 0.15
            )
        found = paired(d, cluster)
        hits += found.low <= (0.15) <= found.high
        assert (found.low <= 0 <= found.high) == (found.p >= 0.05)
    assert hits / rounds >= 0.93


def test_a_difference_of_whole_clusters_is_read_from_either_table(make_table):
    sets, sources = [WON] * 40 + [LOST] * 40, [f"q{i // 8}" for i in range(80)]
    a, b = make_table(sets, scorer="a"), make_table([LOST] * 80, scorer="b", sources=sources)
    assert compare(a, b).p == compare(b, a).p
    assert compare(a, b).p > 100 * compare(a, make_table([LOST] * 80, scorer="b")).p
    assert compare(a, b).design_effect > 4
    with_sources = make_table(sets, scorer="a", sources=sources)
    apart = make_table([LOST] * 80, scorer="b")
    assert compare(with_sources, apart).p == compare(a, b).p
    assert compare(a, b).detectable is None  # ten clusters find nothing
    assert compare(a, apart).detectable < 0.5


def test_a_rank_lies_in_its_interval_on_unequal_sets(make_table):
    easy, hard = [LOST] * 40, [WON] * 60
    part = make_table(easy + hard, scorer="part").frame.filter(pl.col("item_id").str.slice(5).cast(pl.Int64) >= 40)
    tables = [make_table([WON] * 40 + [WON] * 54 + [LOST] * 6, scorer="good"), ScoreTable(part)]
    tables += [make_table([WON] * 30 + [LOST] * 10 + [LOST] * 60, scorer="bad")]
    found = rank(ScoreTable.concat(tables)).scorers
    assert all(row.place.low <= row.place.rank <= row.place.high for row in found)
    assert [row.scorer for row in found] == ["part", "good", "bad"]


def test_a_scorer_that_lacks_a_culture_has_no_macro_average(make_table):
    whole = make_table([WON, LOST, WON, WON], scorer="whole", cultures=["thai", "german"])
    part = make_table([WON, LOST, WON, WON], scorer="part", cultures=["thai", "german"])
    part = ScoreTable(part.frame.filter(pl.col("culture") == "thai"))
    found = bon_accuracy(ScoreTable.concat([whole, part]), by=("scorer", "culture"), weights={"thai": 1, "german": 2})
    assert found.of("whole").macro.accuracy == 0.75
    assert found.of("whole").lacking == ()
    assert found.of("part").macro.accuracy is None
    assert found.of("part").weighted.accuracy is None
    assert found.of("part").lacking == (("german",),)
    assert found.of("part").overall.accuracy == 1.0


def test_errors_are_shares_of_all_sets(make_table):
    failed = [None, None, None, None]
    table = make_table([WON, failed, failed, failed])
    assert bon_accuracy(table, errors="exclude").overall.error_rate == 0.75
    assert bon_accuracy(table, by="culture", errors="exclude").cell("arabic").error_rate == 0.75
    assert bon_accuracy(table).overall.error_rate == 0.75
    dead = bon_accuracy(make_table([failed] * 4), errors="exclude").overall
    assert (dead.accuracy, dead.n, dead.errors, dead.error_rate) == (None, 0, 4, 1.0)


@pytest.mark.parametrize(("won", "n"), [(5, 3), (-1, 3), (1, -2)])
def test_a_share_of_more_than_all_is_refused(won, n):
    with pytest.raises(CarbError, match="between 0 and n"):
        wilson(won, n)
