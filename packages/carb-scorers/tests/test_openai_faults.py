"""The OpenAI-compatible backend against a server that does everything wrong that servers do."""

import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from carb_data import CarbError
from carb_scorers.models.protocol import Failure, Generation
from carb_scorers.models.server_client import Clock as SystemClock
from carb_scorers.models.server_exchange import retry_after

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from openai_server import Clock, Server, ask, chat, cut, cut_chunks, drip, model, reply, reset


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_tried_again(serve: Callable[..., Server], status: int) -> None:
    clock = Clock()
    server = serve([reply({"error": {"message": "later"}}, status), reply(b"<html>", status), chat()])
    (found,) = ask(model(server.url, clock))
    assert isinstance(found, Generation)
    assert found.usage.requests == 3
    first, second = clock.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


def test_waits_are_spread(serve: Callable[..., Server]) -> None:
    """Many clients of a server that was overloaded must not come back all at once."""
    waits = set()
    for _ in range(5):
        clock = Clock()
        ask(model(serve([reply({}, 503), chat()]).url, clock))
        waits.add(clock.slept[0])
    assert len(waits) == 5


@pytest.mark.parametrize("fault", [cut, cut_chunks, reset], ids=["cut", "cut chunks", "reset"])
def test_a_lost_connection_is_tried_again(serve: Callable[..., Server], fault: object) -> None:
    (found,) = ask(model(serve([fault, fault, chat()]).url))
    assert isinstance(found, Generation)
    assert found.usage.requests == 3


def test_a_slow_answer_is_tried_again_then_given_up(serve: Callable[..., Server]) -> None:
    server = serve(lambda number, _: drip if number < 3 else chat())
    (found,) = ask(model(server.url, timeout=0.15, retries=1))
    assert isinstance(found, Failure)
    assert (found.error.kind, found.usage.requests) == ("timeout", 2)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "2.5"}, 2.5),
        ({"retry_after_ms": "1500", "Retry_After": "60"}, 1.5),
        ({"Retry_After": "nonsense"}, 0.0),
        ({"Retry_After": "-5"}, 0.0),
        ({"Retry_After": "nan"}, 0.0),
        ({"Retry_After": "Wed, 99 Foo"}, 0.0),
        ({}, 0.0),
    ],
    ids=str,
)
def test_retry_after_is_honoured(serve: Callable[..., Server], header: dict[str, str], seconds: float) -> None:
    clock = Clock()
    (found,) = ask(model(serve([reply({}, 429, **header), chat()]).url, clock))
    assert isinstance(found, Generation)
    assert clock.slept[0] == pytest.approx(seconds) if seconds else clock.slept[0] <= 0.5


def test_a_date_is_compared_with_the_servers_own(serve: Callable[..., Server]) -> None:
    """With an hour between the clocks, a wait of eleven seconds ended the run."""
    clock = Clock()
    answer = reply({}, 429, Retry_After=formatdate(time.time() + 11, usegmt=True))
    assert isinstance(ask(model(serve([answer, chat()]).url, clock))[0], Generation)
    assert 9 <= clock.slept[0] <= 12
    assert retry_after({"retry-after": formatdate(3611, usegmt=True), "date": formatdate(3600, usegmt=True)}) == 11
    assert retry_after({"retry-after": formatdate(3611, usegmt=True)}) == 0


def test_when_one_is_told_to_wait_all_wait(serve: Callable[..., Server]) -> None:
    clock = Clock()
    asked_at: list[float] = []

    def script(number: int, _: dict[str, Any]) -> object:
        asked_at.append(clock.now())
        return reply({}, 429, Retry_After="20") if number == 0 else chat()

    assert all(isinstance(f, Generation) for f in ask(model(serve(script).url, clock, concurrency=1), 5))
    assert asked_at[0] == 1000.0
    assert all(time >= 1020.0 for time in asked_at[1:])


def test_a_long_wait_is_the_users_to_decide(serve: Callable[..., Server]) -> None:
    clock = Clock()
    with pytest.raises(CarbError, match="asks to wait 86400 seconds"):
        ask(model(serve([reply({}, 429, Retry_After="86400")]).url, clock))
    assert sum(clock.slept) == 0


def test_one_bad_request_is_given_up_and_others_go_on(serve: Callable[..., Server]) -> None:
    clock = Clock()
    server = serve(
        lambda _, body: reply({"error": "crash"}, 500) if "Question 3?" in str(body) else chat(),
    )
    found = ask(model(server.url, clock, retries=4, concurrency=2), 8)
    assert [isinstance(f, Failure) for f in found] == [n == 3 for n in range(8)]
    bad = found[3]
    assert isinstance(bad, Failure)
    assert bad.error.model_dump() == {"kind": "http", "message": "500: crash"}
    assert bad.usage.requests >= 5


def test_a_server_that_is_gone_for_a_minute_is_waited_for(serve: Callable[..., Server]) -> None:
    clock = Clock()
    first = serve([chat()])
    opened = model(first.url, clock, concurrency=4)
    ask(opened)
    first.close()
    gone_at = clock.now()
    back: list[Server] = []

    def hook(now: float) -> None:
        if now > gone_at + 60 and not back:
            back.append(serve([chat()], first.port))

    clock.hook = hook
    found = ask(opened, 10)
    assert back
    assert all(isinstance(f, Generation) for f in found)


