"""What a run of policy optimisation writes down."""

from __future__ import annotations

from carb_data.models import Frozen
from tal_rlvr.policy.alarms import Alarm, TextStats
from tal_rlvr.policy.config import PolicyConfig


class Evaluation(Frozen):
    """A policy on the prompts of a task, ``eval_samples`` samples each."""

    prompts: int
    grade: float | None
    """Mean grade of the task; null where nothing could be graded."""
    reward: float | None
    """Mean score by the scorer that it is optimised against; null for further tasks, which it does not score."""
    kl: float | None = None
    """Nats per answer from the policy before training (``divergence``); null before it and for further tasks."""
    stats: TextStats


class GradeChange(Frozen):
    """Mean grade after training minus before, over prompts graded both times."""

    value: float | None
    low: float | None
    """95% interval over source items (``carb_metrics.paired_difference``); null where there are fewer than two."""
    high: float | None
    p: float | None = None
    """Two-sided p of no change, over source items."""
    prompts: int


class TaskChange(Frozen):
    """A further task, before and after; without prompts that share a source item with training."""

    task: str
    before: Evaluation
    after: Evaluation
    change: GradeChange


class LoggedStep(Frozen):
    """One logged step."""

    step: int
    reward: float | None = None
    """Mean score of the step's samples. DPO trains on samples drawn before; its policy is sampled again every
    ``watch_every`` steps, and null between."""
    reward_sd: float | None = None
    kl: float | None = None
    """Nats per answer from the policy before training: GRPO as TRL estimates it from the step's samples (null with
    ``beta = 0``), DPO by ``divergence``."""
    margin: float | None = None
    """Mean margin of implicit rewards, for DPO."""
    loss: float | None = None
    stats: TextStats | None = None
    """Statistics of the step's samples; null if there are none."""


class TrainedPolicy(Frozen):
    """A policy after its last step; written as ``trained.json``, so that an interrupted run evaluates only."""

    config: PolicyConfig
    model: str
    """Folder of the optimised policy."""
    pairs: int | None
    """Preference pairs; null for GRPO."""
    curve: tuple[LoggedStep, ...]
    alarms: tuple[Alarm, ...]
    """Statistics of the samples during training."""
    unscored: int
    """Samples that the scorer could not score; they took no part in updates."""


class PolicyResult(Frozen):
    """What a run did; written as ``policy.json``."""

    model: str
    """Folder of the optimised policy."""
    config: PolicyConfig
    train_prompts: int
    train_items: tuple[str, ...]
    """Source items of the prompts trained on: evaluate the policy on others."""
    pairs: int | None
    """Preference pairs; null for GRPO."""
    before: Evaluation
    """Results on the held-out prompts of the task."""
    after: Evaluation
    change: GradeChange
    tasks: tuple[TaskChange, ...]
    """The further tasks of ``eval_tasks``."""
    curve: tuple[LoggedStep, ...]
    alarms: tuple[Alarm, ...]
    unscored: int
    """Samples that the scorer could not score; they took no part in updates."""
