"""The reward server: what trainers send, what comes back, and what never does: a number for a
failure."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import process_time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from carb_data import CarbError
from carb_scorers import ScoreRequest, ScoreResult
from fake_scorer import FakeScorer

httpx = pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
uvicorn = pytest.importorskip("uvicorn", reason="needs the extra carb-scorers[serve]")

from carb_scorers.http_server import server_config  # noqa: E402 - not without the extra
from carb_scorers.serve import (  # noqa: E402
    LARGEST,
    LOOPBACK,
    RewardServer,
    bind,
    take_port,
)

pytestmark = pytest.mark.anyio
GERMAN = {"culture": "german", "language": "de"}
WHOLE = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Letters(FakeScorer):
    """Counts letters. 'bad' fails, 'hang' hangs, 'broken' raises, 'wrong' is a user's mistake."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(name="letters", comparative=False, **spec)
        self.cancelled: list[str] = []

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        texts = [c.text for request in requests for c in request.candidates]
        if "hang" in texts:
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled += texts
        await anyio.sleep(0.01)
        if "broken" in texts:
            raise RuntimeError("out of memory")
        if "wrong" in texts:
            raise CarbError("This scorer reads no such text.")
        return await super().score(requests)


@asynccontextmanager
async def served(scorer: Any = None, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A server in this process, and a client that speaks to it without a socket."""
    scorer = scorer or Letters()
    server = RewardServer(scorer, **GERMAN | options)
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(server), base_url="http://127.0.0.1:8766"
    )
    async with client, anyio.create_task_group() as group:
        assert (await client.get("/health")).status_code == 503  # not before the scorer is open
        group.start_soon(server.work)
        while (await client.get("/health")).status_code != 200:
            await anyio.lowlevel.checkpoint()
        yield client, scorer
        group.cancel_scope.cancel()


@asynccontextmanager
async def listening(
    scorer: Any = None, *, head_seconds: float = 30.0, idle_seconds: int = 95, **options: Any
) -> AsyncIterator[tuple[Any, int, Any]]:
    """A server on a port of this machine, with a client, its port, and its scorer."""
    scorer = scorer or Letters()
    server = RewardServer(scorer, **GERMAN | options)
    taken = take_port("127.0.0.1", 0)
    port = taken.getsockname()[1]
    config = server_config(server, head_seconds=head_seconds, idle_seconds=idle_seconds)
    program = uvicorn.Server(config)
    limits = httpx.Limits(max_connections=None)
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60)
    async with anyio.create_task_group() as group, client:
        group.start_soon(server.work)
        group.start_soon(partial(program.serve, sockets=[taken]))
        while (await client.get("/health")).status_code != 200:
            await anyio.lowlevel.checkpoint()
        yield client, port, scorer
        program.should_exit = True
        await client.aclose()
        while program.started and program.server_state.connections:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    taken.close()


async def asked(client: Any, *responses: str, **more: Any) -> tuple[int, Any]:
    answer = await client.post("/score", json={"prompt": "Was?", "responses": responses} | more)
    return answer.status_code, answer.json()


def sent(*responses: str, prompt: str = "<s>[INST] Was? [/INST]") -> dict[str, Any]:
    """As OpenRLHF's ``remote_rm_fn`` sends it: texts decoded with their control tokens, and the
    prompts again."""
    return {
        "query": [f"{prompt}{response}</s>" for response in responses],
        "prompts": [prompt] * len(responses),
        "labels": ["x"] * len(responses),
    }


async def test_a_rendered_prompt_and_an_end_of_text_are_undone_by_score_too() -> None:
    """Trainers' own functions send what the policy read and wrote. The control tokens were broken
    up, and the scores were those of other texts."""
    async with served() as (client, scorer):
        for prompt in ("Was?", "<s>[INST] Was? [/INST]"):
            status, content = await asked(client, "ab", "abc</s>", prompt=prompt)
            assert (status, content["scores"]) == (200, [2.0, 3.0])
        assert {one.prompt for one in scorer.requests} == {"Was?"}
        for prompt in ("<|odd|>Was?", '[{"role": "user", "content": "Was?"}]'):
            status, content = await asked(client, "a", prompt=prompt)
            assert status == 422
            assert "--policy-template" in content["error"]


async def test_a_thought_is_cut_and_one_without_an_end_has_no_score() -> None:
    """Thought and answer were scored together."""
    shut = "<|im_start|>user\nWas?<|im_end|>\n<|im_start|>assistant\n"
    opened = f"{shut}<think>\n"
    async with served() as (client, scorer):
        status, content = await asked(client, "<think>Hm.</think>abc</s>", "Hm.</think>\n\nab")
        assert (status, content["scores"]) == (200, [3.0, 2.0])
        for prompt, said in ((shut, "<think>\nHm.</think>\n\nabc"), (opened, "Hm.</think>abc")):
            answer = await client.post("/get_reward", json=sent(said, prompt=prompt))
            assert (answer.status_code, answer.json()) == (200, {"rewards": [3.0]})
        before = len(scorer.requests)
        _, content = await asked(client, "<think>Hm.", "abc")
        assert content["scores"] == [None, 3.0]
        assert content["errors"][0]["kind"] == "no-answer"
        for prompt, said in ((shut, "<think>Hm."), (opened, "Hm. Rosen?")):
            answer = await client.post("/get_reward", json=sent(said, prompt=prompt))
            assert answer.status_code == 502
            assert answer.json()["failed"][0]["kind"] == "no-answer"
        assert len(scorer.requests) == before + 1
        _, content = await asked(client, "Hm.", "Hm.</think>abcd", prompt=opened)
        assert content["scores"] == [None, 4.0]


@pytest.mark.parametrize(
    "prompt",
    ["Was ist das?", "<|im_start|>user\nWas ist das?<|im_end|>\n<|im_start|>assistant\n"],
    ids=["plain", "rendered"],
)
@pytest.mark.parametrize(
    "whole",
    [
        "<|im_start|>user\nWas ist das?<|im_end|>\n<|im_start|>assistant\nBrot.<|im_end|>\n",
        "<s>[INST] Was ist das? [/INST] Brot.</s>",
        "<bos><start_of_turn>user\nWas ist das?<end_of_turn>\n<start_of_turn>model\nBrot.",
        "<|start|>user<|message|>Was ist das?<|end|><|start|>assistant<|channel|>final<|message|>B",
    ],
    ids=["ChatML", "INST", "Gemma", "gpt-oss"],
)
async def test_a_whole_conversation_is_no_response(prompt: str, whole: str) -> None:
    """Trainers that keep one text send it whole, and its question was scored with the answer."""
    async with served() as (client, letters):
        status, answer = await asked(client, "Brot.", whole, prompt=prompt)
        assert status == 422
        assert "response 1" in answer["error"]
        assert not letters.requests
        odd = "<|im_end|>\n<|im_start|>user\nUnd?"  # what an untrained policy may write is scored
        assert (await asked(client, odd, prompt=prompt))[0] == 200


@pytest.mark.parametrize(
    ("asked_as", "rendered"),
    [
        ("Was hei\u00dft M\u00fcsli?", "Was hei\u00dft Mu\u0308sli?"),
        ("Was hei\u00dft Mu\u0308sli?", "Was hei\u00dft M\u00fcsli?"),
        ("Was ist  das?", "Was ist das?"),
        ("Was ist\ndas?", "Was\u00a0ist das?"),
    ],
    ids=["decomposed", "composed", "two spaces", "other spaces"],
)
async def test_a_whole_conversation_is_known_in_another_form_of_its_question(
    asked_as: str, rendered: str
) -> None:
    """Tokenizers compose letters and change spaces."""
    whole = f"<|im_start|>user\n{rendered}<|im_end|>\n<|im_start|>assistant\nBrot.<|im_end|>\n"
    async with served() as (client, letters):
        assert (await asked(client, whole, prompt=asked_as))[0] == 422
        assert not letters.requests


@pytest.mark.parametrize("prompt", ["", " "])
async def test_a_prompt_may_be_empty(prompt: str) -> None:
    """It was looked for in the answer, which raised."""
    async with served() as (client, _):
        assert (await asked(client, "Brot.", prompt=prompt))[0] == 200


@pytest.mark.parametrize(
    "quoting",
    [
        "<|channel|>analysis<|message|>I read: Was ist das?<|channel|>final<|message|>Brot.",
        "[THINK]Was ist das?[/THINK]Brot.",
        "<|START_THINKING|>Sie fragt: Was ist das?<|END_THINKING|>Brot.",
        "<|im_start|>assistant\nDu fragst: Was ist das?<|im_end|>",
        "<s>Was ist das?</s>",
    ],
)
async def test_an_answer_may_quote_its_question(quoting: str) -> None:
    async with served() as (client, _):
        assert (await asked(client, "Brot.", quoting, prompt="Was ist das?"))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "Was?", "response": "a", "label": None},
        {"model": "model", "messages": ["a"]},
        {"text": "a"},
        {"input_ids": [1], "return_logprob": True},
    ],
    ids=["slime", "LLaMA-Factory", "ms-swift", "slime's teacher"],
)
@pytest.mark.parametrize("path", ["/score", "/get_reward"])
async def test_what_other_trainers_send_is_refused_with_what_is_taken(
    path: str, body: dict[str, Any]
) -> None:
    async with served() as (client, _):
        answer = await client.post(path, json=body)
        assert answer.status_code == 422
        assert "/score takes prompt and responses" in answer.json()["error"]


@pytest.mark.parametrize(
    ("turns", "fact"),
    [
        ([{"role": "user", "content": [{"type": "text"}]}], "prompt.0.content"),
        ([{"role": "user", "content": "a"}, {"role": "tool", "content": ""}], "prompt.1.role"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "end with"),
        ([], "at least 1"),
        (3, "must be a text"),
    ],
)
async def test_what_is_wrong_with_a_conversation_is_named(turns: Any, fact: str) -> None:
    """Whatever it was, the answer said that a prompt must be a text."""
    async with served() as (client, _):
        answer = await client.post("/score", json={"prompt": turns, "responses": ["a"]})
        assert (answer.status_code, fact in answer.json()["error"]) == (422, True)


def test_an_idle_connection_is_kept_longer_than_clients_keep_theirs() -> None:
    """Else a client that asks again finds it closed, and has no reward."""
    assert server_config(None).timeout_keep_alive > 90  # Go's; aiohttp has 15, httpx 5


async def test_no_request_opens_the_scorer() -> None:
    """A request that came early opened the model itself, and nothing was answered until that was
    done."""
    transport = httpx.ASGITransport(RewardServer("classifier:no/such/folder"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8766") as client:
        asked = [await client.get("/spec"), await client.post("/get_reward", json=sent("a"))]
    assert [answer.status_code for answer in asked] == [503, 503]


async def test_rewards_come_in_order_and_without_control_tokens() -> None:
    async with served() as (client, _):
        answer = await client.post("/get_reward", json=sent("vier", "zwei!!", "vier"))
        assert (answer.status_code, answer.json()) == (200, {"rewards": [4.0, 6.0, 4.0]})
        typed = await client.post("/score", json={"prompt": "Was?", "responses": ["a", "bcd"]})
        assert typed.json() == {"scores": [1.0, 3.0], "errors": [None, None]}
        assert (await client.get("/spec")).json()["spec"]["name"] == "letters"


async def test_white_space_around_a_response_changes_no_score() -> None:
    async with served() as (client, _):
        assert (await asked(client, "\n\neins", "eins", "eins\n"))[1]["scores"] == [4.0] * 3


async def test_a_failure_is_an_error_and_never_a_number() -> None:
    async with served() as (client, _):
        answer = await client.post("/get_reward", json=sent("good", "bad"))
        assert answer.status_code == 502
        assert "rewards" not in answer.json()
        assert {one["index"] for one in answer.json()["failed"]} == {
            0,
            1,
        }  # they were compared with each other
        typed = (await client.post("/score", json={"prompt": "Was?", "responses": ["bad"]})).json()
        assert typed == {"scores": [None], "errors": [{"kind": "parse", "message": "no verdict"}]}
        (error,) = (
            await client.post("/score", json={"prompt": "Was?", "responses": ["broken"]})
        ).json()["errors"]
        assert "out of memory" in error["message"]
        assert (await client.post("/get_reward", json=sent("broken"))).status_code == 502
        assert (await client.post("/get_reward", json=sent("good"))).status_code == 200


async def test_one_response_alone_is_not_compared() -> None:
    """OpenRLHF sends each response by itself, and a judge that compares gave each of them the same
    reward."""
    async with served(FakeScorer()) as (client, _):
        assert (await client.post("/get_reward", json=sent("good"))).status_code == 422
        typed = await client.post("/score", json={"prompt": "Was?", "responses": ["good"]})
        assert (typed.status_code, "mode=pointwise" in typed.json()["error"]) == (422, True)
        assert (await client.post("/get_reward", json=sent("same", "same"))).json() == {
            "rewards": [4.0, 4.0]
        }


async def test_that_a_scorer_compares_is_said_at_the_start() -> None:
    """OpenRLHF's first call, in the first step of training, was the first to hear of it."""
    for scorer, expected in [(FakeScorer(), True), (Letters(), False)]:
        notes: list[str] = []
        server = RewardServer(scorer, **GERMAN)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(server), base_url="http://127.0.0.1:8766"
        )
        async with client, anyio.create_task_group() as group:
            group.start_soon(server.work, notes.append)
            while (await client.get("/health")).status_code != 200:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert any("mode=pointwise" in note for note in notes) == expected


