"""From scores to outcomes: which sets count, and what a tie earns."""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Counted
from carb_metrics.clusters import number
from carb_metrics.frames import unperturbed
from carb_metrics.intervals import Floats
from carb_metrics.scored import RESPONSES, Scored, main_conditions
from carb_metrics.ties import rounded

__all__ = [
    "RESPONSES",
    "counted_sets",
    "credit_matrix",
    "main_sets",
    "margins",
    "polars_frame",
]


def polars_frame(frame: object, name: str) -> pl.DataFrame:
    """The frame, or ``CarbError`` where it is not of polars."""
    if not isinstance(frame, pl.DataFrame):
        raise CarbError(
            f"{name} must be a frame of polars, not {type(frame).__name__}; see polars.from_pandas."
        )
    return frame


def main_sets(scores: ScoreTable) -> ScoreTable:
    """The rows of sets that count for a culture's accuracy: no mirrors, and no controls.

    A mirror asks about a place where another language is spoken, only to keep answers from winning
    by their looks; controls have no culture. A table without ``ScoreTable.with_items``, or of
    controls alone, is given back as it is.

    Raises:
        CarbError: something else than a ``ScoreTable`` is given.
    """
    return counted_sets(scores, mirrors=False)[0]


def counted_sets(scores: ScoreTable, *, mirrors: bool) -> tuple[Scored, Counted]:
    """The rows that count, and which they are: ``main`` sets, or ``all`` where asked for or where
    none is known."""
    scored = Scored.of(scores)
    if mirrors or not main_conditions(scored.frame) or not len(scored.main):
        return scored, "all"
    return scored.main, "main"


def credit_matrix(sets: pl.DataFrame) -> tuple[Floats, list[str], pl.DataFrame]:
    """A row per scorer and a column per item, from a row per scorer and set.

    Returns:
        (scorers, items) credits, NaN where there is none; the scorers; a row of ``sets`` for each
        item.
    """
    item, names = number(sets, ("item_id",))
    scorer, who = number(sets, ("scorer",))
    credit = np.full((who.height, names.height), np.nan)
    credit[scorer, item] = sets["credit"].to_numpy()
    texts = pl.col("item_id", "culture", "domain").cast(pl.String)
    rows = sets.with_columns(texts)
    items = rows.unique("item_id", maintain_order=True)
    scorers = who["scorer"].cast(pl.String)
    return credit, scorers.to_list(), items.sort("item_id")


def margins(scores: ScoreTable, *, mirrors: bool = False) -> pl.DataFrame:
    """How clearly each scorer wins or loses each set.

    Args:
        scores: table of any scorers.
        mirrors: whether sets other than the main ones count too.

    Returns:
        ``scorer``, ``item_id``, ``cluster``, ``culture``, ``domain``, ``language``; ``margin``, the
        score of chosen minus that of the best rejected; ``lead``, the highest score minus the
        second highest; ``right``, whether chosen is alone at the top; and ``credit``, 1/k where
        chosen is one of k at the top, else 0. Differences are in units of the scorer's own spread,
        the root mean square of its scores' distances from their set's mean. A scorer with equal
        scores within every set has differences of 0. Sets with a failed score are left out.
    """
    counted, _ = counted_sets(scores, mirrors=mirrors)
    frame = unperturbed(counted.rows)
    score = rounded(pl.col("score"))
    is_chosen = pl.col("role") == "chosen"
    chosen = score.filter(is_chosen).first()
    best_rejected = score.filter(~is_chosen).max()
    second = score.sort(descending=True).slice(1, 1).first()
    away = score - score.mean()
    rows_of_set = frame.group_by("scorer", "item_id", maintain_order=True)
    sets = rows_of_set.agg(
        pl.col("cluster", "culture", "domain", "language").first(),
        margin=chosen - best_rejected,
        lead=score.max() - second,
        top=(score == score.max()).sum(),
        failed=score.null_count(),
        spread=(away**2).mean(),
    )
    sets = sets.filter(pl.col("failed") == 0)
    spread = pl.col("spread").mean().sqrt().over("scorer")
    unit = pl.when(spread > 0).then(spread).otherwise(1.0)
    margin = pl.col("margin")
    won = pl.when(margin >= 0).then(1 / pl.col("top"))
    sets = sets.with_columns(
        pl.col("margin", "lead") / unit,
        right=margin > 0,
        credit=won.otherwise(0.0),
    )
    return sets.drop("failed", "spread", "top")
