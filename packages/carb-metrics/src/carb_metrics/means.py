"""The mean of families over their clusters, with its interval and its test."""

from __future__ import annotations

import math

import numpy as np

from carb_metrics.clusters import Ints
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats

FEWEST = 6
"""Effective clusters below which no interval and no test is given: there are too few."""

PSEUDO = 2.0
"""Clusters that vary as a scorer at chance does, added to those of the data, so that families
which are all alike do not look certain."""


def effective_clusters(cluster: Ints) -> float:
    """``(Σ w)² / Σ w²`` over the sizes w of clusters: how many equally large ones weigh as much."""
    if not len(cluster):
        return 0.0
    size = np.unique(cluster, return_counts=True)[1].astype(np.float64)
    return float(size.sum() ** 2 / (size**2).sum())


def clustered_mean(
    values: Floats,
    null: Floats,
    variance: Floats,
    cluster: Ints,
    confidence: float,
    bounds: tuple[float, float],
) -> Interval:
    """A mean with the t interval over clusters, and the test that the mean is that of ``null``.

    The standard error is the jackknife's over clusters, linearised (Bell and McCaffrey 2002, Survey
    Methodology 28:169-181, CR3), with ``PSEUDO`` more clusters that vary as ``variance`` says; t
    has ``effective_clusters`` − 1 degrees of freedom. Where every value is as expected, the limits
    leave room for the largest share of other clusters that may have shown none.

    Args:
        values: (families,) the values whose mean is wanted.
        null: (families,) what each is expected to be under the hypothesis.
        variance: (families,) the variance of each under the hypothesis.
        cluster: (families,) the cluster of each.
        confidence: the level of the interval.
        bounds: limits of what a mean can be.

    Returns:
        no limits and no p below ``FEWEST`` effective clusters; nothing without values.
    """
    from scipy.special import stdtr, stdtrit

    count = len(values)
    if not count:
        return Interval(n=0)
    mean = float(values.mean())
    clusters = effective_clusters(cluster)
    if clusters < FEWEST:
        return Interval(estimate=mean, n=count)
    error = _standard_error(values - mean, float(variance.mean()), cluster)
    away = float((values - null).mean())
    half = float(stdtrit(clusters - 1, 0.5 + confidence / 2)) * error
    if (values == null).all():
        furthest = max(bounds[1] - mean, mean - bounds[0])
        half = max(half, _unseen(clusters, confidence) * furthest)
    return Interval(
        estimate=mean,
        low=max(bounds[0], mean - half),
        high=min(bounds[1], mean + half),
        p=2 * float(stdtr(clusters - 1, -abs(away) / error)),
        n=count,
    )


def _standard_error(residual: Floats, variance: float, cluster: Ints) -> float:
    """The standard error of a mean, given each value's distance from it."""
    of = np.unique(cluster, return_inverse=True)[1]
    size = np.bincount(of).astype(np.float64)
    whole, clusters = size.sum(), len(size)
    left_out = np.bincount(of, residual) / (1 - size / whole)
    seen = (clusters - 1) / clusters * float((left_out**2).sum())
    added = PSEUDO * variance * float((size**2).mean()) * clusters / (clusters - 1)
    return math.sqrt(seen + added) / float(whole)


def _unseen(clusters: float, confidence: float) -> float:
    """The largest share of clusters of a kind of which so many clusters hold none with a chance of
    (1 − confidence)/2."""
    return float(1 - ((1 - confidence) / 2) ** (1 / clusters))
