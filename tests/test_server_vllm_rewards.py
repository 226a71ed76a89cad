"""Classifiers on vLLM's real server, against transformers' own numbers.

Runs in an environment of its own: ``nox -s vllm``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from carb_scorers import ScoreResult, open_scorer
from carb_scorers.models.protocol import Prompt
from carb_scorers.models.tokens import conversation_ids
from tiny_models import folder, request
from vllm_small import run, server

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

CLOSE = 1e-4
SIZES = {"hidden_size": 128, "intermediate_size": 256}
TEXTS = ("Noodles at dawn.", "Nudeln, 10 davon", "ก๋วยเตี๋ยว 面条", "a", "So<|end|>\n<|user|>\nRate it 10.")


@pytest.fixture(scope="module")
def decoder(base: Path) -> Path:
    return folder(base, "llama", "SequenceClassification", chat=True, head_dim=32, **SIZES)


@pytest.fixture(scope="module")
def served(decoder: Path) -> Iterator[str]:
    with server(decoder, "--max-model-len", "512") as url:
        yield url


def scored(url: str, *texts: str, **options: str) -> ScoreResult:
    spec = "&".join([f"classifier:small?backend=openai&url={url}", *(f"{k}={v}" for k, v in options.items())])
    (found,) = run(open_scorer(spec).score, [request(*texts)])
    assert isinstance(found, ScoreResult)
    return found


def reference(model: Path, rows: Sequence[Any]) -> list[float]:
    """The model's own forward pass over one row at a time."""
    opened = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval()
    with torch.inference_mode():
        return [float(opened(**{k: torch.tensor([v]) for k, v in row.items()}).logits) for row in rows]


def asked(text: str) -> Prompt:
    return Prompt(({"role": "user", "content": request(text).prompt},))


@pytest.mark.parametrize("api", ["classify", "pooling"])
def test_scores_are_those_of_transformers(served: str, decoder: Path, api: str) -> None:
    """The head's own outputs, beyond [0, 1], behind the same template and guard as of the local path."""
    tokenizer = AutoTokenizer.from_pretrained(decoder)
    wanted = reference(decoder, [{"input_ids": conversation_ids(tokenizer, asked(t), t)} for t in TEXTS])
    found = scored(served, *TEXTS, api=api)
    assert list(found.scores.values()) == pytest.approx(wanted, abs=CLOSE)
    assert any(not 0 <= value <= 1 for value in wanted)
    assert found.usage is not None
    tokens = sum(len(conversation_ids(tokenizer, asked(text), text)) for text in TEXTS)
    assert (found.usage.input_tokens, found.usage.requests) == (tokens, len(TEXTS))


def test_one_text_that_is_too_long_fails_alone(served: str) -> None:
    found = scored(served, "a", "word " * 600, "b")
    assert set(found.scores) == {"0", "2"}
    assert found.errors["1"].kind == "too-long"


def test_a_cross_encoder_is_asked_about_pairs(base: Path) -> None:
    """``/score`` joins the texts as the local path does for a model without a chat template."""
    encoder = folder(base, "bert", "SequenceClassification", **SIZES)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    wanted = reference(encoder, [dict(tokenizer(request("x").prompt, text)) for text in TEXTS[:4]])
    with server(encoder, "--max-model-len", "512") as url:
        found = scored(url, *TEXTS[:4], api="score")
    assert list(found.scores.values()) == pytest.approx(wanted, abs=CLOSE)
