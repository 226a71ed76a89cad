"""A policy behind an OpenAI-compatible server, here a small one on the loopback."""

import anyio
import pytest

from carb_data.tasks import TaskPrompt
from carb_scorers.bon import collect, open_policy

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")


class Task:
    name = "colours:none"
    instruction = "One word."
    shots = (("Grass?", "green"),)
    one_line = True
    prompts = tuple(
        TaskPrompt(id=f"p{n}", text=f"Colour {n}?", culture="thai", language="th", source_item=str(n)) for n in range(3)
    )

    def grade(self, prompt_id, text):
        return None


@pytest.fixture
def server(serve):
    """Answers with the seed that it was asked for; refuses questions about colour 2."""
    from openai_server import chat, reply

    def script(_, body):
        refused = "Colour 2" in body["messages"][-1]["content"]
        return reply({"error": {"message": "no"}}, 400) if refused else chat(f"Answer: seed {body['seed']}\nand more")

    return serve(script)


def test_each_sample_has_its_seed_and_a_refusal_is_an_error_row(server, tmp_path):
    url, bodies = server.url, server.bodies

    async def run(n):
        policy = open_policy(f"openai:painter?url={url}&temperature=0.7&max_new_tokens=9")
        try:
            return await collect(policy, Task(), n, tmp_path / "pool.jsonl")
        finally:
            await policy.aclose()

    pool = anyio.run(run, 3)
    texts = [sample.text for key in ("p0", "p1") for sample in pool.samples[key]]
    assert len(set(texts)) == 6
    assert all(text.startswith("seed ") and "\n" not in text for text in texts)
    assert all(sample.error for sample in pool.samples["p2"])
    first = bodies[0]
    assert (first["model"], first["max_tokens"], first["temperature"], first["stop"]) == ("painter", 9, 0.7, ["\n"])
    assert [m["role"] for m in first["messages"]] == ["user", "assistant", "user"]
    asked = len(bodies)
    assert anyio.run(run, 2).samples["p0"] == pool.samples["p0"][:2]
    assert len(bodies) == asked
    assert pool.head.policy.parameters["url"] == url
