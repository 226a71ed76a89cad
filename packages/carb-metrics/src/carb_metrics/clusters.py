"""Sets that stem from one source item are not independent: variances and replicates by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_metrics.intervals import Floats, normal_quantile, wilson
from carb_metrics.resampling import draw_kinds

Ints = npt.NDArray[np.int64]


def number(frame: pl.DataFrame, keys: tuple[str, ...]) -> tuple[Ints, pl.DataFrame]:
    """Number the groups of rows that agree in ``keys``; null is a value like any other.

    Returns:
        (rows,) the group of each row, and a frame with a row per group, ordered by the keys as text.
    """
    if not keys:
        return np.zeros(frame.height, dtype=np.int64), pl.DataFrame({"n": [0]}).head(min(frame.height, 1)).select()
    groups = frame.select(keys).with_row_index("_row").group_by(keys).agg("_row")
    groups = groups.sort([pl.col(key).cast(pl.String) for key in keys])
    of_row = np.empty(frame.height, dtype=np.int64)
    of_row[groups["_row"].explode().to_numpy()] = np.repeat(
        np.arange(groups.height), groups["_row"].list.len().to_numpy()
    )
    return of_row, groups.drop("_row")


def cluster_of(sets: pl.DataFrame) -> Ints:
    """(sets,) the cluster of each set: its source item, or the set itself where none is known."""
    if "source_item" not in sets.columns:
        return number(sets, ("item_id",))[0]
    unknown = pl.when(pl.col("source_item").is_null()).then("item_id")
    return number(sets.select("source_item", item=unknown), ("source_item", "item"))[0]


def is_clustered(sets: pl.DataFrame) -> bool:
    """Do several sets of one scorer stem from one source item?"""
    if "source_item" not in sets.columns:
        return False
    known = sets.filter(pl.col("source_item").is_not_null()).select("scorer", "source_item")
    return known.height > 0 and bool(known.is_duplicated().any())


@dataclass(frozen=True)
class Units:
    """The sets that count, each with its group and its cluster; all arrays are (sets,)."""

    group: Ints
    cluster: Ints
    credit: Floats

    def of(self, groups: Ints) -> Units:
        """Only the sets of the given groups, which keep their numbers; clusters are numbered anew."""
        keep = np.isin(self.group, groups)
        return Units(self.group[keep], np.unique(self.cluster[keep], return_inverse=True)[1], self.credit[keep])


def group_effective_n(units: Units, n: Ints, accuracy: Floats, confidence: float) -> Floats:
    """Effective sample size of each group's accuracy.

    The accuracy is a ratio of cluster totals, whose variance is ``C/(C−1)·Σ (x_c − p·m_c)² / n²`` over its C clusters
    with credit x_c and m_c sets (Cochran 1977, Sampling Techniques, 3rd ed., chapter 9A); then ``deflate``.

    Args:
        units: the sets.
        n: (groups,) sets of each group.
        accuracy: (groups,)
        confidence: of the interval to come.
    """
    pairs, inverse = np.unique(units.group * (units.cluster.max(initial=0) + 1) + units.cluster, return_inverse=True)
    group = pairs // (units.cluster.max(initial=0) + 1)
    residual = np.bincount(inverse, units.credit - accuracy[units.group])
    clusters = np.bincount(group, minlength=len(n))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.bincount(group, residual**2, minlength=len(n)) * clusters / (clusters - 1) / n**2.0
    return deflate(n, accuracy, variance, clusters, confidence)


def average_effective_n(units: Units, n: Ints, centre: Floats, weights: Floats, confidence: float) -> float:
    """Effective sample size of ``Σ w_g·p_g``, by linearisation over clusters (Cochran 1977, chapter 9A).

    Args:
        units: the sets; those of groups without weight do not matter.
        n: (groups,) sets of each group.
        centre: (groups,) the value from which credits deviate: each group's accuracy, or the common one.
        weights: (groups,) summing to 1.
        confidence: of the interval to come.
    """
    scale = np.divide(weights, n, out=np.zeros(len(n)), where=n > 0)
    taking_part = weights[units.group] > 0
    group, cluster = units.group[taking_part], units.cluster[taking_part]
    sums = np.bincount(cluster, (units.credit[taking_part] - centre[group]) * scale[group])
    clusters = np.count_nonzero(np.bincount(cluster))
    share = float(units.credit[taking_part] @ scale[group])
    variance = (sums**2).sum() * clusters / max(clusters - 1, 1)
    return float(deflate(np.array(len(group)), np.array(share), variance, np.array(clusters), confidence))


def deflate(n: Any, accuracy: Any, variance: Any, clusters: Any, confidence: float) -> Floats:
    """``p(1−p)/variance``, at most ``n``; times ``(z / t_{C−1})²`` for the few degrees of freedom of C clusters.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201. Where all credits are alike the variance says
    nothing, and each cluster counts as one observation.
    """
    from scipy.special import stdtrit

    z, tail = normal_quantile(confidence), 0.5 + confidence / 2
    count = np.asarray(clusters, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = stdtrit(np.maximum(count - 1, 1), tail)
        effective = np.minimum(accuracy * (1 - accuracy) / variance, n) * (z / t) ** 2
    result: Floats = np.where((count > 1) & (variance > 1e-15), effective, np.minimum(count, n))
    return result


def cluster_bootstrap(units: Units, groups: Ints, resamples: int, seed: Any) -> Floats:
    """Replicates of the accuracies of groups when whole clusters are drawn with replacement.

    Clusters with the same credits and sizes in every group are one kind; the number of each kind drawn is
    multinomial (Efron 1979, Annals of Statistics 7:1-26, with the cluster as the unit; Davison and
    Hinkley 1997, Bootstrap Methods, section 3.8).

    Args:
        units: the sets of these groups, and of no others.
        groups: (k,) numbers of the groups.
        resamples: replicates.
        seed: anything that ``numpy.random.default_rng`` takes.

    Returns:
        (resamples, k); NaN where a replicate has no set of a group.
    """
    order = np.argsort(groups)
    place = order[np.searchsorted(groups[order], units.group)]
    pair = units.cluster * len(groups) + place
    cells = (int(units.cluster.max()) + 1) * len(groups)
    credit_sums, sizes = np.bincount(pair, units.credit, cells), np.bincount(pair, minlength=cells)
    wide = np.hstack([credit_sums.reshape(-1, len(groups)), sizes.reshape(-1, len(groups))])
    kinds, counts = np.unique(wide, axis=0, return_counts=True)
    found = []
    for drawn in draw_kinds(counts, resamples, seed):
        credit, size = np.hsplit(drawn @ kinds, 2)
        with np.errstate(invalid="ignore"):
            found.append(credit / size)
    return np.concatenate(found)


def share_interval(credit: Floats, cluster: Ints, confidence: float) -> tuple[float | None, float | None, float | None]:
    """A share with Wilson's interval, at the effective sample size where clusters hold several rows.

    Args:
        credit: (rows,) 0 or 1; cluster: (rows,) the cluster of each.
        confidence: between 0 and 1.

    Returns:
        share, low, high; null without rows.
    """
    if not len(credit):
        return None, None, None
    number_of = np.unique(cluster, return_inverse=True)[1]
    n, share = np.array([len(credit)]), np.array([credit.mean()])
    effective = n.astype(np.float64)
    if number_of.max() + 1 < len(credit):
        effective = group_effective_n(Units(np.zeros_like(number_of), number_of, credit), n, share, confidence)
    low, high = wilson(share * effective, effective, confidence)
    return float(share[0]), float(low[0]), float(high[0])
