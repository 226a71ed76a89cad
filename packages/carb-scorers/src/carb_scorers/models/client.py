"""A server that is asked politely and persistently: limits, time-outs, retries, and a key that nobody sees."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CapacityLimiter

from carb_data import CarbError
from carb_scorers.models.answers import total_tokens
from carb_scorers.models.exchange import Connection, FinalError, TransientError
from carb_scorers.models.limits import Clock, ServerLimits, SystemClock, TokenBucket
from carb_scorers.scorer import ScoreError

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


class EndpointError(Exception):
    """One request has no answer."""

    def __init__(self, error: ScoreError, attempts: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.attempts = attempts


@dataclass(slots=True)
class _Open:
    """What lives while calls are under way: connections belong to one event loop."""

    client: Any
    running: CapacityLimiter
    loop: object
    users: int = 0


class Endpoint:
    """JSON in, JSON out.

    Connections are kept while calls are under way and given back when none is, so that an endpoint can be used from
    one event loop after another.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        limits: ServerLimits,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        clock = clock or SystemClock()
        self._line = Connection(self.url, key, limits.timeout, limits.concurrency, clock.wall)
        self._how = limits
        self._clock = clock
        self._jitter = random.Random(seed)
        self._open: _Open | None = None
        self._requests = TokenBucket(limits.rpm, self._clock) if limits.rpm else None
        self._tokens = TokenBucket(limits.tpm, self._clock) if limits.tpm else None
        self._paused_until = self._clock.now()
        self._succeeded: float | None = None
        self._successes = 0

    async def post(self, path: str, body: Mapping[str, Any], *, tokens: int = 0) -> tuple[dict[str, Any], int]:
        """Send a request until it is answered.

        Args:
            path: the path below the endpoint's URL.
            body: The content that is sent as JSON.
            tokens: an estimate of what it costs, for the limit on tokens.

        Returns:
            The answer, and how many attempts it took.

        Raises:
            EndpointError: there is no answer to this request.
            CarbError: there will be no answer to any request: the key is wrong, or the server is gone.
        """
        async with AsyncExitStack() as stack:
            opened = await self._enter(stack)
            before: int | None = None
            began = self._clock.now()
            attempt = 0
            while True:
                attempt += 1
                try:
                    async with opened.running:
                        await self._wait_for_turn(tokens)
                        proven = self._succeeded is not None
                        answer = await self._line.send(opened.client, path, body, proven=proven)
                except TransientError as error:
                    wait = self._wait(attempt, error)
                    until = self._clock.now() + wait
                    self._give_up(error, attempt, until, began, alone=before in (None, self._successes))
                    before = self._successes
                    self._paused_until = max(self._paused_until, self._clock.now() + error.after)
                    await self._clock.sleep(wait)
                except FinalError as error:
                    raise EndpointError(ScoreError(kind=error.kind, message=error.message), attempt) from None
                else:
                    self._succeeded = self._clock.now()
                    self._successes += 1
                    if self._tokens is not None:
                        self._tokens.correct(total_tokens(answer, tokens) - tokens)
                    return answer, attempt

    def _wait(self, attempt: int, error: TransientError) -> float:
        """Exponential with jitter over its upper half, and at least what the server asks for."""
        backoff = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt - 1, 10))
        return max(error.after, backoff * self._jitter.uniform(0.5, 1.0))

    def _give_up(self, error: TransientError, attempt: int, until: float, began: float, *, alone: bool) -> None:
        """Raise where another attempt is pointless.

        After its retries a request is given up as an error row, if it is at fault itself: others have succeeded since
        its last attempt (``alone`` is false), or the server is there and answers. One that is refused for the number
        of requests is not at fault, and has ``patience`` since it ``began``. Where the server is at fault it is waited
        for, and then the run stops, to be continued, rather than fill up with errors.
        """
        if error.after > self._how.patience > 0:
            raise CarbError(
                f"{self.url} asks to wait {error.after:.0f} seconds ({error.message}). What was scored before is kept; "
                f"run the same command again then, or raise patience=."
            )
        if attempt <= self._how.retries:
            return
        limited = error.message.startswith("429")
        patient = alone or (limited and until - began <= self._how.patience)
        if not error.gone or not patient or not self._how.patience:
            raise EndpointError(ScoreError(kind=error.kind, message=error.message), attempt)
        if self._succeeded is None:
            hint = "It answers that it gets too many requests; lower rpm=, tpm= or concurrency=, or wait"
            if not limited:
                hint = "Is the server running, and url= right?"
            raise CarbError(f"{self.url} cannot be used: {error.message}. {hint}")
        if until - self._succeeded > self._how.patience:
            raise CarbError(
                f"{self.url} has not answered for {self._how.patience:.0f} seconds (last: {error.message}). What was "
                f"scored before is kept; run the same command again when the server is back."
            )

    async def _enter(self, stack: AsyncExitStack) -> _Open:
        loop = anyio.lowlevel.current_token()
        if self._open is None or self._open.loop != loop:
            self._open = _Open(self._line.connect(), CapacityLimiter(self._how.concurrency), loop)
        opened = self._open
        opened.users += 1

        async def leave() -> None:
            opened.users -= 1
            if opened.users == 0:
                if self._open is opened:
                    self._open = None
                with anyio.CancelScope(shield=True):
                    await opened.client.aclose()

        stack.push_async_callback(leave)
        return opened

    async def _wait_for_turn(self, tokens: int) -> None:
        while (pause := self._paused_until - self._clock.now()) > 0:
            await self._clock.sleep(pause)
        if self._requests is not None:
            await self._requests.take()
        if self._tokens is not None:
            await self._tokens.take(tokens)

    async def aclose(self) -> None:
        """Nothing is held between calls."""


@dataclass(slots=True)
class _Gathered:
    values: dict[int, Any] = field(default_factory=dict)
    stopped: list[CarbError] = field(default_factory=list)


async def gather(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run calls at the same time; their values in order.

    Raises:
        CarbError: the first that a call raises, as it is; the others are cancelled.
    """
    gathered = _Gathered()

    async def run(place: int, call: Callable[[], Any]) -> None:
        try:
            gathered.values[place] = await call()
        except CarbError as error:
            gathered.stopped.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for place, call in enumerate(calls):
            group.start_soon(run, place, call)
    if gathered.stopped:
        raise gathered.stopped[0]
    return [gathered.values[place] for place in range(len(calls))]
