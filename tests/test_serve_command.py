"""``carb serve`` as a process of its own, asked as OpenRLHF's remote reward client and verl's
reward loop ask."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def test_beyond_loopback_it_needs_a_token() -> None:
    command = [
        sys.executable,
        "-m",
        "carb_cli",
        "serve",
        "baseline:length",
        "--host",
        "0.0.0.0",
        "--port",
        "0",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--token-env" in ended.stderr
