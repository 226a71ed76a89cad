"""The samples of a study's policies and their grades, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from carb_cli.output import OutputPart, write
from carb_cli.study.cells import key_of, read_cell, stamp, write_cell
from carb_cli.study.collected import State
from carb_cli.study.config import StudyPolicyConfig
from carb_data import CarbError
from carb_data.tasks import AnswerPair, Judge, Task
from carb_data.waiting import wait_for
from carb_scorers.bon import Policy, SamplePool, collect, judge_from, open_policy, read_pool
from carb_scorers.bon.outcome import grade_pool
from carb_scorers.bon.samples import OtherPoolError

Grades = dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Job:
    """Samples that are wanted of a policy."""

    label: str
    """Name of the file in ``samples/``."""
    what: str
    """Told while they are drawn."""
    task: Task
    n: int


def judge_of(state: State, spec: str) -> Judge:
    """A judge that is loaded when it is first asked; the study closes it."""
    loaded: list[Judge] = []

    def judge(comparisons: Sequence[AnswerPair]) -> Sequence[float | None]:
        if not loaded:
            state.judges.append(state.open(spec))
            loaded.append(judge_from(state.judges[-1], state.config.out / "judgements"))
        return loaded[0](comparisons)

    return judge


def sample(state: State, policy: StudyPolicyConfig) -> None:
    """Pools of a policy and their grades, for every task.

    Raises:
        CarbError: the policy cannot be had, or a pool lacks prompts or samples.
    """
    n = state.config.n
    if policy.samples is not None:
        pools = [read_pool(policy.samples) for _ in state.tasks]
    else:
        jobs = [Job(f"{policy.name}--{name}", f"{policy.name} on {name}", t, n) for name, t in state.tasks.items()]
        pools = draw(state, policy.spec or "", jobs)
    for (name, task), pool in zip(state.tasks.items(), pools, strict=True):
        lacking = [prompt.id for prompt in task.prompts if len(pool.samples.get(prompt.id, ())) < n]
        if lacking:
            raise CarbError(
                f"The samples of policy '{policy.name}' for task '{name}' lack {len(lacking)} of {len(task.prompts)} "
                f"prompts (for example '{lacking[0]}') or have fewer than n = {n} each."
            )
        state.pools[policy.name, name] = pool.first(n)
        state.grades[policy.name, name] = grades_of(state, pool.first(n), name, f"{policy.name}--{name}")


def draw(state: State, spec: str, jobs: Sequence[Job]) -> list[SamplePool]:
    """The pools of a policy, which is opened once, and only where one of them is not complete.

    A pool of another policy or of other prompts (the policy was trained again, the task has changed) is put aside
    as ``NAME.old-….jsonl``.

    Raises:
        CarbError: the policy cannot be had.
    """
    keys = [_key(state, spec, job) for job in jobs]
    files = [state.config.out / "samples" / f"{job.label}.jsonl" for job in jobs]
    pools = {place: read_pool(file) for place, file in enumerate(files) if _is_done(file, keys[place])}

    async def rest() -> None:
        policy = open_policy(spec)
        try:
            for place, job in enumerate(jobs):
                if place not in pools:
                    pools[place] = await _drawn(state, policy, job, files[place])
                    write(files[place].with_suffix(".done"), keys[place] + "\n")
        finally:
            await policy.aclose()

    if len(pools) < len(jobs):
        wait_for(rest)
    return [pools[place] for place in range(len(jobs))]


def _key(state: State, spec: str, job: Job) -> str:
    prompts = [prompt.model_dump() for prompt in job.task.prompts]
    return key_of(policy=stamp(spec), task=job.task.name, prompts=prompts, n=job.n, shots=state.config.shots)


def _is_done(file: Path, key: str) -> bool:
    done = file.with_suffix(".done")
    return file.exists() and done.exists() and done.read_text(encoding="utf-8").strip() == key


async def _drawn(state: State, policy: Policy, job: Job, file: Path) -> SamplePool:
    def told(done: int, total: int) -> None:
        state.report(job.what, done, total, "samples")

    try:
        return await collect(policy, job.task, job.n, file, shots=state.config.shots, on_samples=told)
    except OtherPoolError:
        _put_aside(file)
        return await collect(policy, job.task, job.n, file, shots=state.config.shots, on_samples=told)


def _put_aside(file: Path) -> None:
    file.with_suffix(".done").unlink(missing_ok=True)
    file.replace(file.with_suffix(f".old-{read_pool(file).fingerprint[:12]}.jsonl"))


class _Graded(OutputPart):
    grades: Grades


def grades_of(state: State, pool: SamplePool, name: str, label: str) -> Grades:
    """The grades of a pool; where a judge gives them, they are kept in a cell.

    Args:
        state: the state of the study.
        pool: the samples of the task.
        name: the name of the task.
        label: the label of the cell, for messages.
    """
    task = state.tasks[name]
    judge = next(t.judge for t in state.config.task if t.name == name)
    if judge is None:
        return grade_pool(pool, task)
    path = state.config.out / "cells" / f"grades--{label}.json"
    key = key_of(pool=pool.fingerprint, task=task.name, judge=stamp(judge), version=version("carb-data"))
    found = read_cell(path, key, _Graded)
    if found is None:
        found = _Graded(grades=grade_pool(pool, task))
        write_cell(path, key, found)
    return found.grades
