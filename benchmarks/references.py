"""The data of the test of ``references=`` in ``docs/experiments/think-as-locals.md``.

``python benchmarks/references.py OUT`` writes ``OUT/sets.jsonl``, the English mirrored families of carb-seed@2 whose
answers are short, and ``OUT/others.jsonl``, the bank's facts without any of their topics.
"""

from __future__ import annotations

import sys
from pathlib import Path

from carb_data import Dataset, load
from carb_data.dataset import SEED_2_FOLDER
from carb_data.facts import load_facts


def main(out: Path) -> None:
    sets = [
        item
        for item in load("carb-seed@2")
        if item.language == "en" and item.family and (item.provenance.notes or "").startswith("short:")
    ]
    facts = {fact.id: fact for fact in load_facts(SEED_2_FOLDER)}
    named = {response.source.fact for item in sets for response in item.responses if response.source}
    tested = {facts[name].topic for name in named if name} | {item.topic for item in sets}
    others = [fact for fact in facts.values() if fact.topic not in tested]
    out.mkdir(parents=True, exist_ok=True)
    Dataset(sets).save(out / "sets.jsonl")
    (out / "others.jsonl").write_text("".join(f"{fact.model_dump_json()}\n" for fact in others), encoding="utf-8")
    print(
        f"{len(sets)} sets of {len({s.family for s in sets})} families; {len(others)} of {len(facts)} facts are others"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
