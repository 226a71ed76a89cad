"""Running a study: samples, scores and grades, each cell once; then the analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from carb_cli.output import write
from carb_cli.study.analysis import mean_of
from carb_cli.study.benchmarks import Report, benchmark_score, dataset_of
from carb_cli.study.cells import key_of, read_cell, stamp, write_cell
from carb_cli.study.collected import Opener, State, result_of
from carb_cli.study.config import ScorerConfig, read_study
from carb_cli.study.figures import draw, write_tables
from carb_cli.study.optimised import measure, read_runs
from carb_cli.study.result import FailedCell, StudyResult
from carb_cli.study.sampling import judge_of, sample
from carb_data import CarbError
from carb_data.tasks import open_task
from carb_data.waiting import wait_for
from carb_scorers import Scorer, open_scorer
from carb_scorers.bon import BonResult, bon_curve, score_pool


def run_study(path: Path, *, open_with: Opener = open_scorer, report: Report | None = None) -> StudyResult:
    """Run or resume the study of a file; what is there already is read, not computed again.

    Writes into the study's folder: ``samples/`` (pools, shared by all scorers), ``runs/`` and ``scores/`` (what
    scorers said), ``cells/`` (Best-of-N results), ``asked/`` (each task's source items, to be left out of training),
    and at the end ``study.json``, ``table.csv``, ``curves.csv``, ``points-*.csv`` (in the form that ``carb validity
    FILE`` reads) and ``figures/``.

    A scorer that cannot be opened or fails leaves its cells empty and is listed in ``failures``; the others go on. It
    may be called where an event loop runs, as in a notebook.

    Args:
        path: the file ``study.toml``.
        open_with: the function that opens a scorer from its spec; tests give another one.
        report: a function that is told about progress; null means none.

    Raises:
        CarbError: the file is wrong, or a task, a policy or a benchmark cannot be had.
    """
    config = read_study(path)
    state = State(config, open_with, report or (lambda *_: None))
    runs = read_runs(config)
    try:
        for task in config.task:
            judge = None if task.judge is None else judge_of(state, task.judge)
            opened = open_task(task.spec, judge=judge)
            state.tasks[task.name] = opened
            items = dict.fromkeys(prompt.source_item for prompt in opened.prompts)
            write(config.out / "asked" / f"{task.name}.txt", "".join(f"{item}\n" for item in items))
        for benchmark in config.benchmark:
            if benchmark.data:
                state.data[benchmark.name] = dataset_of(benchmark)
        for policy in config.policy:
            sample(state, policy)
        for scorer in config.scorer:
            _score(state, scorer)
        for name in dict.fromkeys(entry.name for entry in config.optimised):
            measure(state, name, runs)
    finally:
        for judging in state.judges:
            wait_for(judging.aclose)
    result = result_of(state)
    write_tables(config.out, result)
    result = result.model_copy(update={"figures": draw(config.out, result)})
    write(config.out / "study.json", result.model_dump_json(indent=1) + "\n")
    return result


def _score(state: State, scorer: ScorerConfig) -> None:
    """All cells of one scorer; it is opened once, and only where a cell is missing."""
    with _lazily(state, scorer) as opened:
        for benchmark in state.config.benchmark:
            cell = f"benchmark {benchmark.name}"
            try:
                dataset = state.data.get(benchmark.name)
                found = benchmark_score(state.config, scorer, benchmark, dataset, opened, state.report)
            except CarbError as error:
                state.failures.append(FailedCell(scorer=scorer.name, cell=cell, reason=str(error)))
                continue
            if found is not None:
                state.benchmarks.setdefault(scorer.name, {})[benchmark.name] = found
        for policy, task in state.pools:
            outcome = f"bon/{policy}/{task}"
            try:
                result = _bon(state, scorer, policy, task, opened)
            except CarbError as error:
                state.failures.append(FailedCell(scorer=scorer.name, cell=outcome, reason=str(error)))
                continue
            state.bon.setdefault(scorer.name, {})[outcome] = result
            lost = result.errors + result.short + result.ungraded
            state.downstream.setdefault(scorer.name, {})[outcome] = mean_of(
                [p.picked[-1] for p in result.prompts],
                [p.source_item for p in result.prompts],
                state.config.confidence,
                lost,
            )


@contextmanager
def _lazily(state: State, scorer: ScorerConfig) -> Iterator[Callable[[], Scorer]]:
    opened: list[Scorer] = []
    broken: list[CarbError] = []

    def get() -> Scorer:
        if broken:
            raise broken[0]
        if not opened:
            try:
                opened.append(state.open(scorer.spec))
            except CarbError as error:
                broken.append(error)
                raise
        return opened[0]

    try:
        yield get
    finally:
        for one in opened:
            wait_for(one.aclose)


def _bon(state: State, scorer: ScorerConfig, policy: str, task: str, opened: Callable[[], Scorer]) -> BonResult:
    config = state.config
    pool, asked = state.pools[policy, task], state.tasks[task]
    grades = state.grades[policy, task]
    path = config.out / "cells" / f"bon--{policy}--{task}--{scorer.name}.json"
    key = key_of(
        scorer=stamp(scorer.spec),
        pool=pool.fingerprint,
        grades=grades,
        seed=config.seed,
        version=version("carb-scorers"),
    )
    found = read_cell(path, key, BonResult)
    if found is not None:
        return found
    what = f"{scorer.name} picks of {policy}"
    one = opened()
    folder = config.out / "scores" / f"{policy}--{task}" / key[:16]

    async def score() -> BonResult:
        scores = await score_pool(
            pool,
            asked,
            one,
            folder,
            seed=config.seed,
            on_progress=lambda p: state.report(what, p.done, p.total, f"{p.errors} errors"),
        )
        return bon_curve(pool, asked, scores, grades)

    found = wait_for(score)
    write_cell(path, key, found)
    return found
