"""A bounded scale of rewards, so that a policy gains little where a scorer's scores are extreme."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl

from carb_data import CarbError, ScoreTable
from carb_data.models import Frozen

SPREAD = 1.4826
"""Times the median absolute deviation: the standard deviation, where scores are normal (Rousseeuw and Croux 1993)."""


class RewardScale(Frozen):
    """Maps a score onto (0, 1): the logistic function of its distance from the median, in robust spreads."""

    centre: float
    spread: float

    def __call__(self, score: float) -> float:
        """The scaled score. Written with tanh, the logistic function does not overflow."""
        return 0.5 * (1 + math.tanh((score - self.centre) / self.spread / 2))


def read_scale(scale: str | Path, scorer: str) -> RewardScale | None:
    """The scale that a reward asks for.

    Args:
        scale: ``raw`` for none; or ``scores.parquet`` of a run, whose scores give median and spread.
        scorer: name of the scorer; its rows are used. A file with one scorer alone may have it under another name.

    Raises:
        CarbError: the file is not there, has no scores of the scorer, or its scores do not differ.
    """
    if scale == "raw":
        return None
    frame = ScoreTable.load(scale).frame.filter(pl.col("score").is_not_null())
    names = frame["scorer"].unique().sort().to_list()
    own = frame.filter(pl.col("scorer") == scorer) if len(names) > 1 else frame
    scores = own["score"]
    centre = scores.median()
    if not isinstance(centre, float):
        raise CarbError(f"{scale} has no scores of '{scorer}'; it has {', '.join(map(repr, names)) or 'none'}.")
    spread = (scores - centre).abs().median()
    if not isinstance(spread, float) or spread == 0:
        raise CarbError(f"{scale}: more than half of the scores of '{scorer}' are {centre:g}, so they have no spread.")
    return RewardScale(centre=centre, spread=SPREAD * spread)
