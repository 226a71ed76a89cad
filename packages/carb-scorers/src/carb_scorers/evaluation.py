"""The whole road in one call: hide the labels, score, join the labels back."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from pathlib import Path
from time import monotonic
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint
from pydantic import ValidationError

from carb_data import BonSet, CarbError, Dataset, ScoreTable, first_defect, load
from carb_scorers.blind import Asked, Blinded, blind, checked, made, unblind
from carb_scorers.scorer import (
    Results,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    failed,
    told_culture,
)
from carb_scorers.spec import check_given, using
from carb_scorers.waiting import wait_for

__all__ = ["WINDOW", "Progress", "score_all"]

WINDOW = 64
"""Requests handed to a scorer at once: enough to sort by length."""
SECONDS = 5.0
"""Longest time of a window, estimated from the last one. It may be twice as hard, and ten seconds
are lost by a kill."""
_STEP = 4
"""How many times larger or smaller the next window may be: few sizes, so that those of a fast
scorer do not vary."""

_T = TypeVar("_T")
_MESSAGE = 2000
"""Characters of a foreign error message that are kept."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one scorer has come."""

    scorer: str
    """Name of the scorer."""
    done: int
    """Requests with a result."""
    total: int
    """All requests."""
    errors: int
    """Requests of which at least one response has no score."""
    tokens: int
    """Tokens read and written."""


OnProgress = Callable[[Progress], None]
OnResults = Callable[[Results], None]


