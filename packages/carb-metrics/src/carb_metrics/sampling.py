"""Judges that draw their answers: how much of the uncertainty is the drawing?"""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.intervals import check_confidence
from carb_metrics.paired import mean_interval
from carb_metrics.pairs import as_text

__all__ = ["SamplingRow", "draws_of", "sampling_variance"]


class SamplingRow(Result):
    """Several draws of one scorer."""

    scorer: str
    items: int
    draws: float
    """Mean number of draws of an item."""
    accuracy: Estimate
    """Mean over items; the interval holds for both other items and other draws."""
    within: float | None
    """Variance of the credit of one item between draws."""
    between: float | None
    """Variance of the items' expected credits."""
    drawing_error: float | None
    """Standard error of the accuracy that comes from the drawing alone."""
    stable: float | None
    """Share of items in which all draws earn the same."""


def draws_of(scores: ScoreTable, presentations: pl.DataFrame) -> pl.DataFrame:
    """The draws of judges that were shown a whole set several times, as ``sampling_variance`` takes them.

    A presentation of all answers of a set is a draw: another order, or another sample. Its credit is 1 over the number
    of answers at the top where the right one is among them, else 0.

    Args:
        scores: table of the scorers, for roles and source items.
        presentations: A row for each response that was shown, as ``judge_bias`` takes it.

    Returns:
        ``scorer``, ``item_id``, ``cluster`` and ``credit``, a row per draw. Presentations of a part of a set, or
        without a score, are left out, and so are scorers that have no item with two draws.
    """
    frame = as_text(scores).filter(pl.col("perturbation").is_null())
    roles = frame.select("item_id", "response_id", "role", "cluster").unique(["item_id", "response_id"])
    size = roles.group_by("item_id").agg(pl.len().alias("size"))
    named = presentations.with_columns(pl.col("scorer", "item_id", "order_id", "response_id").cast(pl.String))
    top = pl.col("score") == pl.col("score").max()
    draws = (
        named.join(roles, on=["item_id", "response_id"])
        .group_by("scorer", "item_id", "order_id", maintain_order=True)
        .agg(
            pl.col("cluster").first(),
            pl.len().alias("shown"),
            pl.col("score").is_null().any().alias("failed"),
            credit=(top & (pl.col("role") == "chosen")).any().cast(pl.Float64) / top.sum(),
        )
        .join(size, on="item_id")
        .filter(~pl.col("failed"), pl.col("shown") == pl.col("size"))
    )
    draws = draws.with_columns(drawn=pl.len().over("scorer", "item_id"))  # apart: polars 1.26 nests no windows
    return draws.filter(pl.col("drawn").max().over("scorer") > 1).select("scorer", "item_id", "cluster", "credit")


def sampling_variance(draws: pl.DataFrame, confidence: float = 0.95) -> tuple[SamplingRow, ...]:
    """Divide the variance of a sampling judge's accuracy into that of items and that of draws.

    One-way random effects (Searle, Casella and McCulloch 1992, Variance Components, chapter 3). Items are the units of
    the interval, so it includes the variance of draws.

    Args:
        draws: a row per scorer, item and draw: ``scorer``, ``item_id``, ``credit`` (0 to 1), and optionally ``cluster``
            (the source item; null stands alone).
        confidence: The level of the interval, a share such as 0.95.

    Raises:
        CarbError: a column is missing, or a credit is not between 0 and 1.
    """
    check_confidence(confidence)
    missing = [name for name in ("scorer", "item_id", "credit") if name not in draws.columns]
    if missing:
        raise CarbError(f"draws lacks the columns {missing}; it has {draws.columns}.")
    if draws.height and not draws["credit"].cast(pl.Float64).is_between(0, 1).fill_null(value=False).all():
        raise CarbError("draws: 'credit' must lie between 0 and 1 in every row.")
    rows = []
    for key, mine in sorted(draws.group_by("scorer"), key=lambda pair: str(pair[0][0])):
        credit = pl.col("credit").cast(pl.Float64)
        items = mine.group_by("item_id").agg(
            credit.mean().alias("mean"),
            credit.var().alias("variance"),
            pl.len().alias("draws"),
            *([pl.col("cluster").first()] if "cluster" in mine.columns else []),
        )
        items = items.sort("item_id")
        mean, count = items["mean"].to_numpy(), items["draws"].to_numpy()
        variance = items["variance"].to_numpy()  # NaN for a single draw
        known = count > 1
        within = float(np.average(variance[known], weights=count[known] - 1)) if known.any() else None
        noise = None if within is None else within * float((1 / count).mean())
        between = None if noise is None or len(mean) < 2 else max(float(mean.var(ddof=1)) - noise, 0.0)
        cluster = None
        if "cluster" in items.columns:
            cluster = items["cluster"].to_list()
        rows.append(
            SamplingRow(
                scorer=str(key[0]),
                items=len(mean),
                draws=float(count.mean()),
                accuracy=mean_interval(mean, cluster, confidence),
                within=within,
                between=between,
                drawing_error=None if noise is None else float(np.sqrt(noise / len(mean))),
                stable=float((variance[known] < 1e-12).mean()) if known.any() else None,
            )
        )
    return tuple(rows)
