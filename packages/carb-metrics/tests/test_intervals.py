"""Intervals of proportions: reference implementations, exact cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from carb_data import CarbError
from carb_metrics.intervals import effective_n, normal_quantile, wilson

trials = st.integers(1, 2000)


@given(trials, st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_equals_scipy(n, share, confidence):
    won = round(n * share)
    expected = stats.binomtest(won, n).proportion_ci(confidence, method="wilson")
    assert np.allclose(wilson(won, n, confidence), expected, atol=1e-10, rtol=0)


def test_wilson_equals_statsmodels():
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="reference implementation")
    won, n = np.arange(0, 41), np.full(41, 40)
    expected = proportion.proportion_confint(won, n, method="wilson")
    assert np.allclose(wilson(won, n), expected, atol=1e-10, rtol=0)


@given(trials, st.floats(0, 1))
def test_wilson_holds_the_estimate_and_mirrors(n, share):
    won = round(n * share)
    low, high = wilson(won, n)
    assert 0 <= low <= won / n <= high <= 1
    mirrored = wilson(n - won, n)
    assert np.allclose([1 - mirrored[1], 1 - mirrored[0]], [low, high], atol=1e-12)


def test_wilson_of_nothing_is_not_a_number():
    assert all(math.isnan(limit) for limit in wilson(0, 0))


def test_coverage_of_wilson():
    for p in (0.25, 0.5, 0.765):
        n = 200
        low, high = wilson(np.arange(n + 1), n)
        mass = stats.binom.pmf(np.arange(n + 1), n, p)
        assert 0.93 <= mass[(low <= p) & (p <= high)].sum() <= 0.97


def test_effective_n_of_binary_credits_is_n():
    assert effective_n(50, 0.3, 0.3 * 0.7 / 50) == pytest.approx(50)
    assert effective_n(50, 1.0, 0.0) == 50


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95])
def test_confidence_is_checked(confidence):
    with pytest.raises(CarbError, match="between 0 and 1"):
        normal_quantile(confidence)
