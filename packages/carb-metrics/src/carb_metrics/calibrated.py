"""Does a clear win mean a right answer?"""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Counted, OfSets, Result
from carb_metrics.clusters import Ints, number
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.means import means
from carb_metrics.outcome import counted_sets, margins
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
    """What the confidence of a scorer says of being right."""

    scorer: str
    group: str | None
    """Value of ``by``; null for all sets."""
    n: int
    calibration: Calibration | None = None
    """Calibration of the probabilities that the logistic curve of *all* sets of the scorer gives to
    the sets of this group. Each is fitted without the set's own fold. It tells whether a margin
    means the same here as elsewhere."""
    coverage: tuple[Coverage, ...] = ()
    """Accuracy by share of sets answered, from the surest tenth of the sets to all of them."""


def calibration(
    scores: ScoreTable,
    by: str | None = None,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> tuple[MarginRow, ...]:
    """Is a scorer right where it picks clearly, and how accurate is it without the unclear sets?

    How clearly it picks is its margin: the highest score of a set minus the second highest. A
    logistic regression makes a probability of being right from the margin, for scores of any scale
    (Platt 1999, in Advances in Large Margin Classifiers). It is cross-validated, with whole source
    items in a fold. ``calibration`` of a row compares these probabilities with being right: the
    expected calibration error (Naeini, Cooper and Hauskrecht 2015, AAAI). ``coverage`` of a row is
    the accuracy among the surest sets (El-Yaniv and Wiener 2010, JMLR 11:1605-1641).

    Args:
        scores: table of any scorers; perturbed rows and sets with an error are left out.
        by: a column that defines groups (``culture``, ``domain``, ``language``), or null.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        for each scorer a row of all sets, then a row for each group.

    Raises:
        CarbError: ``by`` is another column, or ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    if by not in (None, "culture", "domain", "language"):
        raise CarbError(f"by must be 'culture', 'domain', 'language' or left out; got '{by}'.")
    _, counted = counted_sets(scores, mirrors=mirrors)
    sets = margins(scores, mirrors=mirrors)
    sets = sets.with_columns(pl.col("right").cast(pl.Float64))
    sets = sets.sort("scorer", "item_id")
    rows: list[MarginRow] = []
    for part in sets.partition_by("scorer", maintain_order=True):
        rows += _of_scorer(part, by, confidence, counted)
    return tuple(rows)


def _of_scorer(
    sets: pl.DataFrame,
    by: str | None,
    confidence: float,
    counted: Counted,
) -> list[MarginRow]:
    """The row of all sets of one scorer, then that of each group."""
    _, cluster = np.unique(sets["cluster"].to_numpy(), return_inverse=True)
    lead = sets["lead"].to_numpy()
    right = sets["right"].to_numpy()
    credit = sets["credit"].to_numpy()
    probability = _fitted(lead, right, cluster)
    groups: list[tuple[str | None, Ints]] = [(None, np.arange(sets.height))]
    if by is not None:
        group_of_set, values = number(sets, (by,))
        for index, value in enumerate(values[by]):
            where = np.flatnonzero(group_of_set == index)
            groups.append((str(value), where))
    rows = []
    for group, where in groups:
        _, units = np.unique(cluster[where], return_inverse=True)
        calibrated = None
        if probability is not None:
            stated = probability[where]
            calibrated = reliability(stated, right[where], units)
        coverage = _coverage(lead[where], credit[where], units, confidence)
        rows.append(
            MarginRow(
                scorer=sets["scorer"][0],
                group=group,
                n=len(where),
                calibration=calibrated,
                coverage=coverage,
                counted=counted,
            )
        )
    return rows


def _coverage(
    lead: Floats,
    credit: Floats,
    cluster: Ints,
    confidence: float,
) -> tuple[Coverage, ...]:
    """Accuracy among the surest tenth, two tenths, …, all of the sets."""
    surest_first = np.argsort(-lead, kind="stable")
    order = np.argsort(surest_first, kind="stable")
    tenths = np.arange(1, 11)
    kept = np.ceil(len(lead) * tenths / 10).astype(np.int64)
    surest = np.where(order < kept[:, None], credit, np.nan)
    result = means(surest, cluster, confidence, (0.0, 1.0))
    rows = []
    for index, count in enumerate(kept):
        accuracy = Interval(
            estimate=float(result.estimate[index]),
            low=float(result.low[index]),
            high=float(result.high[index]),
        )
        share = float(count / len(lead))
        rows.append(Coverage(coverage=share, accuracy=accuracy))
    return tuple(rows)


def _fitted(
    lead: Floats,
    right: Floats,
    cluster: Ints,
) -> Floats | None:
    """(sets,) the probability of being right, fitted on the other folds; null with too few source
    items."""
    fold = assign_folds(cluster)
    if fold is None:
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
    22:651-661). Where cases share clusters, p turns the signs of whole clusters' distances between
    being right and confidence (Cameron, Gelbach and Miller 2008, Review of Economics and Statistics
    90:414-427).

    Args:
        stated: (n,) probabilities of being right, 0 to 1, at least one.
        right: (n,) 1 where it was right, else 0.
        cluster: (n,) the cluster of each case, by number.
        seed: the seed of the simulation.
    """
    percents = np.linspace(0, 100, BINS + 1)
    edges = np.percentile(stated, percents)
    bin_of = np.searchsorted(edges[1:-1], stated, side="left")
    n = np.bincount(bin_of, minlength=BINS)
    used = np.flatnonzero(n)
    mean_said = np.bincount(bin_of, stated, BINS)[used] / n[used]
    accuracy = np.bincount(bin_of, right, BINS)[used] / n[used]
    distance = np.abs(accuracy - mean_said)
    ece = float(distance @ n[used] / len(stated))
    simulated = _calibrated_sums(stated, right, cluster, np.searchsorted(used, bin_of), seed)
    error = np.abs(simulated).sum(1) / len(stated)
    as_large = int((error >= ece - 1e-12).sum())
    p = (1 + as_large) / (1 + SIMULATIONS)
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
    draw = np.random.default_rng(seed)
    bins = int(bin_of.max()) + 1
    clusters = int(cluster.max()) + 1
    if clusters < len(cluster):
        cell = cluster * bins + bin_of
        apart = np.bincount(cell, right - stated, clusters * bins).reshape(clusters, bins)
        if clusters < SIMULATIONS:
            heads = draw.integers(0, 2, (SIMULATIONS, clusters))
            return (2.0 * heads - 1) @ apart
        # the sum of this many random signs is close to normal; drawing it is faster
        middle = np.zeros(bins)
        return draw.multivariate_normal(middle, apart.T @ apart, SIMULATIONS)
    variance = np.bincount(bin_of, stated * (1 - stated))
    if variance.min() >= MANY:
        normal = draw.normal(size=(SIMULATIONS, bins))
        return normal * np.sqrt(variance)
    answers = draw.random((SIMULATIONS, len(stated))) < stated
    inside = np.eye(bins)[bin_of]
    sums: Floats = (answers - stated) @ inside
    return sums
