"""Items, equivalence, margins, and mistakes in the words of the caller."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from carb_data import CarbError, ScoreTable
from carb_metrics import (
    agreement,
    bon_accuracy,
    calibration,
    compare,
    correlate,
    correlate_uncertain,
    dependent_correlations,
    equivalence,
    item_analysis,
    margin_calibration,
    margins,
    mean_interval,
    paired_difference,
    sets_needed,
    wilson,
)
from carb_metrics.clusters import numbered
from carb_metrics.consistency import calibrate_k
from carb_metrics.items import ATTRACTIVE, FEWEST_SCORERS, NEGATIVE

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def won(flags):
    return [WON if flag else LOST for flag in flags]


def many(make_table, credit, **options):
    """A table of scorers (rows) and items (columns)."""
    return ScoreTable.concat(
        [make_table(won(row), scorer=f"s{i:02}", **options) for i, row in enumerate(np.asarray(credit))]
    )


def rasch(rng, scorers, items):
    ability, hard = rng.normal(0, 1, scorers), rng.normal(0, 1, items)
    return rng.random((scorers, items)) < 1 / (1 + np.exp(-(ability[:, None] - hard)))


def test_a_reversed_item_is_flagged_and_good_ones_are_not(make_table):
    rng = np.random.default_rng(2)
    credit = rasch(rng, 40, 60)
    order = np.argsort(credit.mean(1))
    credit[:, 0], credit[:, 1] = False, True
    credit[order[:20], 2], credit[order[20:], 2] = True, False  # only bad scorers win it
    found = item_analysis(many(make_table, credit, cultures=["thai", "german"]))
    items = {item.item_id: item for item in found.items}
    assert items["item-2"].flags == (NEGATIVE, ATTRACTIVE)
    # All take the same wrong answer of the first item: that is for people to look at.
    assert [item.item_id for item in found.flagged()] == ["item-0", "item-2"]
    assert (items["item-0"].discrimination, items["item-1"].difficulty) == (None, 1.0)
    rest = (credit.sum(1) - credit[:, 5]) / 59
    assert items["item-5"].discrimination == pytest.approx(np.corrcoef(credit[:, 5], rest)[0, 1])
    assert items["item-5"].difficulty == credit[:, 5].mean()
    assert sum(pick.share for pick in items["item-5"].picks) == pytest.approx(1)


def test_few_scorers_flag_nothing(make_table):
    credit = rasch(np.random.default_rng(3), FEWEST_SCORERS - 1, 200)
    found = item_analysis(many(make_table, credit))
    assert {(item.flags, item.p_adjusted) for item in found.items} == {((), None)}
    assert any(item.discrimination < 0 for item in found.items if item.discrimination is not None)


@pytest.mark.coverage
@pytest.mark.parametrize("scorers", [10, 25])
def test_sets_of_good_items_are_rarely_flagged(make_table, scorers, say):
    rng, rounds = np.random.default_rng(4), 40
    flagged = [len(item_analysis(many(make_table, rasch(rng, scorers, 100))).flagged()) for _ in range(rounds)]
    share = np.mean([count > 0 for count in flagged])
    say(f"{scorers} scorers, 100 good items: some flag in {share:.2f} of {rounds} benchmarks")
    assert share <= 0.15


def test_equivalence_needs_evidence(make_table):
    rng = np.random.default_rng(5)
    base = rng.random(800) < 0.7
    twin = np.where(rng.random(800) < 0.05, ~base, base)
    a, b = make_table(won(base), scorer="a"), make_table(won(twin), scorer="b")
    assert equivalence(a, b, 0.05).equivalent
    few = make_table(won(base[:40]), scorer="a"), make_table(won(twin[:40]), scorer="b")
    assert not equivalence(*few, 0.05).equivalent
    worse = make_table(won(base & (rng.random(800) < 0.8)), scorer="b")
    assert equivalence(a, worse, 0.05).not_worse
    assert not equivalence(worse, a, 0.05).not_worse
    found = equivalence(a, b, 0.05)
    assert (abs(found.difference.low) < 0.05 and found.difference.high < 0.05) == found.equivalent
    with pytest.raises(CarbError, match="margin"):
        equivalence(a, b, 0)


def test_leads_tell_the_chance_of_being_right(make_table):
    rng = np.random.default_rng(9)
    table = make_table(rng.normal(size=(400, 4)) + np.array([1.2, 0, 0, 0]), cultures=["thai", "german"])
    whole, german, thai = margin_calibration(table)
    assert (whole.group, german.group, thai.group, whole.n) == (None, "german", "thai", 400)
    assert whole.slope > 0.5
    assert whole.calibration.p > 0.01
    assert whole.coverage[0].accuracy.estimate > whole.coverage[-1].accuracy.estimate + 0.1
    assert whole.coverage[-1].coverage == 1.0
    assert whole.area < 1 - whole.coverage[-1].accuracy.estimate
    clear = margins(table)
    assert len(clear) == 400
    assert np.mean([value > 0 for value in clear.values()]) == whole.coverage[-1].accuracy.estimate


def test_one_paired_interval_for_any_values():
    rng = np.random.default_rng(10)
    a, b = rng.normal(1, 1, 40), rng.normal(0.5, 1, 40)
    found = paired_difference(a, b, bounded=False)
    expected = stats.ttest_rel(a, b).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.p_exact is None
    assert paired_difference([], []).estimate is None
    assert paired_difference([1, 0, 1], [0, 0, 1], clusters=["q", "q", None]).n == 3
    with pytest.raises(CarbError, match="same length"):
        paired_difference([1], [1, 0])
    with pytest.raises(CarbError, match="between 0 and 1"):
        paired_difference([2.0], [1.0])


@pytest.mark.parametrize("values", [[0.25] * 30, [0.0] * 8, [1.0], [0.2, 0.9, 0.4]])
def test_a_mean_of_shares_is_never_certain(values):
    found = mean_interval(values)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.high > found.low


def _of_clusters(clusters):
    """What each function that takes clusters finds in the same 40 values."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(0, 2, (2, 40)).astype(float)
    return [
        paired_difference(a, b, clusters),
        mean_interval(a, clusters),
        agreement(np.column_stack([a, b]), clusters=clusters, resamples=200),
        calibration(np.full(40, 0.6), a, clusters=clusters).brier,
        correlate_uncertain(rng.normal(size=40), a, bases=clusters),
    ]


