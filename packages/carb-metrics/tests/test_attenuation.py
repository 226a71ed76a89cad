"""Validity with errors of measurement: what it corrects, and that its intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from carb_data import CarbError
from carb_metrics import correlate_uncertain


def test_the_correction_is_spearmans():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=40)
    x, y = truth + rng.normal(size=40), 0.8 * truth + 0.6 * rng.normal(size=40)
    found = correlate_uncertain(x, y, np.ones(40), np.zeros(40))
    r = np.corrcoef(x, y)[0, 1]
    reliability = 1 - 1 / x.var(ddof=1)
    assert found.reliability_x == pytest.approx(reliability)
    assert found.reliability_y == 1.0
    assert found.observed.estimate == pytest.approx(r)
    assert found.corrected.estimate == pytest.approx(min(1.0, r / np.sqrt(reliability)))
    assert found.observed.low < r < found.observed.high


def test_intervals_hold_with_relatives_and_errors():
    rng, hits, corrected, rounds = np.random.default_rng(1), 0, 0, 120
    base = np.repeat(np.arange(12), 2)
    for seed in range(rounds):
        parent = rng.normal(size=12)[base]
        other = 0.7 * parent + np.sqrt(1 - 0.49) * rng.normal(size=12)[base]
        x, y = parent + rng.normal(size=24) * 0.5, other + rng.normal(size=24) * 0.5
        found = correlate_uncertain(x, y, np.full(24, 0.5), np.full(24, 0.5), base.tolist(), seed=seed)
        hits += found.observed.low <= 0.7 / 1.25 <= found.observed.high
        corrected += found.corrected.low <= 0.7 <= found.corrected.high
    assert hits / rounds >= 0.9
    assert corrected / rounds >= 0.9


def test_few_or_broken_points():
    few = correlate_uncertain([1, 2, 3, 4], [1, 2, 4, 3], shared_source=True)
    assert few.observed.estimate is not None
    assert few.observed.low is None
    assert few.shared_source
    noisy = correlate_uncertain([1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 6, 5], np.full(6, 9.0))
    assert noisy.corrected.estimate is None
    with pytest.raises(CarbError, match="negative"):
        correlate_uncertain([1, 2], [1, 2], [-1, 0])
    with pytest.raises(CarbError, match="bases"):
        correlate_uncertain([1, 2], [1, 2], bases=["a"])
