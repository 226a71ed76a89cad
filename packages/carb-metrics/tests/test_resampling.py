"""Bootstrap and jackknife: the same distribution as resampling rows, and the reference intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from carb_metrics.resampling import (
    bca_interval,
    bootstrap_means,
    bootstrap_statistic,
    draw_kinds,
    jackknife_interval,
    jackknife_values,
    kinds_of,
    percentile_interval,
    stretch,
)

CASES = {
    "won and lost": ([0.0, 1.0], [7, 13]),
    "shared": ([0.0, 0.25, 1 / 3, 0.5, 1.0], [4, 3, 2, 5, 9]),
    "paired": ([-1.0, 0.0, 1.0], [4, 10, 6]),
    "no lattice": ([0.1234567, 0.7654321, math.pi], [3, 4, 5]),
}


def rows_resampled(values, counts, resamples, seed):
    rows = np.repeat(values, counts)
    return np.random.default_rng(seed).choice(rows, (resamples, len(rows))).mean(1)


@pytest.mark.parametrize("case", CASES)
def test_counts_have_the_distribution_of_resampled_rows(case):
    values, counts = CASES[case]
    drawn = bootstrap_means([counts], values, 40_000, seed=1)[:, 0]
    rows = rows_resampled(values, counts, 40_000, seed=2)
    assert stats.ks_2samp(drawn.round(9), rows.round(9)).pvalue > 0.001


def test_binary_replicates_are_binomial():
    n, won = 30, 21
    drawn = np.rint(bootstrap_means([[n - won, won]], [0, 1], 200_000)[:, 0] * n).astype(int)
    mass = stats.binom.pmf(np.arange(n + 1), n, won / n)
    expected = mass * 200_000
    keep = expected > 5
    seen = np.bincount(drawn, minlength=n + 1)
    assert stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > 0.001


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 100_000_000])
def test_replicates_stay_within_the_values_at_any_size(n):
    counts = [n - n // 3, n // 3]
    drawn = bootstrap_means([counts], [0, 1], 2000)[:, 0]
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    share = counts[1] / n
    if n >= 1000:
        assert abs(drawn.mean() - share) < 5 * math.sqrt(share * (1 - share) / n / 2000)
        assert drawn.std() == pytest.approx(math.sqrt(share * (1 - share) / n), rel=0.1)


def test_strata_are_independent_and_an_empty_one_is_nan():
    drawn = bootstrap_means([[50, 50], [40, 60], [0, 0], [0, 5]], [0, 1], 20_000)
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.03
    assert np.isnan(drawn[:, 2]).all()
    assert (drawn[:, 3] == 1).all()


def test_the_same_seed_gives_the_same_replicates():
    assert np.array_equal(bootstrap_means([[3, 4]], [0, 1], 100, 7), bootstrap_means([[3, 4]], [0, 1], 100, 7))


def test_stretch_makes_the_variance_unbiased():
    drawn = bootstrap_means([[2, 3]], [0, 1], 100_000)[:, 0]
    noise = (drawn - 0.6) * stretch(5)
    assert noise.var() == pytest.approx(0.6 * 0.4 / 4, rel=0.03)


def test_bca_equals_scipy_on_the_same_replicates():
    data = np.random.default_rng(3).exponential(size=25)
    expected = stats.bootstrap((data,), np.mean, method="BCa", n_resamples=2000)
    without = jackknife_values(np.column_stack([data, np.ones(25)]), lambda s: s[..., 0] / s[..., 1])
    found = bca_interval(expected.bootstrap_distribution, float(data.mean()), without)
    assert np.allclose(found, expected.confidence_interval, atol=1e-10, rtol=0)


def test_bca_of_kinds_equals_bca_of_units():
    units = np.column_stack([np.repeat([0.0, 1.0, 3.0], [5, 8, 2]), np.ones(15)])
    kinds, counts = kinds_of(units)

    def mean(sums):
        return sums[..., 0] / sums[..., 1]

    draws = bootstrap_statistic(kinds, counts, mean, 500)
    without = mean(units.sum(0) - kinds)
    by_units = bca_interval(draws, 1.2, jackknife_values(units, mean))
    assert bca_interval(draws, 1.2, without, counts=counts) == pytest.approx(by_units, abs=1e-12)


def test_bca_of_replicates_that_are_all_alike_is_null():
    assert bca_interval(np.ones(10), 1.0, np.ones(5)) is None
    assert bca_interval(np.full(10, np.nan), 1.0, np.ones(5)) is None


def test_jackknife_of_a_mean_is_the_t_interval():
    data = np.random.default_rng(5).normal(size=12)
    units = np.column_stack([data, np.ones(12)])
    estimate, low, high = jackknife_interval(units, lambda s: s[..., 0] / s[..., 1])
    expected = stats.t.interval(0.95, 11, data.mean(), stats.sem(data))
    assert (estimate, low, high) == pytest.approx((data.mean(), *expected), abs=1e-10)


@pytest.mark.parametrize("units", [np.empty((0, 2)), np.zeros((3, 2))])
def test_jackknife_of_nothing_is_null(units):
    with np.errstate(invalid="ignore"):
        assert jackknife_interval(units, lambda s: s[..., 0] / s[..., 1]) == (None, None, None)


def test_jackknife_of_one_unit_has_no_limits():
    assert jackknife_interval(np.array([[2.0, 1.0]]), lambda s: s[..., 0] / s[..., 1]) == (2.0, None, None)


def test_percentile_interval_is_the_quantiles():
    low, high = percentile_interval(np.arange(1001.0), 0.9)
    assert (low, high) == pytest.approx((50, 950))


@pytest.mark.parametrize("counts", [[1] * 12, [100, 40, 60]])
def test_kinds_are_drawn_from_their_multinomial_either_way(counts):
    drawn = np.concatenate(list(draw_kinds(counts, 20_000, 0)))
    total, share = sum(counts), np.array(counts) / sum(counts)
    assert drawn.shape == (20_000, len(counts))
    assert (drawn.sum(1) == total).all()
    expected = total * (np.diag(share) - np.outer(share, share))
    assert np.allclose(drawn.mean(0), total * share, atol=5 * np.sqrt(expected.max() / 20_000))
    assert np.allclose(np.cov(drawn.T), expected, atol=0.05 * expected.max())
