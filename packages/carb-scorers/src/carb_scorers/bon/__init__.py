"""Best-of-n: a policy samples, a scorer picks, and the pick's worth as a curve over n."""

from carb_scorers.bon.curve import BonResult, CurvePoint, PromptOutcome, bon_curve, expected_pick, pick_weights
from carb_scorers.bon.pick import PoolScores, score_pool
from carb_scorers.bon.samples import Grades, Sample, SamplePool, grade_pool, sample

__all__ = [
    "BonResult",
    "CurvePoint",
    "Grades",
    "PoolScores",
    "PromptOutcome",
    "Sample",
    "SamplePool",
    "bon_curve",
    "expected_pick",
    "grade_pool",
    "pick_weights",
    "sample",
    "score_pool",
]
