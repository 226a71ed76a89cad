"""From a row per response to a row per set: did ``chosen`` win?"""

from __future__ import annotations

from typing import Literal

import polars as pl

from carb_data import CarbError, ScoreTable

Ties = Literal["strict", "shared"]
Errors = Literal["wrong", "exclude"]

SET_KEYS = ("scorer", "culture", "domain", "language", "topic", "source_item", "item_id")
"""Columns that a set has, and by which it can be grouped. ``language`` is that of ``chosen``."""


def set_outcomes(scores: ScoreTable, ties: Ties = "strict") -> pl.DataFrame:
    """A row per scorer and set.

    A set is won when ``chosen`` scores above every ``rejected``. Perturbed rows are left out. A set in which any
    score is null could not be judged: it is an error, without credit.

    Args:
        scores: the table.
        ties: ``strict`` gives no credit for sharing the highest score with ``rejected``; ``shared`` gives
            1 / (number of responses at the top), the expected credit when ties are broken at random.

    Returns:
        The columns of ``SET_KEYS`` that the table has, then ``credit`` (0 to 1), ``tied`` (how many ``rejected``
        share the highest score with ``chosen``; 0 is no tie) and ``error``.

    Raises:
        CarbError: a set does not have exactly one ``chosen`` and at least one ``rejected``, or ``ties`` is unknown.
    """
    if ties not in ("strict", "shared"):
        raise CarbError(f"ties must be 'strict' or 'shared'; got '{ties}'.")
    sets = summarise(scores.frame.lazy()).collect()
    check_sets(sets)
    return credit(sets, ties)


def summarise(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Per scorer and set: counts, the score of ``chosen``, the best ``rejected`` and how many share it."""
    columns = frame.collect_schema().names()
    is_chosen = pl.col("role").cast(pl.String) == "chosen"
    rows = frame.filter(pl.col("perturbation").is_null()).select(
        *(key for key in SET_KEYS if key in columns and key != "language"),
        pl.when(is_chosen).then("language").alias("language"),
        is_chosen.alias("is_chosen"),
        pl.when(is_chosen).then("score").alias("own"),
        pl.when(~is_chosen).then("score").alias("other"),
        pl.col("score").is_null().alias("missing"),
    )
    first = [key for key in SET_KEYS if key in columns and key not in ("scorer", "item_id", "language")]
    return rows.group_by("scorer", "item_id").agg(
        pl.col(first).first(),
        pl.col("language").drop_nulls().first(),
        pl.col("own").max(),
        pl.col("other").max().alias("best"),
        (pl.col("other") == pl.col("other").max()).sum().alias("at_best"),
        pl.col("is_chosen").sum().alias("chosen"),
        pl.len().alias("responses"),
        pl.col("missing").any().alias("error"),
    )


def check_sets(sets: pl.DataFrame) -> None:
    """Raise ``CarbError`` where a set lacks a role or holds one twice."""
    bad = sets.filter((pl.col("chosen") != 1) | (pl.col("responses") < 2))
    if bad.height:
        row = bad.sort("scorer", "item_id").row(0, named=True)
        raise CarbError(
            f"{bad.height} of {sets.height} sets cannot be judged: a set needs exactly one 'chosen' and at least one "
            f"'rejected' row. First: scorer '{row['scorer']}', item '{row['item_id']}' has {row['chosen']} chosen and "
            f"{row['responses'] - row['chosen']} rejected. Was a part of the table filtered away, or joined twice?"
        )


def credit(sets: pl.DataFrame, ties: Ties) -> pl.DataFrame:
    """Turn the summaries of ``summarise`` into credits."""
    tied = pl.when((pl.col("own") == pl.col("best")) & ~pl.col("error")).then("at_best").otherwise(0)
    won = (pl.col("own") > pl.col("best")) & ~pl.col("error")
    share = pl.when(tied > 0).then(1 / (tied + 1)).otherwise(0.0) if ties == "shared" else 0.0
    return sets.select(
        *(key for key in SET_KEYS if key in sets.columns),
        pl.when(won.fill_null(value=False)).then(1.0).otherwise(share).alias("credit"),
        tied.alias("tied"),
        "error",
    )
