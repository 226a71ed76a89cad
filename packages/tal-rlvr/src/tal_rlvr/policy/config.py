"""How a policy is optimised."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_data.models import Frozen
from tal_rlvr.policy.alarms import Limits


class PolicyConfig(Frozen):
    """Settings of ``train_policy``. Values without a source are ours."""

    policy: str
    """Folder or hub id of a causal language model."""
    scorer: str
    """Spec of the scorer that gives the reward."""
    task: str
    """Spec of the task whose prompts are trained on and evaluated on, on different source items."""
    out: Path
    method: Literal["grpo", "dpo"] = "grpo"
    judge: str | None = None
    """Spec of the scorer that compares answers, for tasks that need one."""
    eval_tasks: tuple[str, ...] = ()
    """Specs of further tasks on which the policy is evaluated before and after."""
    steps: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=1e-6, gt=0)
    beta: float = Field(default=0.04, ge=0)
    """Weight of the KL penalty in GRPO (0.04 in Shao et al. 2024, arXiv:2402.03300); of the reward's scale in DPO,
    where 0.1 is usual (Rafailov et al. 2023)."""
    generations: int = Field(default=8, ge=2)
    """Samples of each prompt: the group in GRPO, the pool that pairs are made of in DPO."""
    prompts_per_step: int = Field(default=2, ge=1)
    """Prompts (GRPO) or pairs (DPO) in a step."""
    max_new_tokens: int = Field(default=64, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    shots: bool = True
    """Show the task's examples; base models need them."""
    held_out: float = Field(default=0.3, gt=0, lt=1)
    """Share of source items kept for the evaluation."""
    eval_samples: int = Field(default=4, ge=2)
    """Samples of each held-out prompt, from which length, language and repetition are measured."""
    eval_limit: int | None = Field(default=64, ge=1)
    """Largest number of held-out prompts, and of prompts of each further task."""
    watch_every: int | None = Field(default=None, ge=1)
    """Steps between looks at fresh samples in DPO, which makes none of its own; null: ten looks in all."""
    log_every: int = Field(default=1, ge=1)
    lora_rank: int = Field(default=0, ge=0)
    """0 trains all weights."""
    limits: Limits = Limits()
    seed: int = 0
