"""From scores to outcomes: which sets count, and what a tie earns."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Counted
from carb_metrics.clusters import Ints, cluster_of, number
from carb_metrics.intervals import Floats
from carb_metrics.ties import rounded, tops

__all__ = ["set_outcomes"]

Ties = Literal["shared", "strict"]

SET_KEYS = (
    "scorer",
    "culture",
    "domain",
    "language",
    "topic",
    "source_item",
    "mirrors",
    "kind",
    "item_id",
)
"""Columns that a set has, and by which it can be grouped. ``language`` is that of ``chosen``.
``mirrors`` is the ``family`` of the table, renamed because a culture's language has a family
too."""

RESPONSES = "_responses"
"""Column of ``set_outcomes`` that tells which responses a set has: equal for the same ones, in any
order."""


def frame_of(scores: ScoreTable) -> pl.DataFrame:
    """The frame of a table, or ``CarbError`` where something else is given, such as a frame."""
    if not isinstance(scores, ScoreTable):
        raise CarbError(
            f"Scores come as a carb_data.ScoreTable, not {type(scores).__name__}; use "
            "ScoreTable(frame)."
        )
    return scores.frame


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
    """
    return counted_sets(scores, mirrors=False)[0]


def counted_sets(scores: ScoreTable, *, mirrors: bool) -> tuple[ScoreTable, Counted]:
    """The rows that count, and which they are: ``main`` sets, or ``all`` where asked for or where
    none is known."""
    frame = frame_of(scores)
    if mirrors or not {"mirror", "kind"} & set(frame.columns):
        return scores, "all"
    if "mirror" in frame.columns:
        frame = frame.filter(~pl.col("mirror").fill_null(value=False))
    if "kind" in frame.columns:
        frame = frame.filter(pl.col("kind").cast(pl.String).fill_null("") != "control")
    if not frame.height:
        return scores, "all"
    return (ScoreTable(frame) if frame.height < scores.frame.height else scores), "main"


def as_text(scores: ScoreTable) -> pl.DataFrame:
    """The frame with String columns and ``cluster``: a name of all sets that a source item or a
    family connects."""
    frame = frame_of(scores)
    frame = frame.with_columns(
        pl.col(name).cast(pl.String) for name in frame.columns if name != "score"
    )
    keys = [name for name in ("source_item", "family") if name in frame.columns]
    sets = (
        frame.select("item_id", *keys)
        .unique(maintain_order=True)
        .rename({"family": "mirrors"}, strict=False)
    )
    names = sets.select("item_id", _number=pl.Series(cluster_of(sets), dtype=pl.Int64))
    origin = pl.coalesce(*(pl.col(name) for name in keys), pl.lit("\0") + pl.col("item_id"))
    names = names.join(frame.select("item_id", origin.alias("_origin")).unique(), on="item_id")
    labels = names.group_by("_number").agg(pl.col("_origin").min().alias("cluster"))
    labels = names.select("item_id", "_number").unique().join(labels, on="_number").drop("_number")
    return frame.join(labels, on="item_id", how="left", maintain_order="left")


