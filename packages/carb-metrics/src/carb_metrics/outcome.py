"""From scores to outcomes: which sets count, and what a tie earns."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Counted
from carb_metrics.clusters import number
from carb_metrics.frames import text
from carb_metrics.intervals import Floats
from carb_metrics.scored import RESPONSES, Scored, main_conditions

__all__ = ["RESPONSES"]


def polars_frame(
    frame: object,
    name: str,
    columns: Sequence[str],
) -> pl.DataFrame:
    """The frame, or ``CarbError`` where it is not of polars, or lacks a column."""
    if not isinstance(frame, pl.DataFrame):
        raise CarbError(
            f"{name} must be a frame of polars, not {type(frame).__name__}; see polars.from_pandas."
        )
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise CarbError(f"{name} lacks the columns {missing}; it needs {list(columns)}.")
    return frame


def counted_sets(
    scores: ScoreTable,
    *,
    mirrors: bool,
) -> tuple[Scored, Counted]:
    """The rows that count, and which they are: ``main`` sets, or ``all`` where asked for or where
    none is known."""
    scored = Scored.of(scores)
    if not mirrors and main_conditions(scored.frame) and len(scored.main):
        return scored.main, "main"
    return scored, "all"


def credit_matrix(sets: pl.DataFrame) -> tuple[Floats, list[str], pl.DataFrame]:
    """A row per scorer and a column per item, from a row per scorer and set.

    Returns:
        (scorers, items) credits, NaN where there is none; the scorers; a row of ``sets`` for each
        item.
    """
    item, ids = number(sets, ("item_id",))
    scorer, names = number(sets, ("scorer",))
    shape = (names.height, ids.height)
    credit = np.full(shape, np.nan)
    credit[scorer, item] = sets["credit"].to_numpy()
    rows = sets.with_columns(text("item_id", "culture", "domain"))
    items = rows.unique("item_id", maintain_order=True)
    return credit, names["scorer"].cast(pl.String).to_list(), items.sort("item_id")
