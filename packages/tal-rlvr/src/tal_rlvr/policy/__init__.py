"""Optimising a policy against any scorer, with GRPO or DPO, and watching for reward hacking."""

from tal_rlvr.policy.alarms import Alarm, Limits, TextStats, alarms, read_limits, text_stats
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.results import Evaluation, GradeChange, LoggedStep, PolicyResult, TaskChange
from tal_rlvr.policy.rewards import ScorerReward, preference_pairs
from tal_rlvr.policy.run import train_policy

__all__ = [
    "Alarm",
    "Evaluation",
    "GradeChange",
    "Limits",
    "LoggedStep",
    "PolicyConfig",
    "PolicyResult",
    "ScorerReward",
    "TaskChange",
    "TextStats",
    "alarms",
    "preference_pairs",
    "read_limits",
    "text_stats",
    "train_policy",
]
