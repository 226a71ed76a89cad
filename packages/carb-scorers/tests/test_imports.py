"""What is imported for a scorer: nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPENED = """
import sys
from carb_scorers import open_scorer
open_scorer(sys.argv[1])
print("\\n".join(sys.modules))
"""


def modules_of(spec: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", OPENED, spec], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_baseline_opens_no_models() -> None:
    found = modules_of("baseline:length")
    assert not {
        name for name in found if name.startswith(("carb_scorers.models", "carb_scorers.judge"))
    }
    assert not found & {"torch", "transformers", "httpx", "jinja2", "vllm"}


def test_a_judge_on_a_server_needs_no_transformers() -> None:
    pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")
    found = modules_of("judge:m?backend=openai&url=http://127.0.0.1:9/v1")
    assert "carb_scorers.models.server_models" in found
    assert not found & {"torch", "transformers", "vllm"}
    assert not {name for name in found if name.startswith("carb_scorers.models.hf_")}
