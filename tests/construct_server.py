"""A server that answers like a model, or as badly as a test wants; needs the extra carb-data[construct]."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from carb_data import Domain
from carb_data.construct import Config, ConstructReport, ModelSpec
from carb_data.construct import construct as construct_with
from carb_data.sources.models import Reference
from carb_scorers.models.construction import ConstructionModels

FOODS = {
    "thai": "People eat rice with a spoon and a fork at most meals in the evening.",
    "german": "People eat bread with cheese and cold cuts at most meals in the evening.",
    "japanese": "People eat rice with chopsticks from a small bowl in the evening.",
    "korean": "People eat rice with a metal spoon and soup beside it in the evening.",
    "spanish": "People eat late, often after ten, with shared plates in the evening.",
}


def construct(config: Config, out: object, **options: object) -> ConstructReport:
    """With the models of carb-scorers."""
    return construct_with(config, out, models=ConstructionModels(), **options)


def references(count_each: int = 2) -> list[Reference]:
    return [
        Reference(
            id=f"{culture}-{n}", culture=culture, domain=Domain.COMMONSENSE, topic="food", language="en",
            text=f"{text} ({n})",
            provenance={"source": "book", "source_id": f"p{culture}{n}", "license": "CC-BY-4.0", "method": "authored"},
        )
        for culture, text in FOODS.items() for n in range(count_each)
    ]  # fmt: skip


Behaviour = Callable[[int, str, dict], "tuple[int, dict, bytes] | None"]


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.lock = threading.Lock()
        self.requests: list[tuple[str, dict, dict]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """Broken connections are what the tests make."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests.append((self.path, body, dict(self.headers)))
            number = len(self.server.requests)
        answer = self.server.behaviour(number, self.path, body)
        if answer is None:  # break off
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving(behaviour: Behaviour):
    server = FakeServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat(text: str, finish: str = "stop", **usage) -> tuple[int, dict, bytes]:
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 10}
    content = {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage}
    return 200, {"content-type": "application/json"}, json.dumps(content).encode()


def writer(number: int, path: str, body: dict) -> tuple[int, dict, bytes]:
    """A model that does as it is told."""
    prompt = body["messages"][0]["content"]
    if "Write one question" in prompt:
        return chat("How do people eat in the evening?")
    text = re.search(r"Reference material:\n\n(.*?)\n\nQuestion:", prompt, re.DOTALL)[1]
    return chat(f"“{text[:-4]} as told by {body['model']}.”")


def config_for(server, tmp_path, **changes) -> Config:
    path = tmp_path / "references.jsonl"
    if not path.exists():
        path.write_text("\n".join(r.model_dump_json() for r in references()), encoding="utf-8")
    url = server if isinstance(server, str) else server.url
    model = {"url": url, "retries": 2, "price_in": 1.0, "price_out": 10.0}
    base = {
        "references": path,
        "question": ModelSpec(model="asker", **model),
        "chosen": ModelSpec(model="strong", **model),
        "rejected": (ModelSpec(model="weak-1", **model), ModelSpec(model="weak-2", **model)),
        "window": (0.2, 0.98),
        "check_language": False,
    }
    return Config(**{**base, **changes})
