"""Do judges agree with people, culture by culture?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Frame, Result
from carb_metrics.pairs import as_text
from carb_metrics.raters import agreement
from carb_metrics.resampling import RESAMPLES


class MetaEvaluation(Result):
    """Judges against people."""

    by: tuple[str, ...]
    groups: Frame
    """A row per scorer and group: ``scorer``, the columns of ``by``, ``n`` (sets that the judge and a majority of
    people decided), ``undecided`` (sets with people's picks and without either), then with ``_low`` and ``_high``:
    ``percent``, ``kappa`` (Cohen) and ``ac1`` (Gwet) of the judge and the majority, and ``human_percent`` and
    ``human_alpha`` (Krippendorff, nominal) of people among themselves: what can be hoped for."""


def judge_vs_human(
    scores: ScoreTable,
    human: pl.DataFrame,
    by: str | Sequence[str] = "culture",
    confidence: float = 0.95,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> MetaEvaluation:
    """Compare the pick of each scorer with the majority of people, per culture, and people with each other.

    A scorer's pick is the response of a set with the highest score; ties at the top and failed sets are undecided, as
    are sets whose most frequent human pick is not unique. For chance-corrected coefficients the responses of a set are
    categories by place: ``chosen`` first, then ``rejected`` in the order of their ids. Formulas and intervals are those
    of ``agreement``, with sets of one source item or family kept together.

    Args:
        scores: table of one or several scorers; perturbed rows are left out.
        human: a row per person and set: ``item_id``, ``rater``, ``response_id`` (the pick; null for none).
        by: columns of the table that define groups; may be empty.
        confidence, resamples, seed: as for ``agreement``.

    Raises:
        CarbError: a frame is not as described, or people picked a response that the table lacks.
    """
    keys = [by] if isinstance(by, str) else list(by)
    frame = as_text(scores).filter(pl.col("perturbation").is_null())
    if "scorer" in keys or any(key not in frame.columns for key in keys):
        raise CarbError(f"by={keys}: each key must be a column of the table other than 'scorer'.")
    missing = [name for name in ("item_id", "rater", "response_id") if name not in human.columns]
    if missing:
        raise CarbError(f"human lacks the columns {missing}; it needs item_id, rater and response_id.")
    picks = human.select(pl.col("item_id", "rater", "response_id").cast(pl.String))
    if picks.select("item_id", "rater").is_duplicated().any():
        raise CarbError("human: a rater has two rows for one set.")
    place = pl.struct(pl.col("role") != "chosen", "response_id").rank("ordinal").over("scorer", "item_id")
    frame = frame.with_columns(place.cast(pl.Int64).alias("place"))
    people = _people(picks, frame)
    schema: dict[str, Any] = {
        "scorer": pl.String,
        **dict.fromkeys(keys, pl.String),
        "n": pl.Int64,
        "undecided": pl.Int64,
    }
    for name in ("percent", "kappa", "ac1", "human_percent", "human_alpha"):
        schema |= dict.fromkeys((name, f"{name}_low", f"{name}_high"), pl.Float64)
    judges = _judges(frame, keys).join(people, on="item_id")
    rows = []
    for group, part in sorted(judges.group_by("scorer", *keys), key=lambda pair: [str(v) for v in pair[0]]):
        decided = part.filter(pl.col("place").is_not_null() & pl.col("majority").is_not_null()).sort("item_id")
        pairs = decided.select("place", "majority").rows()
        options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
        largest = max(part["size"].to_list())
        found = agreement(pairs, categories=range(1, largest + 1), clusters=decided["cluster"].to_list(), **options)
        whole = part.sort("item_id")
        humans = agreement(_table(whole["picks"].to_list()), clusters=whole["cluster"].to_list(), **options)
        cells = (found.percent, found.cohen, found.gwet, humans.percent, humans.krippendorff)
        rows.append((*group, len(pairs), part.height - len(pairs), *(v for cell in cells for v in _limits(cell))))
    return MetaEvaluation(by=tuple(keys), groups=pl.DataFrame(rows, schema=schema, orient="row"))


def _people(picks: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """``item_id``, ``picks`` (places, sorted) and ``majority`` (place, null where not unique)."""
    places = frame.select("item_id", "response_id", "place").unique(["item_id", "response_id"], maintain_order=True)
    known = picks.filter(pl.col("response_id").is_not_null()).join(places, on="item_id", how="semi")
    joined = known.join(places, on=["item_id", "response_id"], how="left")
    lost = joined.filter(pl.col("place").is_null())
    if lost.height:
        row = lost.sort("item_id", "rater").row(0, named=True)
        raise CarbError(f"human: item '{row['item_id']}' has no response '{row['response_id']}' in the table.")
    mode = pl.col("place").mode()
    return joined.group_by("item_id").agg(
        pl.col("place").sort().alias("picks"),
        pl.when(mode.len() == 1).then(mode.first()).alias("majority"),
    )


def _judges(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """``scorer``, ``item_id``, keys, ``place`` of the pick (null where undecided) and ``size`` of the set."""
    top = pl.col("score") == pl.col("score").max()
    decided = ~pl.col("score").is_null().any() & (top.sum() == 1)
    return frame.group_by("scorer", "item_id").agg(
        *(pl.col(key).first() for key in dict.fromkeys((*keys, "cluster"))),
        pl.when(decided).then(pl.col("place").filter(top).first()).alias("place"),
        pl.len().cast(pl.Int64).alias("size"),
    )


def _table(picks: list[list[int]]) -> list[list[int | None]]:
    """Rows of equal length, padded with missing ratings; which person gave which does not matter here."""
    width = max(2, *(len(row) for row in picks)) if picks else 2
    return [[*row, *[None] * (width - len(row))] for row in picks]


def _limits(cell: Estimate) -> tuple[float | None, float | None, float | None]:
    return cell.estimate, cell.low, cell.high
