"""Policies that were optimised against the scorers: what each is worth on prompts that none was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from carb_cli.study.analysis import mean_of
from carb_cli.study.collected import State
from carb_cli.study.config import OptimisedConfig, StudyConfig
from carb_cli.study.result import FailedCell
from carb_cli.study.sampling import Job, draw, grades_of
from carb_data import CarbError
from carb_data.tasks import Task
from carb_data.validation import first_defect
from carb_scorers.bon import SamplePool
from carb_scorers.specs import parse_spec
from tal_rlvr.policy import PolicyResult
from tal_rlvr.policy.evaluating import TaskPart

Runs = Mapping[tuple[str, str], PolicyResult]
"""What ``carb train-policy`` wrote, by name and scorer of the ``[[optimised]]``."""


def read_runs(config: StudyConfig) -> Runs:
    """The finished runs of policy optimisation that a study names.

    Raises:
        CarbError: a folder holds none, or one was optimised against another scorer than the study says.
    """
    found = {}
    specs = {scorer.name: scorer.spec for scorer in config.scorer}
    for entry in config.optimised:
        if entry.run is None:
            continue
        file = entry.run / "policy.json"
        try:
            run = PolicyResult.model_validate_json(file.read_bytes())
        except OSError:
            raise CarbError(f"{entry.run} holds no finished run of `carb train-policy` (no policy.json).") from None
        except ValidationError as error:
            raise CarbError(f"{file} is not a result of `carb train-policy`: {first_defect(error)}.") from None
        if _resolved(run.config.scorer) != _resolved(specs[entry.scorer]):
            raise CarbError(
                f"{entry.run} was optimised against '{run.config.scorer}', and not against scorer '{entry.scorer}' of "
                f"the study, which is '{specs[entry.scorer]}'."
            )
        found[entry.name, entry.scorer] = run
    return found


def _resolved(spec: str) -> tuple[str, str, dict[str, str]]:
    """A spec with its paths in full, so that one scorer is known under several ways of writing it."""

    def full(value: str) -> str:
        path = Path(value).expanduser()
        return str(path.resolve()) if path.exists() else value

    parsed = parse_spec(spec)
    return parsed.kind, full(parsed.target), {key: full(value) for key, value in parsed.options.items()}


def measure(state: State, name: str, runs: Runs) -> None:
    """The policies of one name on every task, and the policy that they started from.

    Prompts that share a source item with what any of them was trained on count for none: all are measured on the
    same prompts, which are new to them. A policy that cannot be had leaves its cells empty and is a failure.
    """
    entries = [entry for entry in state.config.optimised if entry.name == name]
    known = [run for (other, _), run in runs.items() if other == name]
    trained_on = {item for run in known for item in run.train_items}
    counted = {
        key: [prompt.id for prompt in task.prompts if prompt.source_item not in trained_on]
        for key, task in state.tasks.items()
    }
    state.counted.update(((name, key), ids) for key, ids in counted.items())
    for entry in entries:
        tasks = {key: task for key, task in state.tasks.items() if counted[key]}
        for key in state.tasks.keys() - tasks.keys():
            reason = "every prompt shares a source item with training; ask others, for example with without="
            state.failures.append(FailedCell(scorer=entry.scorer, cell=f"{name}/{key}", reason=reason))
        _measure(state, entry, runs.get((name, entry.scorer)), tasks, counted)
    first = next((entry for entry in entries if entry.run is not None), None)
    if first is not None:
        _start(state, first, runs[name, first.scorer], counted)


def _measure(
    state: State,
    entry: OptimisedConfig,
    run: PolicyResult | None,
    tasks: Mapping[str, Task],
    counted: Mapping[str, list[str]],
) -> None:
    label = f"{entry.name}--{entry.scorer}"
    try:
        spec = entry.policy if run is None else greedy(str(((entry.run or Path()) / "model").resolve()), entry, run)
        pools = _pools(state, spec or "", f"optimised--{label}", f"{entry.name} of {entry.scorer}", tasks, run)
    except CarbError as error:
        state.failures += [
            FailedCell(scorer=entry.scorer, cell=f"{entry.name}/{key}", reason=str(error)) for key in tasks
        ]
        return
    for key, task in tasks.items():
        values = _values(state, pools[key], key, f"optimised--{label}--{key}", counted[key])
        items = {prompt.id: prompt.source_item for prompt in task.prompts}
        state.downstream.setdefault(entry.scorer, {})[f"{entry.name}/{key}"] = mean_of(
            list(values.values()),
            [items[place] for place in values],
            state.config.confidence,
            len(counted[key]) - len(values),
        )


def _values(state: State, pool: SamplePool, task: str, cell: str, places: list[str]) -> dict[str, float]:
    """The grade of the one answer to each prompt that has one and could be graded."""
    grades = grades_of(state, pool, task, cell)
    return {
        place: grade
        for place in places
        if pool.samples[place][0].error is None and (grade := grades[place][0]) is not None
    }


def _pools(
    state: State, spec: str, label: str, what: str, tasks: Mapping[str, Task], run: PolicyResult | None
) -> dict[str, SamplePool]:
    """One answer to every prompt but those that the policy was trained on."""
    seen = set() if run is None else set(run.train_items)
    jobs = [
        Job(
            f"{label}--{key}",
            what,
            TaskPart(task, tuple(p for p in task.prompts if p.source_item not in seen)) if seen else task,
            1,
        )
        for key, task in tasks.items()
    ]
    return dict(zip(tasks, draw(state, spec, jobs), strict=True))


def greedy(model: str, entry: OptimisedConfig, run: PolicyResult) -> str:
    """The spec of a policy that answers as a run's would without chance, at the length that its entry allows."""
    return f"hf:{model}?temperature=0&max_new_tokens={entry.max_new_tokens or run.config.max_new_tokens}"


def _start(state: State, entry: OptimisedConfig, run: PolicyResult, counted: Mapping[str, list[str]]) -> None:
    """What the policy was worth before it was optimised; unknown where it is gone."""
    name = entry.name
    tasks = {key: task for key, task in state.tasks.items() if counted[key]}
    try:
        pools = _pools(state, greedy(run.config.policy, entry, run), f"start--{name}", f"{name} before", tasks, run)
    except CarbError as error:
        state.failures += [FailedCell(scorer="none", cell=f"{name}/{key} before", reason=str(error)) for key in tasks]
        return
    for key in tasks:
        values = _values(state, pools[key], key, f"start--{name}--{key}", counted[key])
        state.start[name, key] = sum(values.values()) / len(values) if values else None
