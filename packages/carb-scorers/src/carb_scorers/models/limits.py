"""Limits of a server, and the clock that they and retries read."""

from __future__ import annotations

import time
from typing import Annotated, Protocol

import anyio
from pydantic import Field

from carb_data.models import Frozen

Positive = Annotated[float, Field(gt=0)]


class ServerLimits(Frozen):
    """How a server is asked."""

    concurrency: Annotated[int, Field(ge=1)] = 8
    """How many requests may be under way at once."""
    rpm: Positive | None = None
    """Most requests in a minute, evenly spread; no limit by default."""
    tpm: Positive | None = None
    """Most tokens in a minute, input and output together; no limit by default."""
    timeout: Positive = 120.0
    """Seconds for one attempt, from connecting to the last byte."""
    retries: Annotated[int, Field(ge=0)] = 6
    """Most further attempts after 408, 409, 425, 429, 5xx, a timeout or a lost connection. They wait exponentially
    longer, with jitter, or as long as ``Retry-After`` says."""
    patience: Annotated[float, Field(ge=0)] = 300.0
    """Seconds for which a server that has answered before may be gone or overloaded, before the run stops, and for
    which a request is tried that is refused for the number of requests (429) while others are answered. With 0
    such requests become error rows after their retries, and the run goes on."""


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class TokenBucket:
    """At most ``per_minute`` units a minute, evenly, first come, first served.

    It holds one second's worth, so in any minute at most ``per_minute * 61 / 60`` units pass. A request larger than
    the bucket passes when the bucket is full and leaves it in debt.
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._capacity = max(1.0, self._rate)
        self._level = self._capacity
        self._clock = clock
        self._then = clock.now()

    async def take(self, amount: float = 1.0) -> None:
        """Wait until ``amount`` units may pass. The units are taken at once, so whoever comes later waits longer."""
        self._refill()
        lacking = min(amount, self._capacity) - self._level
        self._level -= amount
        if lacking > 0:
            await self._clock.sleep(lacking / self._rate)

    def correct(self, amount: float) -> None:
        """Take ``amount`` more without waiting, or give back where it is negative: an estimate was off."""
        self._refill()
        self._level = min(self._capacity, self._level - amount)

    def _refill(self) -> None:
        now = self._clock.now()
        self._level = min(self._capacity, self._level + (now - self._then) * self._rate)
        self._then = now
