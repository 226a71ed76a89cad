"""A judge on an OpenAI-compatible server through the command line: outages, kills, costs, and the key."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_cli import main
from carb_scorers.testing import example_dataset

KEY = "sk-this-key-must-not-be-seen-0123456789"
SETS = 20
Answer = tuple[int, dict[str, Any]]


class Server:
    """Answers every chat with the status and body that ``answer(number, body)`` gives."""

    def __init__(self, answer: Callable[[int, dict[str, Any]], Answer]) -> None:
        self.prompts: list[str] = []
        self.keys: set[str | None] = set()
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(server.prompts)
                    server.prompts.append(json.dumps(body.get("messages", body.get("prompt"))))
                    server.keys.add(self.headers["Authorization"])
                status, answer_body = answer(number, body)
                content = json.dumps(answer_body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


def verdict(text: str = "I prefer [[A]]") -> Answer:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return 200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[int, dict[str, Any]], Answer]], Server]]:
    started: list[Server] = []

    def start(answer: Callable[[int, dict[str, Any]], Answer]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    example_dataset(SETS, perturbed=False).save(tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


def arguments(server: Server, data: Path, *more: str, options: str = "") -> list[str]:
    spec = f"judge:m?backend=openai&url={server.url}&mode=listwise&read=generate{options}"
    return ["run", "--data", str(data), "--scorer", spec, "--out", str(data.parent / "out"), "--quiet", *more]


def test_a_run_in_which_everything_failed_exits_with_1(
    serve: Callable[..., Server], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A login page in the place of answers: it ended with 0 and an accuracy of 0.0%."""
    server = serve(lambda *_: (200, "<html>Please log in</html>"))  # type: ignore[arg-type, return-value]  # no object
    assert main(arguments(server, data)) == 1
    said = capsys.readouterr().out
    assert "no scores, every set failed" in said
    assert "0.0% right" not in said


def test_the_letter_in_double_brackets_is_the_pick(serve: Callable[..., Server], data: Path) -> None:
    server = serve(lambda *_: verdict("It knows the custom. [[B]]"))
    assert main(arguments(server, data)) == 0
    frame = pl.read_parquet(data.parent / "out" / "scores.parquet")
    assert frame["score"].null_count() == 0
    best = frame.with_columns(best=pl.col("score") == pl.col("score").max().over("item_id"))
    assert best["best"].sum() == SETS
    assert len(server.prompts) == SETS
    assert server.keys == {f"Bearer {KEY}"}


def test_outages_and_costs_are_recorded_and_the_key_is_not(
    serve: Callable[..., Server], data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every third request fails once with an error that repeats the key; one item fails for good."""
    failed: set[str] = set()

    def answer(number: int, body: dict[str, Any]) -> Answer:
        text = json.dumps(body)
        if "set-7-poison" in text:
            return 400, {"error": {"message": f"no, {KEY}"}}
        if number % 3 == 0 and text not in failed:
            failed.add(text)
            return 503, {"error": {"message": f"Bearer {KEY} is overloaded"}}
        return verdict()

    lines = data.read_text().splitlines()
    poisoned = json.loads(lines[7])
    poisoned["prompt"] += " set-7-poison"
    data.write_text("\n".join([*lines[:7], json.dumps(poisoned), *lines[8:]]) + "\n")
    server = serve(answer)
    priced = arguments(server, data, options="&price_in=1&price_out=5&concurrency=2")
    assert main(priced) == 0
    out = data.parent / "out"
    (scorer,) = json.loads((out / "run.json").read_text())["scorers"]
    assert scorer["errors"] == 1
    assert scorer["usage"]["requests"] == len(server.prompts) == SETS + len(failed)
    assert scorer["usage"]["input_tokens"] == 100 * (SETS - 1)
    assert scorer["cost"] == pytest.approx((SETS - 1) * (100 + 10 * 5) / 1e6)
    (row,) = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert (row["kind"], row["message"]) == ("http", "400: no, ***")
    main([*priced, "--json"])
    shown = "".join(capfd.readouterr())
    texts = [shown, *(path.read_bytes().decode("utf-8", "replace") for path in out.rglob("*") if path.is_file())]
    assert len(texts) > 5
    assert not any(KEY in text for text in texts)


def test_a_wrong_key_stops_the_run_and_says_which(
    serve: Callable[..., Server], data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = serve(lambda *_: (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    assert main(arguments(server, data)) == 2
    shown = "".join(capfd.readouterr())
    assert "does not accept the key" in shown
    assert KEY not in shown
    assert "Traceback" not in shown


def test_errors_are_asked_again_on_request(serve: Callable[..., Server], data: Path) -> None:
    mood = {"bad": True}
    server = serve(lambda number, _: (500, {"error": "bad hour"}) if mood["bad"] and number % 2 else verdict())
    assert main(arguments(server, data, options="&retries=0&concurrency=1")) == 1
    out = data.parent / "out"
    assert json.loads((out / "run.json").read_text())["scorers"][0]["errors"] == SETS // 2
    mood["bad"] = False
    # The number of requests at a time is no part of the scorer, so the run goes on with another.
    assert main(arguments(server, data, "--retry-errors", options="&concurrency=4")) == 0
    assert len(server.prompts) == SETS + SETS // 2
    assert pl.read_parquet(out / "scores.parquet")["score"].null_count() == 0


def test_a_classifier_on_a_server_that_is_not_there_says_so(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = "classifier:m?backend=openai&url=http://127.0.0.1:1/v1"
    assert main(["run", "--data", str(data), "--scorer", spec, "--out", str(data.parent / "out")]) == 2
    assert "Is the server running" in "".join(capfd.readouterr())
