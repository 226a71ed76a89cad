"""Best-of-N: a policy samples, a scorer picks, and the pick's worth as a curve over N."""

from carb_scorers.bon.curve import expected_pick, pick_weights
from carb_scorers.bon.judging import judge_from
from carb_scorers.bon.outcome import BonResult, CurvePoint, PromptOutcome, bon_curve
from carb_scorers.bon.policies import Policy, PolicyPrompt, PolicySpec, open_policy
from carb_scorers.bon.pool import PoolScores, score_pool
from carb_scorers.bon.samples import Sample, SamplePool, collect, read_pool

__all__ = [
    "BonResult",
    "CurvePoint",
    "Policy",
    "PolicyPrompt",
    "PolicySpec",
    "PoolScores",
    "PromptOutcome",
    "Sample",
    "SamplePool",
    "bon_curve",
    "collect",
    "expected_pick",
    "judge_from",
    "open_policy",
    "pick_weights",
    "read_pool",
    "score_pool",
]
