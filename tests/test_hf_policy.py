"""A policy on transformers with a small random model: what becomes of a question that is too long."""

from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")

import tiny_models
from carb_data.tasks import open_task
from carb_scorers.bon import collect, open_policy

LONG = "Why do rivers bend so much on their way to the sea? " * 40


@pytest.fixture
def task(tmp_path: Path) -> Any:
    rows = "".join(
        f'{{"id": "{key}", "prompt": "{text}", "culture": "thai", "language": "en"}}\n'
        for key, text in (("short", "Why?"), ("long", LONG))
    )
    (tmp_path / "prompts.jsonl").write_text(rows, encoding="utf-8")
    return open_task(f"prompts:{tmp_path / 'prompts.jsonl'}?instruction=Be brief.")


def draw(base: Path, task: Any, file: Path, options: str) -> Any:
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)

    async def run() -> Any:
        policy = open_policy(f"hf:{folder}?max_new_tokens=4&max_length=64&{options}")
        try:
            return await collect(policy, task, 2, file)
        finally:
            await policy.aclose()

    return anyio.run(run)


def test_a_question_that_is_too_long_is_an_error_row(base: Path, task: Any, tmp_path: Path) -> None:
    pool = draw(base, task, tmp_path / "pool.jsonl", "temperature=1")
    assert [sample.error for sample in pool.samples["short"]] == [None, None]
    for sample in pool.samples["long"]:
        assert sample.text == ""
        assert sample.error is not None
        assert sample.error.startswith("too-long: ")
