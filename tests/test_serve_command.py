"""``carb serve`` as a process of its own, asked as OpenRLHF's remote reward client asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra carb-scorers[serve]")


def call(url: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
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
        [*command, *more], stdout=subprocess.PIPE, text=True, env=os.environ | {"CARB_TEST_TOKEN": "t"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield line.split()[0]
    process.terminate()
    process.communicate()


def test_a_trainer_gets_its_rewards(address: str) -> None:
    for _ in range(200):
        if call(f"{address}/health")[0] == 200:
            break
    sent = {"query": ["Was?vier", "Was?achtachtn"], "prompts": ["Was?", "Was?"], "labels": [None, None]}
    assert call(f"{address}/get_reward", sent)[0] == 401
    status, answer = call(f"{address}/get_reward", sent, "t")
    assert status == 200
    assert answer["rewards"][0] < answer["rewards"][1]


def test_beyond_loopback_it_needs_a_token() -> None:
    command = [sys.executable, "-m", "carb_cli", "serve", "baseline:length", "--host", "0.0.0.0", "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--token-env" in ended.stderr
