"""Think-as-Locals: cultural judges trained by reinforcement learning from verifiable rewards.

Importing this package imports no torch; training needs the extra ``train``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from carb_data import check_contamination
from tal_rlvr.judge_prompts import render_plain, render_prompt
from tal_rlvr.judge_rewards import (
    Appropriateness,
    correctness_reward,
    criteria_reward,
    format_reward,
    total_reward,
)
from tal_rlvr.judgement import Criterion, FormatError, Judgement, Verdict, parse_judgement
from tal_rlvr.mix import MixSource, TrainingMix
from tal_rlvr.train_config import TrainConfig, load_config, preset_needs, presets
from tal_rlvr.training import TrainResult, train

if TYPE_CHECKING:
    from tal_rlvr.scorer import judge_as_scorer
    from tal_rlvr.trainer import ThinkAsLocalsTrainer, paper_config

_LAZY = {
    "ThinkAsLocalsTrainer": "tal_rlvr.trainer",
    "judge_as_scorer": "tal_rlvr.scorer",
    "paper_config": "tal_rlvr.trainer",
}

__all__ = [
    "Appropriateness",
    "Criterion",
    "FormatError",
    "Judgement",
    "MixSource",
    "ThinkAsLocalsTrainer",
    "TrainConfig",
    "TrainResult",
    "TrainingMix",
    "Verdict",
    "check_contamination",
    "correctness_reward",
    "criteria_reward",
    "format_reward",
    "judge_as_scorer",
    "load_config",
    "paper_config",
    "parse_judgement",
    "preset_needs",
    "presets",
    "render_plain",
    "render_prompt",
    "total_reward",
    "train",
]


def __getattr__(name: str) -> Any:
    """Names that need torch are imported at their first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'tal_rlvr' has no attribute '{name}'")
    return getattr(importlib.import_module(_LAZY[name]), name)
