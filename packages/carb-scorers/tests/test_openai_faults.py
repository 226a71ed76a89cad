"""The OpenAI-compatible backend against a server that does everything wrong that servers do."""

import json
import ssl
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from carb_data import CarbError
from carb_scorers.models.protocol import Failure, Generation, Writing
from carb_scorers.models.server_exchange import retry_after

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from openai_server import (
    Clock,
    Server,
    ask,
    chat,
    cut,
    cut_chunks,
    drip,
    model,
    prompts,
    reply,
    reset,
)


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


def test_an_answer_that_broke_off_is_tried_again(serve: Callable[..., Server]) -> None:
    """HTTP/1.0 has no length, and one cut line was an error row for good."""
    part = json.dumps(chat()).encode()[:-9]
    (read,) = ask(model(serve([reply(part), chat()]).url, Clock()))
    assert isinstance(read, Generation)
    assert read.usage.requests == 2


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
    (failed,) = ask(model(serve([reply({}, 429, Retry_After="86400")]).url, clock, patience=0))
    assert isinstance(failed, Failure)
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


WITHIN = [
    {"error": {"message": "overloaded"}},
    {**chat(""), "error": {"message": "overloaded"}},
    chat("", error={"message": "overloaded", "code": 502}, finish_reason="error"),
    chat(message={"content": "[[A]]", "error": {"message": "overloaded"}}),
    {"object": "error", "message": "overloaded", "type": "BadRequestError", "code": 400},
    {"object": "error", "message": "overloaded", "choices": []},
    {"object": "error", "message": "overloaded", **chat()},
    {"message": "overloaded", "code": 1001, "choices": None},
    {"detail": "overloaded"},
    {"status": "449", "msg": "overloaded", "body": None},
    {"error_code": 336100, "error_msg": "overloaded"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
]


@pytest.mark.parametrize("answer", WITHIN, ids=str)
def test_an_error_inside_a_200_is_tried_again_and_its_message_kept(
    serve: Callable[..., Server], answer: object
) -> None:
    (found,) = ask(model(serve([answer, chat()]).url))
    assert isinstance(found, Generation)
    assert found.usage.requests == 2
    (failed,) = ask(model(serve([answer]).url, retries=2))
    assert isinstance(failed, Failure)
    assert (failed.error.kind, failed.usage.requests) == ("http", 3)
    assert "overloaded" in failed.error.message


def test_a_text_that_ended_with_an_error_is_none(serve: Callable[..., Server]) -> None:
    (found,) = ask(model(serve([chat("At first [[A]]", finish_reason="error")]).url, retries=1))
    assert isinstance(found, Failure)
    assert "finish_reason" in found.error.message


@pytest.mark.parametrize(
    ("reason", "finished"),
    [
        ("stop", True),
        ("STOP", True),
        ("eos_token", True),
        ("stop_sequence", True),
        ("length", False),
        ("abort", False),
        ("model_context_window_exceeded", False),
        ("insufficient_system_resource", False),
        ("something new", False),
        (None, False),
    ],
)
def test_a_text_is_over_for_known_reasons_alone(
    serve: Callable[..., Server], reason: str | None, finished: bool
) -> None:
    (found,) = ask(model(serve([chat("At first [[A]]", finish_reason=reason)]).url))
    assert isinstance(found, Generation)
    assert found.finished == finished


@pytest.mark.parametrize(
    ("beside", "finished"),
    [
        ({"native_finish_reason": "STOP"}, True),  # OpenRouter and Gemini
        ({"native_finish_reason": "completed"}, True),  # and OpenAI's newer interface
        ({"native_finish_reason": None, "matched_stop": 151645}, True),
        ({"stop_reason": None, "provider_specific_fields": None}, True),  # vLLM
        ({"native_finish_reason": "MAX_TOKENS"}, False),
        ({"native_finish_reason": "max_output_tokens"}, False),
        ({"native_finish_reason": "error"}, False),
        # LiteLLM calls every reason that it does not know a stop
        ({"provider_specific_fields": {"native_finish_reason": "end_turn"}}, True),
        ({"provider_specific_fields": {"native_finish_reason": "network_error"}}, False),
        ({"provider_specific_fields": {"native_finish_reason": "server_overloaded"}}, False),
        ({"matched_stop": "NaN happened"}, False),  # SGLang, of a model that gave no numbers
        ({"stop_reason": 151645}, True),  # the token at which vLLM stopped
        ({"stop_reason": "end_turn"}, True),
        ({"stop_reason": "max_tokens"}, False),
        ({"stop_reason": "model_context_window_exceeded"}, False),
        ({"stop_reason": "pause_turn"}, False),
        ({"status": "incomplete"}, False),
        ({"message": {"content": "At first [[A]]", "finish_reason": "length"}}, False),
        ({"message": {"content": "At first [[A]]", "stop_reason": "max_tokens"}}, False),
        ({"message": {"content": "At first [[A]]", "status": "incomplete"}}, False),
        ({"done_reason": "length"}, False),
        ({"finishReason": "MAX_TOKENS"}, False),
        ({"stopReason": "refusal_pending"}, False),
        ({"stop_type": "limit"}, False),  # llama.cpp
        ({"stop_type": "eos"}, True),
    ],
    ids=str,
)
def test_a_stop_that_something_beside_it_denies_is_none(
    serve: Callable[..., Server], beside: dict[str, object], finished: bool
) -> None:
    (found,) = ask(model(serve([chat("At first [[A]]", **beside)]).url))
    assert isinstance(found, Generation)
    assert found.finished == finished


@pytest.mark.parametrize(
    ("beside", "finished", "told"),
    [
        ({"status": "completed"}, True, ""),
        ({"status": 200, "truncated": False, "stop_reason": "stop_sequence"}, True, ""),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            False,
            "",
        ),
        ({"incomplete_details": {"reason": "server_overloaded"}}, False, "server_overloaded"),
        ({"stop_reason": "max_tokens"}, False, ""),
        ({"status": "failed"}, False, "failed"),
        ({"status": "in_progress"}, False, "in_progress"),
    ],
    ids=str,
)
def test_a_whole_reply_may_say_that_its_text_broke_off(
    serve: Callable[..., Server], beside: dict[str, object], finished: bool, told: str
) -> None:
    """Only the fields of the choice were read."""
    (found,) = ask(model(serve([chat("At first [[A]]") | beside]).url))
    assert isinstance(found, Generation)
    assert found.finished == finished
    assert told in found.reason


