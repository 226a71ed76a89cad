"""A few labels of people and many of a judge: prediction-powered inference."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import design, numbered
from carb_metrics.intervals import Floats, check_confidence

Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

__all__ = ["PoweredRow", "prediction_powered"]


class PoweredRow(Result):
    """The mean of people's labels in one group."""

    group: str | None
    """Value of ``by``; null for all rows."""
    labelled: int
    judged: int
    """Rows with the judge's label alone."""
    weight: float | None
    """How much the judge counts, 0 to 1: chosen from the data so that the interval is as short as can be."""
    estimate: Estimate
    people_alone: Estimate
    """What the labels of people give without the judge."""


def prediction_powered(
    labels: pl.DataFrame, by: str | None = None, confidence: float = 0.95, *, bounded: bool = True
) -> tuple[PoweredRow, ...]:
    """The mean of people's labels, from few of them and many of a judge, valid however wrong the judge is.

    ``λ·mean(judge on the rest) + mean(people − λ·judge)`` with λ = Cov(people, judge) / ((1 + n/N)·Var(judge)), at
    least 0 and at most 1 (Angelopoulos et al. 2023, Science 382:669-674; Angelopoulos, Duchi and Zrnic 2023, PPI++,
    arXiv 2311.01453).

    Args:
        labels: a row per item: ``judge`` (a number for every row), ``people`` (a number, null where nobody was asked),
            optionally ``cluster`` (the source item; null stands alone), and the column ``by``. The rows with ``people``
            must have been drawn at random.
        by: a column whose values get rows of their own.
        confidence: The level of the intervals, a share such as 0.95.
        bounded: all labels lie between 0 and 1. One label of people at each end is then added before the interval is
            made, because few labels that hardly differ look more certain than they are.

    Returns:
        a row for all items, then a row per group; estimates are null with fewer than two labels of people.

    Raises:
        CarbError: a column is missing or not finite numbers.
    """
    check_confidence(confidence)
    needed = ["judge", "people", *([by] if by else [])]
    missing = [name for name in needed if name not in labels.columns]
    if missing:
        raise CarbError(f"labels lacks the columns {missing}; it has {labels.columns}.")
    if not all(labels.schema[name].is_numeric() or labels.schema[name] == pl.Boolean for name in ("judge", "people")):
        raise CarbError("labels: 'judge' and 'people' must be numbers.")
    if labels["judge"].null_count():
        raise CarbError(f"labels: {labels['judge'].null_count()} rows have no label of the judge.")
    if not all(labels[name].cast(pl.Float64).is_finite().all() for name in ("judge", "people")):
        raise CarbError("labels: 'judge' and 'people' must be finite; a label of 'people' that is missing is null.")
    parts: list[tuple[str | None, pl.DataFrame]] = [(None, labels)]
    if by is not None:
        parts += [(str(key[0]), part) for key, part in sorted(labels.group_by(by), key=lambda pair: str(pair[0][0]))]
    if bounded and not all(labels[name].cast(pl.Float64).drop_nulls().is_between(0, 1).all() for name in needed[:2]):
        raise CarbError("labels: 'judge' and 'people' must lie between 0 and 1; for others give bounded=False.")
    return tuple(_row(group, part, confidence, bounded=bounded) for group, part in parts)


def _row(group: str | None, frame: pl.DataFrame, confidence: float, *, bounded: bool) -> PoweredRow:
    from scipy.special import stdtrit

    asked = frame["people"].is_not_null().to_numpy()
    judge = frame["judge"].cast(pl.Float64).to_numpy()
    people = frame["people"].cast(pl.Float64).to_numpy()[asked]
    near, far = judge[asked], judge[~asked]
    n, rest = len(people), len(far)
    row = PoweredRow(group=group, labelled=n, judged=rest, weight=None, estimate=Estimate(), people_alone=Estimate())
    if n < 2:
        return row
    cluster = None
    if "cluster" in frame.columns:
        cluster = numbered(frame["cluster"].to_list(), frame.height)
    t = float(stdtrit(n - 1, 0.5 + confidence / 2))

    def effect(values: Floats, where: Bools) -> float:
        if cluster is None or values.var() < 1e-15:
            return 1.0
        return float(design(np.unique(cluster[where], return_inverse=True)[1], values - values.mean()).effect[0])

    def estimate(weight: float) -> Estimate:
        """People's labels, with the judge's at a weight."""
        errors = people - weight * near
        ends = np.array([-weight, 1.0]) if bounded else np.empty(0)
        wide = np.concatenate([errors, ends])
        variance = float(wide.var(ddof=1)) / len(wide) * effect(errors, asked)
        centre = float(wide.mean())
        mean = float(errors.mean())
        if weight:
            centre, mean = centre + weight * float(far.mean()), mean + weight * float(far.mean())
            variance += weight**2 * float(far.var(ddof=1)) / rest * effect(far, ~asked)
        half = t * math.sqrt(variance)
        low, high = min(centre - half, mean), max(centre + half, mean)
        return Estimate(
            estimate=mean,
            low=max(low, min(mean, 0.0)) if bounded else low,
            high=min(high, max(mean, 1.0)) if bounded else high,
        )

    alone = estimate(0.0)
    spread = float(judge.var(ddof=1))
    if rest < 2 or spread < 1e-15:
        return row.model_copy(update={"weight": 0.0, "estimate": alone, "people_alone": alone})
    together = float(np.cov(people, near)[0, 1])
    weight = min(1.0, max(0.0, together / ((1 + n / rest) * spread)))
    return row.model_copy(update={"weight": weight, "estimate": estimate(weight), "people_alone": alone})
