"""A server that answers like a model, or as badly as a test wants."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[[int, dict], "tuple[int, bytes] | None"]
"""The number of the request and its body to a status and an answer; null breaks the connection off."""


class WritingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.lock = threading.Lock()
        self.requests: list[tuple[dict, dict]] = []

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
            self.server.requests.append((body, dict(self.headers)))
            number = len(self.server.requests)
        answer = self.server.behaviour(number, body)
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, content = answer
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[WritingServer]:
    server = WritingServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat(text: str | None, finish: str = "stop") -> tuple[int, bytes]:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    content = {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage}
    return 200, json.dumps(content).encode()
