"""How clearly a scorer wins or loses a set."""

from __future__ import annotations

import polars as pl

from carb_data import ScoreTable


def margins(table: ScoreTable) -> dict[str, float]:
    """Score of chosen minus that of the best rejected for each set of one scorer's table.

    In units of the scorer's own spread, the root mean square of its scores' distances from their set's mean, so that
    scorers of different scales can be set side by side. Sets with a failed score are left out; a scorer whose scores
    never differ within a set has margins of 0.
    """
    frame = table.frame.filter(pl.col("perturbation").is_null())
    sets = frame.group_by("item_id", maintain_order=True).agg(
        (pl.col("score").filter(pl.col("role") == "chosen").first()
         - pl.col("score").filter(pl.col("role") != "chosen").max()).alias("margin"),
        pl.col("score").null_count().alias("failed"),
        ((pl.col("score") - pl.col("score").mean()) ** 2).mean().alias("spread"),
    ).filter(pl.col("failed") == 0)  # fmt: skip
    spread = sets["spread"].mean()
    unit = float(spread) ** 0.5 if isinstance(spread, float) and spread > 0 else 1.0
    return dict(zip(sets["item_id"].to_list(), (sets["margin"] / unit).to_list(), strict=True))
