"""A judge on an OpenAI-compatible server through the command line: outages, kills, costs, and the
key."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_cli import main
from carb_scorers.testing import example_dataset
from openai_server import Server, chat, reply

KEY = "sk-this-key-must-not-be-seen-0123456789"
SETS = 20
Serve = Callable[[Callable[..., object]], Server]


def error(status: int, message: str) -> object:
    return reply({"error": {"message": message}}, status)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(closing(Server(script)))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    example_dataset(SETS, perturbed=False).save(tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


def arguments(server: Server, data: Path, *more: str, options: str = "") -> list[str]:
    spec = f"judge:m?backend=openai&url={server.url}&mode=listwise&read=generate{options}"
    return [
        "run",
        "--data",
        str(data),
        "--scorer",
        spec,
        "--out",
        str(data.parent / "out"),
        "--quiet",
        *more,
    ]


@pytest.mark.parametrize(("failing", "code"), [(2, 0), (3, 1)])
def test_more_than_a_tenth_of_failed_sets_is_an_exit_code(
    serve: Serve, data: Path, failing: int, code: int
) -> None:
    server = serve(lambda number, _: error(400, "no") if number < failing else chat("[[A]]"))
    assert main(arguments(server, data)) == code


def test_a_server_that_is_gone_at_the_end_is_reported_and_asked_again(
    serve: Serve, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its last sets counted as wrong, and the run ended as if all were well."""
    example_dataset(2 * SETS, perturbed=False).save(data)
    gone = True

    def answer(number: int, _: object) -> object:
        dead = gone and number >= 2 * SETS - 3
        return error(500, "EngineDeadError") if dead else chat("[[A]]")

    server = serve(answer)
    command = [
        word
        for word in arguments(server, data, options="&retries=0&concurrency=1")
        if word != "--quiet"
    ]
    assert main(command) == 1
    assert "last 3 requests had no answer" in " ".join("".join(capfd.readouterr()).split())
    gone = False
    assert main(command) == 0
    assert "no answer" not in "".join(capfd.readouterr())
    (scorer,) = json.loads((data.parent / "out" / "run.json").read_text())["scorers"]
    assert (scorer["errors"], scorer["unanswered"], len(server.bodies)) == (0, 0, 2 * SETS + 3)


def test_outages_and_costs_are_recorded_and_the_key_is_not(
    serve: Serve, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every third request fails once with an error that repeats the key; one item fails for
    good."""
    failed: set[str] = set()

    def answer(number: int, body: dict[str, Any]) -> object:
        text = json.dumps(body)
        if "set-7-poison" in text:
            return error(400, f"no, {KEY}")
        if number % 3 == 0 and text not in failed:
            failed.add(text)
            return error(503, f"Bearer {KEY} is overloaded")
        return chat("I prefer [[A]]")

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
    assert scorer["usage"]["requests"] == len(server.bodies) == SETS + len(failed)
    assert scorer["usage"]["input_tokens"] == 12 * (SETS - 1)
    assert scorer["cost"] == pytest.approx((SETS - 1) * (12 + 3 * 5) / 1e6)
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    (row,) = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert (row["kind"], row["message"]) == ("http", "400: no, ***")
    main([*priced, "--json"])
    shown = "".join(capfd.readouterr())
    texts = [
        shown,
        *(
            path.read_bytes().decode("utf-8", "replace")
            for path in out.rglob("*")
            if path.is_file()
        ),
    ]
    assert len(texts) > 5
    assert not any(KEY in text for text in texts)
