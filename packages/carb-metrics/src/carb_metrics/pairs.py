"""Rows joined with what they belong to: perturbed texts with their originals, sets with their spread."""

from __future__ import annotations

import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.clusters import cluster_of

TEXT = ("scorer", "item_id", "response_id", "role", "culture", "domain", "language", "perturbation", "original")


def frame_of(scores: ScoreTable) -> pl.DataFrame:
    """The frame of a table, or ``CarbError`` where something else is given, such as a frame."""
    if not isinstance(scores, ScoreTable):
        raise CarbError(f"Scores come as a carb_data.ScoreTable, not {type(scores).__name__}; use ScoreTable(frame).")
    return scores.frame


def as_text(scores: ScoreTable) -> pl.DataFrame:
    """The frame with String columns and ``cluster``: a name of all sets that a source item or a family connects."""
    frame = frame_of(scores)
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in frame.columns if name != "score")
    keys = [name for name in ("source_item", "family") if name in frame.columns]
    sets = frame.select("item_id", *keys).unique(maintain_order=True).rename({"family": "mirrors"}, strict=False)
    names = sets.select("item_id", _number=pl.Series(cluster_of(sets), dtype=pl.Int64))
    origin = pl.coalesce(*(pl.col(name) for name in keys), pl.lit("\0") + pl.col("item_id"))
    names = names.join(frame.select("item_id", origin.alias("_origin")).unique(), on="item_id")
    labels = names.group_by("_number").agg(pl.col("_origin").min().alias("cluster"))
    labels = names.select("item_id", "_number").unique().join(labels, on="_number").drop("_number")
    return frame.join(labels, on="item_id", how="left", maintain_order="left")


def perturbed_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """Each perturbed row beside its original.

    Args:
        frame: A score table's frame as ``as_text`` gives it.

    Returns:
        The columns of the perturbed row (its score as ``after``), ``before`` and ``language_before`` of its original.

    Raises:
        CarbError: a perturbed row has no original in the table.
    """
    perturbed = frame.filter(pl.col("perturbation").is_not_null()).rename({"score": "after"})
    originals = frame.filter(pl.col("perturbation").is_null()).select(
        "scorer",
        "item_id",
        pl.col("response_id").alias("original"),
        pl.col("score").alias("before"),
        pl.col("language").alias("language_before"),
        pl.lit(value=True).alias("found"),
    )
    pairs = perturbed.join(originals, on=["scorer", "item_id", "original"], how="left", maintain_order="left")
    lost = pairs.filter(pl.col("found").is_null())
    if lost.height:
        row = lost.sort("scorer", "item_id", "response_id").row(0, named=True)
        raise CarbError(
            f"{lost.height} perturbed rows have no original in the table. First: scorer '{row['scorer']}', item "
            f"'{row['item_id']}', response '{row['response_id']}' names the original '{row['original']}'. "
            "Keep perturbed rows together with the rows of their sets."
        )
    if pairs.height != perturbed.height:
        raise CarbError("A response id occurs twice within one set; was the table joined or concatenated twice?")
    return pairs.drop("found").sort("scorer", "item_id", "response_id")


def within_item(frame: pl.DataFrame) -> pl.DataFrame:
    """Sums of squares of unperturbed scores within each set.

    Returns:
        ``scorer``, ``cluster``, ``squares`` (squared deviations from the set's mean) and ``freedom`` (scored
        responses minus 1), a row per scorer and set with at least two scores.
    """
    scored = frame.filter(pl.col("perturbation").is_null() & pl.col("score").is_not_null())
    score = pl.col("score")
    return (
        scored.group_by("scorer", "item_id")
        .agg(
            pl.col("cluster").first(),
            ((score - score.mean()) ** 2).sum().alias("squares"),
            (pl.len() - 1).cast(pl.Float64).alias("freedom"),
        )
        .filter(pl.col("freedom") > 0)
        .sort("scorer", "item_id")
    )
