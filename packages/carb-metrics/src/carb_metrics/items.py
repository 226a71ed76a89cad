"""What each item does: how hard it is, whether it tells good scorers from bad ones, and which wrong answer it sells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import credit_matrix, set_outcomes
from carb_metrics.paired import adjust, mean_interval
from carb_metrics.pairs import frame_of

__all__ = [
    "ATTRACTIVE",
    "MISSED",
    "NEGATIVE",
    "WON",
    "Functioning",
    "ItemAnalysis",
    "ItemRow",
    "PickShare",
    "discrimination",
    "item_analysis",
]

FEWEST_SCORERS = 5
"""Scorers that a discrimination needs."""
MISSED, WON = "missed by all", "won by all"
NEGATIVE, ATTRACTIVE = "negative discrimination", "good scorers prefer a wrong answer"
"""The flags of an item."""


class PickShare(Result):
    """How often one answer is picked."""

    response_id: str
    role: str
    share: float
    """Share of scorers that pick it; a tie at the top is divided."""
    good: float | None
    """The same among the better half of scorers; null with fewer than four."""


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
    """Correlation, over scorers, of the credit here with the accuracy on all other items; null with fewer than
    ``FEWEST_SCORERS`` scorers or where all earn the same."""
    picks: tuple[PickShare, ...]
    flags: tuple[str, ...]


class Functioning(Result):
    """How much better or worse a scorer does on a culture's items than their difficulty and its ability predict."""

    scorer: str
    culture: str
    n: int
    difference: Estimate
    """The difference in accuracy; ``p`` is that of the hypothesis that it is 0."""
    p_adjusted: float | None
    """Holm's, over all scorers and cultures."""


class ItemAnalysis(Result):
    """Items in order of their id."""

    scorers: int
    items: tuple[ItemRow, ...]
    functioning: tuple[Functioning, ...]

    def flagged(self) -> tuple[ItemRow, ...]:
        """Items with any flag."""
        return tuple(item for item in self.items if item.flags)


def item_analysis(scores: ScoreTable, confidence: float = 0.95) -> ItemAnalysis:
    """Difficulty, discrimination and pick rates of every item, flags, and differential functioning by culture.

    Discrimination is the corrected item-total correlation (Lord and Novick 1968, Statistical Theories of Mental Test
    Scores, chapter 15). Differential functioning is the mean, over a culture's items, of what an additive model of
    scorer and item (credit = ability + easiness) leaves of a scorer's credit; the interval and p are those of the mean
    over source items. An item is flagged where its discrimination is negative, where all scorers win or miss it, and
    where the better half of scorers picks one wrong answer more often than the right one.

    Args:
        scores: table of several scorers on the same sets; perturbed rows and sets with an error are left out.
        confidence: The level of the intervals, a share such as 0.95.

    Raises:
        CarbError: malformed sets.
    """
    check_confidence(confidence)
    sets = set_outcomes(scores, "shared")
    credit, scorers, items = credit_matrix(sets)
    place = {name: i for i, name in enumerate(items["item_id"].to_list())}
    corrected = discrimination(credit)
    ability = _row_means(credit)
    good = ability >= np.nanmedian(ability) if len(scorers) > 3 else None
    picks = _picks(
        scores, {name for name, kept in zip(scorers, good, strict=True) if kept} if good is not None else None
    )
    rows = []
    for item_id, culture, domain in items.iter_rows():
        column = credit[:, place[item_id]]
        known = column[~np.isnan(column)]
        if not len(known):
            continue
        value = corrected[place[item_id]]
        difficulty, answers = float(known.mean()), picks.get(item_id, ())
        flags = [
            *([MISSED] if known.max() == 0 else []),
            *([WON] if known.min() == 1 else []),
            *([NEGATIVE] if value < 0 else []),
            *([ATTRACTIVE] if _attractive(answers) else []),
        ]
        rows.append(
            ItemRow(
                item_id=item_id,
                culture=culture,
                domain=domain,
                n=len(known),
                difficulty=difficulty,
                discrimination=None if math.isnan(value) else float(value),
                picks=answers,
                flags=tuple(flags),
            )
        )
    functioning = _functioning(credit, scorers, items, sets, confidence)
    return ItemAnalysis(scorers=len(scorers), items=tuple(rows), functioning=functioning)


def _row_means(credit: Floats) -> Floats:
    count = (~np.isnan(credit)).sum(1)
    means: Floats = np.nansum(credit, axis=1) / np.maximum(count, 1)
    return means


