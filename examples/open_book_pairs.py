"""Pairs for an open-book judge: what people of four places say is shown, and the question's place must be read.

    python examples/open_book_pairs.py --data carb-seed --languages en --out open-book.jsonl
    carb train --config run.toml --data … with [mix] sources = [{ form = "preference", path = "open-book.jsonl" }]

A family of the seed asks the same of several places, and the right answer of each place is a wrong one elsewhere. Each
prompt shows the facts behind all answers, labelled by place, in an order drawn once for the family; then the question,
which names or implies one place. Nothing must be known: the judge has to find that place's fact, set its criteria from
it, and judge. Every two answers of a family meet twice with the same facts, each being right once, so a judge that does
not read the place is right in exactly half of a family's pairs. A family is one source item, so a split keeps it whole.
No experiment has been run with it.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from carb_data import BonSet, Fact, cultures, load
from carb_data.dataset import seed_folders
from carb_data.facts import load_facts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="carb-seed", help="a seed, or a folder with sets and facts")
    parser.add_argument("--languages", nargs="*", default=[], help="of the prompts; all by default")
    parser.add_argument("--out", type=Path, default=Path("open-book.jsonl"))
    parser.add_argument("--seed", type=int, default=0, help="of the order of facts")
    given = parser.parse_args()
    folders = seed_folders()
    newest = max((name for name in folders if name.startswith(f"{given.data}@")), default=given.data)
    facts = {fact.id: fact for fact in load_facts(folders.get(newest, Path(given.data)))}
    families: dict[str, list[BonSet]] = defaultdict(list)
    for item in load(given.data):
        if item.family and (not given.languages or item.language in given.languages):
            families[item.family].append(item)
    rows = [row for name, sets in families.items() for row in pairs(name, sets, facts, given.seed)]
    given.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    used = {row["source_item"] for row in rows}
    print(f"{len(rows)} pairs of {len(used)} families in {given.out}; {len(families) - len(used)} are no mirrors.")
    return 0 if rows else 1


def pairs(name: str, sets: Sequence[BonSet], facts: Mapping[str, Fact], seed: int) -> Iterator[dict[str, str]]:
    """Both pairs of every two answers of a family; none where an answer of one place is not a choice elsewhere."""
    right = {item.chosen.text: item for item in sets}
    whole = all({response.text for response in item.responses} == set(right) for item in sets)
    named = [item.chosen.source.fact if item.chosen.source else None for item in sets]
    if not whole or len(right) < len(sets) or any(fact not in facts for fact in named):
        return
    shown = [f"{place(facts[str(fact)])}: {facts[str(fact)].statement}" for fact in named]
    random.Random(f"{seed}\0{name}").shuffle(shown)
    for item in sets:
        for wrong in item.rejected:
            yield {
                "id": f"{item.id}/{wrong.id}/open-book",
                "source_item": f"family:{name}",
                "prompt": "\n".join(["What people say:", *shown, "", item.prompt_text]),
                "chosen": item.chosen.text,
                "rejected": wrong.text,
                "culture": "general",  # the instructions shall not name the place, which the question does
                "language": item.language,
                "domain": str(item.domain),
            }


def place(fact: Fact) -> str:
    """The name of a fact's place."""
    return cultures[fact.culture].name if fact.culture in cultures else str(fact.culture)


if __name__ == "__main__":
    sys.exit(main())
