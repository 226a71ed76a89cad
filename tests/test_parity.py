"""Every kind, mode and reading on transformers and over a server, against plain arithmetic on a
model's forward pass.

The cells are declared in ``parity.py``; ``plain_model.py`` computes what they must be. The same
cells on vLLM are in ``test_vllm_parity.py`` (``nox -s vllm``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

import plain_model
from parity import BACKENDS, CELLS, Cell
from tiny_server import TinyServer


@pytest.fixture(scope="module")
def models(base: Path) -> Iterator[dict[str, Any]]:
    found = plain_model.models(base)
    served = {
        str(found["folders"][name]): found[name] for name in ("language", "classifier", "think")
    }
    server = TinyServer(served, found["tokenizer"])
    yield {**found, "url": server.url}
    server.close()


pytestmark = pytest.mark.real

HERE = [
    (cell, backend) for cell in CELLS for backend in ("hf", "openai") if backend in cell.backends
]


@pytest.mark.parametrize(
    ("cell", "backend"), HERE, ids=lambda x: x.name if isinstance(x, Cell) else x
)
def test_scores_are_plain_arithmetic(cell: Cell, backend: str, models: dict[str, Any]) -> None:
    place = str(models["folders"][cell.model])
    more = ["backend=openai", f"url={models['url']}"] if backend == "openai" else []
    found = plain_model.scored(cell, place, models, *more)
    wanted = plain_model.wanted(cell, backend, models)
    assert len(set(wanted)) > 1
    assert list(found.scores.values()) == pytest.approx(wanted, abs=1e-4)


def test_a_backend_is_left_out_only_where_it_has_not_what_the_scorer_needs() -> None:
    """A server has no second model to refer to, and does not say what follows the first digit of
    10."""
    partial = {cell.name for cell in CELLS if set(cell.backends) != set(BACKENDS)}
    assert partial == {
        "implicit with a reference",
        "judge pointwise, read",
        "judge pointwise, read, both scales",
    }
