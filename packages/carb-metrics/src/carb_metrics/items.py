"""The difficulty of each item, and whether it separates good scorers from bad ones."""

import numpy as np
from polars import col

from carb_data import ScoreTable
from carb_metrics.cells import OfSets, Result
from carb_metrics.intervals import Floats, nan_where_undefined
from carb_metrics.outcome import counted_sets, credit_matrix


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
    """Correlation, over scorers, of the credit here with the accuracy on all other items. Null with
    fewer than five scorers or where all earn the same. An order to read items in: chance alone
    makes many low ones."""


class ItemAnalysis(OfSets):
    """Items in order of their id."""

    scorers: int
    items: tuple[ItemRow, ...]


def item_analysis(
    scores: ScoreTable,
    *,
    mirrors: bool = False,
) -> ItemAnalysis:
    """Difficulty and discrimination of every item.

    Difficulty is the mean credit of the scorers, from 0 to 1: 1 is easy. Discrimination is the
    corrected item-total correlation, from -1 to 1 (Lord and Novick 1968, Statistical Theories of
    Mental Test Scores, chapter 15). It correlates, over scorers, the credit here with the accuracy
    on all other items.

    Args:
        scores: table of several scorers on the same sets; perturbed rows and sets with an error are
            left out.
        mirrors: whether sets other than the main ones are analysed too.

    Returns:
        ``.items``: a row per item, in order of their ids. Discrimination is null with fewer than
        five scorers.

    Raises:
        CarbError: malformed sets.
    """
    table, counted = counted_sets(scores, mirrors=mirrors)
    credit, scorers, items = credit_matrix(table.sets.filter(~col.error))
    counts = (~np.isnan(credit)).sum(0)
    values = discrimination(credit)
    rows = []
    traits = items.select("item_id", "culture", "domain").to_dicts()
    for index, item in enumerate(traits):
        value = None
        if not np.isnan(values[index]):
            value = float(values[index])
        row = ItemRow(
            **item,
            n=int(counts[index]),
            difficulty=float(np.nanmean(credit[:, index])),
            discrimination=value,
        )
        rows.append(row)
    return ItemAnalysis(
        scorers=len(scorers),
        items=tuple(rows),
        counted=counted,
    )


def discrimination(credit: Floats) -> Floats:
    """(items,) corrected item-total correlations of (scorers, items) credits; NaN where not
    defined."""
    scorers, items = credit.shape
    if scorers < 5 or items < 2:
        return np.full(items, np.nan)
    known = ~np.isnan(credit)
    filled = np.where(known, credit, 0.0)
    judged = known.sum(0)
    total = filled.sum(1, keepdims=True)
    count = known.sum(1, keepdims=True)
    with nan_where_undefined():
        others = (total - filled) / (count - 1)
        rest = np.where(known, others, np.nan)
        mean_credit = np.nansum(credit, 0) / judged
        mean_rest = np.nansum(rest, 0) / judged
        a = credit - mean_credit
        b = rest - mean_rest
        aa = np.nansum(a * a, 0)
        bb = np.nansum(b * b, 0)
        r = np.nansum(a * b, 0) / np.sqrt(aa * bb)
        vary = (aa > 1e-12) & (bb > 1e-12)
        defined = vary & (judged >= 5)
        correlations: Floats = np.where(defined, r, np.nan)
    return correlations
