"""Does a clear win mean a right answer?"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result, row_of
from carb_metrics.clusters import Ints, share_interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval, sum_by
from carb_metrics.outcome import as_text, counted_sets, margins
from carb_metrics.paired import mean_interval
from carb_metrics.surface import assign_folds

__all__ = ["BinRow", "Calibration", "Coverage", "MarginRow", "calibration", "reliability"]

SIMULATIONS = 1000
BINS = 10
_STEPS = 25

Link = Literal["margin", "probability", "softmax"]


class BinRow(Result):
    """The cases whose confidence lies in one bin."""

    start: float
    end: float
    n: int
    confidence: float
    """Their mean confidence."""
    accuracy: float
    low: float
    """Lower limit of Wilson's interval of the accuracy."""
    high: float


class Calibration(Result):
    """Stated confidence against being right; null for no cases."""

    n: int
    ece: float | None = None
    """Expected calibration error: mean distance of confidence and accuracy over bins, weighted by their cases."""
    ece_if_calibrated: float | None = None
    """What a perfectly calibrated judge with the same confidences gets on average: chance alone makes ECE positive."""
    p: float | None = None
    """Share of perfectly calibrated judges with an ECE at least this large."""
    mce: float | None = None
    """Largest distance over bins."""
    brier: Estimate = Estimate()
    """Mean squared distance of confidence and being right, with its t interval."""
    curve: tuple[BinRow, ...] = ()
    """A row per bin with cases."""


class Coverage(Result):
    """Accuracy among the sets in which the scorer is surest."""

    coverage: float
    """Share of sets that are kept."""
    accuracy: Estimate


class MarginRow(Result):
    """What the confidence of a scorer says of being right."""

    scorer: str
    group: str | None
    """Value of ``by``; null for all sets."""
    n: int
    intercept: float | None = None
    """Log-odds of being right where the two highest scores are equal; null for stated probabilities."""
    slope: float | None = None
    """Change of the log-odds for each spread of the scorer's scores between the two."""
    calibration: Calibration | None = None
    """Of the stated probabilities; or of those that the logistic curve of *all* sets of the scorer gives to the sets of
    this group, each fitted without the set's own fold: whether a margin means the same here as elsewhere."""
    coverage: tuple[Coverage, ...] = ()
    """Accuracy by share of sets answered, from the surest tenth of the sets to all of them."""
    area: float | None = None
    """Mean risk (1 − accuracy) over all coverages: the area under the risk–coverage curve."""


def calibration(
    scores: ScoreTable,
    by: str | None = None,
    link: Link = "margin",
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
    folds: int = 5,
    seed: int = 0,
) -> tuple[MarginRow, ...]:
    """From how clearly a scorer picks to the probability that it is right, and what leaving unclear sets out brings.

    For scores of any scale, the probability is a logistic regression of being right on the highest score minus the
    second highest, cross-validated with whole source items in a fold (Platt 1999, in Advances in Large Margin
    Classifiers). Risk and coverage: El-Yaniv and Wiener (2010), JMLR 11:1605-1641. For calibration see ``reliability``.

    Args:
        scores: table of any scorers; perturbed rows and sets with an error are left out.
        by: a column that defines groups (``culture``, ``domain``, ``language``), or null.
        link: ``margin``: as above; ``probability``: the scores of a set are probabilities of being the right one and
            sum to 1 (within 1e-3); ``softmax``: they are log-probabilities or logits.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.
        folds: The number of folds of the cross-validation.
        seed: The seed by which sets are put into folds, and of the simulated p.

    Returns:
        for each scorer a row of all sets, then a row for each group.

    Raises:
        CarbError: an unknown option, or with ``probability``, scores that are none.
    """
    check_confidence(confidence)
    if by not in (None, "culture", "domain", "language"):
        raise CarbError(f"by must be 'culture', 'domain', 'language' or left out; got '{by}'.")
    if link not in ("margin", "probability", "softmax"):
        raise CarbError(f"link must be 'margin', 'probability' or 'softmax'; got '{link}'.")
    scores = counted_sets(scores, mirrors=mirrors)[0]
    sets = margins(scores).with_columns(pl.col("right").cast(pl.Float64)).sort("scorer", "item_id")
    if link != "margin":
        sets = sets.join(_stated(scores, link), on=["scorer", "item_id"], maintain_order="left")
    rows = []
    for key, mine in sorted(sets.group_by("scorer", maintain_order=True), key=lambda pair: str(pair[0][0])):
        cluster = np.unique(mine["cluster"].to_numpy(), return_inverse=True)[1]
        said = mine["stated"].to_numpy() if link != "margin" else _fitted(mine, cluster, folds, seed)
        groups: list[tuple[str | None, npt.NDArray[np.bool_]]] = [(None, np.ones(mine.height, dtype=bool))]
        if by is not None:
            groups += [(str(value), (mine[by] == value).to_numpy()) for value in mine[by].unique().sort()]
        for group, where in groups:
            part, own = mine.filter(pl.Series(where)), None if said is None else said[where]
            found = _row(part, own, np.unique(cluster[where], return_inverse=True)[1], link, confidence, seed)
            rows.append(found.model_copy(update={"scorer": str(key[0]), "group": group}))
    return tuple(rows)


