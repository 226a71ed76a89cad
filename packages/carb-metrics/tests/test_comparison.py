"""Paired comparison, ranking, corrections and planning."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from carb_data import CarbError, ScoreTable
from carb_metrics import adjust, bon_accuracy, compare, rank, sets_needed
from carb_metrics.paired import minimum_detectable_difference, paired_rows

WON, LOST, TIED, FAILED = (
    [2.0, 1.0, 0.0, 1.0],
    [1.0, 2.0, 0.0, 1.0],
    [2.0, 2.0, 0.0, 2.0],
    [None, 1.0, 2.0, 3.0],
)


def test_adjusted_p_values_equal_statsmodels():
    multitest = pytest.importorskip(
        "statsmodels.stats.multitest", reason="reference implementation"
    )
    p = np.random.default_rng(0).uniform(0, 0.1, 40)
    assert np.allclose(adjust(p), multitest.multipletests(p, method="holm")[1], atol=1e-10, rtol=0)


def test_compare_counts_pairs(make_table):
    a = make_table([WON, WON, WON, LOST, TIED], scorer="a")
    b = make_table([WON, LOST, LOST, WON, FAILED], scorer="b")
    result = compare(a, b)
    assert (result.a, result.b, result.n, result.unpaired) == ("a", "b", 5, 0)
    assert (result.only_a, result.only_b) == (3, 1)
    assert result.difference == pytest.approx(0.2 + 1 / 15)
    assert (result.ties_a, result.ties_b) == (1, 0)
    assert (result.strict_a, result.strict_b) == (0.6, 0.4)
    assert result.better is None
    assert result.discordance == 0.8
    assert -1 <= result.low <= result.difference <= result.high <= 1
    assert result.accuracy_a == pytest.approx(3 / 5 + 1 / 3 / 5)


def test_compare_is_antisymmetric_and_independent_of_row_order(make_table):
    rng = np.random.default_rng(1)
    a = make_table(rng.normal(size=(40, 4)), scorer="a")
    b = make_table(rng.normal(size=(40, 4)), scorer="b")
    there, back = compare(a, b), compare(b, a)
    assert there.p == back.p
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-12)
    assert compare(ScoreTable(a.frame.reverse()), b) == there


def test_compare_uses_common_sets_and_says_so(make_table):
    a = make_table([WON, WON, LOST], scorer="a")
    b = ScoreTable(
        make_table([LOST, WON, LOST], scorer="b").frame.filter(pl.col("item_id") != "item-0")
    )
    assert (compare(a, b).n, compare(a, b).unpaired) == (2, 1)
    c = ScoreTable(b.frame.with_columns(item_id=pl.lit("x") + pl.col("item_id")))
    with pytest.raises(CarbError, match="no set in common"):
        compare(a, c)


def test_compare_of_nothing_or_no_difference(make_table):
    table = make_table([WON, LOST])
    same = compare(table, table)
    assert (same.difference, same.p, same.better, same.more_sets, same.detectable) == (
        0,
        1,
        None,
        None,
        None,
    )
    assert same.low < 0 < same.high
    empty = ScoreTable(table.frame.clear())
    assert compare(empty, empty).difference is None
    assert compare(empty, empty).n == 0


def test_clusters_widen_the_interval_and_weaken_the_test(make_table):
    sources = [f"q{i // 8}" for i in range(80)]
    good = [WON if (i // 8) % 5 else LOST for i in range(80)]
    bad = [WON if (i // 8) % 2 else LOST for i in range(80)]
    apart = compare(make_table(good, scorer="a"), make_table(bad, scorer="b"), by="culture")
    a, b = (
        make_table(good, scorer="a", sources=sources),
        make_table(bad, scorer="b", sources=sources),
    )
    together = compare(a, b, by="culture")
    assert together.difference == apart.difference
    assert together.high - together.low > 1.5 * (apart.high - apart.low)
    assert together.p > 10 * apart.p
    (ranked,) = rank(ScoreTable.concat([a, b])).pairs
    assert ranked.p == together.p
    assert (ranked.low, ranked.high) == pytest.approx((together.low, together.high))


def test_rank_orders_scorers_and_bounds_ranks(make_table):
    best = make_table([WON] * 60, scorer="best")
    worst = make_table([LOST] * 60, scorer="worst")
    middle = make_table([WON, LOST] * 30, scorer="middle")
    twin = make_table([WON, LOST] * 30, scorer="twin")
    result = rank(ScoreTable.concat([worst, twin, best, middle]))
    assert [row.scorer for row in result.scorers] == ["best", "middle", "twin", "worst"]
    assert [row.standing.text for row in result.scorers] == [
        "1 [1–1]",
        "2 [2–3]",
        "2 [2–3]",
        "4 [4–4]",
    ]
    assert len(result.pairs) == 6
    row = next(pair for pair in result.pairs if (pair.a, pair.b) == ("best", "middle"))
    pair = compare(best, middle)
    assert (row.p, row.difference, row.low) == (pair.p, pair.difference, pytest.approx(pair.low))


def test_a_scorer_without_a_score_has_no_rank(make_table):
    tables = [
        make_table(sets * 6, scorer=name)
        for name, sets in (("a", [WON]), ("b", [LOST]), ("gone", [FAILED]))
    ]
    result = rank(ScoreTable.concat(tables))
    assert [row.scorer for row in result.scorers] == ["a", "b", "gone"]
    assert dict(result.of("gone").standing) == {"rank": None, "low": None, "high": None}
    assert [row.standing.high for row in result.scorers[:2]] == [
        1,
        2,
    ]  # the third is no place that they could have
    assert [(pair.a, pair.b) for pair in result.pairs] == [("a", "b")]
    alone = rank(tables[2])
    assert [row.standing.rank for row in alone.scorers] == [None]
    assert alone.pairs == ()
    with pytest.raises(CarbError, match="no scorer 'b' here; there are: gone"):
        alone.of("b")


def test_the_paired_interval_is_bonett_and_prices_with_t():
    d = np.repeat([1.0, -1.0, 0.0], [12, 5, 33])
    p12, p21 = 13 / 52, 6 / 52
    error = math.sqrt((p12 + p21 - (p12 - p21) ** 2) / 52)
    half = stats.t(51).ppf(0.975) * error
    (found,) = paired_rows(d[None], np.arange(50), 0.95)
    assert (found.low, found.high) == pytest.approx((p12 - p21 - half, p12 - p21 + half), abs=1e-12)
    assert found.p == pytest.approx(2 * stats.t(51).sf((p12 - p21) / error))


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=40),
    st.integers(1, 12),
    st.sampled_from([0.5, 0.8, 0.95, 0.999]),
)
def test_interval_and_p_are_one_thing(values, clusters, level):
    """Whatever the values and their clusters: nothing is forced, and both agree at every level."""
    d = np.array(values)
    for cluster in (np.arange(len(d)), np.arange(len(d)) % clusters):
        (found,) = paired_rows(d[None], cluster, level)
        assert found.low <= found.estimate <= found.high
        assert (found.p < 1 - level) == (not found.low <= 0 <= found.high)


def test_floating_noise_is_a_tie(make_table):
    nearly = [1 / 3 * 3, 1.0 + 1e-12, 0.0, 0.5]
    cell = bon_accuracy(make_table([nearly])).overall
    assert (cell.accuracy, cell.strict, cell.ties) == (0.5, 0.0, 1)
    assert (
        compare(
            make_table([nearly], scorer="a"), make_table([[1.0, 1.0, 0.0, 0.5]], scorer="b")
        ).difference
        == 0
    )


def test_main_sets_count_unless_asked(make_table):
    """The same digits from every function, and each says which sets it counts."""
    tables = []
    for name, sets in (("a", [WON, TIED, LOST, LOST]), ("b", [WON, LOST, LOST, WON])):
        frame = make_table(sets, scorer=name).frame
        mirror = pl.col("item_id").is_in(["item-2", "item-3"])
        tables.append(ScoreTable(frame.with_columns(mirror=mirror, kind=pl.lit(None, pl.String))))
    both = ScoreTable.concat(tables)
    main, every = compare(*tables), compare(*tables, mirrors=True)
    assert (main.n, main.counted, every.n, every.counted) == (2, "main", 4, "all")
    for mirrors, pair in ((False, main), (True, every)):
        (row,) = rank(both, mirrors=mirrors).pairs
        assert (row.n, row.difference, row.p) == (pair.n, abs(pair.difference), pair.p)
        found = bon_accuracy(both, "scorer", mirrors=mirrors)
        assert (pair.ties_a, pair.ties_b) == (1, 0)
        assert [found.cell(name).ties for name in "ab"] == [1, 0]
        assert found.counted == pair.counted
        assert found.cell("a").accuracy == pair.accuracy_a


def test_a_margin_needs_evidence(make_table):
    rng = np.random.default_rng(5)
    base = rng.random(800) < 0.7
    twin = np.where(rng.random(800) < 0.05, ~base, base)
    a, b = (
        make_table([WON if one else LOST for one in flags], scorer=name)
        for name, flags in (("a", base), ("b", twin))
    )
    wide, narrow = compare(a, b, margin=0.05), compare(a, b, margin=0.005)
    assert wide.margin.equivalent
    assert -0.05 < wide.margin.low < wide.margin.high < 0.05
    assert not narrow.margin.equivalent
    few = compare(
        make_table([WON, LOST] * 4, scorer="a"), make_table([WON, LOST] * 4, scorer="b"), margin=0.1
    )
    assert few.p == 1
    assert not few.margin.not_worse


def test_planning_inverts_itself():
    for discordance in (0.1, 0.3):
        for n in (50, 500, 8576):
            delta = minimum_detectable_difference(n, discordance)
            if delta is not None:
                assert sets_needed(delta, discordance) == n
                assert sets_needed(-delta, discordance) == n
    assert minimum_detectable_difference(3, 0.1) is None
    assert sets_needed(0.0, 0.2) is None
    assert sets_needed(1.0, 1.0) == 4  # every set differs: 1.96², rounded up
    assert sets_needed(0.01, 0.3) > sets_needed(0.05, 0.3)


@pytest.mark.coverage
@pytest.mark.parametrize("size", [1, 4])
def test_planned_sets_give_compare_the_promised_power(size, cell):
    """With clusters of ``size`` sets that are all alike, each counts once."""
    delta, discordance, rounds = 0.08, 0.3, 1_500
    n = sets_needed(delta, discordance, design_effect=size)
    rng = np.random.default_rng(0)
    cluster = np.arange(n) // size
    units = -(-n // size)
    d = np.repeat(rng.choice([1.0, -1.0, 0.0], (rounds, units), p=[0.19, 0.11, 0.7]), size, 1)[
        :, :n
    ]
    power = np.mean([one.p < 0.05 for one in paired_rows(d, cluster, 0.95)])
    title = (
        "**Planning**: power of `compare` at a difference of .08 (planned .80), with the number of "
        "sets that `sets_needed` gives:"
    )
    cell(title, f"{n:,} sets in clusters of {size}", "power", power)
    assert 0.77 <= power <= 0.83
