"""Best-of-N: a policy samples, a scorer picks, and the pick's worth as a curve over N."""

from carb_scorers.bon.curve import (
    BonResult,
    CurvePoint,
    Grades,
    PromptOutcome,
    bon_curve,
    expected_pick,
    pick_weights,
)
from carb_scorers.bon.policy import Policy, PolicyPrompt, PolicySpec, Sample, open_policy, policy_prompts
from carb_scorers.bon.sample_pool import PoolScores, SamplePool, collect, grade_pool, score_pool

__all__ = [
    "BonResult",
    "CurvePoint",
    "Grades",
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
    "grade_pool",
    "open_policy",
    "pick_weights",
    "policy_prompts",
    "score_pool",
]
