"""Means over clusters, with their intervals and tests.

Sets that stem from one source item or one family are not independent. ``share_interval`` is of
shares, ``means`` of bounded values and their differences, ``clustered_mean`` of families.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from carb_metrics.clusters import Ints
from carb_metrics.interval import Interval
from carb_metrics.intervals import (
    Floats,
    few_degrees,
    nan_where_undefined,
    t_quantile,
    t_tails,
    wilson,
)

__all__ = ["FEWEST"]

FEWEST = 6
"""Effective clusters below which a mean of families has no interval and no test."""

PSEUDO = 2.0
"""Weight, in clusters, of an assumption beside the clusters of the data, so that equal values do
not look certain. A design effect assumes that all sets of a cluster turn out alike. A mean of
families assumes a scorer at chance."""


@dataclass(frozen=True)
class Design:
    """What clusters do to the variance of means; each is (means,)."""

    effect: Floats
    """Variance over that of as many independent sets, at least 1."""
    freedom: Floats
    """Degrees of freedom of that variance: infinite where no two sets share a cluster."""
    clusters: Ints
    """Clusters of a mean."""

    def effective_n(
        self,
        accuracy: Floats,
        independent: Floats,
        confidence: float,
    ) -> Floats:
        """(means,) effective sample size of each accuracy.

        Few degrees of freedom reduce it by the factor ``(z/t)²``. Where all credits of a mean are
        alike there is nothing to estimate a variance from: then each cluster counts as one
        observation.

        Args:
            accuracy: (means,) the mean accuracies, 0 to 1
            independent: (means,) the effective sample size if sets were independent.
            confidence: the confidence level of the interval that is made next, between 0 and 1.
        """
        mixed = (accuracy > 1e-12) & (accuracy < 1 - 1e-12)
        few = mixed & ~np.isinf(self.freedom)
        freedom = np.minimum(self.freedom, 1e9)
        shrink = np.where(few, few_degrees(freedom, confidence), 1.0)
        size: Floats = independent / self.effect * shrink
        return size


def design(
    cluster: Ints,
    residual: Floats,
    weight: Floats | None = None,
    mean: Ints | None = None,
    means: int = 1,
) -> Design:
    """The design effect of means, each over its own sets.

    Few clusters may look more independent than they are. So the effect that they show
    (``_Pairs.shown``) is averaged with the effect of clusters whose sets all turn out alike. The
    latter has the weight of ``PSEUDO`` clusters. Large clusters may have lost no set yet. So the
    effect is at least ``1 + ρ·(Σ w_c²/Σ w² − 1)`` (Kish 1965, Survey Sampling, section 5.4), where
    all clusters estimate the intracluster correlation ρ. There are ``W²/Σ w_c² − 1`` degrees of
    freedom, as many as equally large clusters would leave. The effect is 1 where no cluster has two
    sets.

    Args:
        cluster: (sets,) the cluster of each set.
        residual: (sets,) credit minus its mean.
        weight: (sets,) the weight of each set; 1 if left out.
        mean: (sets,) the mean that a set counts for; a single one if left out.
        means: The number of means that are estimated.
    """
    if mean is None:
        mean = np.zeros(len(cluster), dtype=np.int64)
    if weight is None:
        weight = np.ones(len(residual))
    pairs = _pairs(mean, cluster, weight, residual, means)
    clusters = pairs.clusters
    with nan_where_undefined():  # a mean of nothing is NaN
        squares = pairs.over_means(pairs.weight**2)
        whole = pairs.over_means(pairs.weight)
        alike = squares / np.bincount(mean, weight**2, means)
        weighted = (weight * residual) ** 2
        independent = np.bincount(mean, weighted, means)
        shown = pairs.shown(whole) / independent
        both = clusters * shown + PSEUDO * alike
        blended = both / (clusters + PSEUDO)
        square = np.bincount(mean, residual**2, means).astype(float)
        added: Floats = alike - 1
        least = 1 + added * pairs.correlation(square)
        known = (clusters > 1) & (independent > 1e-12)
        effect = np.where(known, np.fmax(blended, least), alike)
        freedom = whole**2 / squares - 1
    shared = alike > 1 + 1e-9
    effect = np.maximum(effect, 1.0)
    freedom = np.maximum(freedom, 1.0)
    return Design(
        effect=np.where(shared, effect, 1.0),
        freedom=np.where(shared, freedom, np.inf),
        clusters=clusters,
    )


@dataclass(frozen=True)
class _Pairs:
    """Sums over the sets of each pair of a mean and a cluster; each is (pairs,)."""

    mean: Ints
    """The mean of a pair."""
    means: int
    weight: Floats
    total: Floats
    """Weighted residuals."""
    size: Floats
    """Number of sets."""
    plain: Floats
    """Residuals without weights."""

    @property
    def clusters(self) -> Ints:
        """(means,) clusters of each mean."""
        return np.bincount(self.mean, minlength=self.means)

    def over_means(self, values: Floats) -> Floats:
        """(means,) sums of values of pairs."""
        return np.bincount(self.mean, values, self.means).astype(float)

    def shown(self, whole: Floats) -> Floats:
        """(means,) ``(C−1)/C·Σ (e_c / (1 − w_c/W))²`` over the C clusters of a mean, with the
        residual total e_c and the weight w_c of a cluster.

        The jackknife's variance, linearised (Bell and McCaffrey 2002, Survey Methodology
        28:169-181, CR3).
        """
        share = self.weight / whole[self.mean]
        left_out = self.total / (1 - share)
        clusters = self.clusters
        return self.over_means(left_out**2) * (clusters - 1) / clusters

    def correlation(self, square: Floats) -> Floats:
        """(means,) intracluster correlation of residuals by a one-way analysis of variance, 0 to 1;
        NaN for one cluster (Donner 1986, International Statistical Review 54:67-82).

        Args:
            square: (means,) sum of all squared residuals of a mean.
        """
        n = self.over_means(self.size)
        clusters = self.clusters
        explained = self.over_means(self.plain**2 / self.size)
        within = (square - explained) / np.maximum(n - clusters, 1)
        between = explained / (clusters - 1)
        usual = (n - self.over_means(self.size**2) / n) / (clusters - 1)
        whole = between + (usual - 1) * within
        ratio = (between - within) / whole
        clipped: Floats = np.clip(ratio, 0, 1)
        return clipped


def _pairs(
    mean: Ints,
    cluster: Ints,
    weight: Floats,
    residual: Floats,
    means: int,
) -> _Pairs:
    count = int(cluster.max(initial=0)) + 1
    key = mean * count + cluster
    pairs, pair = np.unique(key, return_inverse=True)

    def total(values: Floats) -> Floats:
        return np.bincount(pair, values, len(pairs)).astype(float)

    return _Pairs(
        mean=pairs // count,
        means=means,
        weight=total(weight),
        total=total(weight * residual),
        size=total(np.ones(len(residual))),
        plain=total(residual),
    )


def share_interval(
    credit: Floats,
    cluster: Ints,
    confidence: float,
) -> Interval:
    """A share with Wilson's interval, at the effective sample size where clusters hold several
    rows.

    Args:
        credit: (rows,) 0 or 1; cluster: (rows,) the cluster of each.
        confidence: the level of the limits, between 0 and 1.

    Returns:
        nothing without rows.
    """
    if not len(credit):
        return Interval()
    share = np.array([credit.mean()])
    n = np.array([float(len(credit))])
    clustered = design(cluster, credit - share)
    effective = clustered.effective_n(share, n, confidence)
    won = share * effective
    low, high = wilson(won, effective, confidence)
    return Interval(
        estimate=float(share[0]),
        low=float(low[0]),
        high=float(high[0]),
    )


@dataclass(frozen=True)
class Means:
    """Means with their intervals and tests; all arrays are (means,), NaN where a mean has no
    values."""

    n: Ints
    estimate: Floats
    low: Floats
    high: Floats
    p: Floats
    """Two-sided p of a mean of 0: below 1 − confidence exactly where the interval leaves 0 out."""
    effect: Floats
    """Design effect of the clusters."""
    centre: Floats
    """The middle of the interval."""
    error: Floats
    """Standard error of ``centre``."""
    freedom: Floats
    """Degrees of freedom of ``error``."""

    def at(self, index: int) -> Interval:
        """One of the means; null is what is not known."""
        known: dict[str, Any] = {}
        for name in ("estimate", "low", "high", "p"):
            value = float(getattr(self, name)[index])
            if not math.isnan(value):
                known[name] = value
        return Interval(n=int(self.n[index]), **known)


def means(
    values: Floats,
    cluster: Ints,
    confidence: float,
    bounds: tuple[float, float] | None = None,
) -> Means:
    """Means of rows of values, with the one interval and the one test of means that the package
    has: t of the clusters.

    For bounded values, two clusters of average size are added, one at each bound: values that are
    all alike do not look certain (Agresti and Coull 1998, The American Statistician 52:119-126; for
    paired differences, Bonett and Price 2012, Journal of Educational and Behavioral Statistics
    37:479-488). The variance of a mean grows by the design effect of its clusters, and t has the
    degrees of freedom that they leave (``design``).

    Args:
        values: (rows, units), NaN where a row has no such unit.
        cluster: (units,) the cluster of each unit by number.
        confidence: the level of the intervals, between 0 and 1.
        bounds: the least and the largest value that there can be; null for any, which needs two
            units.
    """
    row, unit = np.nonzero(~np.isnan(values))
    of_row = values[row, unit]
    return means_of(row, of_row, cluster[unit], len(values), confidence, bounds)


def means_of(
    row: Ints,
    known: Floats,
    cluster: Ints,
    rows: int,
    confidence: float,
    bounds: tuple[float, float] | None,
) -> Means:
    """``means`` of values that each have their row and their cluster."""
    n = np.bincount(row, minlength=rows)
    total = np.bincount(row, known, rows)
    square = np.bincount(row, known**2, rows)
    low, high = bounds or (0.0, 0.0)
    with nan_where_undefined():  # a mean of nothing is NaN
        ratio = total / n
        mean: Floats = np.where(n > 0, ratio, np.nan)
        residual = known - mean[row]
        clustering = design(cluster, residual, mean=row, means=rows)
        added = np.zeros(rows)
        if bounds is not None:
            added = n / clustering.clusters
        whole = n + 2 * added
        of_bounds = added * (low + high)
        centre = (total + of_bounds) / whole
        squares_of_bounds = added * (low**2 + high**2)
        squares = (square + squares_of_bounds) / whole
        spread = np.maximum(squares - centre**2, 0.0)
        units = n - 1 if bounds is None else whole
        variance = spread / units * clustering.effect
        error = np.sqrt(variance)
        independent = np.isinf(clustering.freedom)
        freedom = np.where(independent, whole - 1, clustering.freedom)
        freedom_of_t = np.maximum(freedom, 1.0)
        half = t_quantile(freedom_of_t, confidence) * error
        certain = np.where(centre == 0, 1.0, 0.0)
        tested = t_tails(centre / error, freedom_of_t)
        p = np.where(error > 0, tested, certain)
        lower = np.minimum(centre - half, mean)
        upper = np.maximum(centre + half, mean)
    if bounds is not None:
        lower = np.maximum(lower, low)
        upper = np.minimum(upper, high)
    enough = n > (bounds is None)
    return Means(
        n=n,
        estimate=mean,
        low=np.where(enough, lower, np.nan),
        high=np.where(enough, upper, np.nan),
        p=np.where(enough, p, np.nan),
        effect=clustering.effect,
        centre=centre,
        error=error,
        freedom=freedom,
    )


def effective_clusters(cluster: Ints) -> float:
    """``(Σ w)² / Σ w²`` over the sizes w of clusters: how many equally large ones weigh as much."""
    if not len(cluster):
        return 0.0
    _, counts = np.unique(cluster, return_counts=True)
    size = counts.astype(float)
    return float(size.sum() ** 2 / (size**2).sum())


def clustered_mean(
    values: Floats,
    null: Floats,
    variance: Floats,
    cluster: Ints,
    confidence: float,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Interval:
    """A mean with the t interval over clusters, and the test that the mean is that of ``null``.

    The standard error is the jackknife's over clusters, linearised (Bell and McCaffrey 2002, Survey
    Methodology 28:169-181, CR3), with ``PSEUDO`` more clusters that vary as ``variance`` says; t
    has ``effective_clusters`` − 1 degrees of freedom. Few clusters that are far from the others
    make a mean skewed: the limit on their side is further away. Where all values are alike, the
    limits leave room for the largest share of other clusters that may have shown none. No limit is
    moved past a null mean that the test excludes.

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
    count = len(values)
    if not count:
        return Interval(n=0)
    mean = float(values.mean())
    clusters = effective_clusters(cluster)
    if clusters < FEWEST:
        return Interval(estimate=mean, n=count)
    residual = values - mean
    error, skewness = _clustered(residual, float(variance.mean()), cluster)
    away = float((values - null).mean())
    quantile = float(t_quantile(clusters - 1, confidence))
    half = quantile * error
    p = float(t_tails(away / error, clusters - 1))
    # γ·(2t² + 1)/6 standard errors for a mean of skewness γ (Hall 1992, JRSS B 54:221-228)
    tail = error * skewness * (2 * quantile**2 + 1) / 6
    below = half - min(tail, 0.0)
    above = half + max(tail, 0.0)
    if (values == values[0]).all():
        unseen = _unseen(clusters, confidence)
        below = max(half, unseen * (mean - bounds[0]))
        above = max(half, unseen * (bounds[1] - mean))
    if half < away <= below:
        below = half
    if half < -away <= above:
        above = half
    return Interval(
        estimate=mean,
        low=max(bounds[0], mean - below),
        high=min(bounds[1], mean + above),
        p=p,
        n=count,
    )


def _clustered(
    residual: Floats,
    variance: float,
    cluster: Ints,
) -> tuple[float, float]:
    """The standard error and the skewness of a mean, given each value's distance from it."""
    count = len(residual)
    pairs = _pairs(
        np.zeros_like(cluster),
        cluster,
        np.ones(count),
        residual,
        1,
    )
    shown = float(pairs.shown(np.array([float(count)]))[0])
    clusters = len(pairs.size)
    size = float((pairs.size**2).mean())
    added = PSEUDO * variance * size * clusters / (clusters - 1)
    error = math.sqrt(shown + added) / count
    square = float((pairs.total**2).sum())
    cube = float((pairs.total**3).sum())
    skewness = 0.0
    if square > 1e-12:
        skewness = cube / square**1.5
    return error, skewness


def _unseen(clusters: float, confidence: float) -> float:
    """The largest share of clusters of a kind of which so many clusters hold none with a chance of
    (1 − confidence)/2."""
    tail = (1 - confidence) / 2
    return float(1 - tail ** (1 / clusters))
