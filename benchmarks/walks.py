"""How many functions, files and packages of ours three things pass through, as one table; class
bodies and lambdas aside.

The walks: a JSONL line to a report row (a run of a baseline over one set, and its report), a
judge's call to a server on the loopback, and a family to its place win. Then how often one report
of three baselines over 200 sets finds the clusters of its sets.

Usage: python benchmarks/walks.py [--names]
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import CodeType, FrameType

import anyio

from carb_cli.main import main
from carb_data import Dataset, load
from carb_metrics import family_accuracy
from carb_scorers import Candidate, ScoreRequest, evaluate, open_scorer

PACKAGES = ("carb_data", "carb_scorers", "carb_metrics", "tal_rlvr", "carb_cli")
ANSWER = {"choices": [{"message": {"content": "[[B]]"}, "finish_reason": "stop"}]}


class Calls:
    """Counts the calls of our functions in whatever thread, and keeps the deepest chain of them."""

    def __init__(self) -> None:
        self.of: dict[CodeType, int] = {}
        self.deepest: list[str] = []

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and ours(code):
            self.of[code] = self.of.get(code, 0) + 1
            # what calls itself counts once
            chain = list(dict.fromkeys(one.co_qualname for one in chain_of(frame)))
            self.deepest = max(self.deepest, chain, key=len)


def ours(code: CodeType) -> bool:
    """Whether code is a function of ours."""
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(function) and package_of(code) != ""


def package_of(code: CodeType) -> str:
    return next((one for one in PACKAGES if f"/src/{one}/" in code.co_filename), "")


def chain_of(frame: FrameType | None) -> list[CodeType]:
    """The functions of ours that a frame stands in, from the outermost to its own."""
    chain = []
    while frame is not None:
        if ours(frame.f_code):
            chain.append(frame.f_code)
        frame = frame.f_back
    return chain[::-1]


def counted(action: Callable[[], object]) -> Calls:
    """The calls of an action, whose print is dropped."""
    calls = Calls()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def show(name: str, calls: Calls) -> None:
    files = {code.co_filename for code in calls.of}
    packages = {package_of(code) for code in calls.of}
    figures = (len(calls.of), len(files), len(packages), sum(calls.of.values()), len(calls.deepest))
    print(f"| {name} |", " | ".join(f"{figure:,}" for figure in figures), "|")
    if "--names" in sys.argv:
        print("  " + " > ".join(calls.deepest))
        names = sorted((Path(code.co_filename).stem, code.co_qualname) for code in calls.of)
        print("\n".join(f"  {file} {function}" for file, function in names))


class Answering(BaseHTTPRequestHandler):
    """Answers every request with the same verdict."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def run(data: Path, scorers: list[str], folder: Path) -> None:
    main(["run", "--data", str(data), "--scorer", *scorers, "--out", str(folder), "--quiet"])


def report(folder: Path) -> None:
    main(["report", str(folder), "--json", str(folder / "report.json")])


def judge_call() -> Calls:
    """One question of a judge to a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    judge = open_scorer(
        f"judge:m?backend=openai&read=generate&url=http://127.0.0.1:{server.server_port}/v1"
    )
    candidates = tuple(Candidate(id=text, text=text) for text in "abc")
    request = ScoreRequest(
        request_id="1", prompt="How?", candidates=candidates, culture="thai", language="th"
    )
    calls = counted(lambda: anyio.run(judge.score, [request]))
    server.shutdown()
    return calls


def walks(folder: Path) -> None:
    seed = load("carb-seed")
    first = next(one for one in seed if one.family)
    line = folder / "line.jsonl"
    Dataset([first]).save(line)
    family = Dataset([one for one in seed if one.family == first.family])
    scores = evaluate(family, [open_scorer("baseline:length")])
    print("| walk | functions | files | packages | calls | deepest |")
    print("|---|---|---|---|---|---|")
    one = folder / "one"
    show(
        "a JSONL line to a report row",
        counted(lambda: (run(line, ["baseline:length"], one), report(one))),
    )
    show("a judge's call", judge_call())
    show("a family to its place win", counted(lambda: family_accuracy(scores, family)))
    sets = folder / "sets.jsonl"
    Dataset([*seed][:200]).save(sets)
    three = folder / "three"
    counted(lambda: run(sets, ["baseline:length", "baseline:random", "baseline:label"], three))
    calls = counted(lambda: report(three))
    number = sum(count for code, count in calls.of.items() if code.co_name == "cluster_of")
    print(f"calls of cluster_of in one report of three baselines and 200 sets: {number}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        walks(Path(made))
