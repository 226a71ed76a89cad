"""Does a clear win mean a right answer?"""

from functools import lru_cache

import numpy as np
import polars as pl
from polars import col

from carb_data import ScoreTable
from carb_metrics.cells import Counted, OfSets, Result
from carb_metrics.clusters import Ints
from carb_metrics.frames import beside
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.means import means_of
from carb_metrics.outcome import counted_sets
from carb_metrics.surface import FOLDS, assign_folds

SIMULATIONS = 1000
BINS = 10
PENALTY = 0.01
"""Of a steep curve, so that right and wrong answers which a margin separates have one."""
TOLERANCE = 1e-9
MANY = 9.0
"""Variance of the right answers of each bin from which their number is drawn as a normal one."""


class Calibration(Result):
    """Stated confidence against being right; null for no cases."""

    n: int
    ece: float | None = None
    """Expected calibration error: mean distance of confidence and accuracy over bins, weighted by
    their cases."""
    p: float | None = None
    """Share of perfectly calibrated judges with an ECE at least this large."""


class Coverage(Result):
    """Accuracy among the sets in which the scorer is surest, ties shared."""

    coverage: float
    """Share of sets that are kept."""
    accuracy: Interval


class MarginRow(OfSets):
    """How well the confidence of a scorer predicts a right pick."""

    scorer: str
    n: int
    calibration: Calibration | None = None
    """Calibration of the probabilities that a logistic curve gives to the sets, each fitted without
    the set's own fold. Null with too few source items, and where all sets are alike: all right, or
    none (as of a scorer that always ties)."""
    coverage: tuple[Coverage, ...] = ()
    """Accuracy by share of sets answered, from the surest tenth of the sets to all of them."""