@pytest.mark.parametrize("place", ["reply", "choice"])
@pytest.mark.parametrize("flag", ["truncated", "is_truncated", "stopped_limit"])
def test_a_reply_to_a_prompt_that_was_cut_is_none(
    serve: Callable[..., Server], place: str, flag: str
) -> None:
    """llama.cpp says so where prompt and answer do not fit its context."""
    said = {flag: True}
    answer = chat("[[A]]") | said if place == "reply" else chat("[[A]]", **said)
    (found,) = ask(model(serve([answer]).url))
    assert isinstance(found, Failure)
    assert (found.error.kind, "truncated" in found.error.message) == ("cut-off", True)


def test_the_string_that_was_to_stop_a_text_is_an_end(serve: Callable[..., Server]) -> None:
    """vLLM and SGLang repeat it as the reason."""
    server = serve([chat("A", stop_reason="\nB:"), chat("A", matched_stop="\nB:")])
    for _ in range(2):
        (found,) = anyio.run(model(server.url).generate, prompts(), Writing(50, stop=("\nB:",)))
        assert isinstance(found, Generation)
        assert found.finished


@pytest.mark.parametrize(
    "name", ["reasoning_content", "reasoning", "thinking", "reasoning_details"]
)
def test_an_answer_that_went_into_the_thought_is_said_so(
    serve: Callable[..., Server], name: str
) -> None:
    message = {"role": "assistant", "content": None, name: "Surely [[A]]"}
    (found,) = ask(model(serve([chat(message=message)]).url))
    assert isinstance(found, Failure)
    assert found.error.kind == "parse"
    assert "reasoning_content" in found.error.message
    assert "max_tokens" in found.error.message


