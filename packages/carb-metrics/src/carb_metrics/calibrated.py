"""Does a clear win mean a right answer?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import OfSets, Result
from carb_metrics.clusters import Ints, means
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import counted_sets, margins
from carb_metrics.surface import FOLDS, assign_folds

SIMULATIONS = 1000
BINS = 10


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
    the sets of this group, each fitted without the set's own fold: whether a margin means the same
    here as elsewhere."""
    coverage: tuple[Coverage, ...] = ()
    """Accuracy by share of sets answered, from the surest tenth of the sets to all of them."""


def calibration(
    scores: ScoreTable,
    by: str | None = None,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> tuple[MarginRow, ...]:
    """From how clearly a scorer picks to the probability that it is right, and what leaving unclear
    sets out brings.

    For scores of any scale, the probability is a logistic regression of being right on the highest
    score minus the second highest, cross-validated with whole source items in a fold (Platt 1999,
    in Advances in Large Margin Classifiers). Risk and coverage: El-Yaniv and Wiener (2010), JMLR
    11:1605-1641. For calibration see ``reliability``.

    Args:
        scores: table of any scorers; perturbed rows and sets with an error are left out.
        by: a column that defines groups (``culture``, ``domain``, ``language``), or null.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        for each scorer a row of all sets, then a row for each group.

    Raises:
        CarbError: ``by`` is another column.
    """
    check_confidence(confidence)
    if by not in (None, "culture", "domain", "language"):
        raise CarbError(f"by must be 'culture', 'domain', 'language' or left out; got '{by}'.")
    counted = counted_sets(scores, mirrors=mirrors)[1]
    sets = (
        margins(scores, mirrors=mirrors)
        .with_columns(pl.col("right").cast(pl.Float64))
        .sort("scorer", "item_id")
    )
    rows = []
    for key, mine in sorted(
        sets.group_by("scorer", maintain_order=True), key=lambda pair: str(pair[0][0])
    ):
        cluster = np.unique(mine["cluster"].to_numpy(), return_inverse=True)[1]
        said = _fitted(mine, cluster)
        groups: list[tuple[str | None, npt.NDArray[np.bool_]]] = [
            (None, np.ones(mine.height, dtype=bool))
        ]
        if by is not None:
            groups += [
                (str(value), (mine[by] == value).to_numpy()) for value in mine[by].unique().sort()
            ]
        for group, where in groups:
            part, own = mine.filter(pl.Series(where)), None if said is None else said[where]
            lead, right = part["lead"].to_numpy(), part["right"].to_numpy()
            units = np.unique(cluster[where], return_inverse=True)[1]
            rows.append(
                MarginRow(
                    scorer=str(key[0]),
                    group=group,
                    n=part.height,
                    calibration=None if own is None else reliability(own, right, units),
                    coverage=_coverage(lead, part["credit"].to_numpy(), units, confidence),
                    counted=counted,
                )
            )
    return tuple(rows)


def _coverage(
    lead: Floats, credit: Floats, cluster: Ints, confidence: float
) -> tuple[Coverage, ...]:
    order = np.argsort(-lead, kind="stable")
    found = []
    for tenth in range(1, 11):
        kept = order[: max(1, math.ceil(len(order) * tenth / 10))]
        units = np.unique(cluster[kept], return_inverse=True)[1]
        mean = means(credit[kept][None], units, confidence, (0.0, 1.0))
        accuracy = Interval(
            estimate=float(mean.estimate[0]), low=float(mean.low[0]), high=float(mean.high[0])
        )
        found.append(Coverage(coverage=len(kept) / len(order), accuracy=accuracy))
    return tuple(found)


def _fitted(sets: pl.DataFrame, cluster: Ints) -> Floats | None:
    """(sets,) the probability of being right, fitted on the other folds; null with too few source
    items."""
    lead, right = sets["lead"].to_numpy(), sets["right"].to_numpy()
    fold = assign_folds(cluster)
    if fold is None:
        return None
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped,unused-ignore]

    said = np.empty(len(lead))
    for part in range(FOLDS):
        here = fold == part
        known = right[~here]
        if known.min() == known.max():
            said[here] = (known.sum() + 1) / (
                len(known) + 2
            )  # no curve fits answers that are all alike
            continue
        model = LogisticRegression(C=100).fit(lead[~here, None], known)
        said[here] = model.predict_proba(lead[here, None])[:, 1]
    return said


def reliability(said: Floats, right: Floats, cluster: Ints, seed: int = 0) -> Calibration:
    """Expected calibration error over bins of equally many cases.

    ECE = Σ n_b/n·abs(accuracy_b − confidence_b) (Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et
    al. 2017, ICML). Estimated from finite data it is above 0 even for a perfect judge, so it comes
    with a p by simulation (consistency resampling; Bröcker and Smith 2007, Weather and Forecasting
    22:651-661), not with an interval. Where cases share clusters, p turns the signs of whole
    clusters' distances between being right and confidence (Cameron, Gelbach and Miller 2008, Review
    of Economics and Statistics 90:414-427).

    Args:
        said: (n,) probabilities of being right, 0 to 1, at least one.
        right: (n,) 1 where it was right, else 0.
        cluster: (n,) the cluster of each case, by number.
        seed: the seed of the simulation.
    """
    edges = np.percentile(said, np.linspace(0, 100, BINS + 1))
    bin_of = np.searchsorted(edges[1:-1], said, side="left")
    n = np.bincount(bin_of, minlength=BINS)
    used = np.flatnonzero(n)
    mean_said = np.bincount(bin_of, said, BINS)[used] / n[used]
    accuracy = np.bincount(bin_of, right, BINS)[used] / n[used]
    ece = float(np.abs(accuracy - mean_said) @ n[used] / len(said))
    rng = np.random.default_rng(seed)
    if int(cluster.max()) + 1 < len(cluster):
        signs = 2.0 * rng.integers(0, 2, (SIMULATIONS, int(cluster.max()) + 1)) - 1
        residual = signs[:, cluster] * (right - said)
    else:
        residual = (rng.random((SIMULATIONS, len(said))) < said) - said
    inside = (bin_of[:, None] == used).astype(np.float64)
    against = np.abs(residual @ inside).sum(1) / len(said)  # (simulations,) the error of each
    return Calibration(
        n=len(said), ece=ece, p=float((1 + (against >= ece - 1e-12).sum()) / (1 + SIMULATIONS))
    )
