"""A mean with the studentised sign-flip test over clusters, and the interval of the same flips."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import numpy as np

from carb_metrics.clusters import Ints
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats

FLIPS = 4_096
"""Flips of signs behind a p; all of them where there are no more than this."""


def flipped(
    values: Floats,
    null: Floats,
    variance: Floats,
    cluster: Ints,
    confidence: float,
    bounds: tuple[float, float],
) -> Interval:
    """A mean with the studentised sign-flip test of ``null`` over whole clusters, and the interval
    of the same flips.

    The statistic is ``|m|/se``: m the mean of ``values − null``, se its clustered standard error
    with two more clusters that vary as ``variance`` says, so that families which are all alike do
    not look certain. A flip changes the sign of all deviations of a cluster. The limits are ``mean
    ± q·se`` with the critical value q of the flips: null lies outside exactly where p is below 1 −
    confidence.

    Args:
        values: (families,) the values whose mean is wanted.
        null: (families,) what each is expected to be under the hypothesis.
        variance: (families,) the variance of each under the hypothesis.
        cluster: (families,) the cluster of each.
        confidence: the level of the interval.
        bounds: limits of what a mean can be; they are the interval where there are too few clusters
            for a test.
    """
    if not len(values):
        return Interval()
    mean = float(values.mean())
    away = values - null
    away[np.abs(away) < 1e-12] = 0.0
    if not away.any():
        return Interval(estimate=mean, low=mean, high=mean, p=1.0)
    of = np.unique(cluster, return_inverse=True)[1]
    total, weight = np.bincount(of, away), np.bincount(of).astype(np.float64)
    count = len(total)
    signs = _signs(count)
    prior = 2 * float(variance.mean()) * float((weight**2).mean())
    shift = signs @ total / weight.sum()
    square = (
        (total**2).sum() - 2 * shift * (signs @ (weight * total)) + shift**2 * (weight**2).sum()
    )
    error = np.sqrt((np.maximum(square, 0.0) + prior) * count / max(count - 1, 1)) / weight.sum()
    statistic = np.abs(shift) / error
    alpha = 1 - confidence
    p = float((statistic >= statistic[0] * (1 - 1e-9)).mean())
    low, high = bounds
    if alpha * len(signs) > 1:
        place = ceil(alpha * len(signs) - 1e-9) - 1
        half = float(np.sort(statistic)[::-1][place]) * float(error[0])
        if p >= alpha:  # rounding must not leave null outside
            half *= 1 + 1e-9
        low, high = max(low, mean - half), min(high, mean + half)
    return Interval(estimate=mean, low=low, high=high, p=p)


@lru_cache(maxsize=32)
def _signs(count: int) -> Floats:
    """(flips, count) signs of clusters, the data's own first; one of each flip and its opposite,
    which are the same."""
    if 2 ** (count - 1) <= FLIPS:
        others = np.arange(2 ** (count - 1))[:, None] >> np.arange(count - 1) & 1
        return np.column_stack([np.ones(len(others)), 1.0 - 2 * others])
    drawn = np.random.default_rng(0).integers(0, 2, (FLIPS, count), dtype=np.int8)
    drawn[0] = 0
    signs: Floats = 1.0 - 2.0 * drawn.astype(np.float64)
    return signs
