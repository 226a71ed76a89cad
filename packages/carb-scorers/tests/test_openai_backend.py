"""The OpenAI-compatible backend against a local server that does everything wrong that servers do."""

import gzip
import io
import json
import logging
import math
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from carb_data import CarbError
from carb_scorers.backends import endpoint
from carb_scorers.backends.base import Choices, Continuation, Failure, Generation, Prompt
from carb_scorers.contract import Usage
from carb_scorers.specs import read_options

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_scorers.backends.limits import TokenBucket
from carb_scorers.backends.openai import OpenAIModel, OpenAIOptions, open_openai

KEY = "sk-do-not-show-this-0123456789"


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []
        self.hook: Callable[[float], None] = lambda _: None

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.hook(self.time)
        await anyio.lowlevel.checkpoint()


def chat(text: object = "[[A]]", **choice: object) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


class Server:
    """Answers with ``script(number of the request, its body)``: a dictionary, or a function of the handler."""

    def __init__(self, script: Callable[[int, dict[str, Any]], object], port: int = 0) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    number = len(server.bodies)
                    server.bodies.append(body)
                    server.headers.append(dict(self.headers))
                    server.paths.append(self.path)
                answer = server.script(number, body)
                if callable(answer):
                    answer(self)
                else:
                    reply(answer)(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                pass

        self.http = Quiet(("127.0.0.1", port), Handler)
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def reply(answer: object, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Half an answer, then the end."""
    content = json.dumps(chat()).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True


def cut_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"10\r\n{" + b" " * 15 + b"\r\n")
    handler.close_connection = True


def reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True
    handler.wfile = io.BytesIO()


def drip(handler: BaseHTTPRequestHandler) -> None:
    """An answer that never ends, a byte at a time."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    waiting = threading.Event()
    for _ in range(400):
        handler.wfile.write(b" ")
        waiting.wait(0.01)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(script: Callable[[int, dict[str, Any]], object] | Sequence[object], port: int = 0) -> Server:
        if not callable(script):
            answers = list(script)
            script = lambda number, _: answers[min(number, len(answers) - 1)]  # noqa: E731
        started.append(Server(script, port))
        return started[-1]

    yield start
    for server in started:
        server.close()


def model(url: str, clock: Clock | None = None, **options: object) -> OpenAIModel:
    read = read_options(OpenAIOptions, "test", {"url": url, **options})
    return open_openai("m", read, clock=clock or Clock())


def prompts(count: int = 1) -> list[Prompt]:
    return [Prompt(({"role": "user", "content": f"Question {n}?"},), cue="\nAnswer:") for n in range(count)]


def ask(opened: OpenAIModel, count: int = 1, **options: Any) -> list[Generation | Failure]:
    async def go() -> list[Generation | Failure]:
        return await opened.generate(prompts(count), **{"max_tokens": 50, **options})

    return anyio.run(go)


def test_a_request_is_what_the_api_wants(serve: Callable[..., Server]) -> None:
    server = serve([chat()])
    (found,) = ask(model(server.url), max_tokens=7, stop=["\n"])
    assert isinstance(found, Generation)
    assert (found.text, found.finished) == ("[[A]]", True)
    assert found.usage == Usage(input_tokens=12, output_tokens=3, requests=1)
    assert server.paths == ["/v1/chat/completions"]
    messages = [{"role": "user", "content": "Question 0?"}]
    wanted = {"model": "m", "messages": messages, "max_tokens": 7, "temperature": 0.0, "stop": ["\n"]}
    assert server.bodies == [wanted]
    assert "Authorization" not in server.headers[0]


def test_sampling_has_a_seed_for_each_prompt(serve: Callable[..., Server]) -> None:
    server = serve([chat()])
    opened = model(server.url)
    ask(opened, 2, temperature=1.0, seed=3)
    ask(opened, 2, temperature=1.0, seed=3)
    seeds = sorted(body["seed"] for body in server.bodies)
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]


def test_answers_keep_their_order(serve: Callable[..., Server]) -> None:
    server = serve(lambda _, body: chat(body["messages"][0]["content"]))
    assert [f.text for f in ask(model(server.url), 20)] == [f"Question {n}?" for n in range(20)]


def test_a_body_of_the_users_own(serve: Callable[..., Server]) -> None:
    server = serve([chat()])
    own = '{"max_tokens": null, "temperature": null, "max_completion_tokens": 99, "reasoning": {"effort": "low"}}'
    ask(model(server.url, body=own))
    assert set(server.bodies[0]) == {"model", "messages", "max_completion_tokens", "reasoning"}
    for wrong in ("[1]", "{", ""):
        with pytest.raises(CarbError, match="body="):
            model(server.url, body=wrong)


def test_requests_at_a_time_are_bounded(serve: Callable[..., Server]) -> None:
    together = threading.Barrier(3, timeout=30)
    active = most = 0
    lock = threading.Lock()

    def script(_: int, __: dict[str, Any]) -> object:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        together.wait()  # passes only when three are here
        with lock:
            active -= 1
        return chat()

    opened = model(serve(script).url, concurrency=3)
    assert all(isinstance(f, Generation) for f in ask(opened, 12))
    assert most == 3
    assert opened.in_flight == 3


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
        ({"Retry_After": formatdate(1_700_000_000 + 1000 + 11, usegmt=True)}, 11.0),
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


BAD = {
    "redirect": (reply(b"", 307, Location="http://127.0.0.1:1/elsewhere"), "http", "redirects to"),
    "html": (reply(b"<!doctype html><title>Log in</title>", 200), "http", "not a JSON object: <!doctype html>"),
    "half json": (reply(b'{"choices": [{"mess'), "http", "not a JSON object"),
    "empty": (reply(b""), "http", "not a JSON object"),
    "list": (reply([1, 2]), "http", "not a JSON object"),
    "null": (reply(None), "http", "not a JSON object"),
    "deep": (reply(b"[" * 100_000), "http", "not a JSON object"),
    "binary": (reply(bytes(range(256))), "http", "not a JSON object"),
    "wrong gzip": (reply(b"not gzip", Content_Encoding="gzip"), "http", ""),
    "no choices": (reply({"id": "x"}), "http", "has not the form of the chat API"),
    "empty choices": (reply({"choices": []}), "http", "has not the form"),
    "odd choice": (reply({"choices": ["x"]}), "http", "has not the form"),
    "no message": (reply({"choices": [{}]}), "http", "has not the form"),
    "number": (reply(chat(7)), "http", "has not the form"),
    "error in 200": (reply({"error": {"message": "overloaded"}}), "http", "overloaded"),
    "400": (reply({"error": {"message": "no"}}, 400), "http", "400: no"),
    "422": (reply({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422), "http", "field required"),
    "too long": (
        reply({"error": {"message": "This model's maximum context length is 10", "code": 400}}, 400),
        "too-long",
        "maximum context length",
    ),
    "413": (reply(b"", 413), "too-long", "413"),
    "refusal": (reply(chat(None, message={"content": None, "refusal": "I can't"})), "refused", "refused"),
    "filtered": (reply(chat("", finish_reason="content_filter")), "refused", "refused"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_one_failure(serve: Callable[..., Server], name: str) -> None:
    answer, kind, said = BAD[name]
    server = serve(lambda _, body: answer if "Question 1?" in str(body) else chat())
    good, bad, other = ask(model(server.url), 3)
    assert isinstance(good, Generation)
    assert isinstance(other, Generation)
    assert isinstance(bad, Failure)
    assert bad.error.kind == kind
    assert said in bad.error.message
    assert len(bad.error.message) <= 400
    assert len(server.bodies) == 3  # not tried again


@pytest.mark.parametrize("compressed", [False, True])
def test_a_huge_answer_is_not_read_to_its_end(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    monkeypatch.setattr(endpoint, "_LARGEST_ANSWER", 2**20)
    huge = json.dumps(chat("x" * 2**24)).encode()
    answer = reply(gzip.compress(huge), Content_Encoding="gzip") if compressed else reply(huge)
    (found,) = ask(model(serve([answer]).url))
    assert isinstance(found, Failure)
    assert "larger than 1 MiB" in found.error.message


@pytest.mark.parametrize(
    ("answer", "text", "finished"),
    [
        (chat("a", finish_reason="length"), "a", False),
        (chat(None), "", True),
        (chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", True),
        (chat("half \ud83d pair"), "half \ud83d pair", True),
    ],
)
def test_answers_in_other_forms(serve: Callable[..., Server], answer: object, text: str, finished: bool) -> None:
    (found,) = ask(model(serve([answer]).url))
    assert isinstance(found, Generation)
    assert (found.text, found.finished) == (text, finished)


def test_usage_that_a_server_does_not_give_is_not_made_up(serve: Callable[..., Server]) -> None:
    for usage in (None, "x", {"prompt_tokens": "many", "completion_tokens": -1}):
        (found,) = ask(model(serve([{**chat(), "usage": usage}]).url))
        assert found.usage == Usage(requests=1)


# Log-probabilities


def top(*pairs: tuple[object, object]) -> dict[str, Any]:
    entries = [
        {"token": token, "logprob": value, **({"bytes": list(token.encode())} if isinstance(token, str) else {})}
        for token, value in pairs
    ]
    return chat(" A", logprobs={"content": [{"token": "A", "logprob": -0.1, "top_logprobs": entries}]})


def choices(opened: OpenAIModel, *wanted: str) -> Choices | Failure:
    async def go() -> Choices | Failure:
        (found,) = await opened.next_logprobs(prompts(), wanted)
        return found

    return anyio.run(go)


def test_log_probabilities_of_short_answers(serve: Callable[..., Server]) -> None:
    server = serve([top(("A", -0.5), (" A", -2.0), ("10", -3.0), ("1", -4.0), ("ไ", -6.0), ("the", -7.0))])
    found = choices(model(server.url), "A", "B", "1", "10", "ไ")
    assert isinstance(found, Choices)
    assert found.logprobs == {
        "A": pytest.approx(math.log(math.exp(-0.5) + math.exp(-2.0))),
        "1": -4.0,
        "10": -3.0,
        "ไ": -6.0,
    }
    assert found.floor == -7.0
    assert server.bodies[0] | {"messages": 0} == {
        "model": "m", "messages": 0, "max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20,
    }  # fmt: skip


def test_log_probabilities_from_the_completions_api(serve: Callable[..., Server]) -> None:
    tops = {" A": -0.25, " B": -1.5, "\n": -3.0}
    server = serve([{"choices": [{"text": " A", "logprobs": {"tokens": [" A"], "top_logprobs": [tops]}}]}])
    found = choices(model(server.url, api="completions"), "A", "B", "C")
    assert isinstance(found, Choices)
    assert (found.logprobs, found.floor) == ({"A": -0.25, "B": -1.5}, -3.0)
    assert server.paths == ["/v1/completions"]
    assert server.bodies[0]["prompt"] == "Question 0?\nAnswer:"
    assert server.bodies[0]["logprobs"] == 20


def test_a_server_without_log_probabilities_is_said_so(serve: Callable[..., Server]) -> None:
    with pytest.raises(CarbError, match="read=generate"):
        choices(model(serve([chat()]).url), "A")


@pytest.mark.parametrize(
    "answer",
    [
        top(("A", "x")),
        top(("A", math.nan)),
        top(("A", 5.0)),
        top((None, -1.0), ("A", None)),
        chat(logprobs={"content": []}),
    ],
    ids=["text", "nan", "positive", "null", "none"],
)
def test_nonsense_in_log_probabilities_is_a_failure(serve: Callable[..., Server], answer: object) -> None:
    found = choices(model(serve([answer]).url), "A")
    assert isinstance(found, Failure)
    assert found.error.kind == "http"


def continuation(opened: OpenAIModel, answer: str) -> Continuation | Failure:
    async def go() -> Continuation | Failure:
        (found,) = await opened.continuation_logprobs(prompts(), [answer])
        return found

    return anyio.run(go)


def test_log_probabilities_of_a_given_answer(serve: Callable[..., Server]) -> None:
    """Question 0?⏎Answer: is 19 characters; the answer's two tokens start there, and one more was generated."""
    logprobs = {"text_offset": [0, 11, 19, 23, 28], "token_logprobs": [None, -1.0, -0.5, -0.25, -9.0]}
    server = serve([{"choices": [{"text": "...", "logprobs": logprobs}]}])
    found = continuation(model(server.url, api="completions"), "red hats")
    assert isinstance(found, Continuation)
    assert found.logprobs == (-0.5, -0.25)
    body = server.bodies[0]
    assert body["prompt"] == "Question 0?\nAnswer: red hats"
    assert (body["echo"], body["max_tokens"]) == (True, 1)


def test_tokens_across_the_border_are_a_failure(serve: Callable[..., Server]) -> None:
    logprobs = {"text_offset": [0, 17, 23], "token_logprobs": [None, -0.5, -0.25]}
    found = continuation(
        model(serve([{"choices": [{"text": "", "logprobs": logprobs}]}]).url, api="completions"), "red hats"
    )
    assert isinstance(found, Failure)
    assert found.error.kind == "tokens"


def test_a_chat_server_has_no_log_probabilities_of_given_answers(serve: Callable[..., Server]) -> None:
    with pytest.raises(CarbError, match="api=completions"):
        continuation(model(serve([chat()]).url), "x")


# Limits


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


# Keys and addresses


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


def test_the_key_is_sent_and_seen_nowhere(
    serve: Callable[..., Server], key: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    say = {"error": {"message": f"Incorrect API key provided: {key}. Bearer {key}"}}
    server = serve([chat(f"your key is {key}"), reply(say, 400), reply(f"<b>{key}</b>".encode()), reply(say, 401)])
    opened = model(server.url, concurrency=1)
    texts = [repr(opened), repr(vars(opened)), repr(vars(opened._endpoint)), str(opened._options)]
    found = ask(opened, 3)
    texts += [repr(found)]
    with pytest.raises(CarbError) as caught:
        ask(opened, 1)
    texts += [str(caught.value), repr(caught.value), str(caught.getrepr(showlocals=False, style="short"))]
    assert all(headers["Authorization"] == f"Bearer {key}" for headers in server.headers)
    assert caplog.records  # httpx does log
    texts += [caplog.text, *(str(vars(record)) for record in caplog.records), *capfd.readouterr()]
    for text in texts:
        assert key not in text
        assert key[3:20] not in text
    with pytest.raises(TypeError):
        pickle.dumps(opened)


def test_a_key_by_another_name(serve: Callable[..., Server], key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "other\n")
    server = serve([chat()])
    ask(model(server.url, key_env="MINE"))
    assert server.headers[0]["Authorization"] == "Bearer other"


def test_a_missing_key_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CarbError, match="OPENAI_API_KEY holds no key"):
        model("https://api.openai.com/v1")
    with pytest.raises(CarbError, match="NO_SUCH holds no key"):
        model("http://127.0.0.1:1/v1", key_env="NO_SUCH")
    monkeypatch.setenv("ODD", "sk-ключ")
    with pytest.raises(CarbError, match="ODD holds characters") as caught:
        model("http://127.0.0.1:1/v1", key_env="ODD")
    assert "ключ" not in str(caught.value)


def test_a_key_is_not_sent_in_the_clear_unless_it_was_named(key: str) -> None:
    def header(url: str, **options: str) -> dict[str, str]:
        return model(url, **options)._endpoint._key.header()

    assert header("http://node7:8000/v1") == {}
    assert header("http://node7:8000/v1", key_env="OPENAI_API_KEY")
    for url in ("https://node7/v1", "http://localhost:1/v1", "http://127.3.2.1:1/v1", "http://[::1]:1/v1"):
        assert header(url), url


def test_a_proxy_is_not_asked_about_this_machine(
    serve: Callable[..., Server], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert isinstance(ask(model(serve([chat()]).url))[0], Generation)


@pytest.mark.parametrize(
    "url",
    ["", "api.openai.com", "ftp://x/v1", "http://", "file:///etc/passwd", "http://x/v1?key=1", "http://[x/v1"],
)
def test_addresses_must_be_addresses(url: str) -> None:
    with pytest.raises(CarbError, match="url= must be"):
        model(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(CarbError, match="password") as caught:
        model("http://user:hunter2@127.0.0.1/v1")
    assert "hunter2" not in str(caught.value)


# Event loops


def test_one_model_serves_one_event_loop_after_another(serve: Callable[..., Server]) -> None:
    server = serve([chat()])
    opened = model(server.url, rpm=6000, tpm=600000)
    for _ in range(3):
        assert isinstance(ask(opened, 2)[0], Generation)
    assert opened._endpoint._open is None  # connections were given back
    trio = pytest.importorskip("trio", reason="runs where trio is installed")
    assert trio

    async def go() -> list[Generation | Failure]:
        return await opened.generate(prompts(2), max_tokens=5)

    assert isinstance(anyio.run(go, backend="trio")[0], Generation)


def test_a_cancelled_call_gives_its_connections_back(serve: Callable[..., Server]) -> None:
    let_go = threading.Event()
    arrived = threading.Semaphore(0)

    def script(*_: object) -> object:
        arrived.release()
        let_go.wait(30)
        return chat()

    opened = model(serve(script).url)

    async def go() -> None:
        with anyio.CancelScope() as scope:

            async def stop() -> None:
                for _ in range(3):
                    await anyio.to_thread.run_sync(arrived.acquire)
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                await opened.generate(prompts(3), max_tokens=5)
        assert scope.cancelled_caught

    anyio.run(go)
    let_go.set()
    assert opened._endpoint._open is None