def discrimination(credit: Floats) -> Floats:
    """(items,) corrected item-total correlations of (scorers, items) credits; NaN where not defined."""
    scorers, items = credit.shape
    if scorers < FEWEST_SCORERS or items < 2:
        return np.full(items, np.nan)
    known = ~np.isnan(credit)
    filled = np.where(known, credit, 0.0)
    total, count = filled.sum(1, keepdims=True), known.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(known, (total - filled) / (count - 1), np.nan)
        a = credit - np.nansum(credit, 0) / known.sum(0)
        b = rest - np.nansum(rest, 0) / known.sum(0)
        aa, bb = np.nansum(a * a, 0), np.nansum(b * b, 0)
        found: Floats = np.where(
            (aa > 1e-12) & (bb > 1e-12) & (known.sum(0) >= FEWEST_SCORERS),
            np.nansum(a * b, 0) / np.sqrt(aa * bb),
            np.nan,
        )
    return found


def _picks(scores: ScoreTable, good: set[str] | None) -> dict[str, tuple[PickShare, ...]]:
    frame = (
        frame_of(scores)
        .filter(pl.col("perturbation").is_null())
        .with_columns(pl.col("scorer", "item_id", "response_id", "role").cast(pl.String))
    )
    failed = pl.col("score").is_null().any().over("scorer", "item_id")
    frame = frame.filter(~failed)
    top = pl.col("score") == pl.col("score").max().over("scorer", "item_id")
    frame = frame.with_columns(top=top)  # apart: polars 1.26 nests no windows
    frame = frame.with_columns(share=pl.col("top") / pl.col("top").sum().over("scorer", "item_id")).drop("top")
    better = pl.col("share").filter(pl.col("scorer").is_in(sorted(good))).mean() if good else pl.lit(None, pl.Float64)
    rows = frame.group_by("item_id", "response_id", "role").agg(pl.col("share").mean(), better.alias("good"))
    found: dict[str, list[PickShare]] = {}
    for item_id, response_id, role, share, among in rows.sort("item_id", "role", "response_id").iter_rows():
        found.setdefault(item_id, []).append(PickShare(response_id=response_id, role=role, share=share, good=among))
    return {item: tuple(picks) for item, picks in found.items()}


def _attractive(picks: Sequence[PickShare]) -> bool:
    right = [pick.good for pick in picks if pick.role == "chosen" and pick.good is not None]
    wrong = [pick.good for pick in picks if pick.role != "chosen" and pick.good is not None]
    return bool(right and wrong) and max(wrong) > right[0]


def _functioning(
    credit: Floats, scorers: list[str], items: pl.DataFrame, sets: pl.DataFrame, confidence: float
) -> tuple[Functioning, ...]:
    known = ~np.isnan(credit)
    if not known.any() or len(scorers) < 2:
        return ()
    ability, easiness = _additive(credit)
    left = credit - ability[:, None] - easiness
    cultures = items["culture"].to_list()
    keys = ["item_id", *(name for name in ("source_item", "mirrors") if name in sets.columns)]
    from carb_metrics.clusters import cluster_of

    origin = cluster_of(sets.select(keys).unique("item_id", maintain_order=True).sort("item_id"))
    names = sorted(set(cultures))
    found = []
    for i, scorer in enumerate(scorers):
        for culture in names:
            where = np.array([c == culture for c in cultures]) & known[i]
            if where.sum() < 2:
                continue
            mean = mean_interval(left[i, where], origin[where], confidence, bounded=False)
            found.append((scorer, culture, int(where.sum()), mean, _p_of(mean, left[i, where], confidence)))
    adjusted = adjust([math.nan if p is None else p for *_, p in found])
    return tuple(
        Functioning(
            scorer=scorer,
            culture=culture,
            n=n,
            difference=mean.model_copy(update={"p": p}),
            p_adjusted=None if math.isnan(corrected) else float(corrected),
        )
        for (scorer, culture, n, mean, p), corrected in zip(found, adjusted, strict=True)
    )


def _p_of(mean: Estimate, values: Floats, confidence: float) -> float | None:
    """Two-sided p of a mean of 0, from its t interval."""
    from scipy.special import stdtr, stdtrit

    if mean.estimate is None or mean.low is None or mean.high is None or mean.high <= mean.low:
        return None
    freedom = len(values) - 1
    error = (mean.high - mean.low) / 2 / float(stdtrit(freedom, 0.5 + confidence / 2))
    return 2 * float(stdtr(freedom, -abs(mean.estimate) / error))


def _additive(credit: Floats) -> tuple[Floats, Floats]:
    """Least squares of credit = ability + easiness with missing cells, by turns."""
    known = ~np.isnan(credit)
    filled = np.where(known, credit, 0.0)
    ability, easiness = np.zeros(credit.shape[0]), np.zeros(credit.shape[1])
    for _ in range(50):
        before = ability
        easiness = (filled - ability[:, None] * known).sum(0) / np.maximum(known.sum(0), 1)
        ability = (filled - easiness * known).sum(1) / np.maximum(known.sum(1), 1)
        if np.abs(ability - before).max() < 1e-10:
            break
    return ability, easiness
