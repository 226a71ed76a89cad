"""Bootstrap and jackknife: the same distribution as resampling rows, and the reference intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from carb_metrics.resampling import (
    bca_interval,
    bootstrap_statistic,
    draw_kinds,
    jackknife_interval,
    jackknife_values,
    kinds_of,
    percentile_interval,
)


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
