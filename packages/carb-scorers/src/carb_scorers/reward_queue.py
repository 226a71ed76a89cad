"""The queue of the reward server: each call is scored in parts, in turn, and has its own clock."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

import anyio
from anyio.lowlevel import checkpoint

from carb_data import CarbError
from carb_scorers.evaluation import next_size, score_window
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.texts import (
    UNANSWERED,
    About,
    Key,
    Scored,
    Text,
    grouped,
    request_about,
    scores_of,
)

PART = 16
"""Most responses that a request has where the scorer rates each alone."""
AT_ONCE = 256
"""Most responses that one call of the scorer gets."""
_SECONDS = 2.0
"""How long a call of the scorer should take, by how long the one before took."""
_TOGETHER = 0.125
"""The share of a call's time for a window of several requests."""
_ALONE = 0.5
"""The share for a window of one."""
_numbers = count()


@dataclass(eq=False)
class Part:
    """One request of a call."""

    call: "Call"
    request: ScoreRequest
    asked: About
    cuts: int = 0
    """How often it was under way when the time of its window ended."""
    answered: bool = False


@dataclass(eq=False)
class Call:
    """The responses of one HTTP request."""

    keys: Sequence[Key]
    waiting: deque[Part] = field(default_factory=deque)
    open_parts: int = 0
    known: dict[Key, Scored] = field(default_factory=dict)
    done: anyio.Event = field(default_factory=anyio.Event)
    reason: str = ""
    """Why the scorer refused the whole call; empty where it did not."""
    given_up: bool = False

    def scored(self) -> list[Scored | None]:
        """The score of each response; null where none has arrived."""
        return [self.known.get(key) for key in self.keys]

    def take(self, part: Part, result: ScoreResult) -> None:
        """Keep the result of a part."""
        for text, scored in scores_of(part.request, result):
            self.known[part.asked, text] = scored
        part.answered = True
        self.open_parts -= 1
        if not self.open_parts:
            self.done.set()

    def refuse(self, reason: str) -> None:
        """End the call with a reason; who waits for it takes it out of the queue."""
        self.reason = reason
        self.done.set()


def make_call(texts: Sequence[Text], spec: ScorerSpec) -> Call:
    """Cut responses into requests, each distinct text once.

    A scorer that compares gets all responses to a prompt in one request. Any other gets few, so
    that a call which is given up ends soon; a server gets each alone.
    """
    size = PART
    if (spec.in_flight or 1) > 1:
        size = 1
    keys = [text.key for text in texts]
    call = Call(keys, known={key: UNANSWERED for key in keys if key[1] is None})
    for asked, responses in grouped(keys).items():
        step = size
        if spec.comparative:
            step = len(responses)
        for start in range(0, len(responses), step):
            chosen = responses[start : start + step]
            request = request_about(str(next(_numbers)), *asked, chosen, seed=0)
            call.waiting.append(Part(call, request, asked))
    call.open_parts = len(call.waiting)
    return call


@dataclass(eq=False)
class _Window:
    """Parts that the scorer has."""

    parts: Sequence[Part]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class RewardQueue:
    """Calls that wait, and the workers that score them.

    Calls take turns, part by part, so that a small one does not wait for a large one.

    Args:
        scorer: the open scorer.
        timeout: seconds after which a call is given up, by its own clock.
    """

    def __init__(self, scorer: Scorer, timeout: float) -> None:
        self._scorer = scorer
        self._timeout = timeout
        self._calls: deque[Call] = deque()
        self._windows: set[_Window] = set()
        self._arrived = anyio.Event()
        self._size = 1  # parts in a window

    def add(self, call: Call) -> None:
        """Put a call into the queue."""
        if call.open_parts:
            self._calls.append(call)
            self._arrived.set()
        else:
            call.done.set()

    def give_up(self, call: Call) -> None:
        """Remove a call, and cancel the requests that no other call needs."""
        call.given_up = True
        if call.waiting:
            call.waiting.clear()
            self._calls.remove(call)
        for window in self._windows:
            if all(part.call.given_up for part in window.parts):
                window.scope.cancel()

    async def work(self) -> None:
        """Score what waits, until cancelled."""
        async with anyio.create_task_group() as group:
            for _ in range(self._scorer.spec.in_flight or 1):
                group.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            while not self._calls:
                await self._arrived.wait()
            parts = self._next()
            if not self._calls:
                self._arrived = anyio.Event()
            await self._score(parts)
            await checkpoint()

    def _next(self) -> list[Part]:
        """The parts of the next window: one of each call in turn, the oldest call first."""
        limit = self._size
        if self._scorer.spec.in_flight:
            limit = 1
        parts: list[Part] = []
        responses = 0
        while self._calls and len(parts) < limit:
            call = self._calls[0]
            part = call.waiting[0]
            responses += len(part.request.candidates)
            if parts and (part.cuts or responses > AT_ONCE):
                break
            parts.append(call.waiting.popleft())
            self._calls.popleft()
            if call.waiting:
                self._calls.append(call)
            if part.cuts:
                break
        return parts

    async def _score(self, parts: list[Part]) -> None:
        parts = [part for part in parts if not part.call.given_up]
        if not parts:
            return
        window = _Window(parts)
        began = anyio.current_time()
        window.scope.deadline = began + self._timeout * self._share(parts)
        self._windows.add(window)
        try:
            with window.scope:
                await self._ask(parts)
        finally:
            self._windows.discard(window)
        took = anyio.current_time() - began
        self._size = next_size(self._size, took, _SECONDS, AT_ONCE)
        if window.scope.cancelled_caught:
            self._put_back(parts)

    def _share(self, parts: Sequence[Part]) -> float:
        """The share of a call's time for a window, after which its parts are requested again,
        alone."""
        if (self._scorer.spec.in_flight or 1) > 1:
            return math.inf  # nothing waits behind it
        cuts = parts[0].cuts
        if cuts or len(parts) > 1:
            return _TOGETHER * 2.0**cuts
        return _ALONE

    async def _ask(self, parts: Sequence[Part]) -> None:
        try:
            results = await score_window(self._scorer, [part.request for part in parts])
        except CarbError as error:
            if len(parts) == 1:
                parts[0].call.refuse(str(error))
                return
            for part in parts:
                await self._ask([part])
            return
        for part, result in zip(parts, results, strict=True):
            part.call.take(part, result)

    def _put_back(self, parts: Iterable[Part]) -> None:
        """Parts that had no answer in time are asked again, each alone."""
        for part in parts:
            call = part.call
            if part.answered or call.given_up or call.done.is_set():
                continue
            part.cuts += 1
            if not call.waiting:
                self._calls.append(call)
                self._arrived.set()
            call.waiting.append(part)