def refusing(*fields: str) -> Callable[[int, dict[str, object]], object]:
    """A server of a reasoning model, which takes other fields."""

    def script(_: int, body: dict[str, object]) -> object:
        bad = next((name for name in fields if name in body), None)
        if bad is None:
            return chat()
        hint = " Use 'max_completion_tokens' instead." if bad == "max_tokens" else ""
        said = f"Unsupported parameter: '{bad}' is not supported with this model.{hint}"
        return reply(
            {"error": {"message": said, "param": bad, "code": "unsupported_parameter"}}, 400
        )

    return script


def test_a_server_that_refuses_max_tokens_is_asked_by_the_newer_name(
    serve: Callable[..., Server],
) -> None:
    server = serve(refusing("max_tokens"))
    found = ask(model(server.url, concurrency=1), 3)
    assert all(isinstance(one, Generation) for one in found)
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 50, 50, 50]


def test_what_a_server_refuses_otherwise_is_the_users_to_decide(
    serve: Callable[..., Server],
) -> None:
    """Without a temperature of 0 it is another measurement."""
    server = serve(refusing("max_tokens", "temperature"))
    with pytest.raises(
        CarbError, match=r'does not take .temperature.*body=\{"temperature": null\}'
    ):
        ask(model(server.url))
    (found,) = ask(model(server.url, body='{"temperature": null}'))
    assert isinstance(found, Generation)


@pytest.mark.parametrize(
    "proxy", ["ftp://me:secret@127.0.0.1:1", "http://me:secret@[::1", "http://me:secret@host:port"]
)
def test_a_proxy_that_is_none_is_said_before_the_first_request(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """Every row became an ExceptionGroup."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(CarbError, match=r"HTTPS_PROXY") as refused:
        model("https://example.test/v1")
    assert "secret" not in str(refused.value)


def test_a_socks_proxy_without_its_package_is_said_before_the_first_request(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Server]
) -> None:
    """Every row became an ImportError."""
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(CarbError, match=r"ALL_PROXY names a socks5 proxy.*httpx\[socks\]") as found:
        model("https://example.test/v1")
    assert "secret" not in str(found.value)
    (answer,) = ask(model(serve([chat()]).url))  # nothing stands between a machine and itself
    assert isinstance(answer, Generation)


def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(CarbError, match=r"proxy of HTTP_PROXY"):
        ask(model("http://judge.example/v1", Clock(), retries=0))


def test_certificates_of_the_environment_are_read_for_this_machine_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "mine.pem"))
    with pytest.raises(CarbError, match=r"SSL_CERT_FILE.*mine\.pem.* cannot be read"):
        model("https://localhost:1/v1")
    model("http://localhost:1/v1")


def test_a_certificate_that_the_environment_names_is_trusted_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Server]
) -> None:
    pem = Path(__file__).parent / "loopback.pem"
    server = serve([chat()])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    url = server.url.replace("http:", "https:")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    (refused,) = ask(model(url, retries=0, patience=0))
    assert isinstance(refused, Failure)
    assert "certificate" in refused.error.message.lower()
    with pytest.raises(CarbError, match="SSL_CERT_FILE"):
        ask(model(url, Clock(), retries=0))
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    (answer,) = ask(model(url, retries=0, patience=0))
    assert isinstance(answer, Generation)


@pytest.mark.parametrize(("written", "finished"), [(50, False), (49, True), (0, True)])
def test_a_stop_at_the_last_token_that_was_asked_for_is_a_cut(
    serve: Callable[..., Server], written: int, finished: bool
) -> None:
    """Small servers call every end a stop: a verdict counted from half a sentence."""
    answer = {**chat("At first [[A]] looks"), "usage": {"completion_tokens": written}}
    (found,) = ask(model(serve([answer]).url))
    assert isinstance(found, Generation)
    assert found.finished == finished
    (other,) = ask(model(serve([answer]).url, body='{"max_tokens": 700}'))
    assert isinstance(other, Generation)
    assert other.finished
