"""A bounded scale for scores that become rewards."""

import math
from collections.abc import Callable
from functools import partial

from polars import col

from carb_data import CarbError, ScoreTable
from carb_metrics.scored import Scored

SPREAD = 1.4826
"""Times the median absolute deviation: the standard deviation, where scores are normal (Rousseeuw
and Croux 1993)."""


def centred(
    scores: ScoreTable,
    scorer: str | None = None,
) -> Callable[[float], float]:
    """A scale on which a policy gains little where a scorer's scores are extreme.

    A score x becomes ``1 / (1 + exp(−(x − m) / s))``: 0.5 at m, and between 0 and 1 everywhere. m
    is the median of ``scores``. s is 1.4826 times their median absolute deviation, which is the
    standard deviation of normal scores (Rousseeuw and Croux 1993, JASA 88:1273-1283).

    Args:
        scores: what the scorer gave to a calibration set, such as
            ``ScoreTable.load("runs/judge/scores.parquet")``.
        scorer: name of the scorer, where the table has several; null where it has one.

    Returns:
        A function from one score to one number. It can be sent to other processes.

    Raises:
        CarbError: the table has no scores of the scorer, or their median absolute deviation is 0,
            since half of them or more are the same.
    """
    frame = Scored.of(scores).frame.filter(col.score.is_not_null())
    names = frame["scorer"].unique().sort().to_list()
    if len(names) > 1 or scorer is not None:
        frame = frame.filter(col.scorer == scorer)
    centre = frame["score"].median()
    if not isinstance(centre, float):
        raise CarbError(
            f"scorer={scorer!r} picks no scores; the table has those of "
            f"{', '.join(names) or 'none'}."
        )
    spread = (frame["score"] - centre).abs().median()
    if not isinstance(spread, float) or spread == 0:
        raise CarbError(
            f"Half of the scores of {scorer or names[0]!r} or more are {centre:g}: they "
            "have no spread."
        )
    return partial(_logistic, centre, SPREAD * spread)


def _logistic(
    centre: float,
    spread: float,
    score: float,
) -> float:
    away = (score - centre) / spread
    return 0.5 * (1 + math.tanh(away / 2))  # with tanh it does not overflow