async def test_what_hangs_is_cut_and_the_server_goes_on() -> None:
    async with served(timeout=0.2) as (client, _):
        assert (
            await client.post("/score", json={"prompt": "Was?", "responses": ["hang"]})
        ).status_code == 504
        assert (await client.post("/get_reward", json=sent("good"))).status_code == 200


async def test_all_of_a_burst_are_scored_and_together() -> None:
    """64 calls could wait, and each further one of a burst was refused."""
    async with served() as (client, scorer):
        found: dict[int, Any] = {}

        async def ask(number: int) -> None:
            found[number] = await asked(client, "x" * number, prompt=f"Frage {number}?")

        async with anyio.create_task_group() as group:
            for number in range(1, 401):
                group.start_soon(ask, number)
        expected = {n: (200, {"scores": [float(n)], "errors": [None]}) for n in range(1, 401)}
        assert found == expected
        assert len(scorer.calls) < 20
        assert max(map(len, scorer.calls)) >= 32


async def test_the_queue_is_bounded_by_memory() -> None:
    async with served(memory=8192, timeout=0.5) as (client, _):
        for responses in (["x" * 9000], ["x"] * 9):
            answer = await client.post("/score", json={"prompt": "Was?", "responses": responses})
            assert (answer.status_code, "Send less" in answer.json()["error"]) == (413, True)
            assert "retry-after" not in answer.headers, "it would never find room"
        codes: Counter[int] = Counter()

        async def hang() -> None:
            codes[(await asked(client, "hang"))[0]] += 1

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(hang)
        assert set(codes) == {503, 504}
        assert (await asked(client, "gut"))[0] == 200, "room is given back"


