"""Every kind, mode and reading on real vLLM, its engine and its server, against plain arithmetic on
a forward pass.

The cells are declared in ``parity.py``; ``plain_model.py`` computes what they must be, in
transformers. Runs in an environment of its own: ``nox -s vllm``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

import plain_model
from carb_data import CarbError
from carb_data.validation import read_options
from carb_scorers.models.protocol import (
    LANGUAGE_MODELS,
    REWARD_MODELS,
    BackendKind,
    Prompt,
    Writing,
    message,
)
from carb_scorers.models.vllm import VLLMOptions, open_language_model, open_reward_model
from parity import CELLS, Cell
from vllm_small import FLOAT32, SMALL, run, server

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

CLOSE = 5 * FLOAT32
"""A score is made of several log-probabilities."""


@pytest.fixture(scope="module")
def models(base: Path) -> dict[str, Any]:
    return plain_model.models(base)


class Opened(dict[str, Any]):
    """What is opened when it is first asked for, by the model's name."""

    def __init__(self, opens: Callable[[str], Any]) -> None:
        super().__init__()
        self._opens = opens

    def __missing__(self, name: str) -> Any:
        self[name] = self._opens(name)
        return self[name]


@pytest.fixture(scope="module")
def engines(models: dict[str, Any]) -> Iterator[Opened]:
    options = read_options(VLLMOptions, "test", {**SMALL, "max_length": "1024"})

    def opens(name: str) -> Any:
        opener = open_reward_model if name == "classifier" else open_language_model
        return opener(str(models["folders"][name]), options)

    opened = Opened(opens)
    yield opened
    for engine in opened.values():
        anyio.run(engine.aclose)


@pytest.fixture(scope="module")
def servers(models: dict[str, Any]) -> Iterator[Opened]:
    """Base URLs of vLLM's servers."""
    with ExitStack() as stack:

        def opens(name: str) -> str:
            more = ["--max-model-len", "1024", "--max-logprobs", "640"]
            return stack.enter_context(server(models["folders"][name], *more))

        yield Opened(opens)


def cells(name: str) -> list[Cell]:
    return [cell for cell in CELLS if name in cell.backends]


@pytest.mark.parametrize("cell", cells("vllm"), ids=lambda cell: cell.name)
def test_the_engine_s_scores_are_plain_arithmetic(
    cell: Cell, models: dict[str, Any], engines: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {str(place): name for name, place in models["folders"].items()}
    opened = BackendKind(VLLMOptions, lambda target, _: engines[names[target]])
    monkeypatch.setitem(sys.modules, "opened", SimpleNamespace(BACKEND=opened))
    for known in (LANGUAGE_MODELS, REWARD_MODELS):
        monkeypatch.setitem(known, "vllm", "opened:BACKEND")
    found = plain_model.scored(cell, str(models["folders"][cell.model]), models, "backend=vllm")
    assert list(found.scores.values()) == pytest.approx(
        plain_model.wanted(cell, "vllm", models), abs=CLOSE
    )


@pytest.mark.parametrize("cell", cells("vllm-server"), ids=lambda cell: cell.name)
def test_the_server_s_scores_are_plain_arithmetic(
    cell: Cell, models: dict[str, Any], servers: Opened
) -> None:
    # A trained judge's prompt is in its folder, by whose name it is served.
    name = str(models["folders"]["think"]) if cell.kind == "think" else "small"
    found = plain_model.scored(cell, name, models, "backend=openai", f"url={servers[cell.model]}")
    assert list(found.scores.values()) == pytest.approx(
        plain_model.wanted(cell, "vllm-server", models), abs=CLOSE
    )


ASK = [Prompt((message("user", f"Noodles {n}?"),)) for n in range(3)]
LONG = Writing(max_tokens=900, temperature=1.0)


def test_short_answers_do_not_wait_for_a_long_one(engines: Opened) -> None:
    """Requests stream in while others run, and their results out: nothing waits for a window to be
    done."""
    engine = engines["reference"]
    done: list[str] = []

    async def ask(name: str, prompt: Prompt, writing: Writing) -> None:
        await engine.generate([prompt], writing)
        done.append(name)

    async def go() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "long", ASK[0], LONG)
            for prompt in ASK[1:]:
                group.start_soon(ask, "short", prompt, Writing(max_tokens=1))

    anyio.run(go)
    assert done == ["short", "short", "long"]


def test_an_engine_that_ends_by_itself_stops_the_run(engines: Opened) -> None:
    """Rather than fill it with error rows. Last, since the engine is gone then."""
    victim = engines["reference"]
    for process in victim.engine.llm.engine_core.resources.engine_manager.processes:
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(CarbError, match="has ended; run the same command again"):
        run(victim.generate, ASK, Writing(max_tokens=100))
