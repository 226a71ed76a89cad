"""The reward server: what trainers send, what comes back, and what never does: a number for a
failure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import ScoreRequest, ScoreResult
from carb_scorers.serve import LARGEST, LOOPBACK, WAITING, RewardServer, bind
from fake_scorer import FakeScorer

httpx = pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Letters(FakeScorer):
    """Counts letters. 'bad' fails, 'hang' hangs, 'broken' raises."""

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        texts = [c.text for request in requests for c in request.candidates]
        await anyio.sleep(30 if "hang" in texts else 0.01)
        if "broken" in texts:
            raise RuntimeError("out of memory")
        return await super().score(requests)


@asynccontextmanager
async def served(scorer: Any = None, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    scorer = scorer or Letters(name="letters", comparative=False)
    server = RewardServer(scorer, culture="german", language="de", **options)
    transport = httpx.ASGITransport(server)
    client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8766")
    async with client, anyio.create_task_group() as group:
        assert (await client.get("/health")).status_code == 503  # not before the scorer is open
        group.start_soon(server.work)
        while (await client.get("/health")).status_code != 200:
            await anyio.lowlevel.checkpoint()
        yield client, scorer
        group.cancel_scope.cancel()


def sent(*responses: str, prompt: str = "<s>[INST] Was? [/INST]") -> dict[str, Any]:
    """As OpenRLHF's ``remote_rm_fn`` sends it: texts decoded with their control tokens, and the
    prompts again."""
    return {
        "query": [f"{prompt}{response}</s>" for response in responses],
        "prompts": [prompt] * len(responses),
        "labels": ["x"] * len(responses),
    }


async def test_no_request_opens_the_scorer() -> None:
    """A request that came early opened the model itself, and nothing was answered until that was
    done."""
    transport = httpx.ASGITransport(RewardServer("baseline:nothing"))
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


async def test_what_hangs_is_cut_and_the_server_goes_on() -> None:
    async with served(timeout=0.2) as (client, _):
        assert (
            await client.post("/score", json={"prompt": "Was?", "responses": ["hang"]})
        ).status_code == 504
        assert (await client.post("/get_reward", json=sent("good"))).status_code == 200


async def test_what_waits_together_is_scored_together_and_the_queue_is_bounded() -> None:
    async with served() as (client, scorer):
        codes: list[int] = []

        async def ask(number: int) -> None:
            answer = await client.post(
                "/score", json={"prompt": f"Frage {number}?", "responses": ["x" * number]}
            )
            codes.append(answer.status_code)
            if answer.status_code == 200:
                assert answer.json()["scores"] == [float(number)]

        async with anyio.create_task_group() as group:
            for number in range(1, WAITING + 20):
                group.start_soon(ask, number)
        assert set(codes) == {200, 503}
        assert len(scorer.calls) < 10
        assert max(map(len, scorer.calls)) >= 32


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/get_reward", b"[", 422),
        ("/get_reward", b"{}", 422),
        ("/get_reward", json.dumps(sent("a") | {"prompts": []}).encode(), 422),
        ("/get_reward", json.dumps(sent("a") | {"prompts": ["another"]}).encode(), 422),
        ("/get_reward", json.dumps(sent("a") | {"labels": []}).encode(), 422),
        ("/score", b'{"prompt": "x", "responses": []}', 422),
        ("/score", b'{"prompt": "x", "responses": ["y"], "role": "chosen"}', 422),
        ("/score", b"x" * (LARGEST + 1), 413),
        ("/nothing", b"{}", 404),
    ],
)
async def test_other_bodies_are_refused_with_a_reason(path: str, body: bytes, status: int) -> None:
    async with served() as (client, _):
        answer = await client.post(path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


async def test_who_may_ask() -> None:
    async with served(token="geheim") as (client, _):
        assert (await client.post("/get_reward", json=sent("a"))).status_code == 401
        right = {"Authorization": "Bearer geheim"}
        assert (await client.post("/get_reward", json=sent("a"), headers=right)).status_code == 200
        assert (
            await client.get("/spec", headers={"Authorization": "Bearer falsch"})
        ).status_code == 401
    async with served(hosts=LOOPBACK) as (client, _):
        rebound = {"Host": "evil.example:8766"}
        assert (
            await client.post("/get_reward", json=sent("a"), headers=rebound)
        ).status_code == 421
        form = {"content-type": "text/plain"}
        assert (await client.post("/get_reward", content=b"{}", headers=form)).status_code == 415
    with pytest.raises(CarbError, match="--token-env"):
        bind("0.0.0.0", 0, token=None)
