"""What each item does: how hard it is, whether it tells good scorers from bad ones, and which wrong answer it sells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.cells import Result
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import Counted, as_text, counted_sets, credit_matrix, set_outcomes, with_shares
from carb_metrics.paired import adjust

FEWEST_SCORERS = 10
"""Scorers that a flag needs. With fewer, items can be sorted by difficulty or discrimination, and none is flagged."""
NEGATIVE, ATTRACTIVE = "negative discrimination", "good scorers prefer a wrong answer"
"""The flags of an item."""


class ItemRow(Result):
    """One item over all scorers."""

    item_id: str
    culture: str
    domain: str
    n: int
    """Scorers that judged it."""
    difficulty: float
    """Mean credit of the scorers, ties shared: 1 is easy."""
    discrimination: float | None
    """Correlation, over scorers, of the credit here with the accuracy on all other items; null with fewer than five
    scorers or where all earn the same."""
    p_adjusted: float | None
    """The smaller p behind the flags, corrected over the tests of all items (Holm); null without a test."""
    flags: tuple[str, ...]


class ItemAnalysis(Result):
    """Items in order of their id."""

    scorers: int
    items: tuple[ItemRow, ...]
    counted: Counted = "all"
    """Which sets count."""


def item_analysis(scores: ScoreTable, confidence: float = 0.95, *, mirrors: bool = False) -> ItemAnalysis:
    """Difficulty and discrimination of every item, and flags that number does not explain.

    Discrimination is the corrected item-total correlation (Lord and Novick 1968, Statistical Theories of Mental Test
    Scores, chapter 15). An item is flagged where it is below 0 (one-sided t test), and where more of the better half of
    scorers pick one wrong answer than the right one (sign test, times the wrong answers). Both p are corrected over all
    items together, so that sets of good items have a flag with a chance of 1 − confidence at most.

    Args:
        scores: table of several scorers on the same sets; perturbed rows and sets with an error are left out.
        confidence: 1 minus the level of the tests, a share such as 0.95.
        mirrors: whether sets other than the main ones are analysed too.

    Raises:
        CarbError: malformed sets.
    """
    check_confidence(confidence)
    scores, counted = counted_sets(scores, mirrors=mirrors)
    credit, scorers, items = credit_matrix(set_outcomes(scores).filter(~pl.col("error")))
    known = ~np.isnan(credit)
    corrected = discrimination(credit)
    ability = np.nansum(credit, axis=1) / np.maximum(known.sum(1), 1)
    good = ability >= np.median(ability) if len(scorers) > 3 else np.zeros(len(scorers), dtype=bool)
    picks = _picks(scores, [name for name, kept in zip(scorers, good, strict=True) if kept])
    counts = known.sum(0)
    tests = [
        _tests(corrected[i], int(counts[i]), *picks.get(name, (0.0, ()))) for i, name in enumerate(items["item_id"])
    ]
    adjusted = adjust(np.ravel(tests)).reshape(-1, 2)
    rows = []
    for place, (item_id, culture, domain) in enumerate(items.select("item_id", "culture", "domain").iter_rows()):
        value, p = corrected[place], adjusted[place]
        rows.append(
            ItemRow(
                item_id=item_id,
                culture=culture,
                domain=domain,
                n=int(counts[place]),
                difficulty=float(np.nanmean(credit[:, place])),
                discrimination=None if math.isnan(value) else float(value),
                p_adjusted=None if np.isnan(p).all() else float(np.nanmin(p)),
                flags=tuple(flag for flag, one in zip((NEGATIVE, ATTRACTIVE), p, strict=True) if one < 1 - confidence),
            )
        )
    return ItemAnalysis(scorers=len(scorers), items=tuple(rows), counted=counted)


def discrimination(credit: Floats) -> Floats:
    """(items,) corrected item-total correlations of (scorers, items) credits; NaN where not defined."""
    scorers, items = credit.shape
    if scorers < 5 or items < 2:
        return np.full(items, np.nan)
    known = ~np.isnan(credit)
    filled = np.where(known, credit, 0.0)
    total, count = filled.sum(1, keepdims=True), known.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(known, (total - filled) / (count - 1), np.nan)
        a = credit - np.nansum(credit, 0) / known.sum(0)
        b = rest - np.nansum(rest, 0) / known.sum(0)
        aa, bb = np.nansum(a * a, 0), np.nansum(b * b, 0)
        defined = (aa > 1e-12) & (bb > 1e-12) & (known.sum(0) >= 5)
        found: Floats = np.where(defined, np.nansum(a * b, 0) / np.sqrt(aa * bb), np.nan)
    return found


def _tests(correlation: float, n: int, right: float, wrong: Sequence[float]) -> tuple[float, float]:
    """p of a discrimination below 0, and of a wrong answer that good scorers prefer; NaN where there is no test."""
    if n < FEWEST_SCORERS:
        return math.nan, math.nan
    from scipy.special import bdtr, stdtr

    negative = math.nan
    if not math.isnan(correlation):
        freedom = n - 2
        negative = float(stdtr(freedom, correlation * math.sqrt(freedom / max(1 - correlation**2, 1e-12))))
    most = math.floor(max(wrong, default=0.0) + 1e-9)
    either = most + math.ceil(right - 1e-9)
    attractive = 1.0 if not most else min(1.0, len(wrong) * float(bdtr(either - most, either, 0.5)))
    return negative, attractive


def _picks(scores: ScoreTable, good: Sequence[str]) -> dict[str, tuple[float, list[float]]]:
    """For each item, how many of these scorers pick the right answer, and how many pick each wrong one."""
    frame = as_text(scores).filter(pl.col("perturbation").is_null() & pl.col("scorer").is_in(good))
    rows = with_shares(frame).filter(~pl.col("failed")).group_by("item_id", "response_id", "role").agg(
        pl.col("share").sum()
    )  # fmt: skip
    share, right = pl.col("share"), pl.col("role") == "chosen"
    found = rows.group_by("item_id").agg(right=share.filter(right).sum(), wrong=share.filter(~right))
    return {item: (own, others) for item, own, others in found.iter_rows()}
