"""Is a judge as often right as it says?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import numbered, share_interval
from carb_metrics.correlations import numbers
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.pairs import as_text
from carb_metrics.resampling import jackknife_interval, sum_by
from carb_metrics.rows import row_of

SIMULATIONS = 1000


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


def calibration(
    confidences: npt.ArrayLike,
    correct: npt.ArrayLike,
    bins: int = 10,
    strategy: Literal["uniform", "quantile"] = "uniform",
    confidence: float = 0.95,
    *,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
    seed: int = 0,
) -> Calibration:
    """Reliability curve, expected calibration error and Brier score.

    ECE = Σ n_b/n·abs(accuracy_b − confidence_b) (Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et al. 2017, ICML).
    Estimated from finite data it is above 0 even for a perfect judge, so it comes with what such a judge would get on
    average (exact) and a p by simulation (consistency resampling; Bröcker and Smith 2007, Weather and Forecasting
    22:651-661), not with an interval. Brier score: Brier (1950), Monthly Weather Review 78:1-3.

    Args:
        confidences: (n,) probabilities that the judge gave to being right, 0 to 1.
        correct: (n,) 1 where it was right, else 0.
        bins: The number of bins of confidence.
        strategy: bins of equal width (a case on a border belongs to the upper bin), or with equally many cases.
        confidence: The level of the intervals, a share such as 0.95.
        clusters: (n,) the source item of each case, where several cases come from one. The interval of the Brier
            score, the limits of the curve and p then hold for dependent cases: p turns the signs of whole clusters'
            distances between being right and confidence. Null entries stand alone.
        seed: The seed of the simulation.

    Raises:
        CarbError: unequal lengths, values out of range, or no bin.
    """
    check_confidence(confidence)
    said = numbers(confidences, "confidences")
    right = numbers(correct, "correct", len(said))
    if bins < 1 or strategy not in ("uniform", "quantile"):
        raise CarbError(f"bins must be at least 1 and strategy 'uniform' or 'quantile'; got {bins}, '{strategy}'.")
    if ((said < 0) | (said > 1)).any() or not np.isin(right, (0, 1)).all():
        raise CarbError("confidences must lie between 0 and 1, and correct must be 0 or 1.")
    edges = np.arange(bins + 1) / bins  # linspace puts 0.3 above 0.3
    if strategy == "quantile" and len(said):
        edges = np.percentile(said, np.linspace(0, 1, bins + 1) * 100)
    bin_of = np.searchsorted(edges[1:-1], said, side="right" if strategy == "uniform" else "left")
    n = np.bincount(bin_of, minlength=bins)
    used = np.flatnonzero(n)
    mean_said = np.bincount(bin_of, said, bins)[used] / n[used]
    won = np.bincount(bin_of, right, bins)[used]
    accuracy = won / n[used]
    cluster = numbered(clusters, len(said), "cases")
    if not len(said):
        return Calibration(n=0)
    limits = [share_interval(right[bin_of == part], cluster[bin_of == part], confidence) for part in used]
    rows = zip(edges[:-1][used], edges[1:][used], n[used], mean_said, accuracy, limits, strict=True)
    curve = tuple(row_of(BinRow, (*row, *limit[1:])) for *row, limit in rows)
    distance = np.abs(accuracy - mean_said)
    ece = float(distance @ n[used] / len(said))
    expected, against = _if_calibrated(said, bin_of, seed)
    if clusters is not None:
        against = _turned(right - said, bin_of, cluster, seed)
    units = np.column_stack([sum_by(cluster, (said - right) ** 2), sum_by(cluster)])
    brier, brier_low, brier_high = jackknife_interval(units, lambda sums: sums[..., 0] / sums[..., 1], confidence)
    if brier_low is not None and brier_high is not None:
        brier_low, brier_high = max(brier_low, 0.0), min(brier_high, 1.0)
    return Calibration(
        n=len(said),
        ece=ece,
        ece_if_calibrated=expected,
        p=float((1 + (against >= ece - 1e-12).sum()) / (1 + len(against))),
        mce=float(distance.max()),
        brier=Estimate(estimate=brier, low=brier_low, high=brier_high),
        curve=curve,
    )


def _counts(chances: Floats) -> Floats:
    """(cases + 1,) probability of each count of right cases: Poisson-binomial, the product of the cases' own."""
    shares = np.column_stack([1 - chances, chances])  # a row per case: of having none right, one, ...
    while len(shares) > 1:  # two rows become that of their sum
        if len(shares) % 2:
            shares = np.vstack([shares, np.eye(1, shares.shape[1])])
        size = 2 * shares.shape[1] - 1
        spectrum = np.fft.rfft(shares, size)
        shares = np.fft.irfft(spectrum[::2] * spectrum[1::2], size)
    result: Floats = np.clip(shares[0], 0, None)
    return result