def calibration(
    scores: ScoreTable,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> tuple[MarginRow, ...]:
    """Is a scorer right where it picks clearly, and how accurate is it without the unclear sets?

    How clearly it picks is its margin: the highest score of a set minus the second highest, in
    units of the scorer's own spread within sets. A logistic regression makes a probability of being
    right from the margin, for scores of any scale (Platt 1999, in Advances in Large Margin
    Classifiers). It is cross-validated, with whole source items in a fold. ``calibration`` of a row
    compares these probabilities with being right: the expected calibration error (Naeini, Cooper
    and Hauskrecht 2015, AAAI). ``coverage`` of a row is the accuracy among the surest sets
    (El-Yaniv and Wiener 2010, JMLR 11:1605-1641).

    Args:
        scores: table of any scorers; perturbed rows and sets with an error are left out.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        a row for each scorer.

    Raises:
        CarbError: ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    table, counted = counted_sets(scores, mirrors=mirrors)
    by_name = table.clusters.select("item_id", col("cluster").rank("dense"))
    judged = table.sets.filter(~col("error"))
    sets = beside(judged, by_name, "item_id").sort("scorer", "item_id")
    parts = sets.partition_by("scorer", maintain_order=True)
    return tuple(_margin_row(part, counted, confidence) for part in parts)


def _margin_row(
    sets: pl.DataFrame,
    counted: Counted,
    confidence: float,
) -> MarginRow:
    """The row of the sets that one scorer judged."""
    _, cluster = np.unique(sets["cluster"].to_numpy(), return_inverse=True)
    spread = np.sqrt(sets["spread"].to_numpy().mean())
    lead = sets["lead"].to_numpy() / (spread or 1.0)
    credit = sets["credit"].to_numpy()
    right = (credit == 1).astype(np.float64)
    stated = _fitted(lead, right, cluster)
    calibrated = None
    if stated is not None:
        calibrated = reliability(stated, right, cluster)
    return MarginRow(
        scorer=sets["scorer"][0],
        n=sets.height,
        calibration=calibrated,
        coverage=_coverages(lead, credit, cluster, confidence),
        counted=counted,
    )


def _coverages(
    lead: Floats,
    credit: Floats,
    cluster: Ints,
    confidence: float,
) -> tuple[Coverage, ...]:
    """Accuracy among the surest tenth, two tenths, …, all sets."""
    surest_first = np.argsort(-lead, kind="stable")
    sets = len(lead) * np.arange(1, 11)
    counts = np.ceil(sets / 10).astype(int)
    unit = np.concatenate([surest_first[:count] for count in counts])
    row = np.repeat(np.arange(len(counts)), counts)
    bounds = (0.0, 1.0)
    result = means_of(row, credit[unit], cluster[unit], len(counts), confidence, bounds)
    rows = []
    for index, count in enumerate(counts):
        accuracy = result.at(index).changed(n=None, p=None)
        rows.append(Coverage(coverage=float(count / len(lead)), accuracy=accuracy))
    return tuple(rows)


def _fitted(
    lead: Floats,
    right: Floats,
    cluster: Ints,
) -> Floats | None:
    """(sets,) the probability of being right, fitted on the other folds; null with too few source
    items, and where all sets are alike: all right, or none (as of a scorer that always ties)."""
    fold = assign_folds(cluster)
    if fold is None or right.min() == right.max():
        return None
    from scipy.special import expit

    probability = np.empty(len(lead))
    for index in range(FOLDS):
        held_out = fold == index
        known = right[~held_out]
        if known.min() == known.max():  # no curve fits answers that are all alike
            share = (known.sum() + 1) / (len(known) + 2)
            probability[held_out] = share
            continue
        intercept, slope = logistic(lead[~held_out], known)
        probability[held_out] = expit(intercept + slope * lead[held_out])
    return probability


def logistic(x: Floats, right: Floats) -> Floats:
    """Intercept and slope of the logistic curve of highest likelihood, less ``PENALTY``/2 times the
    squared slope, by Newton's method with halved steps."""
    from scipy.special import expit

    columns = np.column_stack([np.ones(len(x)), x])
    penalty = np.diag([0.0, PENALTY])

    def loss(weights: Floats) -> float:
        log_odds = columns @ weights
        misfit = np.logaddexp(0, log_odds) - right * log_odds
        return float(misfit.sum() + weights @ penalty @ weights / 2)

    weights = np.zeros(2)
    before = loss(weights)
    step = np.ones(2)
    while np.abs(step).max() > TOLERANCE:
        fitted = expit(columns @ weights)
        gradient = columns.T @ (fitted - right) + penalty @ weights
        variance = fitted * (1 - fitted)
        weighted = columns * variance[:, None]
        curvature = columns.T @ weighted + penalty
        step = np.linalg.solve(curvature, gradient)
        while (after := loss(weights - step)) > before + TOLERANCE:
            step = step / 2
        weights = weights - step
        before = after
    return weights


def reliability(
    stated: Floats,
    right: Floats,
    cluster: Ints,
    seed: int = 0,
) -> Calibration:
    """Expected calibration error over bins of equally many cases.

    ECE = Σ n_b/n·abs(accuracy_b − confidence_b) (Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et
    al. 2017, ICML). Finite data give a perfect judge an ECE above 0. So it has no interval, but a p
    by simulation (consistency resampling; Bröcker and Smith 2007, Weather and Forecasting
    22:651-661). If cases share clusters, p flips the signs of whole clusters. The values are
    distances between being right and confidence (Cameron, Gelbach and Miller 2008, Review of
    Economics and Statistics 90:414-427).

    Args:
        stated: (n,) probabilities of being right, 0 to 1, at least one.
        right: (n,) 1 where it was right, else 0.
        cluster: (n,) the cluster of each case, by number.
        seed: the seed of the simulation.
    """
    edges = np.percentile(stated, np.linspace(0, 100, BINS + 1))
    bin_of = np.searchsorted(edges[1:-1], stated, side="left")
    n = np.bincount(bin_of, minlength=BINS)
    used = np.flatnonzero(n)
    mean_said = np.bincount(bin_of, stated, BINS)[used] / n[used]
    accuracy = np.bincount(bin_of, right, BINS)[used] / n[used]
    ece = float(np.abs(accuracy - mean_said) @ n[used] / len(stated))
    used_bin = np.searchsorted(used, bin_of)
    simulated = _calibrated_sums(stated, right, cluster, used_bin, seed)
    error = np.abs(simulated).sum(1) / len(stated)
    p = (1 + int((error >= ece - 1e-12).sum())) / (1 + SIMULATIONS)
    return Calibration(n=len(stated), ece=ece, p=p)


def _calibrated_sums(
    stated: Floats,
    right: Floats,
    cluster: Ints,
    bin_of: Ints,
    seed: int,
) -> Floats:
    """(SIMULATIONS, bins) sums of right answers less confidence, of perfectly calibrated judges.

    Args:
        bin_of: (n,) the bin of each case; none is empty.
    """
    bins = int(bin_of.max()) + 1
    clusters = int(cluster.max()) + 1
    if clusters < len(cluster):
        cell = cluster * bins + bin_of
        sums = np.bincount(cell, right - stated, clusters * bins)
        apart = sums.reshape(clusters, bins)
        if clusters < SIMULATIONS:
            return _signs(seed, clusters) @ apart
        # the sum of this many random signs is close to normal; drawing it is faster
        middle = np.zeros(bins)
        draw = np.random.default_rng(seed)
        return draw.multivariate_normal(middle, apart.T @ apart, SIMULATIONS)
    variance = np.bincount(bin_of, stated * (1 - stated))
    if variance.min() >= MANY:
        draw = np.random.default_rng(seed)
        normal: Floats = draw.normal(size=(SIMULATIONS, bins))
        return normal * np.sqrt(variance)
    answers = _uniform(seed, len(stated)) < stated
    inside = np.eye(bins, dtype=np.float32)[bin_of]
    won = answers.astype(np.float32) @ inside  # counts, which float32 holds exactly
    return won.astype(np.float64) - np.bincount(bin_of, stated)


@lru_cache(maxsize=1)
def _signs(seed: int, count: int) -> Floats:
    """(SIMULATIONS, count) random signs."""
    heads = np.random.default_rng(seed).integers(0, 2, (SIMULATIONS, count))
    return np.where(heads == 1, 1.0, -1.0)


@lru_cache(maxsize=1)
def _uniform(seed: int, count: int) -> Floats:
    """(SIMULATIONS, count) random shares."""
    return np.random.default_rng(seed).random((SIMULATIONS, count))
