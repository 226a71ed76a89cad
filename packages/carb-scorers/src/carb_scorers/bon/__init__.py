"""Best-of-n: a policy samples, a scorer picks, and the pick's worth as a curve over n."""

from carb_scorers.bon.curve import (
    BonResult,
    CurvePoint,
    Scores,
    bon_curve,
    expected_pick,
    pick_weights,
    score_samples,
)
from carb_scorers.bon.samples import Grades, Sample, Samples, grade, sample

__all__ = [
    "BonResult",
    "CurvePoint",
    "Grades",
    "Sample",
    "Samples",
    "Scores",
    "bon_curve",
    "expected_pick",
    "grade",
    "pick_weights",
    "sample",
    "score_samples",
]