@pytest.mark.parametrize("in_flight", [None, 8])
async def test_one_that_hangs_costs_its_neighbours_nothing(in_flight: int | None) -> None:
    """A batch shared one clock: of 32 calls with one that hangs, all 32 were cut."""
    async with served(Letters(in_flight=in_flight), timeout=4.0) as (client, scorer):
        found: dict[str, int] = {}

        async def ask(text: str) -> None:
            found[text] = (await asked(client, text))[0]

        async with anyio.create_task_group() as group:
            for text in ("hang", *("x" * number for number in range(1, 32))):
                group.start_soon(ask, text)
        assert Counter(found.values()) == {200: 31, 504: 1}
        assert found["hang"] == 504
        assert "hang" in scorer.cancelled, "what nobody waits for is not computed further"


async def test_what_was_answered_in_time_is_given() -> None:
    async with served(Letters(in_flight=4), timeout=0.5) as (client, _):
        status, answer = await asked(client, "eins", "hang", "drei!")
        assert (status, answer["scores"]) == (200, [4.0, None, 5.0])
        assert answer["errors"][1]["kind"] == "timeout"
        answer = await client.post("/get_reward", json=sent("eins", "hang"))
        assert (answer.status_code, answer.json()["failed"][0]["index"]) == (504, 1)


