"""A server of OpenAI's form that follows a script, and a model that asks it; needs the extra
carb-scorers[api]."""

import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio

from carb_data.validation import read_options
from carb_scorers.models.protocol import Failure, Generation, Prompt, Writing, message
from carb_scorers.models.server_models import ServerLanguageModel
from carb_scorers.models.server_options import ServerLanguageOptions
from carb_scorers.models.server_retries import Clock as SystemClock


class Clock(SystemClock):
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []
        self.hook: Callable[[float], None] = lambda _: None

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.hook(self.time)
        await anyio.lowlevel.checkpoint()


def chat(text: object = "[[A]]", **choice: object) -> dict[str, Any]:
    return {
        "choices": [
            {"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **choice}
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


class Server:
    """Answers with ``script(number of the request, its body)``: a dictionary, or a function of the
    handler."""

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
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def in_turn(answers: Sequence[object]) -> Callable[[int, dict[str, Any]], object]:
    """A script of answers one after another, the last one for ever."""

    def script(number: int, _: dict[str, Any]) -> object:
        return answers[min(number, len(answers) - 1)]

    return script


def reply(
    answer: object, status: int = 200, **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
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


def model(url: str, clock: SystemClock | None = None, **options: object) -> ServerLanguageModel:
    read = read_options(ServerLanguageOptions, "test", {"url": url, **options})
    return ServerLanguageModel("m", read, clock or Clock())


def prompts(count: int = 1) -> list[Prompt]:
    return [Prompt((message("user", f"Question {n}?"),), cue="\nAnswer:") for n in range(count)]


def ask(opened: ServerLanguageModel, count: int = 1, **options: Any) -> list[Generation | Failure]:
    async def go() -> list[Generation | Failure]:
        return await opened.generate(prompts(count), Writing(**{"max_tokens": 50, **options}))

    return anyio.run(go)
