"""From a row per response to a row per set: did ``chosen`` win?"""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.clusters import number
from carb_metrics.pairs import frame_of

__all__ = ["set_outcomes"]

Ints = npt.NDArray[np.int64]
Ties = Literal["strict", "shared"]
Errors = Literal["wrong", "exclude"]

SET_KEYS = ("scorer", "culture", "domain", "language", "topic", "source_item", "mirrors", "kind", "item_id")
"""Columns that a set has, and by which it can be grouped. ``language`` is that of ``chosen``. ``mirrors`` is the
``family`` of the table, renamed because a culture's language has a family too."""


_CONTROLS = ("control", "knowledge", "toxicity", "stereotype")
"""Kinds without culture; the last three are names of older tables."""

DIGITS = 9
"""Significant digits to which scores are rounded before they are compared: what differs less is floating noise."""

N = TypeVar("N", pl.Expr, pl.Series)


def rounded(score: N) -> N:
    """Scores as they are compared: equal to ``DIGITS`` significant digits is a tie."""
    return score.round_sig_figs(DIGITS)


def main_sets(scores: ScoreTable) -> ScoreTable:
    """The rows of sets that count for a culture's accuracy: no mirrors, and no controls.

    A mirror asks about a place where another language is spoken, only to keep answers from winning by their looks;
    controls have no culture. A table without ``ScoreTable.with_items``, or of controls alone, is given back as it is.
    """
    frame = frame_of(scores)
    if "mirror" in frame.columns:
        frame = frame.filter(~pl.col("mirror").fill_null(value=False))
    if "kind" in frame.columns:
        frame = frame.filter(~pl.col("kind").cast(pl.String).fill_null("").is_in(_CONTROLS))
    return ScoreTable(frame) if 0 < frame.height < scores.frame.height else scores


def set_outcomes(scores: ScoreTable, ties: Ties = "strict") -> pl.DataFrame:
    """A row per scorer and set.

    A set is won when ``chosen`` scores above every ``rejected``. Perturbed rows are left out. A set in which any
    score is null could not be judged: it is an error, without credit.

    Args:
        scores: The table of scores.
        ties: ``strict`` gives no credit for sharing the highest score with ``rejected``; ``shared`` gives
            1 / (number of responses at the top), the expected credit when ties are broken at random.

    Returns:
        The columns of ``SET_KEYS`` that the table has, then ``credit`` (0 to 1), ``tied`` (how many ``rejected``
        share the highest score with ``chosen``; 0 is no tie) and ``error``.

    Raises:
        CarbError: a set does not have exactly one ``chosen`` and at least one ``rejected``, or ``ties`` is unknown.
    """
    return outcomes_of_frame(frame_of(scores), ties)


def outcomes_of_frame(frame: pl.DataFrame, ties: Ties = "strict", *, adjacent: bool = False) -> pl.DataFrame:
    """``set_outcomes`` of a frame with at least scorer, item_id, role, perturbation and score.

    ``adjacent`` promises that the rows of each set are next to each other, which is otherwise made sure of.
    """
    if ties not in ("strict", "shared"):
        raise CarbError(f"ties must be 'strict' or 'shared'; got '{ties}'.")
    rows = frame.filter(pl.col("perturbation").is_null())
    if "family" in rows.columns:
        rows = rows.rename({"family": "mirrors"})
    rows, starts = (rows, _starts(rows)) if adjacent else _adjacent(rows)
    chosen = (rows["role"].cast(pl.String) == "chosen").to_numpy()
    _check(rows, starts, chosen)
    score = rounded(rows["score"]).to_numpy()  # null becomes NaN
    if not len(starts):
        own = best = np.empty(0)
        error, at_best = np.empty(0, dtype=bool), np.empty(0, dtype=np.int64)
    else:
        own = score[chosen]  # one per set, in order
        others = np.where(chosen, -np.inf, score)
        best = np.maximum.reduceat(others, starts)
        level = others == np.repeat(best, np.diff(starts, append=len(rows)))
        at_best = np.add.reduceat(level.astype(np.int64), starts)
        error = np.isnan(own) | np.isnan(best)
    tied = np.where(own == best, at_best, 0)  # false for an error: NaN equals nothing
    share = np.where(tied > 0, 1 / (tied + 1), 0.0) if ties == "shared" else 0.0
    heads = _heads(rows, starts, [key for key in SET_KEYS if key in rows.columns])
    if "language" in rows.columns:
        heads = heads.with_columns(language=rows["language"].filter(pl.Series(chosen, dtype=pl.Boolean)))
    return heads.select(
        pl.all(),
        pl.Series("credit", np.where(own > best, 1.0, share), dtype=pl.Float64),
        pl.Series("tied", tied, dtype=pl.Int64),
        pl.Series("error", error, dtype=pl.Boolean),
    )


