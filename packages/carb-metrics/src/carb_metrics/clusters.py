"""Sets that stem from one source item, or from one family of mirrored sets, are not independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError
from carb_metrics.intervals import Floats, normal_quantile, wilson

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TIES = ("source_item", "mirrors")
"""Columns whose values tie sets together."""

CLUSTER = "_cluster"
"""Column that keeps ``cluster_of`` where it is needed again and again."""

PSEUDO = 2.0
"""Weight, in clusters, of the worst case (all sets of a cluster alike) in a design effect."""


def number(frame: pl.DataFrame, keys: tuple[str, ...]) -> tuple[Ints, pl.DataFrame]:
    """Number the groups of rows that agree in ``keys``; null is a value like any other.

    Returns:
        (rows,) the group of each row, and a frame with a row per group, ordered by the keys as
        text.
    """
    if not keys:
        return np.zeros(frame.height, dtype=np.int64), pl.DataFrame({"n": [0]}).head(
            min(frame.height, 1)
        ).select()
    groups = frame.select(keys).with_row_index("_row").group_by(keys).agg("_row")
    groups = groups.sort([pl.col(key).cast(pl.String) for key in keys])
    of_row = np.empty(frame.height, dtype=np.int64)
    of_row[groups["_row"].explode().to_numpy()] = np.repeat(
        np.arange(groups.height), groups["_row"].list.len().to_numpy()
    )
    return of_row, groups.drop("_row")


def is_missing(value: Any) -> bool:
    """Is a value None, NaN, or the NA of pandas?"""
    return (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, float | np.floating) and math.isnan(value))
    )


def numbered(labels: Sequence[Any] | npt.NDArray[Any] | None, count: int, owner: str = "") -> Ints:
    """(count,) the cluster of each value, as a number from 0; without labels each value is its own
    cluster.

    Args:
        labels: (count,) the label of each value's cluster; a value without one is its own cluster.
            Null if all are.
        count: the number of values.
        owner: what the values are, for the message about a wrong number of labels.

    Raises:
        CarbError: there are more or fewer labels than values.
    """
    if labels is None:
        return np.arange(count)
    if len(labels) != count:
        raise CarbError(f"clusters has {len(labels)} entries for {count} {owner}.")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        return np.unique(labels, return_inverse=True)[1]
    places: dict[Any, int] = {}
    known = (object() if is_missing(label) else label for label in labels)
    return np.array([places.setdefault(label, len(places)) for label in known], dtype=np.int64)


def cluster_of(sets: pl.DataFrame) -> Ints:
    """(sets,) the cluster of each set: all that a source item or a family connects, or the set
    itself without either.

    A family may hold several source items, and a source item sets of several families: what is
    connected is one.
    """
    if CLUSTER in sets.columns:
        return sets[CLUSTER].to_numpy()
    item = _codes(sets["item_id"])
    ties = [
        name
        for name in sets.columns
        if name.removesuffix("_b") in TIES and sets[name].null_count() < sets.height
    ]
    if not ties:
        return item
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(item.max(initial=-1)) + 1
    rows: list[Ints] = []
    columns: list[Ints] = []
    for kind in TIES:  # the same value in a and in b is the same origin
        mine = [name for name in ties if name.removesuffix("_b") == kind]
        if not mine:
            continue
        values = pl.concat([sets[name].cast(pl.String).alias(kind) for name in mine])
        known, items = values.is_not_null().to_numpy(), np.tile(item, len(mine))
        codes = _codes(values.fill_null(""))
        rows.append(items[known])
        columns.append(size + codes[known])
        size += int(codes.max(initial=-1)) + 1
    row, column = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.ones(len(row), dtype=np.int8), (row, column)), shape=(size, size))
    found = connected_components(graph, directed=False)[1].astype(np.int64)
    return np.unique(found[: int(item.max(initial=-1)) + 1], return_inverse=True)[1][item]


def _codes(column: pl.Series) -> Ints:
    """Numbers of the distinct values of a column, in their order as text."""
    text = column.cast(pl.String)
    codes = text.cast(pl.Enum(text.unique().sort())).to_physical()
    return codes.to_numpy().astype(np.int64)


def with_clusters(sets: pl.DataFrame) -> pl.DataFrame:
    """The sets with their clusters in a column of their own, for several calls of
    ``cluster_of``."""
    return sets.with_columns(pl.Series(CLUSTER, cluster_of(sets), dtype=pl.Int64))


@dataclass(frozen=True)
class Design:
    """What clusters do to the variance of means; each is (means,)."""

    effect: Floats
    """Variance over that of as many independent sets, at least 1."""
    freedom: Floats
    """Degrees of freedom of that variance: infinite where no two sets share a cluster."""
    clusters: Ints
    """Clusters of a mean."""

    def effective_n(self, accuracy: Floats, independent: Floats, confidence: float) -> Floats:
        """(means,) effective sample size of each accuracy.

        Few degrees of freedom reduce it by the factor ``(z/t)²``. Where all credits of a mean are
        alike there is nothing to estimate a variance from: then each cluster counts as one
        observation.

        Args:
            accuracy: (means,) the mean accuracies, 0 to 1
            independent: (means,) the effective sample size if sets were independent.
            confidence: the confidence level of the interval that is made next, between 0 and 1.
        """
        from scipy.special import stdtrit

        mixed = (accuracy > 1e-12) & (accuracy < 1 - 1e-12)
        t = stdtrit(np.minimum(self.freedom, 1e9), 0.5 + confidence / 2)
        few = mixed & ~np.isinf(self.freedom)
        result: Floats = (
            independent / self.effect * np.where(few, (normal_quantile(confidence) / t) ** 2, 1.0)
        )
        return result


def design(
    cluster: Ints,
    residual: Floats,
    weight: Floats | None = None,
    mean: Ints | None = None,
    means: int = 1,
) -> Design:
    """The design effect of means, each over its own sets.

    The variance of a mean over C clusters is ``(C−1)/C·Σ (e_c / (1 − w_c/W))²`` with the residual
    total e_c and the weight w_c of a cluster: the jackknife's, linearised (Bell and McCaffrey 2002,
    Survey Methodology 28:169-181, CR3). Few clusters may look more independent than they are. So
    this variance is averaged with the one that holds if all sets of a cluster turn out alike, which
    gets the weight of ``PSEUDO`` clusters. Large clusters may have lost no set yet. So the effect
    is at least ``1 + ρ·(Σ w_c²/Σ w² − 1)`` (Kish 1965, Survey Sampling, section 5.4), where all
    clusters estimate the intracluster correlation ρ by analysis of variance (Donner 1986,
    International Statistical Review 54:67-82). There are ``W²/Σ w_c² − 1`` degrees of freedom, as
    many as equally large clusters would leave. The effect is 1 where no cluster has two sets.

    Args:
        cluster: (sets,) the cluster of each set.
        residual: (sets,) credit minus its mean.
        weight: (sets,) the weight of each set; 1 if left out.
        mean: (sets,) the mean that a set counts for; a single one if left out.
        means: The number of means that are estimated.
    """
    of = np.zeros(len(cluster), dtype=np.int64) if mean is None else mean
    count = int(cluster.max(initial=0)) + 1
    pairs, pair = np.unique(of * count + cluster, return_inverse=True)
    group = pairs // count
    each = np.ones(len(residual)) if weight is None else weight
    parts = (each, each * residual, np.ones(len(each)), residual)
    sums: list[Floats] = [np.bincount(pair, part, len(pairs)).astype(np.float64) for part in parts]
    share, total, size, plain = sums
    clusters, whole = np.bincount(group, minlength=means), np.bincount(group, share, means)
    squares = np.bincount(group, share**2, means)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (
            np.bincount(group, (total / (1 - share / whole[group])) ** 2, means)
            * (clusters - 1)
            / clusters
        )
        square: Floats = np.bincount(of, residual**2, means).astype(np.float64, copy=False)
        alone = np.bincount(of, (each * residual) ** 2, means)
        alike = squares / np.bincount(of, each**2, means)
        blended = (clusters * spread / alone + PSEUDO * alike) / (clusters + PSEUDO)
        known = (clusters > 1) & (alone > 1e-12)
        common = 1 + (np.asarray(alike, dtype=np.float64) - 1) * _correlation(
            size, plain, square, group, means
        )
        shared = alike > 1 + 1e-9  # false for NaN: a mean of nothing
        effect = np.where(
            shared, np.maximum(np.where(known, np.fmax(blended, common), alike), 1.0), 1.0
        )
        freedom = np.where(shared, np.maximum(whole**2 / squares - 1, 1.0), np.inf)
    return Design(effect, freedom, clusters)


def _correlation(size: Floats, total: Floats, square: Floats, group: Ints, means: int) -> Floats:
    """(means,) intracluster correlation of residuals by a one-way analysis of variance, 0 to 1; NaN
    for one cluster.

    Args:
        size: (pairs,) sets of each pair of a mean and a cluster; total: (pairs,) their residuals'
            sum.
        square: (means,) sum of all squared residuals of a mean.
        group: (pairs,) the mean of each pair.
        means: The number of means that are estimated.
    """
    clusters, n = np.bincount(group, minlength=means), np.bincount(group, size, means)
    between: Floats = np.bincount(group, total**2 / size, means).astype(np.float64, copy=False)
    within = (square - between) / np.maximum(n - clusters, 1)
    between = between / (clusters - 1)
    usual = (n - np.bincount(group, size**2, means) / n) / (clusters - 1)
    found: Floats = np.clip((between - within) / (between + (usual - 1) * within), 0, 1)
    return found


def share_interval(
    credit: Floats, cluster: Ints, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """A share with Wilson's interval, at the effective sample size where clusters hold several
    rows.

    Args:
        credit: (rows,) 0 or 1; cluster: (rows,) the cluster of each.
        confidence: the level of the limits, between 0 and 1.

    Returns:
        share, low, high; null without rows.
    """
    if not len(credit):
        return None, None, None
    share, n = np.array([credit.mean()]), np.array([float(len(credit))])
    effective = design(cluster, credit - share).effective_n(share, n, confidence)
    low, high = wilson(share * effective, effective, confidence)
    return float(share[0]), float(low[0]), float(high[0])


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


def means(
    values: Floats, cluster: Ints, confidence: float, bounds: tuple[float, float] | None = None
) -> Means:
    """Means of rows of values, with the one interval and the one test of means that the package
    has: t of the clusters.

    Where values are bounded, two clusters of average size are added, one at each bound, so that
    values which are all alike do not look certain (Agresti and Coull 1998, The American
    Statistician 52:119-126; for paired differences, Bonett and Price 2012, Journal of Educational
    and Behavioral Statistics 37:479-488). The variance of a mean grows by the design effect of its
    clusters, and t has the degrees of freedom that they leave (``design``).

    Args:
        values: (rows, units), NaN where a row has no such unit.
        cluster: (units,) the cluster of each unit by number.
        confidence: the level of the intervals, between 0 and 1.
        bounds: the least and the largest value that there can be; null for any, which needs two
            units.
    """
    from scipy.special import stdtr, stdtrit

    row, unit = np.nonzero(~np.isnan(values))
    known, rows = values[row, unit], len(values)
    n = np.bincount(row, minlength=rows)
    total, square = np.bincount(row, known, rows), np.bincount(row, known**2, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: Floats = np.where(n > 0, total / n, np.nan)
        found = design(cluster[unit], known - mean[row], mean=row, means=rows)
        effect = found.effect
        low, high = bounds or (0.0, 0.0)
        added = np.zeros(rows) if bounds is None else n / found.clusters
        whole = n + 2 * added
        centre = (total + added * (low + high)) / whole
        spread = np.maximum((square + added * (low**2 + high**2)) / whole - centre**2, 0.0)
        error = np.sqrt(spread / (whole if bounds is not None else n - 1) * effect)
        freedom = np.where(np.isinf(found.freedom), whole - 1, found.freedom)
        half = stdtrit(np.maximum(freedom, 1.0), 0.5 + confidence / 2) * error
        certain = np.where(centre == 0, 1.0, 0.0)
        p = np.where(
            error > 0, 2 * stdtr(np.maximum(freedom, 1.0), -np.abs(centre) / error), certain
        )
        lower, upper = np.minimum(centre - half, mean), np.maximum(centre + half, mean)
    enough = n > (bounds is None)
    if bounds is not None:
        lower, upper = np.maximum(lower, low), np.minimum(upper, high)
    lower, upper, p = (np.where(enough, part, np.nan) for part in (lower, upper, p))
    return Means(n, mean, lower, upper, p, effect, centre, error, freedom)
