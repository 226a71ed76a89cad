"""Intervals of proportions: reference implementations, exact cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from carb_data import CarbError
from carb_metrics.intervals import normal_quantile, wilson


def test_wilson_equals_statsmodels():
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="reference implementation")
    won, n = np.arange(0, 41), np.full(41, 40)
    expected = proportion.proportion_confint(won, n, method="wilson")
    assert np.allclose(wilson(won, n), expected, atol=1e-10, rtol=0)


def test_coverage_of_wilson():
    for p in (0.25, 0.5, 0.765):
        n = 200
        low, high = wilson(np.arange(n + 1), n)
        mass = stats.binom.pmf(np.arange(n + 1), n, p)
        assert 0.93 <= mass[(low <= p) & (p <= high)].sum() <= 0.97


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95])
def test_confidence_is_checked(confidence):
    with pytest.raises(CarbError, match="between 0 and 1"):
        normal_quantile(confidence)