@pytest.mark.parametrize("how", ["refuses connections", "answers 503"])
def test_a_server_that_is_gone_for_good_stops_the_scorer(serve: Callable[..., Server], how: str) -> None:
    clock = Clock()
    gone = threading.Event()
    server = serve(lambda *_: reply(b"<html>bad gateway</html>", 503) if gone.is_set() else chat())
    opened = model(server.url, clock, patience=100)
    ask(opened)
    gone.set()
    if how == "refuses connections":
        server.close()
    with pytest.raises(CarbError, match=r"has not answered for 100 seconds.*same command again"):
        ask(opened)
    assert 60 <= clock.now() - 1000 <= 130


def test_a_server_that_was_never_there_is_said_so(serve: Callable[..., Server]) -> None:
    server = serve([chat()])
    server.close()
    with pytest.raises(CarbError, match=r"cannot be used.*url="):
        ask(model(server.url))


@pytest.mark.parametrize("fault", [reset, reply({"error": "crash"}, 500), cut], ids=["reset", "500", "cut"])
@pytest.mark.parametrize("first", [True, False])
def test_a_request_that_breaks_the_server_is_one_failure_even_alone(
    serve: Callable[..., Server], fault: object, first: bool
) -> None:
    """With one request at a time nothing else can succeed meanwhile, and yet the run must not stop there for ever."""
    server = serve(lambda _, body: fault if f"Question {0 if first else 1}?" in str(body) else chat())
    found = ask(model(server.url, concurrency=1, retries=2), 3)
    assert [isinstance(f, Failure) for f in found] == ([True, False, False] if first else [False, True, False])


def test_those_who_answered_before_an_outage_do_not_make_it_the_fault_of_a_request(
    serve: Callable[..., Server],
) -> None:
    """50 seconds without the server, of 300 that are waited: neighbours had succeeded since the request began."""
    clock = Clock()
    began: list[float] = []

    def script(number: int, _: dict[str, Any]) -> object:
        if number < 4:
            return chat()
        began.append(clock.now())
        return reply(b"", 503) if clock.now() - began[0] < 50 else chat()

    found = ask(model(serve(script).url, clock, concurrency=4), 12)
    assert all(isinstance(one, Generation) for one in found)


def test_a_server_that_always_limits_is_not_taken_for_one_that_does_not_run(serve: Callable[..., Server]) -> None:
    with pytest.raises(CarbError, match=r"too many requests.*concurrency=") as caught:
        ask(model(serve([reply({"error": {"message": "slow down"}}, 429)]).url, Clock(), retries=1))
    assert "running" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_server_that_lets_few_through_is_waited_for(serve: Callable[..., Server], status: int) -> None:
    """One answer in three seconds, and no word of how long to wait: those who wait longest became error rows."""
    clock, lock, last = Clock(), threading.Lock(), [0.0]

    def script(*_: object) -> object:
        with lock:
            if clock.now() - last[0] < 3.0:
                return reply({"error": {"message": "slow down"}}, status)
            last[0] = clock.now()
        return chat()

    found = ask(model(serve(script).url, clock, concurrency=8, retries=3, patience=1e5), 40)
    assert all(isinstance(one, Generation) for one in found)


def test_a_request_that_is_limited_for_ever_is_one_failure(serve: Callable[..., Server]) -> None:
    def script(_: int, body: dict[str, Any]) -> object:
        time.sleep(0.02)
        return reply({"error": {"message": "slow down"}}, 429) if "Question 3?" in str(body) else chat()

    options = {"concurrency": 1, "retries": 1, "patience": 2}
    found = ask(model(serve(script).url, SystemClock(), **options), 150)  # 3 seconds: others succeed meanwhile
    assert [isinstance(f, Failure) for f in found] == [n == 3 for n in range(150)]


def test_a_request_larger_than_the_limit_on_tokens_is_not_sent_again(serve: Callable[..., Server]) -> None:
    large = reply(
        {"error": {"message": "Request too large for m on tokens per min (TPM): Limit 10, Requested 20."}}, 429
    )
    server = serve(lambda _, body: large if "Question 1?" in str(body) else chat())
    found = ask(model(server.url, concurrency=1), 3)
    assert [f.error.kind if isinstance(f, Failure) else None for f in found] == [None, "too-long", None]
    assert len(server.bodies) == 3


def test_without_patience_an_outage_is_error_rows(serve: Callable[..., Server]) -> None:
    server = serve([chat(), reply({}, 503, Retry_After="900")])
    found = ask(model(server.url, concurrency=1, retries=1, patience=0), 3)
    assert [isinstance(f, Failure) for f in found] == [False, True, True]
    assert len(server.bodies) == 5


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply({"error": {"message": "bad key"}}, 401), "does not accept the key .*bad key.* key_env="),
        (reply({"error": {"message": "pay", "code": "insufficient_quota"}}, 429), "no credit left"),
        (reply({"error": {"message": "pay"}}, 402), "no credit left"),
        (reply({"detail": "no such model"}, 404), "404.*no such model"),
        (reply({"error": {"message": "loading"}}, 503), "cannot be used: 503: loading"),
    ],
)
def test_what_would_fail_for_every_item_stops_the_scorer(
    serve: Callable[..., Server], answer: object, said: str
) -> None:
    server = serve([answer])
    with pytest.raises(CarbError, match=said):
        ask(model(server.url, concurrency=1, retries=0), 5)
    assert len(server.bodies) == 1
