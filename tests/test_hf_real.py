"""A real multilingual model (Gemma 3 270M, base): the same promises, and numbers that mean something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

from carb_data import BonSet, load
from carb_scorers import Candidate, Scorer, ScoreRequest, ScoreResult, open_scorer
from carb_scorers.blind import blind

pytestmark = [pytest.mark.real_model, pytest.mark.real]


def requests(items: Iterable[BonSet]) -> list[ScoreRequest]:
    return [next(blind(item, seed=0, comparative=True)).request for item in items]


def short() -> list[ScoreRequest]:
    """Two of the shortest sets, for tests that score them often."""
    items = sorted(load("carb-seed@2"), key=lambda item: sum(len(r.text.encode()) for r in item.responses))
    return requests(items[:16:8])


def scored(scorer: Scorer, asked: Sequence[ScoreRequest]) -> list[ScoreResult]:
    found = list(anyio.run(scorer.score, asked))
    assert all(result.error is None for result in found)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["judge", "implicit"])
def test_by_default_nothing_beside_an_item_changes_a_bit_of_its_scores(gemma: Path, kind: str, dtype: str) -> None:
    asked = short()
    scorer = open_scorer(f"{kind}:{gemma}?dtype={dtype}")
    together = scored(scorer, asked)
    alone = [scored(scorer, [request])[0] for request in asked]
    assert together == alone == scored(scorer, asked[::-1])[::-1]


@pytest.mark.parametrize(("spec", "bound"), [("judge:{}?", 0.2), ("implicit:{}?reduce=mean&", 0.05)])
def test_shared_passes_in_bfloat16(gemma: Path, spec: str, bound: float) -> None:
    """The stated bounds: 0.2 for the log-probability of a letter, 0.05 for a mean log-probability per token."""
    asked = short()
    alone, together = (
        scored(open_scorer(f"{spec.format(gemma)}dtype=bfloat16&batching={batching}"), asked)
        for batching in ("item", "budget")
    )
    for one, other in zip(alone, together, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=bound)


def test_it_reads_a_language(gemma: Path) -> None:
    """Log-likelihood knows a sentence from its words in disorder, in ten languages."""
    asked = []
    for request in requests({item.language: item for item in load("carb-seed@2")}.values()):
        words = list(request.candidates[0].text if request.language in {"zh", "ja", "th"} else ())
        words = words or request.candidates[0].text.split(" ")
        joint = "" if request.language in {"zh", "ja", "th"} else " "
        texts = (Candidate(id="whole", text=joint.join(words)), Candidate(id="back", text=joint.join(words[::-1])))
        asked.append(request.model_copy(update={"candidates": texts}))
    assert len({request.language for request in asked}) == 10
    results = scored(open_scorer(f"implicit:{gemma}?reduce=mean"), asked)
    assert all(result.scores["whole"] > result.scores["back"] for result in results)
