"""A real multilingual model (Gemma 3 270M, base): the same promises, and numbers that mean
something."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import polars as pl
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

from carb_data import BonSet, Dataset, load
from carb_scorers import Candidate, Scorer, ScoreRequest, ScoreResult, evaluate, open_scorer
from carb_scorers.blind import blind

pytestmark = pytest.mark.real_model


def requests(items: Iterable[BonSet]) -> list[ScoreRequest]:
    return [next(blind(item, seed=0, comparative=True)).request for item in items]


def short() -> list[ScoreRequest]:
    """Two of the shortest sets, for tests that score them often."""
    items = sorted(
        load("carb-seed"), key=lambda item: sum(len(r.text.encode()) for r in item.responses)
    )
    return requests(items[:16:8])


def scored(scorer: Scorer, asked: Sequence[ScoreRequest]) -> list[ScoreResult]:
    found = list(anyio.run(scorer.score, asked))
    assert all(result.error is None for result in found)
    return found


@pytest.mark.real
@pytest.mark.parametrize(
    ("spec", "bound"), [("judge:{}?", 0.2), ("implicit:{}?reduce=mean&", 0.05)]
)
def test_shared_passes_in_bfloat16(gemma: Path, spec: str, bound: float) -> None:
    """The stated bounds: 0.2 for the log-probability of a letter, 0.05 for a mean log-probability
    per token."""
    asked = short()
    alone, together = (
        scored(open_scorer(f"{spec.format(gemma)}dtype=bfloat16&batching={batching}"), asked)
        for batching in ("item", "budget")
    )
    for one, other in zip(alone, together, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=bound)


@pytest.mark.real
def test_it_reads_a_language(gemma: Path) -> None:
    """Log-likelihood knows a sentence from its words in disorder, in ten languages."""
    asked = []
    for request in requests({item.language: item for item in load("carb-seed")}.values()):
        joint = " "
        words = request.candidates[0].text.split(joint)
        if request.language in {"zh", "zh-Hant", "ja", "th"}:
            joint = ""
            words = list(request.candidates[0].text)
        texts = (
            Candidate(id="whole", text=joint.join(words)),
            Candidate(id="back", text=joint.join(words[::-1])),
        )
        asked.append(request.model_copy(update={"candidates": texts}))
    assert len({request.language.partition("-")[0] for request in asked}) == 10
    results = scored(open_scorer(f"implicit:{gemma}?reduce=mean"), asked)
    assert all(result.scores["whole"] > result.scores["back"] for result in results)


def with_other_label(item: BonSet, shift: int) -> BonSet:
    """The same texts under the same ids, with another one called right, and everything perturbed
    left out."""
    roles = [r.role for r in item.responses]
    turned = roles[shift:] + roles[:shift]
    responses = tuple(
        r.model_copy(update={"role": role}) for r, role in zip(item.responses, turned, strict=True)
    )
    return BonSet.model_validate(
        item.model_copy(update={"responses": responses, "perturbed": ()}).model_dump()
    )


@pytest.mark.real_model
@pytest.mark.parametrize(
    "kind", ["judge:{}?batch_tokens={}", "implicit:{}?ref=none&batch_tokens={}"]
)
def test_labels_order_and_batches_change_no_score_of_a_real_model(gemma: Path, kind: str) -> None:
    items = [
        item for item in load("carb-seed") if item.form == "short" or len(item.prompt_text) < 300
    ][::100][:4]
    other = random.Random(0).sample([with_other_label(item, 1) for item in items], len(items))
    together = evaluate(
        Dataset(with_other_label(item, 0) for item in items), [kind.format(gemma, 4096)]
    ).frame
    alone = evaluate(Dataset(other), [kind.format(gemma, 1)]).frame
    joined = together.join(alone, on=["item_id", "response_id"], suffix="_alone")
    assert joined.height == together.height
    assert together["score"].null_count() == 0
    assert joined.select((pl.col("score") - pl.col("score_alone")).abs().max()).item() <= 1e-5
    assert joined["role"].to_list() != joined["role_alone"].to_list()
