"""How clearly a scorer wins or loses a set, and how well that tells whether it is right."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.paired import mean_interval
from carb_metrics.pairs import as_text
from carb_metrics.reliability import Calibration, calibration
from carb_metrics.shortcuts import assign_folds

__all__ = ["Coverage", "MarginRow", "margin_calibration", "margins"]

_STEPS = 25


def margins(table: ScoreTable) -> dict[str, float]:
    """Score of chosen minus that of the best rejected for each set of one scorer's table.

    In units of the scorer's own spread, the root mean square of its scores' distances from their set's mean, so that
    scorers of different scales can be set side by side. Sets with a failed score are left out; a scorer whose scores
    never differ within a set has margins of 0.
    """
    sets = _sets(table)
    return dict(zip(sets["item_id"].to_list(), sets["margin"].to_list(), strict=True))


def _sets(table: ScoreTable) -> pl.DataFrame:
    """``scorer``, ``item_id``, ``cluster``, keys, ``margin`` (right over best wrong), ``lead`` (first over second)."""
    frame = as_text(table).filter(pl.col("perturbation").is_null())
    score = pl.col("score")
    sets = frame.group_by("scorer", "item_id", maintain_order=True).agg(
        pl.col("cluster", "culture", "domain", "language").first(),
        margin=score.filter(pl.col("role") == "chosen").first() - score.filter(pl.col("role") != "chosen").max(),
        lead=score.max() - score.sort(descending=True).slice(1, 1).first(),
        failed=score.null_count(),
        spread=((score - score.mean()) ** 2).mean(),
    )
    sets = sets.filter(pl.col("failed") == 0)
    unit = pl.col("spread").mean().sqrt().over("scorer")
    unit = pl.when(unit > 0).then(unit).otherwise(1.0)
    return sets.with_columns(pl.col("margin", "lead") / unit).drop("failed", "spread")


class Coverage(Result):
    """Accuracy among the sets in which the scorer leads most clearly."""

    coverage: float
    """Share of sets that are kept."""
    accuracy: Estimate


class MarginRow(Result):
    """What the lead of the first answer says of being right."""

    scorer: str
    group: str | None
    """Value of ``by``; null for all sets."""
    n: int
    intercept: float | None = None
    """Log-odds of being right at a lead of 0."""
    slope: float | None = None
    """Change of the log-odds for each spread of lead."""
    calibration: Calibration | None = None
    """Calibration of the probabilities that the logistic curve of *all* sets of the scorer gives to the sets of this
    group, each fitted without the set's own fold: whether a lead means the same here as elsewhere."""
    coverage: tuple[Coverage, ...] = ()
    """Accuracy by share of sets answered, from the clearest tenth of the sets to all of them."""
    area: float | None = None
    """Mean risk (1 − accuracy) over all coverages: the area under the risk–coverage curve."""


def margin_calibration(
    scores: ScoreTable, by: str | None = "culture", confidence: float = 0.95, *, folds: int = 5, seed: int = 0
) -> tuple[MarginRow, ...]:
    """From a scalar model's lead to the probability of being right, by group; and the risk–coverage curve.

    The lead is the highest score minus the second highest, in the scorer's spreads. The probability is a logistic
    regression of being right on the lead, cross-validated with whole source items in a fold (Platt 1999, in Advances in
    Large Margin Classifiers); risk and coverage: El-Yaniv and Wiener (2010), JMLR 11:1605-1641.

    Args:
        scores: table of any scorers; sets with an error are left out.
        by: a column that defines groups, or null.
        confidence: The level of all intervals, a share such as 0.95.
        folds: The number of folds of the cross-validation.
        seed: The seed by which sets are put into folds.

    Raises:
        CarbError: ``by`` is none of ``culture``, ``domain``, ``language``.
    """
    check_confidence(confidence)
    if by not in (None, "culture", "domain", "language"):
        raise CarbError(f"by must be 'culture', 'domain', 'language' or left out; got '{by}'.")
    sets = _sets(scores)
    rows = []
    for key, mine in sorted(sets.group_by("scorer"), key=lambda pair: str(pair[0][0])):
        mine = mine.sort("item_id")
        cluster = np.unique(mine["cluster"].to_numpy(), return_inverse=True)[1]
        lead, right = mine["lead"].to_numpy(), (mine["margin"].to_numpy() > 0).astype(np.float64)
        fold = assign_folds(cluster, folds, seed)
        said = None if fold is None else np.empty(len(lead))
        if said is not None and fold is not None:
            for part in range(folds):
                intercept, slope = _logistic(lead[fold != part], right[fold != part])
                said[fold == part] = 1 / (1 + np.exp(-(intercept + slope * lead[fold == part])))
        groups: list[tuple[str | None, Floats]] = [(None, np.ones(len(lead)))]
        if by is not None:
            groups += [(str(v), (mine[by] == v).cast(pl.Float64).to_numpy()) for v in mine[by].unique().sort()]
        for group, inside in groups:
            where = inside > 0
            rows.append(
                _row(
                    str(key[0]),
                    group,
                    lead[where],
                    right[where],
                    None if said is None else said[where],
                    np.unique(cluster[where], return_inverse=True)[1],
                    confidence,
                    seed,
                )
            )
    return tuple(rows)


def _row(
    scorer: str,
    group: str | None,
    lead: Floats,
    right: Floats,
    said: Floats | None,
    cluster: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    confidence: float,
    seed: int,
) -> MarginRow:
    if not len(lead):
        return MarginRow(scorer=scorer, group=group, n=0)
    intercept, slope = _logistic(lead, right)
    found = None
    if said is not None:
        clusters = cluster if int(cluster.max()) + 1 < len(cluster) else None
        found = calibration(said, right, strategy="quantile", confidence=confidence, clusters=clusters, seed=seed)
    order = np.argsort(-lead, kind="stable")
    coverage = []
    for tenth in range(1, 11):
        kept = order[: max(1, math.ceil(len(order) * tenth / 10))]
        accuracy = mean_interval(right[kept], cluster[kept], confidence)
        coverage.append(Coverage(coverage=len(kept) / len(order), accuracy=accuracy))
    risk = 1 - np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    return MarginRow(
        scorer=scorer,
        group=group,
        n=len(lead),
        intercept=intercept,
        slope=slope,
        calibration=found,
        coverage=tuple(coverage),
        area=float(risk.mean()),
    )


def _logistic(x: Floats, y: Floats) -> tuple[float, float]:
    """Intercept and slope by Newton's method, with a small ridge that keeps separated data finite."""
    basis = np.column_stack([np.ones(len(x)), x])
    weight = np.zeros(2)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(basis @ weight, -30, 30)))
        slope = basis.T @ (y - p) - 0.01 * weight
        curve = (basis * (p * (1 - p))[:, None]).T @ basis + 0.01 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        weight = weight + np.clip(step, -3, 3)
        if np.abs(step).max() < 1e-8:
            break
    return float(weight[0]), float(weight[1])
