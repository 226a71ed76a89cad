"""A policy behind an OpenAI-compatible server, here a small one on the loopback."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


@contextmanager
def serving(answer):
    """A server that says ``answer(body)`` and refuses where that is null; gives its URL and what it was asked."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            text = answer(body)
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            told = {"error": {"message": "no"}} if text is None else {"choices": [choice], "usage": {}}
            content = json.dumps(told).encode()
            self.send_response(400 if text is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1", bodies
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


@pytest.fixture
def server():
    """Answers with the seed that it was asked for; refuses questions about colour 2."""

    def answer(body):
        refused = "Colour 2" in body["messages"][-1]["content"]
        return None if refused else f"Answer: seed {body['seed']}\nand more"

    with serving(answer) as found:
        yield found


def test_each_sample_has_its_seed_and_a_refusal_is_an_error_row(server, tmp_path):
    url, bodies = server

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


def test_a_line_break_before_the_first_word_does_not_end_an_answer(tmp_path):
    """The server stops at a line break as it is asked to; the policy asks once more for what came behind it."""
    written = {"0": "\nblue\nand more", "1": "Answer:\ngreen", "2": ""}

    def answer(body):
        text = written[re.findall(r"Colour (\d)", body["messages"][-1]["content"])[0]]
        return text.split("\n")[0] if body.get("stop") else text

    async def run(url):
        policy = open_policy(f"openai:painter?url={url}&temperature=0.7")
        try:
            return await collect(policy, Task(), 1, tmp_path / "pool.jsonl")
        finally:
            await policy.aclose()

    with serving(answer) as (url, bodies):
        pool = anyio.run(run, url)
    assert [(row[0].text, row[0].error) for row in pool.samples.values()] == [
        ("blue", None),
        ("green", None),
        ("", None),
    ]
    seeds = [(body["messages"][-1]["content"], body["seed"]) for body in bodies]
    assert len(seeds) == 6  # an answer that is empty to its end is taken as it is
    assert len(set(seeds)) == 3