async def test_each_call_fails_alone() -> None:
    """A user's mistake in one call was the 500 of all calls that waited with it."""
    async with served() as (client, _):
        found: dict[str, tuple[int, Any]] = {}

        async def ask(text: str) -> None:
            found[text] = await asked(client, text)

        async with anyio.create_task_group() as group:
            for text in ("eins", "wrong", "zwei", "drei!", "broken"):
                group.start_soon(ask, text)
        assert {text: status for text, (status, _) in found.items()} == {
            "eins": 200,
            "zwei": 200,
            "drei!": 200,
            "wrong": 500,
            "broken": 200,
        }
        assert "reads no such text" in found["wrong"][1]["error"]
        assert found["broken"][1]["scores"] == [None]


async def test_who_has_left_is_not_waited_for() -> None:
    """Calls of clients that had gone stayed in the queue, and a new one waited behind them."""
    async with listening(Letters(in_flight=1)) as (client, port, scorer):
        body = json.dumps({"prompt": "Was?", "responses": ["hang"]}).encode()
        head = b"POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        for _ in range(3):
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            await stream.aclose()
        with anyio.fail_after(20):
            assert (await asked(client, "gut"))[0] == 200
        assert set(scorer.cancelled) <= {"hang"}


@pytest.mark.parametrize(
    "sent_first",
    [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", WHOLE, WHOLE + b"GET /hea"],
    ids=["nothing", "half a head", "a whole request", "a request and a half"],
)
async def test_a_connection_without_a_whole_head_is_closed(sent_first: bytes) -> None:
    """It was held for ever, with no limit of their number."""
    async with listening(head_seconds=0.3, idle_seconds=1) as (client, port, _):
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(sent_first)
        with anyio.fail_after(20):
            received = b"".join([part async for part in stream])  # up to the end of the connection
        assert received.startswith(b"HTTP/1.1 200 ") == sent_first.startswith(WHOLE)
        await stream.aclose()
        assert (await asked(client, "gut"))[0] == 200


async def test_a_head_in_time_keeps_its_connection_while_it_is_scored() -> None:
    async with listening(head_seconds=0.3, timeout=1.0) as (client, _, _):
        assert (await asked(client, "hang"))[0] == 504


async def test_a_body_that_never_ends_is_closed() -> None:
    async with listening(timeout=0.3) as (_, port, _):
        stream = await anyio.connect_tcp("127.0.0.1", port)
        head = b"POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        await stream.send(head + b"Content-Length: 1000\r\n\r\n{")
        with anyio.fail_after(20):
            received = b"".join([part async for part in stream])  # up to the end of the connection
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in received
        await stream.aclose()


async def test_the_sender_of_a_large_body_reads_why_it_is_refused() -> None:
    async with listening() as (client, _, _):
        large = json.dumps({"prompt": "Was?", "responses": ["x" * (LARGEST + 1)]}).encode()
        answer = await client.post(
            "/score", content=large, headers={"content-type": "application/json"}
        )
        assert (answer.status_code, "at most" in answer.json()["error"]) == (413, True)


async def test_many_responses_to_one_prompt_do_not_stop_the_server() -> None:
    """Duplicates were looked for in a list, on the event loop: 20,000 responses took minutes.

    The processor's time is measured, which other programs on the machine do not change.
    """
    count = 40_000
    queries = {"query": [str(n) for n in range(count)], "prompts": [""] * count}
    async with listening("baseline:length") as (client, _, _):
        slowest, began = 0.0, process_time()
        answers = []

        async def ask() -> None:
            answers.append(await client.post("/get_reward", json=queries))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not answers:
                sent_at = process_time()
                assert (await client.get("/health")).status_code == 200
                slowest = max(slowest, process_time() - sent_at)
        assert answers[0].json()["rewards"][::8000] == [1.0, 4.0, 5.0, 5.0, 5.0]
        assert process_time() - began < 30
        assert slowest < 5


async def test_a_scorer_that_reads_no_culture_needs_none() -> None:
    none = {"culture": None, "language": None}
    async with served("baseline:length", **none) as (client, _):
        assert (await asked(client, "vier"))[1]["scores"] == [4.0]
        assert (await client.post("/get_reward", json=sent("vier"))).json() == {"rewards": [4.0]}
        empty = {"query": [], "prompts": [], "labels": []}  # OpenRLHF's share for a second address
        assert (await client.post("/get_reward", json=empty)).json() == {"rewards": []}
    async with served("baseline:label", **none) as (client, _):
        assert "--culture" in (await client.post("/get_reward", json=sent("a"))).json()["error"]
        status, answer = await asked(client, "a", culture="atlantean")
        assert (status, "atlantean" in answer["error"]) == (422, True)
        assert (await asked(client, "a", culture="unknown"))[0] == 422
        assert (await asked(client, "In Thailand", culture="thai"))[1]["scores"] == [1.0]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/get_reward", b"[", 422),
        ("/get_reward", b"{}", 422),
        ("/get_reward", json.dumps(sent("a") | {"prompts": []}).encode(), 422),
        ("/get_reward", json.dumps(sent("a") | {"prompts": ["another"]}).encode(), 422),
        ("/get_reward", json.dumps(sent("a", prompt="<|x_user|>W?<|x_bot|>")).encode(), 422),
        ("/get_reward", json.dumps(sent("a") | {"labels": []}).encode(), 422),
        ("/score", b'{"prompt": "x", "responses": []}', 422),
        ("/score", b'{"prompt": "x", "responses": ["y"], "role": "chosen"}', 422),
        ("/score", b'{"prompt": "x", "prompt": "y", "responses": ["z"]}', 422),
        ("/score", b'{"prompt": [{"role": "user", "content": "x", "content": "y"}]}', 422),
        ("/score", b'{"prompt": "x", "responses": ["\\ud800"]}', 422),
        ("/score", b'{"prompt": "x", "responses": ["\xff"]}', 422),
        ("/score", b'{"prompt": "x", "responses": [7]}', 422),
        ("/get_reward", b'{"query": "Qa", "prompts": "Q"}', 422),
        ("/get_reward", b'{"query": [], "prompts": [], "labels": [' + b"9" * 9_999 + b"]}", 422),
        ("/get_reward", b"[" * 99_999, 422),
        ("/score", b"x" * (LARGEST + 1), 413),
        ("/nothing", b"{}", 404),
    ],
)
async def test_other_bodies_are_refused_with_a_reason(path: str, body: bytes, status: int) -> None:
    async with served() as (client, _):
        answer = await client.post(path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


async def test_a_client_of_http_1_0_names_no_host() -> None:
    async with served(hosts=LOOPBACK) as (client, _):
        request = client.build_request("POST", "/get_reward", json=sent("a"))
        del request.headers["host"]
        assert (await client.send(request)).status_code == 200


async def test_who_may_ask() -> None:
    async with served(token="geheim") as (client, _):
        assert (await client.post("/get_reward", json=sent("a"))).status_code == 401
        right = {"Authorization": "Bearer geheim"}
        assert (await client.post("/get_reward", json=sent("a"), headers=right)).status_code == 200
        assert (
            await client.get("/spec", headers={"Authorization": "Bearer falsch"})
        ).status_code == 401
    async with served(token="schlüssel/2") as (client, _):
        right = {"Authorization": "Bearer schlüssel/2".encode()}
        assert (await client.post("/get_reward", json=sent("a"), headers=right)).status_code == 200
        inside = "/schl%C3%BCssel%2F2/get_reward"  # for OpenRLHF, whose client sends no header
        assert (await client.post(inside, json=sent("a"))).status_code == 200
        assert (await client.post("/falsch/get_reward", json=sent("a"))).status_code == 401
    async with served(hosts=LOOPBACK) as (client, _):
        rebound = {"Host": "evil.example:8766"}
        assert (
            await client.post("/get_reward", json=sent("a"), headers=rebound)
        ).status_code == 421
        form = {"content-type": "text/plain"}
        assert (await client.post("/get_reward", content=b"{}", headers=form)).status_code == 415
        form = {"content-type": "Application/JSON; charset=utf-8"}
        body = json.dumps(sent("a"))
        assert (await client.post("/get_reward", content=body, headers=form)).status_code == 200
        packed = form | {"content-encoding": "gzip"}
        answer = await client.post("/get_reward", content=gzip.compress(b"{}"), headers=packed)
        assert (answer.status_code, "Content-Encoding" in answer.json()["error"]) == (415, True)
    with pytest.raises(CarbError, match="--token-env"):
        bind("0.0.0.0", 0, token=None)
    for port in (-1, 99_999):
        with pytest.raises(CarbError, match="65535"):
            take_port("127.0.0.1", port)