def set_outcomes(scores: ScoreTable, ties: Ties = "shared") -> pl.DataFrame:
    """A row per scorer and set.

    A set is won when ``chosen`` scores above every ``rejected``. Perturbed rows are left out. A set
    in which any score is null could not be judged: it is an error, without credit.

    Args:
        scores: The table of scores.
        ties: ``shared`` gives 1 / (number of responses at the top), the expected credit when ties
            are broken at random; ``strict`` gives no credit for sharing the highest score with
            ``rejected``.

    Returns:
        The columns of ``SET_KEYS`` that the table has, then ``RESPONSES``, ``credit`` (0 to 1),
        ``tied`` (how many ``rejected`` share the highest score with ``chosen``; 0 is no tie) and
        ``error``.

    Raises:
        CarbError: a set does not have exactly one ``chosen`` and at least one ``rejected``, or
            ``ties`` is unknown.
    """
    if ties not in ("strict", "shared"):
        raise CarbError(f"ties must be 'shared' or 'strict'; got '{ties}'.")
    rows = frame_of(scores).filter(pl.col("perturbation").is_null())
    if "family" in rows.columns:
        rows = rows.rename({"family": "mirrors"})
    starts, heads = _first_rows(rows)
    if (
        heads.select("scorer", "item_id").is_duplicated().any()
    ):  # unlike scorers' own, its sets lie apart
        rows = rows.sort("scorer", "item_id")
        starts, heads = _first_rows(rows)
    chosen = (rows["role"].cast(pl.String) == "chosen").to_numpy()
    _check_roles(rows, starts, chosen)
    code = rows["response_id"].cast(pl.String).hash().to_numpy()
    responses = np.add.reduceat(code, starts) if len(starts) else code[:0]
    right, top = tops(rounded(rows["score"]).to_numpy(), chosen, starts)  # null becomes NaN
    share = right / np.maximum(top, 1)
    if "language" in rows.columns:
        heads = heads.with_columns(
            language=rows["language"].filter(pl.Series(chosen, dtype=pl.Boolean))
        )
    return heads.select(
        pl.all(),
        pl.Series(RESPONSES, responses, dtype=pl.UInt64),
        pl.Series("credit", share if ties == "shared" else share == 1, dtype=pl.Float64),
        pl.Series("tied", np.where(right > 0, top - 1, 0), dtype=pl.Int64),
        pl.Series("error", top == 0, dtype=pl.Boolean),
    )


def _first_rows(rows: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """The place of the first row of each set, and what it has of ``SET_KEYS``."""
    new = [pl.col(key).ne_missing(pl.col(key).shift()) for key in ("scorer", "item_id")]
    first = rows.select(pl.any_horizontal(new)).to_series()
    heads = rows.select(key for key in SET_KEYS if key in rows.columns).filter(first)
    return first.arg_true().to_numpy().astype(np.int64), heads


def _check_roles(rows: pl.DataFrame, starts: Ints, chosen: npt.NDArray[np.bool_]) -> None:
    """Raise ``CarbError`` where a set lacks a role or holds ``chosen`` twice."""
    if not len(starts):
        return
    right = np.add.reduceat(chosen.astype(np.int64), starts)
    size = np.diff(starts, append=len(rows))
    bad = np.flatnonzero((right != 1) | (size < 2))
    if len(bad):
        first = bad[0]
        row = rows.row(int(starts[first]), named=True)
        raise CarbError(
            f"{len(bad)} of {len(starts)} sets cannot be judged: a set needs exactly one "
            "'chosen' and at least one "
            f"'rejected' row. First: scorer '{row['scorer']}', item '{row['item_id']}' has "
            f"{right[first]} chosen and "
            f"{size[first] - right[first]} rejected. Was a part of the table filtered away, "
            "or joined twice?"
        )


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
    items = sets.with_columns(pl.col("item_id", "culture", "domain").cast(pl.String))
    items = items.unique("item_id", maintain_order=True).sort("item_id")
    return credit, who["scorer"].cast(pl.String).to_list() if who.height else [], items


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
        the root mean square of its scores' distances from their set's mean; a scorer whose scores
        never differ within a set has differences of 0. Sets with a failed score are left out.
    """
    frame = as_text(counted_sets(scores, mirrors=mirrors)[0]).filter(
        pl.col("perturbation").is_null()
    )
    score = rounded(pl.col("score"))
    sets = frame.group_by("scorer", "item_id", maintain_order=True).agg(
        pl.col("cluster", "culture", "domain", "language").first(),
        margin=score.filter(pl.col("role") == "chosen").first()
        - score.filter(pl.col("role") != "chosen").max(),
        lead=score.max() - score.sort(descending=True).slice(1, 1).first(),
        top=(score == score.max()).sum(),
        failed=score.null_count(),
        spread=((score - score.mean()) ** 2).mean(),
    )
    sets = sets.filter(pl.col("failed") == 0)
    unit = pl.col("spread").mean().sqrt().over("scorer")
    unit = pl.when(unit > 0).then(unit).otherwise(1.0)
    credit = pl.when(pl.col("margin") >= 0).then(1 / pl.col("top")).otherwise(0.0)
    sets = sets.with_columns(
        pl.col("margin", "lead") / unit, right=pl.col("margin") > 0, credit=credit
    )
    return sets.drop("failed", "spread", "top")