async def score_window(scorer: Scorer, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
    """Score some requests; whatever goes wrong becomes error rows.

    When a scorer raises, it is asked for each request alone, so that one bad item does not cost its
    neighbours their scores. A user's mistake (``CarbError``) is passed on, since it would fail
    every item alike.
    """
    try:
        coming = scorer.score(requests)
        if not isawaitable(coming):
            raise CarbError(
                f"The method score of '{scorer.spec.name}' is not asynchronous: write "
                "'async def score'."
            )
        results = await coming
        if len(results) != len(requests):
            message = f"the scorer gave {len(results)} results for {len(requests)} requests"
            return [failed(request, "contract", message) for request in requests]
        return [
            checked(r, result, comparative=scorer.spec.comparative)
            for r, result in zip(requests, results, strict=True)
        ]
    except CarbError:
        raise
    except (
        Exception
    ) as error:  # any failure of a third party's scorer is a row, not the end of the run
        if len(requests) == 1:
            kind = type(error).__name__
            message = str(error)
            if isinstance(error, ValidationError):
                message = first_defect(error)
            return [failed(requests[0], kind, message[:_MESSAGE])]
        return [(await score_window(scorer, [request]))[0] for request in requests]


def next_size(size: int, took: float, seconds: float, largest: int) -> int:
    """How many things to do at once, by how long as many as ``size`` took."""
    if took > seconds:
        return max(1, size // _STEP)
    if took * _STEP <= seconds:
        return min(largest, size * _STEP)
    return size


def windows(
    things: Sequence[_T],
    size: int | None = None,
    *,
    largest: int = WINDOW,
    clock: Callable[[], float] = monotonic,
) -> Iterator[Sequence[_T]]:
    """Cut work into parts; each part is done before the next is cut.

    Without a size a part takes about five seconds, judged by the part before. A kill then costs at
    most ten seconds of work, unless one thing takes longer.
    """
    start = 0
    now = size or 1
    while start < len(things):
        began = clock()
        yield things[start : start + now]
        took = clock() - began
        start += now
        if size is None:
            now = next_size(now, took, SECONDS, largest)


async def score_all(
    scorer: Scorer,
    requests: Sequence[Asked],
    on_results: OnResults,
    *,
    window: int | None = WINDOW,
    on_asked: Callable[[int], None] = lambda _: None,
) -> None:
    """Score requests and hand over the results as they come, each exactly once, in any order.

    A scorer with ``spec.in_flight`` gets its requests one by one, that many at a time, any other in
    ``windows`` (null: those that go by time). Scores from before an interruption are handed over
    before it goes on. A request about a blinded set is made when its turn comes. ``on_asked`` is
    given the number of requests before each call of the scorer.

    Raises:
        CarbError: the scorer met a user's mistake, the window is below 1, or ``on_results`` raised
            it.
    """
    if window is not None and window < 1:
        raise CarbError(
            f"window is the number of requests handed over at once, at least 1, got {window}."
        )
    if scorer.spec.in_flight is not None:
        await _score_each(scorer, requests, on_results, scorer.spec.in_flight, on_asked)
        return
    for part in windows(requests, window):
        on_asked(len(part))
        on_results(await score_window(scorer, [*map(made, part)]))


async def _score_each(
    scorer: Scorer,
    requests: Sequence[Asked],
    on_results: OnResults,
    in_flight: int,
    on_asked: Callable[[int], None],
) -> None:
    """One request a call, several calls at a time; whatever has come in is handed over together."""
    waiting = iter(requests)  # shared by all workers
    ready: list[ScoreResult] = []

    def hand_over() -> None:
        if ready:
            results = ready[:]
            ready.clear()
            on_results(results)

    async def work() -> None:
        for request in waiting:
            on_asked(1)
            ready.extend(await score_window(scorer, [made(request)]))
            await checkpoint()  # whoever else is done adds a result meanwhile
            hand_over()

    try:
        async with anyio.create_task_group() as workers:
            for _ in range(min(in_flight, len(requests))):
                workers.start_soon(work)
    except* Exception as errors:
        raise errors.exceptions[0] from None
    finally:
        hand_over()


def requests_for(dataset: Dataset, spec: ScorerSpec, seed: int) -> list[Blinded]:
    """All requests that score a data set, labels hidden, in the order of the data set."""
    told = told_culture(spec)
    return [
        blinded
        for item in dataset
        for blinded in blind(item, seed=seed, comparative=spec.comparative, told=told)
    ]


class ProgressCounter:
    """Counts results and reports progress."""

    def __init__(self, scorer: str, total: int, on_progress: OnProgress | None) -> None:
        self._scorer = scorer
        self._total = total
        self._on_progress = on_progress
        self._done = self._errors = self._tokens = 0

    def add(self, results: Iterable[ScoreResult], *, spent: bool = True) -> None:
        """Count results; ``spent=False`` for those known from before, whose tokens were counted
        then."""
        for result in results:
            self._done += 1
            self._errors += not result.complete
            if spent and result.usage is not None:
                self._tokens += result.usage.input_tokens + result.usage.output_tokens
        if self._on_progress is not None:
            self._on_progress(
                Progress(self._scorer, self._done, self._total, self._errors, self._tokens)
            )


async def results_of(
    scorer: Scorer, requests: Sequence[Asked], on_progress: OnProgress | None = None
) -> dict[str, ScoreResult]:
    """The results by the id of their request.

    Raises:
        CarbError: as ``score_all``.
    """
    tally = ProgressCounter(scorer.spec.name, len(requests), on_progress)
    results: dict[str, ScoreResult] = {}

    def keep(part: Results) -> None:
        results.update((result.request_id, result) for result in part)
        tally.add(part)

    await score_all(scorer, requests, keep)
    return results


Sets = Dataset | Iterable[BonSet] | str | Path
"""A data set, a list of sets, or the name or path of a data set as ``carb_data.load`` takes it."""
_polars_began: set[int] = set()
"""Processes, by id, whose polars has threads. A forked process inherits the set, not the threads,
and would wait for them for ever."""


async def evaluate_async(
    dataset: Sets,
    scorers: Sequence[Scorer | str] | Scorer | str,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """Do what ``evaluate`` does, for callers that have an event loop already (asyncio or trio).

    Arguments, result and errors are those of ``evaluate``.
    """
    _refuse_a_fork()
    sets = _dataset(dataset)
    given = _list(scorers)
    names: set[str] = set()
    tables: list[ScoreTable] = []
    failures: list[str] = []
    for one in given:
        async with using(one) as scorer:
            name = scorer.spec.name
            if name in names:
                raise CarbError(f"Two scorers are named '{name}'; give each a name of its own.")
            names.add(name)
            table, failure = await _evaluate_one(sets, scorer, seed, on_progress)
        tables.append(table)
        if failure is not None:
            failures.append(failure)
    whole = ScoreTable.concat(tables)
    if failures and whole.frame["score"].null_count() == len(whole.frame):
        raise CarbError("\n".join(failures))
    for failure in failures:
        warnings.warn(failure, stacklevel=2)
    return whole.with_items(sets)


async def _evaluate_one(
    dataset: Dataset, scorer: Scorer, seed: int, on_progress: OnProgress | None
) -> tuple[ScoreTable, str | None]:
    """The scores, and a sentence about missing ones."""
    blinded = requests_for(dataset, scorer.spec, seed)
    results = await results_of(scorer, blinded, on_progress)
    outcomes = [(one, results[one.request_id]) for one in blinded]
    table = unblind(dataset, scorer.spec.name, outcomes)
    return table, _failure(scorer.spec.name, list(results.values()))


def _failure(name: str, results: Results) -> str | None:
    """How many requests lack a score, and the most frequent reasons."""
    incomplete = [result for result in results if not result.complete]
    if not incomplete:
        return None
    reasons: Counter[str] = Counter()
    for result in incomplete:
        error = result.error or next(iter(result.errors.values()))
        reasons[f"{error.kind}: {error.message}"] += 1
    told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
    return f"'{name}' did not score {len(incomplete)} of {len(results)} requests: {told}."


def _dataset(given: Sets) -> Dataset:
    if isinstance(given, Dataset):
        return given
    if isinstance(given, str | Path):
        return load(given)
    if not isinstance(given, Iterable):
        kind = type(given).__name__
        raise CarbError(f"evaluate takes a Dataset or its name first, then scorers; got a {kind}.")
    return Dataset(given)


def _list(scorers: Sequence[Scorer | str] | Scorer | str) -> Sequence[Scorer | str]:
    if isinstance(scorers, str) or not isinstance(scorers, Sequence):
        scorers = [scorers]
    for one in scorers:
        check_given(one)
    return scorers


def _refuse_a_fork() -> None:
    if _polars_began and os.getpid() not in _polars_began:
        raise CarbError(
            "This process was forked from one that evaluated, and would hang: polars' threads are "
            "not forked. Start it with multiprocessing.get_context('spawn')."
        )
    _polars_began.add(os.getpid())


def evaluate(
    dataset: Sets,
    scorers: Sequence[Scorer | str] | Scorer | str,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> ScoreTable:
    """Score every response of a data set with every scorer.

    The labels are hidden, candidates are put into a seeded random order under opaque ids, scored,
    and the labels are joined back. It may be called where an event loop runs, as in a notebook.

    Args:
        dataset: the sets to score: a ``Dataset``, a list of sets, or a name or path for ``load``.
        scorers: spec strings (opened and closed here) or ``Scorer`` objects (left open); a list of
            them, or one.
        seed: seed of the order in which candidates are presented.
        on_progress: the function that is called after each window.

    Returns:
        A row per scorer and response, perturbed ones included. ``score`` is on the scorer's own
        scale, higher being better. It is null where scoring failed, and a warning gives the
        reasons. The table has the columns of ``with_items``, so that main
        sets and mirrors differ as in the command.

    Raises:
        CarbError: a spec is wrong, an argument is no scorer or no data set, or a model or extra is
            missing. Or two scorers share a name, or nothing could be scored.
    """
    return wait_for(partial(evaluate_async, dataset, scorers, seed=seed, on_progress=on_progress))