def _row(part: pl.DataFrame, said: Floats | None, cluster: Ints, link: Link, confidence: float, seed: int) -> MarginRow:
    lead, right = part["lead"].to_numpy(), part["right"].to_numpy()
    if not len(lead):
        return MarginRow(scorer="", group=None, n=0)
    intercept, slope = _logistic(lead, right) if link == "margin" else (None, None)
    order = np.argsort(-(lead if link == "margin" or said is None else said), kind="stable")
    coverage = []
    for tenth in range(1, 11):
        kept = order[: max(1, math.ceil(len(order) * tenth / 10))]
        accuracy = mean_interval(right[kept], cluster[kept], confidence)
        coverage.append(Coverage(coverage=len(kept) / len(order), accuracy=accuracy))
    risk = 1 - np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    return MarginRow(
        scorer="",
        group=None,
        n=len(lead),
        intercept=intercept,
        slope=slope,
        calibration=None if said is None else reliability(said, right, cluster, confidence, seed),
        coverage=tuple(coverage),
        area=float(risk.mean()),
    )


def _stated(scores: ScoreTable, link: Link) -> pl.DataFrame:
    """``scorer``, ``item_id`` and ``stated``: the probability of the response on top."""
    frame = as_text(scores).filter(pl.col("perturbation").is_null())
    score = pl.col("score")
    sets = frame.group_by("scorer", "item_id").agg(
        score.is_null().any().alias("error"),
        score.sum().alias("total"),
        score.min().alias("least"),
        (1 / (score - score.max()).exp().sum() if link == "softmax" else score.max()).alias("stated"),
    )
    sets = sets.filter(~pl.col("error")).sort("scorer", "item_id")
    wrong = sets.filter(((pl.col("total") - 1).abs() > 1e-3) | (pl.col("least") < 0))
    if link == "probability" and wrong.height:
        row = wrong.row(0, named=True)
        raise CarbError(
            f"The scores of {wrong.height} sets are not probabilities that sum to 1; first: scorer '{row['scorer']}', "
            f"item '{row['item_id']}', sum {row['total']:.4g}. Use link='softmax' for logits or log-probabilities."
        )
    return sets.select("scorer", "item_id", pl.col("stated").clip(0, 1))


def _fitted(sets: pl.DataFrame, cluster: Ints, folds: int, seed: int) -> Floats | None:
    """(sets,) the probability of being right, fitted on the other folds; null with too few source items."""
    lead, right = sets["lead"].to_numpy(), sets["right"].to_numpy()
    fold = assign_folds(cluster, folds, seed)
    if fold is None:
        return None
    said = np.empty(len(lead))
    for part in range(folds):
        intercept, slope = _logistic(lead[fold != part], right[fold != part])
        said[fold == part] = 1 / (1 + np.exp(-(intercept + slope * lead[fold == part])))
    return said


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


def reliability(said: Floats, right: Floats, cluster: Ints, confidence: float = 0.95, seed: int = 0) -> Calibration:
    """Reliability curve over bins of equally many cases, expected calibration error and Brier score.

    ECE = Σ n_b/n·abs(accuracy_b − confidence_b) (Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et al. 2017, ICML).
    Estimated from finite data it is above 0 even for a perfect judge, so it comes with what such a judge would get on
    average and a p by simulation (consistency resampling; Bröcker and Smith 2007, Weather and Forecasting 22:651-661),
    not with an interval. Where cases share clusters, p turns the signs of whole clusters' distances between being right
    and confidence (Cameron, Gelbach and Miller 2008, Review of Economics and Statistics 90:414-427). Brier score: Brier
    (1950), Monthly Weather Review 78:1-3.

    Args:
        said: (n,) probabilities of being right, 0 to 1, at least one.
        right: (n,) 1 where it was right, else 0.
        cluster: (n,) the cluster of each case, by number.
        confidence: the level of the intervals.
        seed: the seed of the simulation.
    """
    edges = np.percentile(said, np.linspace(0, 100, BINS + 1))
    bin_of = np.searchsorted(edges[1:-1], said, side="left")
    n = np.bincount(bin_of, minlength=BINS)
    used = np.flatnonzero(n)
    mean_said = np.bincount(bin_of, said, BINS)[used] / n[used]
    accuracy = np.bincount(bin_of, right, BINS)[used] / n[used]
    limits = [share_interval(right[bin_of == part], cluster[bin_of == part], confidence) for part in used]
    rows = zip(edges[:-1][used], edges[1:][used], n[used], mean_said, accuracy, limits, strict=True)
    distance = np.abs(accuracy - mean_said)
    ece = float(distance @ n[used] / len(said))
    rng = np.random.default_rng(seed)
    perfect = _binned((rng.random((SIMULATIONS, len(said))) < said) - said, bin_of)
    against = perfect
    if int(cluster.max()) + 1 < len(cluster):
        signs = 2.0 * rng.integers(0, 2, (SIMULATIONS, int(cluster.max()) + 1)) - 1
        against = _binned(signs[:, cluster] * (right - said), bin_of)
    units = np.column_stack([sum_by(cluster, (said - right) ** 2), sum_by(cluster)])
    brier, low, high = jackknife_interval(units, lambda sums: sums[..., 0] / sums[..., 1], confidence)
    if low is not None and high is not None:
        low, high = max(low, 0.0), min(high, 1.0)
    return Calibration(
        n=len(said),
        ece=ece,
        ece_if_calibrated=float(perfect.mean()),
        p=float((1 + (against >= ece - 1e-12).sum()) / (1 + SIMULATIONS)),
        mce=float(distance.max()),
        brier=Estimate(estimate=brier, low=low, high=high),
        curve=tuple(row_of(BinRow, (*row, *limit[1:])) for *row, limit in rows),
    )


def _binned(residual: Floats, bin_of: Ints) -> Floats:
    """(simulations,) calibration errors from (simulations, cases) distances between being right and confidence."""
    inside = bin_of[:, None] == np.unique(bin_of)
    found: Floats = np.abs(residual @ inside.astype(np.float64)).sum(1) / len(bin_of)
    return found
