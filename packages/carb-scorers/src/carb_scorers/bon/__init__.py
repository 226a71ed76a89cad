"""Best-of-n: a policy samples, a scorer picks, and the pick's worth as a curve over n."""

from carb_scorers.bon.curve import BonResult, CurvePoint, bon_curve, expected_pick, pick_weights
from carb_scorers.bon.samples import Grades, Sample, Samples, grade, sample
from carb_scorers.bon.scored import PoolScores, score_samples

__all__ = [
    "BonResult",
    "CurvePoint",
    "Grades",
    "PoolScores",
    "Sample",
    "Samples",
    "bon_curve",
    "expected_pick",
    "grade",
    "pick_weights",
    "sample",
    "score_samples",
]