def _if_calibrated(said: Floats, bin_of: npt.NDArray[np.int64], seed: int) -> tuple[float, Floats]:
    """ECE of judges that are right exactly as often as they say: its mean, exact, and draws of it."""
    rng = np.random.default_rng(seed)
    mean, drawn = 0.0, np.zeros(SIMULATIONS)
    for part in np.unique(bin_of):
        chances = said[bin_of == part]
        shares = _counts(chances)
        distance = np.abs(np.arange(len(shares)) - chances.sum()) / len(said)
        mean += float(shares @ distance)
        drawn += distance[np.minimum(np.searchsorted(np.cumsum(shares), rng.random(SIMULATIONS)), len(chances))]
    return mean, drawn


def _turned(residual: Floats, bin_of: npt.NDArray[np.int64], cluster: npt.NDArray[np.int64], seed: int) -> Floats:
    """ECE when the residuals of whole clusters have random signs: what it is if they are 0 on average.

    The wild cluster bootstrap with Rademacher's signs (Cameron, Gelbach and Miller 2008, Review of Economics and
    Statistics 90:414-427).
    """
    clusters, bins = int(cluster.max()) + 1, int(bin_of.max()) + 1
    sums = np.bincount(cluster * bins + bin_of, residual, clusters * bins).reshape(clusters, bins)
    signs = 2.0 * np.random.default_rng(seed).integers(0, 2, (SIMULATIONS, clusters)) - 1
    turned: Floats = np.abs(signs @ sums).sum(1) / len(residual)
    return turned


def pick_confidence(scores: ScoreTable, link: Literal["probability", "softmax"] = "probability") -> pl.DataFrame:
    """The confidence of each pick, and whether it was right: the input of ``calibration`` for a probabilistic judge.

    Args:
        scores: table of any scorers; perturbed rows and sets with an error are left out.
        link: ``probability``: the scores of a set are probabilities of being the right one and sum to 1 (within
            1e-3); ``softmax``: they are log-probabilities or logits.

    Returns:
        ``scorer``, ``item_id``, ``confidence`` (of the response on top), ``correct`` (1 where that is ``chosen``
        alone, else 0), ``cluster`` (the source item or family, for ``calibration(..., clusters=)``).

    Raises:
        CarbError: with ``probability``, scores that are none.
    """
    if link not in ("probability", "softmax"):
        raise CarbError(f"link must be 'probability' or 'softmax'; got '{link}'.")
    frame = as_text(scores).filter(pl.col("perturbation").is_null())
    score = pl.col("score")
    top = score.max()
    sets = frame.group_by("scorer", "item_id").agg(
        pl.col("cluster").first(),
        score.is_null().any().alias("error"),
        score.sum().alias("total"),
        score.min().alias("least"),
        (1 / (score - top).exp().sum() if link == "softmax" else top).alias("confidence"),
        ((score.filter(pl.col("role") == "chosen").max() == top) & ((score == top).sum() == 1)).alias("correct"),
    )
    sets = sets.filter(~pl.col("error")).sort("scorer", "item_id")
    wrong = sets.filter(((pl.col("total") - 1).abs() > 1e-3) | (pl.col("least") < 0))
    if link == "probability" and wrong.height:
        row = wrong.row(0, named=True)
        raise CarbError(
            f"The scores of {wrong.height} sets are not probabilities that sum to 1; first: scorer '{row['scorer']}', "
            f"item '{row['item_id']}', sum {row['total']:.4g}. Use link='softmax' for logits or log-probabilities."
        )
    return sets.select(
        "scorer", "item_id", pl.col("confidence").clip(0, 1), pl.col("correct").cast(pl.Int64), "cluster"
    )
