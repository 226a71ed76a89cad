"""Running a study: samples, scores and grades, each cell once; then the analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import anyio

from carb_cli.output import Part, write
from carb_cli.study.analysis import mean_of
from carb_cli.study.benchmarks import Report, benchmark_score, dataset_of
from carb_cli.study.cells import key_of, read_cell, stamp, write_cell
from carb_cli.study.collected import Opener, State, result_of
from carb_cli.study.config import OptimisedConfig, PolicyConfig, ScorerConfig, read_study
from carb_cli.study.figures import draw, write_tables
from carb_cli.study.result import Failure, StudyResult
from carb_data import CarbError
from carb_data.tasks import Comparison, Judge, Task, open_task
from carb_scorers import Scorer, open_scorer
from carb_scorers.bon import BonResult, SamplePool, best_of_n, collect, judge_from, open_policy, read_pool, score_pool
from carb_scorers.bon.outcome import grade_pool


def run_study(path: Path, *, open_with: Opener = open_scorer, report: Report | None = None) -> StudyResult:
    """Run or resume the study of a file; what is there already is read, not computed again.

    Writes into the study's folder: ``samples/`` (pools, shared by all scorers), ``runs/`` and ``scores/`` (what
    scorers said), ``cells/`` (Best-of-N results), and at the end ``study.json``, ``table.csv``, ``curves.csv``,
    ``points-*.csv`` (in the form that ``carb validity FILE`` reads) and ``figures/``.

    A scorer that cannot be opened or fails leaves its cells empty and is listed in ``failures``; the others go on.

    Args:
        path: ``study.toml``.
        open_with: opens scorers; for tests.
        report: told about progress.

    Raises:
        CarbError: the file is wrong, or a task, a policy or a benchmark cannot be had.
    """
    config = read_study(path)
    state = State(config, open_with, report or (lambda *_: None))
    for task in config.task:
        judge = None if task.judge is None else _judge(state, task.judge)
        state.tasks[task.name] = open_task(task.spec, judge=judge)
    for benchmark in config.benchmark:
        if benchmark.data:
            state.data[benchmark.name] = dataset_of(benchmark)
    for policy in config.policy:
        _sample(state, policy)
    for scorer in config.scorer:
        _score(state, scorer)
    for optimised in config.optimised:
        _optimised(state, optimised)
    result = result_of(state)
    write_tables(config.out, result)
    result = result.model_copy(update={"figures": draw(config.out, result)})
    write(config.out / "study.json", result.model_dump_json(indent=1) + "\n")
    return result


def _judge(state: State, spec: str) -> Judge:
    """A judge that is loaded when it is first asked."""
    loaded: list[Judge] = []

    def judge(comparisons: Sequence[Comparison]) -> Sequence[float | None]:
        if not loaded:
            loaded.append(judge_from(state.open(spec), state.config.out / "judgements"))
        return loaded[0](comparisons)

    return judge


def _sample(state: State, policy: PolicyConfig) -> None:
    """Pools and their grades, for every task."""
    config = state.config
    for name, task in state.tasks.items():
        pair = policy.name, name
        if policy.samples is not None:
            pool = read_pool(policy.samples)
        else:
            assert policy.spec is not None
            file = config.out / "samples" / f"{policy.name}--{name}.jsonl"
            pool = _collect(state, policy.spec, task, config.n, file, f"{policy.name} on {name}")
        lacking = [prompt.id for prompt in task.prompts if len(pool.samples.get(prompt.id, ())) < config.n]
        if lacking:
            raise CarbError(
                f"The samples of policy '{policy.name}' for task '{name}' lack {len(lacking)} of {len(task.prompts)} "
                f"prompts (for example '{lacking[0]}') or have fewer than n = {config.n} each."
            )
        state.pools[pair] = pool.first(config.n)
        state.grades[pair] = _grades(state, state.pools[pair], task, name, f"{policy.name}--{name}")


def _collect(state: State, spec: str, task: Task, n: int, file: Path, what: str) -> SamplePool:
    shots = state.config.shots
    key = key_of(policy=stamp(spec), task=task.name, prompts=[p.model_dump() for p in task.prompts], n=n, shots=shots)
    done = file.with_suffix(".done")
    if file.exists() and done.exists() and done.read_text(encoding="utf-8").strip() == key:
        return read_pool(file)

    async def draw() -> SamplePool:
        policy = open_policy(spec)
        try:
            return await collect(
                policy, task, n, file, shots=shots, on_samples=lambda d, t: state.report(what, d, t, "samples")
            )
        finally:
            await policy.aclose()

    pool = anyio.run(draw)
    write(done, key + "\n")
    return pool


class _Graded(Part):
    grades: dict[str, tuple[float | None, ...]]


def _grades(state: State, pool: SamplePool, task: Task, name: str, label: str) -> dict[str, tuple[float | None, ...]]:
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


def _score(state: State, scorer: ScorerConfig) -> None:
    """All cells of one scorer; it is opened once, and only where a cell is missing."""
    with _lazily(state, scorer) as opened:
        for benchmark in state.config.benchmark:
            cell = f"benchmark {benchmark.name}"
            try:
                dataset = state.data.get(benchmark.name)
                found = benchmark_score(state.config, scorer, benchmark, dataset, opened, state.report)
            except CarbError as error:
                state.failures.append(Failure(scorer=scorer.name, cell=cell, reason=str(error)))
                continue
            if found is not None:
                state.benchmarks.setdefault(scorer.name, {})[benchmark.name] = found
        for policy, task in state.pools:
            outcome = f"bon/{policy}/{task}"
            try:
                result = _bon(state, scorer, policy, task, opened)
            except CarbError as error:
                state.failures.append(Failure(scorer=scorer.name, cell=outcome, reason=str(error)))
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
            anyio.run(one.aclose)


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
        return best_of_n(pool, asked, scores, grades)

    found = anyio.run(score)
    write_cell(path, key, found)
    return found


def _optimised(state: State, optimised: OptimisedConfig) -> None:
    for name, task in state.tasks.items():
        outcome = f"{optimised.name}/{name}"
        label = f"{optimised.name}--{optimised.scorer}--{name}"
        what = f"{optimised.name} of {optimised.scorer}"
        file = state.config.out / "samples" / f"optimised--{label}.jsonl"
        try:
            pool = _collect(state, optimised.policy, task, 1, file, what)
        except CarbError as error:
            state.failures.append(Failure(scorer=optimised.scorer, cell=outcome, reason=str(error)))
            continue
        grades = _grades(state, pool, task, name, f"optimised--{label}")
        kept = [
            (grade, prompt.source_item)
            for prompt in task.prompts
            if pool.samples[prompt.id][0].error is None and (grade := grades[prompt.id][0]) is not None
        ]
        state.downstream.setdefault(optimised.scorer, {})[outcome] = mean_of(
            [grade for grade, _ in kept],
            [item for _, item in kept],
            state.config.confidence,
            len(task.prompts) - len(kept),
        )
