"""Intervals where they are hard: small groups, extreme shares, few and unequal clusters, unequal
sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from carb_data import ScoreTable
from carb_metrics import bon_accuracy, compare
from carb_metrics.families import chance_variance
from carb_metrics.intervals import wilson
from carb_metrics.means import clustered_mean, design
from carb_metrics.paired import mean_interval

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def test_few_clusters_that_are_all_won_look_as_uncertain_as_in_an_accuracy(make_table):
    sources = [f"q{i // 10}" for i in range(50)]
    cell = bon_accuracy(make_table([WON] * 50, sources=sources)).overall
    found = mean_interval([1.0] * 50, sources)
    assert cell.low == pytest.approx(0.57, abs=0.01)
    assert found.low < 0.6


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


def test_a_scorer_that_lacks_a_culture_has_no_macro_average(make_table):
    whole = make_table([WON, LOST, WON, WON], scorer="whole", cultures=["thai", "german"])
    part = make_table([WON, LOST, WON, WON], scorer="part", cultures=["thai", "german"])
    part = ScoreTable(part.frame.filter(pl.col("culture") == "thai"))
    found = bon_accuracy(ScoreTable.concat([whole, part]), by=("scorer", "culture"))
    assert found.of("whole").macro.accuracy == 0.75
    assert found.of("part").macro.accuracy is None
    assert found.of("part").overall.accuracy == 1.0


def test_groups_that_are_all_won_are_worth_their_sets_and_no_more(make_table):
    """A mean of groups is worth (groups)² / Σ 1/n sets where none shows a variance."""
    cultures = ["thai"] * 4 + ["german"] * 12
    macro = bon_accuracy(make_table([WON] * 16, cultures=cultures), by="culture").macro
    worth = 2**2 / (1 / 4 + 1 / 12)
    assert macro.high == 1
    assert macro.low == pytest.approx(worth / (worth + 1.959964**2), abs=1e-6)


def test_a_mean_of_groups_is_as_uncertain_as_its_formula_says(make_table):
    won, n = np.array([3, 5]), np.array([4, 12])
    sets = [WON] * 3 + [LOST] + [WON] * 5 + [LOST] * 7
    macro = bon_accuracy(make_table(sets, cultures=["thai"] * 4 + ["german"] * 12), "culture").macro
    drawn = (won + 2 * (won.sum() + 1) / 18) / (n + 2)
    parts = drawn * (1 - drawn) / n / 4
    freedom = parts.sum() ** 2 / (parts**2 / (n + 2)).sum()
    centre = ((won / n).mean() * 16 + 1) / 18
    few = (stats.norm.ppf(0.975) / stats.t.ppf(0.975, freedom)) ** 2
    worth = centre * (1 - centre) / parts.sum() * few
    low, high = wilson((won / n).mean() * worth, worth)
    assert (macro.low, macro.high) == pytest.approx((float(low), float(high)), abs=1e-12)


def test_the_design_effect_is_blended_with_that_of_clusters_that_are_alike():
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(12), 4)
    values = rng.normal(size=48) + 0.5 * rng.normal(size=12)[cluster]
    residual = values - values.mean()
    left_out = np.bincount(cluster, residual) / (1 - 4 / 48)
    shown = 11 / 12 * (left_out**2).sum() / (residual**2).sum()
    expected = (12 * shown + 2 * 4) / 14
    assert design(cluster, residual).effect[0] == pytest.approx(expected, abs=1e-12)


def test_wilson_equals_statsmodels():
    proportion = pytest.importorskip(
        "statsmodels.stats.proportion", reason="reference implementation"
    )
    won, n = np.arange(0, 41), np.full(41, 40)
    expected = proportion.proportion_confint(won, n, method="wilson")
    assert np.allclose(wilson(won, n), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("count", [6, 20, 100])
def test_few_families_that_are_far_from_the_others_leave_room_on_their_side(count):
    half, cluster = np.full(count, 0.5), np.arange(count)
    variance = chance_variance(np.full(count, 4))
    for read in range(count + 1):
        values = np.where(cluster < read, 1.0, 0.5)
        found = clustered_mean(values, half, variance, cluster, 0.95, (0.0, 1.0))
        below, above = found.estimate - found.low, found.high - found.estimate
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        assert (found.p < 0.05) == (found.low > 0.5)
        if 0 < read <= max(1, count / 10):
            assert above > 1.15 * below
        if 0.9 * count <= read < count and found.high < 1:
            assert below > 1.15 * above
    rare = np.where(cluster < 1, 1.0, 0.5)
    found = clustered_mean(rare, half, variance, cluster, 0.95, (0.0, 1.0))
    assert found.high > 0.5 + 0.45 * (1 - 0.025 ** (1 / count))  # not below none read at all


def test_the_limit_on_the_skewed_side_of_a_mean_is_further_by_halls_correction():
    values = np.array([0.1, 0.1, 0.12, 0.1, 0.2, 0.15, 0.1, 0.9, 0.3, 0.12])
    n = len(values)
    mean = clustered_mean(values, np.zeros(n), np.zeros(n), np.arange(n), 0.95, (-9, 9))
    quantile = stats.t.ppf(0.975, n - 1)
    error = values.std(ddof=1) / n**0.5
    away = values - values.mean()
    skewness = (away**3).sum() / (away**2).sum() ** 1.5
    further = error * skewness * (2 * quantile**2 + 1) / 6
    assert mean.low == pytest.approx(values.mean() - quantile * error)
    assert mean.high == pytest.approx(values.mean() + quantile * error + further)
