"""What a study has found so far, and the result that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from carb_cli.study.analysis import predictions
from carb_cli.study.benchmarks import Report
from carb_cli.study.config import StudyConfig
from carb_cli.study.result import FailedCell, Measured, ScorerRow, StudyOutcome, StudyResult
from carb_data import Dataset
from carb_data.tasks import Task
from carb_scorers import Scorer
from carb_scorers.bon import BonResult, SamplePool

Opener = Callable[[str], Scorer]


@dataclass
class State:
    """What has been found so far."""

    config: StudyConfig
    open: Opener
    report: Report
    tasks: dict[str, Task] = field(default_factory=dict)
    data: dict[str, Dataset] = field(default_factory=dict)
    pools: dict[tuple[str, str], SamplePool] = field(default_factory=dict)
    grades: dict[tuple[str, str], dict[str, tuple[float | None, ...]]] = field(default_factory=dict)
    benchmarks: dict[str, dict[str, Measured]] = field(default_factory=dict)
    """Scores by scorer, then by benchmark."""
    downstream: dict[str, dict[str, Measured]] = field(default_factory=dict)
    bon: dict[str, dict[str, BonResult]] = field(default_factory=dict)
    counted: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Prompts on which optimised policies are measured, by their name and task."""
    start: dict[tuple[str, str], float | None] = field(default_factory=dict)
    """What the policy was worth before it was optimised, by name and task."""
    judges: list[Scorer] = field(default_factory=list)
    failures: list[FailedCell] = field(default_factory=list)


def result_of(state: State) -> StudyResult:
    """Table, correlations and failures."""
    config = state.config
    rows = tuple(
        ScorerRow(
            name=scorer.name,
            spec=scorer.spec,
            benchmarks=state.benchmarks.get(scorer.name, {}),
            downstream=state.downstream.get(scorer.name, {}),
            curves={key: result.curve for key, result in state.bon.get(scorer.name, {}).items()},
        )
        for scorer in config.scorer
    )
    outcomes = (*_bon_outcomes(state), *_optimised_outcomes(state))
    benchmarks = tuple(benchmark.name for benchmark in config.benchmark)
    found = predictions(rows, [outcome.id for outcome in outcomes], config)
    return StudyResult(
        out=str(config.out),
        confidence=config.confidence,
        primary=config.main,
        benchmarks=benchmarks,
        outcomes=outcomes,
        scorers=rows,
        predictions=found,
        failures=tuple(state.failures),
    )


def _bon_outcomes(state: State) -> list[StudyOutcome]:
    found = []
    for (policy, task), pool in state.pools.items():
        grades = state.grades[policy, task]
        rows = [
            [grade for grade in grades[key] if grade is not None]
            for key, row in pool.samples.items()
            if all(sample.error is None for sample in row) and all(grade is not None for grade in grades[key])
        ]
        found.append(
            StudyOutcome(
                id=f"bon/{policy}/{task}",
                kind="bon",
                policy=policy,
                task=task,
                prompts=len(rows),
                n=state.config.n,
                random=sum(sum(r) / len(r) for r in rows) / len(rows) if rows else None,
                best=sum(max(r) for r in rows) / len(rows) if rows else None,
            )
        )
    return found


def _optimised_outcomes(state: State) -> list[StudyOutcome]:
    names: Sequence[str] = tuple(dict.fromkeys(entry.name for entry in state.config.optimised))
    return [
        StudyOutcome(
            id=f"{name}/{task}",
            kind="optimised",
            policy=name,
            task=task,
            prompts=len(state.counted[name, task]),
            n=1,
            random=None,
            best=None,
            start=state.start.get((name, task)),
        )
        for name in names
        for task in state.tasks
    ]