def _adjacent(rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The rows with those of one set next to each other, as scorers write them, and where each set starts."""
    starts = _starts(rows)
    if _heads(rows, starts, ["scorer", "item_id"]).is_duplicated().any():
        rows = rows.sort("scorer", "item_id")
        starts = _starts(rows)
    return rows, starts


def _heads(rows: pl.DataFrame, starts: Ints, columns: list[str]) -> pl.DataFrame:
    """These columns of the first row of each set; a mask is several times faster than taking rows by number."""
    first = np.zeros(rows.height, dtype=bool)
    first[starts] = True
    return rows.select(columns).filter(pl.Series(first, dtype=pl.Boolean))


def _starts(rows: pl.DataFrame) -> Ints:
    new = [pl.col(key).ne_missing(pl.col(key).shift()) for key in ("scorer", "item_id")]
    return rows.select(pl.any_horizontal(new).arg_true()).to_series().to_numpy().astype(np.int64)


def _check(rows: pl.DataFrame, starts: Ints, chosen: npt.NDArray[np.bool_]) -> None:
    """Raise ``CarbError`` where a set lacks a role or holds one twice."""
    if not len(starts):
        return
    right = np.add.reduceat(chosen.astype(np.int64), starts)
    size = np.diff(starts, append=len(rows))
    bad = np.flatnonzero((right != 1) | (size < 2))
    if len(bad):
        first = bad[0]
        row = rows.row(int(starts[first]), named=True)
        raise CarbError(
            f"{len(bad)} of {len(starts)} sets cannot be judged: a set needs exactly one 'chosen' and at least one "
            f"'rejected' row. First: scorer '{row['scorer']}', item '{row['item_id']}' has {right[first]} chosen and "
            f"{size[first] - right[first]} rejected. Was a part of the table filtered away, or joined twice?"
        )


def count_kinds(sets: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """How many sets are alike: ``keys``, ``credit``, ``tied`` (0 or 1), ``error`` and ``count``, a row per kind."""
    kinds = sets.select(*keys, "credit", (pl.col("tied") > 0).cast(pl.Int64), "error")
    return kinds.group_by(pl.all()).agg(pl.len().cast(pl.Int64).alias("count"))


def credit_matrix(sets: pl.DataFrame) -> tuple[npt.NDArray[np.float64], list[str], pl.DataFrame]:
    """A row per scorer and a column per item, from a row per scorer and set.

    Returns:
        (scorers, items) credits, NaN where there is none; the scorers; a frame with ``item_id``, ``culture`` and
        ``domain`` of the items.
    """
    item, names = number(sets, ("item_id",))
    scorer, who = number(sets, ("scorer",))
    credit = np.full((who.height, names.height), np.nan)
    credit[scorer, item] = np.where(sets["error"].to_numpy(), np.nan, sets["credit"].to_numpy())
    text = pl.col("item_id", "culture", "domain").cast(pl.String)
    items = sets.select(text).unique("item_id", maintain_order=True).sort("item_id")
    return credit, who["scorer"].cast(pl.String).to_list() if who.height else [], items
