"""The only place of the metrics that compares scores.

Within a set, they are compared as ``carb_data.table.rounded`` gives them; so are the picks of
carb-scorers. Between two sets, order alone counts (``higher``): rounding there would be read as
knowledge. The audit of carb-data compares exact numbers, which are no scores (``share_won``).
"""

import numpy as np
import numpy.typing as npt
import polars as pl
from polars import col

from carb_data import rounded

__all__ = ["higher"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def higher(first: Floats, second: Floats) -> Floats:
    """(...,) 1 where the first score is higher, 1/2 where both are equal, 0 where it is lower, NaN
    where one is missing."""
    with np.errstate(over="ignore"):
        lead = first - second
    return np.heaviside(lead, 0.5)


def with_shares(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The rows with ``failed`` (a score of the set is missing), ``top``, and ``share``: the part of
    the pick that a response gets, 1/k where k share the highest score, and null in a set that
    failed.

    Args:
        frame: a row per response, with ``score``.
        keys: the columns that tell sets apart; ``scorer`` and ``item_id`` if left out.
    """
    sets = keys or ("scorer", "item_id")
    level = col("_level")
    frame = frame.with_columns(_level=rounded(col.score))
    highest = level == level.max().over(sets)
    failed = level.is_null().any()
    frame = frame.with_columns(
        failed=failed.over(sets),
        top=highest.fill_null(value=False),
    )
    top = col.top
    share = top / top.sum().over(sets)  # apart: polars 1.26 nests no windows
    frame = frame.with_columns(share=pl.when(~col.failed).then(share))
    return frame.drop("_level")


def tops(
    level: Floats,
    chosen: npt.NDArray[np.bool_],
    starts: Ints,
) -> tuple[Ints, Ints]:
    """(sets,) how many right answers have the highest value of their set, and how many answers; 0
    where one is NaN.

    Args:
        level: (rows,) the compared values, rounded so that equals are ties.
        chosen: (rows,) whether an answer is right.
        starts: (sets,) the first row of each set; its other rows follow it.
    """
    if not len(starts):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    sizes = np.diff(starts, append=len(level))
    highest = level == np.repeat(np.maximum.reduceat(level, starts), sizes)
    right = (highest & chosen).astype(np.int64)
    top = highest.astype(np.int64)
    return np.add.reduceat(right, starts), np.add.reduceat(top, starts)
