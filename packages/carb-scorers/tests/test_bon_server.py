"""A policy behind an OpenAI-compatible server, here a small one on the loopback."""

import json
import threading
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

    def grade_all(self, answers):
        return [None for _ in answers]


@pytest.fixture
def server():
    """Answers with the seed that it was asked for; refuses questions about colour 2."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            refused = "Colour 2" in body["messages"][-1]["content"]
            text = f"Answer: seed {body['seed']}\nand more"
            choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            answer = {"error": {"message": "no"}} if refused else {"choices": [choice], "usage": {}}
            content = json.dumps(answer).encode()
            self.send_response(400 if refused else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/v1", bodies
    httpd.shutdown()
    httpd.server_close()
    thread.join()


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
