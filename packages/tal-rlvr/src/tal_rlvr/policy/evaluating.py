"""A policy on held-out prompts: its grades, its reward, how far it moved and what its answers look like."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carb_data import CarbError
from carb_data.tasks import Task, TaskPrompt, evenly
from carb_data.waiting import wait_for
from carb_metrics import paired_difference
from carb_scorers import Scorer
from carb_scorers.bon import SamplePool, collect, open_policy
from carb_scorers.bon.outcome import grade_pool
from carb_scorers.bon.policies import policy_prompts
from tal_rlvr.policy.alarms import text_stats
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.divergence import pool_divergence
from tal_rlvr.policy.results import Evaluation, GradeChange
from tal_rlvr.policy.rewards import ScorerReward

__all__ = ["TaskPart"]

OnLog = Callable[[str, int, int, str], None]
"""``(what, done, total, detail)``."""

_CONFIDENCE = 0.95


class TaskPart:
    """A task narrowed down to some of its prompts."""

    def __init__(self, task: Task, prompts: tuple[TaskPrompt, ...]) -> None:
        self._task = task
        self.name, self.instruction, self.shots, self.one_line = task.name, task.instruction, task.shots, task.one_line
        self.prompts = prompts

    def grade(self, prompt_id: str, text: str) -> float | None:
        """As the whole task."""
        return self._task.grade(prompt_id, text)

    def grade_all(self, answers: Sequence[tuple[str, str]]) -> list[float | None]:
        """As the whole task."""
        return self._task.grade_all(answers)


def divide(task: Task, held_out: float, limit: int | None, seed: int) -> tuple[TaskPart, TaskPart]:
    """Training and held-out prompts; those of one source item are on one side.

    Raises:
        CarbError: a side is empty.
    """

    def share(prompt: TaskPrompt) -> float:
        digest = hashlib.sha256(f"{seed}\0{prompt.source_item}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    kept = tuple(prompt for prompt in task.prompts if share(prompt) >= held_out)
    other = evenly([prompt for prompt in task.prompts if share(prompt) < held_out], limit)
    if not kept or not other:
        raise CarbError(
            f"The task's {len(task.prompts)} prompts cannot be divided into training and held-out ones; give more "
            f"prompts, or another held_out."
        )
    return TaskPart(task, kept), TaskPart(task, other)


def apart(task: Task, train: TaskPart, limit: int | None) -> TaskPart:
    """A further task without the prompts that share a source item with training.

    Raises:
        CarbError: none is left.
    """
    seen = {prompt.source_item for prompt in train.prompts}
    kept = evenly([prompt for prompt in task.prompts if prompt.source_item not in seen], limit)
    if not kept:
        raise CarbError(f"Every prompt of '{task.name}' asks what is trained on; evaluate on another task.")
    return TaskPart(task, kept)


def sample(config: PolicyConfig, model: str, part: TaskPart, n: int, name: str, report: OnLog) -> SamplePool:
    """Samples of a policy for some prompts, kept in ``out/samples/NAME.jsonl``."""
    options = f"temperature={config.temperature}&max_new_tokens={config.max_new_tokens}&sampling_seed={config.seed}"

    async def draw() -> SamplePool:
        policy = open_policy(f"hf:{model}?{options}")
        try:
            file = config.out / "samples" / f"{name}.jsonl"
            return await collect(
                policy, part, n, file, shots=config.shots, on_samples=lambda d, t: report(name, d, t, "prompts")
            )
        finally:
            await policy.aclose()

    return wait_for(draw)


def evaluate(
    config: PolicyConfig,
    model: str,
    part: TaskPart,
    name: str,
    report: OnLog,
    *,
    scorer: Scorer | None = None,
    start: str | None = None,
) -> tuple[Evaluation, dict[str, float | None]]:
    """Grade, reward, divergence and text statistics of a policy's samples.

    Args:
        config: the configuration of the run.
        model: the policy's folder or hub id.
        part: the prompts to answer, with their references.
        name: the name of the samples' file, also used in reports.
        report: a function that is told about progress.
        scorer: the scorer that gives the reward; null gives none.
        start: the policy from which the divergence is measured; null: none is.

    Returns:
        the evaluation, and each prompt's mean grade.
    """
    pool = sample(config, model, part, config.eval_samples, name, report)
    keys = [key for key, row in pool.samples.items() for _ in row]
    texts = [one.text for row in pool.samples.values() for one in row]
    by_id = {prompt.id: prompt for prompt in part.prompts}
    rewards = () if scorer is None else ScorerReward(scorer, by_id, one_line=part.one_line).rewards(keys, texts)
    by_prompt = {key: mean(row) for key, row in grade_pool(pool, part).items()}
    found = Evaluation(
        prompts=len(part.prompts),
        grade=mean(list(by_prompt.values())),
        reward=mean(rewards),
        kl=None if start is None else _moved(config, model, start, part, pool),
        stats=text_stats(texts, keys, [by_id[key].language for key in keys]),
    )
    return found, by_prompt


def _moved(config: PolicyConfig, model: str, start: str, part: TaskPart, pool: SamplePool) -> float | None:
    from carb_scorers.models.transformers.loading import HFOptions, load

    now, before = (load(name, HFOptions(), "AutoModelForCausalLM") for name in (model, start))
    prompts = policy_prompts(part, shots=config.shots)
    return pool_divergence(now.model, before.model, now.tokenizer, prompts, pool, config.temperature)


def difference(
    before: Mapping[str, float | None],
    after: Mapping[str, float | None],
    part: TaskPart,
    confidence: float = _CONFIDENCE,
) -> GradeChange:
    """What training changed: the mean difference over prompts that were graded both times.

    Interval: ``carb_metrics.paired_difference``, with prompts that share a source item as clusters.

    Args:
        before: each prompt's grade before.
        after: grade of each prompt after training; null where it failed.
        part: the prompts that were answered.
        confidence: level of the interval, between 0 and 1.
    """
    both = [
        (was, now, prompt.source_item)
        for prompt in part.prompts
        if (was := before.get(prompt.id)) is not None and (now := after.get(prompt.id)) is not None
    ]
    early, late, items = [row[0] for row in both], [row[1] for row in both], [row[2] for row in both]
    shares = all(0 <= grade <= 1 for grade in (*early, *late))
    found = paired_difference(late, early, items, confidence, bounded=shares)
    several = len(set(items)) > 1
    return GradeChange(
        value=found.estimate,
        low=found.low if several else None,
        high=found.high if several else None,
        p=found.p if several else None,
        prompts=found.n,
    )


def mean(values: Sequence[Any]) -> float | None:
    """The mean of those that are known; null where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
