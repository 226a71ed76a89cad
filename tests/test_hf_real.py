"""A real multilingual model (Gemma 3 270M, base) and a real chat model (SmolLM2 135M): same promises, real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

from carb_data import load
from carb_scorers import Candidate, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.judge import JudgeOptions, JudgeScorer
from carb_scorers.judge.judge import form_of
from carb_scorers.models.hf_language import HFLanguageModel
from carb_scorers.models.hf_loading import HFOptions, Loaded
from carb_scorers.models.hf_loading import load as load_model
from carb_scorers.per_candidate import ImplicitOptions, ImplicitScorer

pytestmark = [pytest.mark.real_model, pytest.mark.real]

SPEC = ScorerSpec(name="s", kind="test")


@cache
def loaded(folder: Path, dtype: str) -> Loaded:
    """Loaded once for all tests."""
    return load_model(str(folder), HFOptions(dtype=dtype), "AutoModelForCausalLM")


def model(folder: Path, dtype: str = "float32", **options: Any) -> HFLanguageModel:
    return HFLanguageModel(str(folder), loaded(folder, dtype), HFOptions(dtype=dtype, **options))


def requests(count: int, cultures: Sequence[str] = (), *, short: bool = False) -> list[ScoreRequest]:
    """Sets from all over the seed, or the shortest ones, each of another culture, for tests that score them often."""
    items = [item for item in load("carb-seed@2") if not cultures or item.culture in cultures]
    if short:
        shortest = {}
        for item in sorted(items, key=lambda item: sum(len(r.text.encode()) for r in item.responses)):
            shortest.setdefault(item.culture, item)
        items = list(shortest.values())[:count]
    return [
        ScoreRequest(
            request_id=item.id,
            prompt=item.prompt,
            candidates=tuple(Candidate(id=str(n), text=r.text) for n, r in enumerate(item.responses)),
            culture=item.culture,
            language=item.language,
        )
        for item in items[:: max(1, len(items) // count)][:count]
    ]


def scored(scorer: Any, asked: Sequence[ScoreRequest]) -> list[ScoreResult]:
    found = list(anyio.run(scorer.score, asked))
    assert all(result.error is None for result in found)
    return found


def difference(one: Sequence[ScoreResult], other: Sequence[ScoreResult]) -> float:
    return max(abs(a.scores[key] - b.scores[key]) for a, b in zip(one, other, strict=True) for key in a.scores)


def judge(language_model: HFLanguageModel, **options: Any) -> JudgeScorer:
    return JudgeScorer(SPEC, language_model, form_of(JudgeOptions(**options)))


def implicit(language_model: HFLanguageModel, **options: Any) -> ImplicitScorer:
    return ImplicitScorer(SPEC, language_model, None, ImplicitOptions(**options))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_by_default_nothing_beside_an_item_changes_a_bit_of_its_scores(gemma: Path, dtype: str) -> None:
    asked = requests(2, short=True)
    for make in (judge, implicit):
        together = scored(make(model(gemma, dtype)), asked)
        alone = [scored(make(model(gemma, dtype, batch_tokens=1)), [request])[0] for request in asked]
        backwards = scored(make(model(gemma, dtype)), asked[::-1])[::-1]
        assert together == alone == backwards


def test_shared_passes_in_bfloat16(gemma: Path) -> None:
    """The stated bounds: 0.2 for the log-probability of a letter, 0.05 for a mean log-probability per token."""
    asked = requests(2, short=True)
    shared = {"batching": "budget"}
    alone, together = (scored(judge(model(gemma, "bfloat16", **o)), asked) for o in ({}, shared))
    assert difference(alone, together) <= 0.2
    alone, together = (scored(implicit(model(gemma, "bfloat16", **o), reduce="mean"), asked) for o in ({}, shared))
    assert difference(alone, together) <= 0.05
    exact = scored(implicit(model(gemma), reduce="mean"), asked)
    assert difference(exact, alone) <= 0.1


def test_it_reads_a_language(gemma: Path) -> None:
    """Log-likelihood knows a sentence from its words in disorder, in ten languages."""
    asked = []
    for request in requests(10):
        words = list(request.candidates[0].text if request.language in {"zh", "ja", "th"} else ())
        words = words or request.candidates[0].text.split(" ")
        joint = "" if request.language in {"zh", "ja", "th"} else " "
        texts = (Candidate(id="whole", text=joint.join(words)), Candidate(id="back", text=joint.join(words[::-1])))
        asked.append(request.model_copy(update={"candidates": texts}))
    assert len({request.language for request in asked}) == 10
    results = scored(implicit(model(gemma), reduce="mean"), asked)
    assert all(result.scores["whole"] > result.scores["back"] for result in results)
