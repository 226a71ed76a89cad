"""How scorers are fed: windows, requests in flight, and what becomes of a failure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from time import monotonic
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint
from pydantic import ValidationError

from carb_data import CarbError, first_defect
from carb_scorers.blind import Asked, checked, made
from carb_scorers.scorer import (
    Results,
    Scorer,
    ScoreRequest,
    ScoreResult,
    failed,
)

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


@dataclass(frozen=True)
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
) -> None:
    """Score requests and hand over the results as they come, each exactly once, in any order.

    A scorer with ``spec.in_flight`` gets its requests one by one, that many at a time, any other in
    ``windows`` (null: those that go by time). Scores from before an interruption are handed over
    before it goes on. A request about a blinded set is made when its turn comes.

    Raises:
        CarbError: the scorer met a user's mistake, the window is below 1, or ``on_results`` raised
            it.
    """
    if window is not None and window < 1:
        raise CarbError(
            f"window is the number of requests handed over at once, at least 1, got {window}."
        )
    if scorer.spec.in_flight is not None:
        await _score_each(scorer, requests, on_results, scorer.spec.in_flight)
        return
    for part in windows(requests, window):
        on_results(await score_window(scorer, [*map(made, part)]))


async def _score_each(
    scorer: Scorer,
    requests: Sequence[Asked],
    on_results: OnResults,
    in_flight: int,
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
