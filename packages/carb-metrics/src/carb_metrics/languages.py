"""Does the same content score the same in another language?"""

import math

import numpy as np
import polars as pl
from polars import col

from carb_data import CarbError, Perturbation, ScoreTable
from carb_metrics.cells import ScorerRow, Scorers
from carb_metrics.frames import unperturbed
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval, ratio, within
from carb_metrics.outcome import counted_sets
from carb_metrics.perturbed import perturbed_pairs, within_item

HALF = 0.5
"""What two different responses to one prompt average, where k is calibrated."""


class ConsistencyRow(ScorerRow):
    """Mean of exp(−k·abs(difference)) over pairs of languages of the same content; 1 where language
    does not matter."""

    consistency: Interval
    """``n`` counts pairs of languages of one content."""
    k: float | None
    """Steepness, per unit of the difference; null where it cannot be calibrated."""
    spread: float | None
    """Standard deviation of the scorer's scores within sets, in units of its scores."""


class Consistency(Scorers[ConsistencyRow]):
    """Cross-lingual consistency: 1 where language does not matter."""


def cross_lingual_consistency(
    scores: ScoreTable,
    k: float | None = None,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> Consistency:
    """Does the same content get the same score in every language? 1 is the same, 0 far apart.

    A content is a response with its CL perturbations: the original and its versions in other
    languages. Every two of them make a pair, and Δ is the difference of their scores. The
    consistency is the mean of ``exp(−k·abs(Δ))`` over pairs (Zhang et al., arXiv 2509.21798).

    The interval is the jackknife's, with k taken as given (Efron and Tibshirani 1993, An
    Introduction to the Bootstrap, chapter 11). Its units are source items, or else items.

    Args:
        scores: table with CL rows, of one or several scorers.
        k: the steepness, for a Δ of one standard deviation of the scorer's scores within sets,
            above 0. If left out it is calibrated for each scorer (``calibrate_k``): two *different*
            responses to one prompt reach 0.5.
        confidence: The level of the intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        ``.scorers``: a row per scorer with its consistency, its k, and its standard deviation in
        units of its scores.

    Raises:
        CarbError: k is not above 0, ``confidence`` is not between 0 and 1, or a CL row lacks its
            original.
    """
    check_confidence(confidence)
    if k is not None and not 0 < k < math.inf:
        raise CarbError(f"k must be a number above 0; got {k}.")
    table, counted = counted_sets(scores, mirrors=mirrors)
    frame = table.rows
    pairs = _content_pairs(frame)
    apart = _different(frame)
    spreads = _spreads(frame)
    rows = []
    for name in frame["scorer"].unique().sort():
        spread = spreads.get(name)
        steep = k
        if steep is None:
            away = apart.filter(col.scorer == name)["apart"].to_numpy()
            in_spread = away / (spread or 1.0)
            steep = calibrate_k(in_spread)
        its_pairs = pairs.filter(col.scorer == name)
        if steep is None or spread is None:
            its_pairs = its_pairs.clear()
        per_unit = (steep or 0.0) / (spread or 1.0)
        log_value = col.difference * -per_unit
        value = log_value.exp()
        row = ConsistencyRow(
            scorer=name,
            consistency=_mean(its_pairs.with_columns(value=value), confidence),
            k=steep,
            spread=spread,
        )
        rows.append(row)
    return Consistency(scorers=tuple(rows), counted=counted)


def _spreads(frame: pl.DataFrame) -> dict[str, float]:
    """Standard deviation of each scorer's scores within sets, where it has one."""
    of_sets = within_item(frame).group_by("scorer")
    sums = of_sets.agg(col("squares", "freedom").sum())
    return {name: math.sqrt(squares / freedom) for name, squares, freedom in sums.rows() if squares}


def _different(frame: pl.DataFrame) -> pl.DataFrame:
    """``scorer`` and ``apart``: by how much the right answer of a set scores above each other
    one."""
    known = unperturbed(frame).drop_nulls("score")
    chosen = known.filter(col.role == "chosen")
    right = chosen.select("scorer", "item_id", right="score")
    rejected = known.filter(col.role == "rejected")
    keys = ["scorer", "item_id"]
    both = rejected.join(right, on=keys, maintain_order="left")
    apart = col.right - col.score
    return both.select("scorer", apart=apart)


def _mean(pairs: pl.DataFrame, confidence: float) -> Interval:
    """The mean of ``value``, and limits between 0 and 1."""
    of_cluster = pairs.group_by("cluster")
    sums = of_cluster.agg(col.value.sum(), pl.len())
    units = sums.sort("cluster").select("value", "len").to_numpy().astype(float)
    mean = within(jackknife_interval(units, ratio, confidence), 1.0)
    return mean.changed(n=pairs.height)


def calibrate_k(differences: Floats) -> float | None:
    """The k at which exp(−k·abs(Δ)) averages ``HALF`` over reference differences.

    Args:
        differences: (n,) differences that should count as large, such as those between different
            responses.

    Returns:
        k; null where no k reaches it, as when most differences are zero or there are none.
    """
    away = np.abs(differences)
    if not len(away):
        return None
    alike = (away == 0).mean()
    if alike >= HALF:
        return None

    def mean_at(log_k: float) -> float:
        with np.errstate(under="ignore"):
            steepness = math.exp(log_k)
            return float(np.exp(-steepness * away).mean())

    low = high = -math.log(float(away[away > 0].mean()))
    while mean_at(low) < HALF:
        low -= 2
    while mean_at(high) > HALF:
        high += 2
    while high - low > 1e-12:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if mean_at(middle) > HALF:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def _content_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """``scorer``, ``cluster``, ``difference`` (absolute), for every two languages of one
    content."""
    is_crossed = col.perturbation == Perturbation.CL.value
    crossed = perturbed_pairs(frame.filter(is_crossed.fill_null(value=True)))
    keys = ["scorer", "item_id", "original", "cluster"]
    before = crossed.select(*keys, language="language_before", score="before")
    after = crossed.select(*keys, "language", score="after")
    known = pl.concat([before, after]).drop_nulls("score")
    versions = known.group_by([*keys, "language"]).agg(col.score.mean())
    both = versions.join(versions, on=keys, suffix="_b")
    once = both.filter(col.language < col.language_b)
    apart = col.score - col.score_b
    return once.select("scorer", "cluster", difference=apart.abs()).sort(pl.all())
