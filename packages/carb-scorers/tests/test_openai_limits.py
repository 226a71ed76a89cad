"""Requests and tokens a minute."""

from collections.abc import Callable

import anyio
import pytest

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_scorers.models.limits import TokenBucket
from openai_server import Clock, Server, ask, chat, model


def test_requests_a_minute_are_limited(serve: Callable[..., Server]) -> None:
    clock = Clock()
    times: list[float] = []
    server = serve(lambda *_: (times.append(clock.now()), chat())[1])
    ask(model(server.url, clock, rpm=30, concurrency=4), 40)
    assert clock.now() - 1000 >= 39 * 2  # one at once, then one every two seconds


def test_tokens_a_minute_are_limited(serve: Callable[..., Server]) -> None:
    clock = Clock()
    server = serve([chat()])  # 15 tokens each
    ask(model(server.url, clock, tpm=600, concurrency=1), 41)
    assert 15 * 41 / 10 - 10 <= clock.now() - 1000 <= 15 * 41 / 10 + 10


def test_a_bucket_lets_no_more_through_than_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(120, clock)
    times: list[float] = []

    async def go() -> None:
        for _ in range(300):
            await bucket.take()
            times.append(clock.now())

    anyio.run(go)
    for start in times:
        assert sum(start <= time < start + 60 for time in times) <= 122


def test_a_request_larger_than_the_bucket_passes_and_is_paid_back() -> None:
    clock = Clock()
    bucket = TokenBucket(60, clock)

    async def go() -> None:
        await bucket.take(100)
        await bucket.take(1)

    anyio.run(go)
    assert clock.now() - 1000 == pytest.approx(100)
