"""The jackknife of statistics that are made of sums over units."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from carb_metrics.intervals import Floats, check_confidence

Statistic = Callable[[Floats], Floats]
"""(..., sums) to (...): a number made of sums over units; NaN where it is not defined."""


def ratio(sums: Floats) -> Floats:
    """The first sum over the second."""
    found: Floats = sums[..., 0] / sums[..., 1]
    return found


def jackknife_interval(
    units: Floats, statistic: Statistic, confidence: float = 0.95, *, log: bool = False
) -> tuple[float | None, float | None, float | None]:
    """A statistic of sums over independent units, with the t interval of its jackknife standard
    error.

    Source: Tukey (1958); Efron and Tibshirani (1993), chapter 11: ``se² = (C−1)/C·Σ (θ_(c) − mean
    θ_(·))²`` over the C units, which may be clusters.

    Args:
        units: (units, sums) what each unit adds to each sum.
        statistic: the function from sums (..., sums) to the statistic (...).
        confidence: the level of the interval, between 0 and 1.
        log: whether to make the interval on the scale of logarithms, for positive ratios.

    Returns:
        estimate, low, high; null where not defined (limits need two units and a spread).
    """
    from scipy.special import stdtrit

    check_confidence(confidence)
    if not len(units):
        return None, None, None
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not defined is null, as below
        estimate = float(statistic(units.sum(0)))
        if not math.isfinite(estimate):
            return None, None, None
        count = len(units)
        without = statistic(units.sum(0) - units) if count > 1 else np.array([np.nan])
        without = np.log(without) if log else without
    if not np.isfinite(without).all() or (log and estimate <= 0):
        return estimate, None, None
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * error
    if log:
        return estimate, estimate * math.exp(-half), estimate * math.exp(half)
    return estimate, estimate - half, estimate + half
