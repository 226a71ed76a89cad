"""Sets that stem from one source item are not independent: variances and replicates by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_metrics.intervals import Floats, normal_quantile

Ints = npt.NDArray[np.int64]

CHUNK = 500
"""Replicates that are held in memory at once."""


def cluster_of(sets: pl.DataFrame) -> pl.Series:
    """The cluster of each set: its source item, or the set's own id where none is known."""
    item = sets["item_id"].cast(pl.String)
    if "source_item" not in sets.columns:
        return item
    return sets.select(pl.coalesce(pl.col("source_item").cast(pl.String), pl.lit("\0") + item).alias("c"))["c"]


def is_clustered(sets: pl.DataFrame) -> bool:
    """Do several sets of one scorer stem from one source item?"""
    if "source_item" not in sets.columns or not sets.height:
        return False
    known = sets.filter(pl.col("source_item").is_not_null()).select("scorer", "source_item")
    return known.height > 0 and bool(known.is_duplicated().any())


@dataclass(frozen=True)
class Units:
    """Credits and sizes per group and cluster; a row for each pair that occurs."""

    group: Ints
    cluster: Ints
    credit: Floats
    size: Floats
    """Sets of this cluster in this group."""

    def of(self, groups: Ints) -> Units:
        """Only the given groups, which keep their numbers."""
        keep = np.isin(self.group, groups)
        cluster = np.unique(self.cluster[keep], return_inverse=True)[1]
        return Units(self.group[keep], cluster, self.credit[keep], self.size[keep])

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0


def tally_units(sets: pl.DataFrame, group: Ints) -> Units:
    """Sum up ``credit`` and ``counted`` per group and cluster.

    Args:
        sets: a row per set with the columns ``credit`` and ``counted``.
        group: (sets,) number of the group of each set.
    """
    cluster = cluster_of(sets).rank("dense").cast(pl.Int64) - 1
    sums = (
        pl.DataFrame({"group": group, "cluster": cluster, "credit": sets["credit"], "counted": sets["counted"]})
        .filter("counted")
        .group_by("group", "cluster")
        .agg(pl.col("credit").sum(), pl.len().cast(pl.Float64).alias("size"))
        .sort("group", "cluster")
    )
    return Units(*(sums[name].to_numpy() for name in ("group", "cluster", "credit", "size")))


def group_effective_n(units: Units, n: Ints, accuracy: Floats, confidence: float) -> Floats:
    """Effective sample size of each group's accuracy.

    The accuracy is a ratio of cluster totals, whose variance is ``C/(C−1)·Σ (x_c − p·m_c)² / n²`` over its C clusters
    (Cochran 1977, Sampling Techniques, 3rd ed., section 9A.7); see ``deflate`` for the rest.
    """
    groups = len(n)
    residual = units.credit - accuracy[units.group] * units.size
    clusters = np.bincount(units.group, minlength=groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.bincount(units.group, residual**2, minlength=groups) * clusters / (clusters - 1) / n**2.0
    return deflate(n, accuracy, variance, clusters, confidence)


def average_effective_n(units: Units, n: Ints, accuracy: Floats, weights: Floats, confidence: float) -> float:
    """Effective sample size of ``Σ w_g·p_g``, by linearisation over clusters (Cochran 1977, section 9A.7).

    Args:
        units: of the groups that take part.
        n: (groups,) sets; accuracy: (groups,); weights: (groups,), zero where a group takes no part.
        confidence: of the interval to come.
    """
    scale = np.divide(weights, n, out=np.zeros(len(n)), where=n > 0)
    residual = (units.credit - accuracy[units.group] * units.size) * scale[units.group]
    sums = np.bincount(units.cluster, residual)
    clusters = len(sums)
    variance = float((sums**2).sum()) * clusters / (clusters - 1) if clusters > 1 else np.nan
    share = float(np.nansum(np.where(weights > 0, accuracy * weights, 0)))
    taking_part = int(n[weights > 0].sum())
    return float(deflate(np.array(taking_part), np.array(share), np.array(variance), np.array(clusters), confidence))


def deflate(n: Any, accuracy: Any, variance: Any, clusters: Any, confidence: float) -> Floats:
    """``p(1−p)/variance``, at most ``n``, for the loss of freedom with few clusters times ``(z / t_{C−1})²``.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201. Where all credits are alike the variance says
    nothing, and each cluster counts as one observation.
    """
    from scipy.special import stdtrit

    z, tail = normal_quantile(confidence), 0.5 + confidence / 2
    count = np.asarray(clusters, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = stdtrit(np.maximum(count - 1, 1), tail)
        effective = np.where(variance > 0, np.minimum(accuracy * (1 - accuracy) / variance, n), count) * (z / t) ** 2
    effective = np.where(variance > 0, effective, np.minimum(count, n))
    return np.where(count > 1, effective, np.minimum(count, 1.0))


def cluster_bootstrap(units: Units, groups: Ints, weights: Floats, resamples: int, seed: Any) -> Floats:
    """Replicates of ``Σ w_g·p_g`` and of its parts when whole clusters are drawn with replacement.

    Clusters with the same credits and sizes in every group are one kind; the number of each kind drawn is
    multinomial (Efron 1979, section 2, with the cluster as the unit; Davison and Hinkley 1997, section 3.8).

    Args:
        units: of these groups.
        groups: (k,) numbers of the groups.
        weights: (k,) summing to 1. Groups without a set in a replicate give their weight to the others.
        resamples, seed: as in ``bootstrap_means``.

    Returns:
        (resamples,)
    """
    place = np.searchsorted(groups, units.group)
    wide = np.zeros((units.clusters, 2 * len(groups)))
    wide[units.cluster, place] = units.credit
    wide[units.cluster, len(groups) + place] = units.size
    kinds, counts = np.unique(wide, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    averages = np.empty(resamples)
    for start in range(0, resamples, CHUNK):
        drawn = rng.multinomial(counts.sum(), counts / counts.sum(), size=min(CHUNK, resamples - start))
        sums = drawn @ kinds
        credit, size = sums[:, : len(groups)], sums[:, len(groups) :]
        share = np.divide(credit, size, out=np.zeros_like(credit), where=size > 0)
        weight = np.where(size > 0, weights, 0)
        averages[start : start + len(drawn)] = (share * weight).sum(1) / weight.sum(1)
    return averages
