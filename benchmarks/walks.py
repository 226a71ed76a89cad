"""How many functions of ours, in how many modules and how deep, three things take; class bodies and
lambdas aside.

A run of two baselines over carb-seed, its report, and one call of a judge on a server on the
loopback.

Usage: python benchmarks/walks.py [--names]
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import CodeType, FrameType

import anyio

from carb_cli.main import main
from carb_scorers import Candidate, ScoreRequest, open_scorer

OURS = tuple(
    f"/{package}/"
    for package in ("carb_data", "carb_scorers", "carb_metrics", "tal_rlvr", "carb_cli")
)
ANSWER = {"choices": [{"message": {"content": "[[B]]"}, "finish_reason": "stop"}]}


def ours(frame: FrameType) -> bool:
    """Whether a frame is a function of ours."""
    code = frame.f_code
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(function) and any(part in code.co_filename for part in OURS)


def chain_of(frame: FrameType | None) -> list[CodeType]:
    """The functions of ours that a frame stands in, from the outermost to its own."""
    chain = []
    while frame is not None:
        if ours(frame):
            chain.append(frame.f_code)
        frame = frame.f_back
    return chain[::-1]


@contextmanager
def counted(what: str) -> Iterator[None]:
    """Print how many functions are called within, in whatever thread."""
    called: set[tuple[str, str]] = set()
    deepest: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and ours(frame):
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))
            chain = list(
                dict.fromkeys(code.co_qualname for code in chain_of(frame))
            )  # what calls itself counts once
            deepest[:] = max(deepest, chain, key=len)

    threading.setprofile(note)
    sys.setprofile(note)
    yield
    sys.setprofile(None)
    threading.setprofile(None)
    modules = len({file for file, _ in called})
    print(
        f"{what}: {len(called)} functions in {modules} modules, at most {len(deepest)} in "
        "one another"
    )
    if "--names" in sys.argv:
        print("  " + " > ".join(deepest))
        print("\n".join(f"  {Path(file).stem} {name}" for file, name in sorted(called)))


class Answering(BaseHTTPRequestHandler):
    """Answers every request with the same verdict."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def walk(folder: Path) -> None:
    run = [
        "run",
        "--data",
        "carb-seed",
        "--scorer",
        "baseline:length",
        "baseline:random",
        "--out",
        str(folder / "run"),
    ]
    with counted("a run of two baselines"):
        main([*run, "--quiet"])
    with counted("its report"):
        main(
            [
                "report",
                str(folder / "run"),
                "--html",
                str(folder / "a.html"),
                "--json",
                str(folder / "a.json"),
            ]
        )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    judge = open_scorer(
        f"judge:m?backend=openai&read=generate&url=http://127.0.0.1:{server.server_port}/v1"
    )
    candidates = tuple(Candidate(id=text, text=text) for text in "abc")
    asked = ScoreRequest(
        request_id="1", prompt="How?", candidates=candidates, culture="thai", language="th"
    )
    with counted("one call of a judge on a server"):
        anyio.run(judge.score, [asked])
    server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        walk(Path(made))
