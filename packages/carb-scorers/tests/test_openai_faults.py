"""The OpenAI-compatible backend against a server that does everything wrong that servers do."""

import threading
from collections.abc import Callable

import pytest

from carb_data import CarbError
from carb_scorers.models.protocol import Failure, Generation
from carb_scorers.models.server_exchange import retry_after

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from openai_server import Clock, Server, ask, chat, cut, cut_chunks, drip, model, reply, reset


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_tried_again(serve: Callable[..., Server], status: int) -> None:
    clock = Clock()
    server = serve(
        [reply({"error": {"message": "later"}}, status), reply(b"<html>", status), chat()]
    )
    (found,) = ask(model(server.url, clock))
    assert isinstance(found, Generation)
    assert found.usage.requests == 3
    first, second = clock.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


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
        ({"Retry_After": "nonsense"}, 0.0),
        ({}, 0.0),
    ],
    ids=str,
)
def test_retry_after_is_honoured(
    serve: Callable[..., Server], header: dict[str, str], seconds: float
) -> None:
    clock = Clock()
    (found,) = ask(model(serve([reply({}, 429, **header), chat()]).url, clock))
    assert isinstance(found, Generation)
    assert clock.slept[0] == pytest.approx(seconds) if seconds else clock.slept[0] <= 0.5


def test_a_date_is_compared_with_the_servers_own_clock() -> None:
    """A server whose clock is an hour ahead ended the run."""
    until = {"retry-after": "Wed, 25 Nov 2026 13:00:07 GMT"}
    assert retry_after(until | {"date": "Wed, 25 Nov 2026 13:00:00 GMT"}) == 7
    assert (
        retry_after(until)
        == retry_after({"retry-after": "Wed, 99 Foo"})
        == retry_after({"retry-after": "-5"})
        == 0
    )


def test_a_long_wait_is_the_users_to_decide(serve: Callable[..., Server]) -> None:
    clock = Clock()
    with pytest.raises(CarbError, match="asks to wait 86400 seconds"):
        ask(model(serve([reply({}, 429, Retry_After="86400")]).url, clock))
    assert sum(clock.slept) == 0


@pytest.mark.parametrize("after", [60, 61])
def test_a_wait_as_long_as_the_patience_is_kept_and_a_longer_one_stops(
    serve: Callable[..., Server], after: int
) -> None:
    clock = Clock()
    opened = model(
        serve([reply({}, 429, Retry_After=str(after)), chat()]).url, clock, patience=60.0
    )
    if after > 60:
        with pytest.raises(CarbError, match="asks to wait 61 seconds"):
            ask(opened)
    else:
        (found,) = ask(opened)
        assert isinstance(found, Generation)
        assert clock.slept[0] == 60


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_no_proxy_stands_between_this_machine_and_itself(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server = serve([chat()])
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, serve([reply({"error": "a proxy"}, 403)]).url)
    for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
        (found,) = ask(model(url))
        assert isinstance(found, Generation), found


def test_one_bad_request_is_given_up_and_others_go_on(serve: Callable[..., Server]) -> None:
    clock = Clock()
    server = serve(
        lambda _, body: reply({"error": "crash"}, 500) if "Question 3?" in str(body) else chat()
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
def test_a_server_that_is_gone_for_good_stops_the_scorer(
    serve: Callable[..., Server], how: str
) -> None:
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


@pytest.mark.parametrize(
    "fault", [reset, reply({"error": "crash"}, 500), cut], ids=["reset", "500", "cut"]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_request_that_breaks_the_server_is_one_failure_even_alone(
    serve: Callable[..., Server], fault: object, first: bool
) -> None:
    """With one request at a time nothing else can succeed meanwhile, and yet the run must not stop
    there for ever."""
    server = serve(
        lambda _, body: fault if f"Question {0 if first else 1}?" in str(body) else chat()
    )
    found = ask(model(server.url, concurrency=1, retries=2), 3)
    assert [isinstance(f, Failure) for f in found] == (
        [True, False, False] if first else [False, True, False]
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            reply({"error": {"message": "bad key"}}, 401),
            "does not accept the key .*bad key.* key_env=",
        ),
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
