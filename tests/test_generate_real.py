"""Construction and perturbation with a real small language model: the mechanism, for its prose is poor."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs carb-scorers[hf]")
pytest.importorskip("lingua", reason="needs carb-data[checks]")

from carb_data import Dataset, Domain, load
from carb_scorers.generate import ConstructConfig, Reference, construct, perturb
from carb_scorers.generate.instructions import Instructions

pytestmark = pytest.mark.real

TEXTS = {
    "german": "On Sunday the shops are closed, and people go for a walk or have coffee and cake.",
    "thai": "At Songkran in April people splash each other with water in the street.",
    "spanish": "On New Year's Eve people eat twelve grapes at midnight, one with each stroke of the bell.",
    "japanese": "People take off their shoes at the door and put on slippers in the house.",
}
EXAMPLE = "Text: In the evening people drink tea with milk.\nQuestion: What do people drink in the evening?\n"
TOLD = Instructions(
    question=EXAMPLE + "\nText: $reference\nQuestion:",
    answer=EXAMPLE + "Answer: They drink tea with milk.\n\nText: $reference\nQuestion: $question\nAnswer:",
    paraphrase="Text: They drink tea with milk in France.\nThe same in other words: In France, tea is taken with milk."
    "\n\nText: $text\nThe same in other words:",
)


def test_a_real_model_writes_sets_and_versions_twice_the_same(gemma: Path, tmp_path: Path) -> None:
    origin = {"source": "test", "license": "CC0-1.0", "method": "authored"}
    rows = [
        Reference(id=c, culture=c, domain=Domain.COMMONSENSE, language="en", text=text, provenance=origin)
        for c, text in TEXTS.items()
    ]
    path = tmp_path / "references.jsonl"
    path.write_text("\n".join(row.model_dump_json() for row in rows), encoding="utf-8")
    spec = f"hf:{gemma}?one_line=true&max_new_tokens=40"
    fields = {"question": spec, "chosen": spec, "rejected": (spec,), "length_ratio": 8.0, "window": (0.0, 0.999)}
    config = ConstructConfig(references=path, instructions=TOLD, attempts=8, limit=2, **fields)
    for name in ("a", "b"):
        report = construct(config, tmp_path / f"{name}.jsonl")
        assert report.built + len(report.failed) == 2
    assert Dataset.load(tmp_path / "a.jsonl") == Dataset.load(tmp_path / "b.jsonl")
    english = load("carb-seed@2").filter(lambda item: bool(item.perturbed), languages=["en"])[:1]
    made, found = perturb(english, ["RP"], spec, instructions=TOLD, replace=True, attempts=3)
    assert sum(found.made.values()) + len(found.failures) == 1
    assert all(version.verified is False for item in made for version in item.perturbed if version.generator == spec)