def test_a_value_without_a_cluster_stands_alone():
    for tied in (["q", "q", "r", "r"], []):
        missing, named = ([*tied, *rest][:40] for rest in ([None] * 40, [f"alone-{k}" for k in range(40)]))
        for found, expected in zip(_of_clusters(missing), _of_clusters(named), strict=True):
            assert found == expected
    assert numbered(["q", None, math.nan, "q", None, 1], 6).tolist() == [0, 1, 2, 0, 3, 4]
    assert numbered(np.array([7, 3, 7]), 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([1, None, 0, 1], [0, 0, 1, 0]), r"a\[1\] is missing"),
        (lambda: paired_difference([1, math.inf], [0, 0], bounded=False), r"a\[1\] is missing, NaN or infinite"),
        (lambda: mean_interval([1, math.nan, 0]), r"values\[1\] is missing"),
        (lambda: mean_interval([5, 6, 7]), "between 0 and 1; for others give bounded=False"),
        (lambda: mean_interval([1, 0, 1], ["a", "b"]), "clusters has 2 entries for 3 values"),
        (lambda: dependent_correlations(math.nan, 0.5, 0.5, 20), "No data has"),
        (lambda: dependent_correlations(0.5, math.nan, 0.5, 20), "No data has"),
        (lambda: wilson(None, 10), "successes must lie between 0 and n; got nan of 10"),
        (lambda: wilson(5, math.inf), "got 5 of inf"),
        (lambda: wilson([1, 2], [3, math.nan]), "got 2 of nan"),
        (lambda: calibrate_k([1, math.nan]), r"differences\[1\] is missing"),
    ],
)
def test_a_missing_or_infinite_number_is_a_mistake(call, message):
    with pytest.raises(CarbError, match=message):
        call()


def test_clusters_of_a_mean_are_labels_of_any_kind():
    assert mean_interval([1, 0, 1], ["a", "b", "b"]) == mean_interval([1, 0, 1], np.array([0, 1, 1]))
    assert np.isnan(wilson(0, 0)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: agreement([[1, 1], [0, 1]], resamples=0), "resamples must be at least 1; got 0"),
        (lambda t: correlate(range(9), range(9), interval="bca", resamples=0), "resamples must be at least 1"),
        (lambda t: bon_accuracy(t.frame), "ScoreTable, not DataFrame"),
        (lambda t: compare(t.frame, t.frame), "ScoreTable, not DataFrame"),
        (lambda t: sets_needed(0.1, 0.2, alpha=1), "alpha must lie between 0 and 1"),
        (lambda t: equivalence(t, t, 0.1, alpha=0.6), "alpha must lie between 0 and 0.5, for example 0.05; got 0.6"),
    ],
)
def test_a_mistake_is_named_in_the_words_of_the_caller(make_table, call, message):
    with pytest.raises(CarbError, match=message):
        call(make_table(won([1, 0, 1]), scorer="s"))
