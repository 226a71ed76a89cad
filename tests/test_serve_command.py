"""``carb serve`` as a process of its own, asked as OpenRLHF's remote reward client and verl's
reward loop ask."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra carb-scorers[serve]")


def call(url: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    request = urllib.request.Request(
        url, None if body is None else json.dumps(body).encode(), headers
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "carb_cli", "serve", "baseline:length", "--port", "0"]
    more = ["--token-env", "CARB_TEST_TOKEN", "--culture", "german", "--language", "de"]
    process = subprocess.Popen(
        [*command, *more],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"CARB_TEST_TOKEN": "t"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield line.split()[0]
    process.terminate()
    process.communicate()


def test_a_trainer_gets_its_rewards(address: str) -> None:
    while call(f"{address}/health")[0] != 200:
        pass
    sent = {
        "query": ["Was?vier", "Was?achtachtn"],
        "prompts": ["Was?", "Was?"],
        "labels": [None, None],
    }
    assert call(f"{address}/get_reward", sent)[0] == 401
    status, answer = call(f"{address}/get_reward", sent, "t")
    assert status == 200
    assert answer["rewards"][0] < answer["rewards"][1]


def test_verl_gets_its_rewards(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked with what the managers of verl 0.9.1's reward loop pass
    (``reward_loop/reward_manager/naive.py``)."""
    example = Path(__file__).parent.parent / "examples" / "verl" / "remote_reward.py"
    monkeypatch.setenv("CARB_TOKEN", "t")
    while call(f"{address}/health")[0] != 200:
        pass
    told = {"prompt": [{"role": "user", "content": "Was?"}], "culture": "german", "language": "de"}
    told |= {"num_turns": 2, "rollout_reward_scores": {}}
    asked = {
        "data_source": "carb",
        "solution_str": "vier",
        "ground_truth": "",
        "extra_info": told,
        "url": address,
    }
    assert asyncio.run(runpy.run_path(str(example))["compute_score"](**asked)) == 4.0


def test_verls_example_asks_again() -> None:
    """A refusal of a full server ended the training."""
    example = Path(__file__).parent.parent / "examples" / "verl" / "remote_reward.py"
    compute = runpy.run_path(str(example))["compute_score"]
    answers = iter([(503, {"error": "full"}), (200, {"scores": [4.0], "errors": [None]})])

    class Full(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status, content = next(answers)
            self.send_response(status)
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    told = {"prompt": "Was?", "culture": "german", "language": "de"}
    with HTTPServer(("127.0.0.1", 0), Full) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert asyncio.run(compute("vier", told, url)) == 4.0
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--host", "0.0.0.0"], "--token-env"),
        (["--port", "99999"], "--port 99999"),
        (["--port", "-1"], "--port -1"),
        (["--timeout", "nan"], "--timeout nan"),
        (["--timeout", "inf"], "--timeout inf"),
        (["--timeout", "0"], "--timeout 0"),
        (["--timeout", "-5"], "--timeout -5"),
        (["--token-env", "s3cr3t"], "--token-env"),
        # started, and refused each request
        (["--culture", "thia"], "'thai'"),
        (["--language", "Thai"], "'th'"),
        (["--policy-template", "no/such/folder/here"], "no/such/folder/here"),
    ],
)
def test_wrong_options_are_named_before_it_starts(options: list[str], named: str) -> None:
    port = [] if "--port" in options else ["--port", "0"]
    command = [sys.executable, "-m", "carb_cli", "serve", "baseline:length", *port, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert named in ended.stderr
    assert "s3cr3t" not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
