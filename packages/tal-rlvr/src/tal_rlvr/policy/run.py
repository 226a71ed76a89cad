"""A whole run: evaluate, optimise, evaluate again, and say what moved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict

from carb_data import CarbError
from carb_data.extras import require
from carb_data.tasks import Task, TaskPrompt, open_task
from carb_data.tasks.base import evenly
from carb_scorers import Scorer, open_scorer
from carb_scorers.bon import SamplePool, collect, judge_from, open_policy
from carb_scorers.bon.outcome import grade_pool
from tal_rlvr.policy.alarms import Alarm, TextStats, alarms, overoptimised, text_stats
from tal_rlvr.policy.config import PolicyConfig
from tal_rlvr.policy.rewards import ScorerReward

RESULT = "policy.json"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evaluation(_Frozen):
    """A policy on the held-out prompts, ``eval_samples`` samples each."""

    prompts: int
    grade: float | None
    """Mean grade of the task; null where nothing could be graded."""
    reward: float | None
    """Mean score by the scorer that it is optimised against."""
    stats: TextStats


class CurvePoint(_Frozen):
    """One logged step."""

    step: int
    reward: float | None = None
    """Mean reward of the step's samples (GRPO), or the mean margin of implicit rewards (DPO)."""
    reward_sd: float | None = None
    kl: float | None = None
    """Nats per token from the policy before training, as TRL estimates it; null for DPO."""
    loss: float | None = None
    stats: TextStats | None = None
    """Of the step's samples; null for DPO, which trains on samples drawn before."""


class PolicyResult(_Frozen):
    """What a run did; written as ``policy.json``."""

    model: str
    """Folder of the optimised policy."""
    config: PolicyConfig
    train_prompts: int
    pairs: int | None
    """Preference pairs; null for GRPO."""
    before: Evaluation
    after: Evaluation
    curve: tuple[CurvePoint, ...]
    alarms: tuple[Alarm, ...]
    unscored: int
    """Samples that the scorer could not score; they took no part in updates."""


OnLog = Callable[[str, int, int, str], None]
"""``(what, done, total, detail)``."""


class Part:
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


def divide(task: Task, held_out: float, limit: int | None, seed: int) -> tuple[Part, Part]:
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
    return Part(task, kept), Part(task, other)


def train_policy(config: PolicyConfig, on_log: OnLog | None = None) -> PolicyResult:
    """Optimise a policy against a scorer; the model, samples and ``policy.json`` go into ``config.out``.

    Raises:
        CarbError: a spec is wrong, a model is missing, or no prompt gives a preference (DPO).
        MissingExtraError: TRL is not installed.
    """
    require("trl", package="tal-rlvr", extra="train")
    report = on_log or (lambda *_: None)
    if (config.out / RESULT).exists():
        raise CarbError(f"{config.out} holds a finished run; choose another --out.")
    scorer = open_scorer(config.scorer)
    try:
        judge = None if config.judge is None else judge_from(open_scorer(config.judge), config.out / "judgements")
        task = open_task(config.task, judge=judge)
        train, held_out = divide(task, config.held_out, config.eval_limit, config.seed)
        before = evaluate(config, config.policy, held_out, scorer, "before", report)
        model, pairs, curve, unscored = _optimise(config, train, scorer, report)
        after = evaluate(config, str(model), held_out, scorer, "after", report)
    finally:
        anyio.run(scorer.aclose)
    rung = [
        a for point in curve if point.stats for a in alarms(before.stats, point.stats, config.limits, step=point.step)
    ]
    rung = first_of_each(rung)
    rung += alarms(before.stats, after.stats, config.limits)
    over = overoptimised((before.reward, after.reward), (before.grade, after.grade))
    result = PolicyResult(
        model=str(model),
        config=config,
        train_prompts=len(train.prompts),
        pairs=pairs,
        before=before,
        after=after,
        curve=tuple(curve),
        alarms=(*rung, *([over] if over else [])),
        unscored=unscored,
    )
    (config.out / RESULT).write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return result


def _optimise(
    config: PolicyConfig, train: Part, scorer: Scorer, report: OnLog
) -> tuple[Path, int | None, list[CurvePoint], int]:
    from tal_rlvr.policy import dpo, grpo

    if config.method == "grpo":
        model, curve, unscored = grpo.optimise(config, train, scorer, report)
        return model, None, curve, unscored
    return dpo.optimise(config, train, scorer, report)


def first_of_each(found: Sequence[Alarm]) -> list[Alarm]:
    """The first alarm of each kind: that it goes on ringing says nothing new."""
    first: dict[str, Alarm] = {}
    for alarm in found:
        first.setdefault(alarm.kind, alarm)
    return list(first.values())


def sample(config: PolicyConfig, model: str, part: Part, n: int, name: str, report: OnLog) -> SamplePool:
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

    return anyio.run(draw)


def evaluate(config: PolicyConfig, model: str, part: Part, scorer: Scorer, name: str, report: OnLog) -> Evaluation:
    """Grade, reward and text statistics of a policy's samples on held-out prompts."""
    pool = sample(config, model, part, config.eval_samples, name, report)
    keys = [key for key, row in pool.samples.items() for _ in row]
    texts = [one.text for row in pool.samples.values() for one in row]
    by_id: Mapping[str, TaskPrompt] = {prompt.id: prompt for prompt in part.prompts}
    rewards = ScorerReward(scorer, by_id, one_line=part.one_line).rewards(keys, texts)
    grades = [grade for row in grade_pool(pool, part).values() for grade in row]
    return Evaluation(
        prompts=len(part.prompts),
        grade=_mean(grades),
        reward=_mean(rewards),
        stats=text_stats(texts, keys, [by_id[key].language for key in keys]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
