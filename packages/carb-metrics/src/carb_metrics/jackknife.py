"""The jackknife of statistics that are made of sums over units."""

import math
from collections.abc import Callable

import numpy as np

from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence, nan_where_undefined, t_quantile

Statistic = Callable[[Floats], Floats]
"""(..., sums) to (...): a number made of sums over units; NaN where it is not defined."""


def ratio(sums: Floats) -> Floats:
    """The first sum over the second."""
    quotient: Floats = sums[..., 0] / sums[..., 1]
    return quotient


def jackknife_error(without: Floats) -> float:
    """The standard error of a statistic, from its values without each of C units:
    ``se² = (C−1)/C·Σ (θ_(c) − mean θ_(·))²``."""
    count = len(without)
    away = without - without.mean()
    return math.sqrt((count - 1) / count * float((away**2).sum()))


def jackknife_interval(
    units: Floats,
    statistic: Statistic,
    confidence: float = 0.95,
    *,
    log: bool = False,
) -> Interval:
    """A statistic of sums over independent units, with the t interval of its jackknife standard
    error.

    Source: Tukey (1958); Efron and Tibshirani (1993), chapter 11. Units may be clusters.

    Args:
        units: (units, sums) what each unit adds to each sum.
        statistic: the function from sums (..., sums) to the statistic (...).
        confidence: the level of the interval, between 0 and 1.
        log: whether to make the interval on the scale of logarithms, for positive ratios.

    Returns:
        no estimate where it is not defined; limits need two units and a spread.
    """
    check_confidence(confidence)
    if not len(units):
        return Interval()
    with nan_where_undefined():  # what is not defined is null, as below
        total = units.sum(0)
        estimate = float(statistic(total))
        if not math.isfinite(estimate):
            return Interval()
        count = len(units)
        without = statistic(total - units)
        if log:
            without = np.log(without)
    no_logarithm = log and estimate <= 0
    if count < 2 or no_logarithm or not np.isfinite(without).all():
        return Interval(estimate=estimate)
    t = float(t_quantile(count - 1, confidence))
    half = t * jackknife_error(without)
    if log:
        return Interval(
            estimate=estimate,
            low=estimate * math.exp(-half),
            high=estimate * math.exp(half),
        )
    return Interval(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
    )


def within(
    interval: Interval,
    most: float = math.inf,
) -> Interval:
    """The interval with limits between 0 and the most that there can be."""
    if interval.low is None or interval.high is None:
        return interval
    low = max(0.0, interval.low)
    return interval.changed(low=low, high=min(most, interval.high))
