"""Pairs for an open-book judge: what people of several places say is shown, and the question's
place must be read.

    python studies/open_book/pairs.py --data carb-seed --languages en --named --out open-book.jsonl
    carb train --config run.toml --data … with [mix] sources = [{ form = "preference", path =
    "open-book.jsonl" }]

A family of the seed asks the same of several places, and the right answer of one place is a wrong
one elsewhere. Each prompt shows the facts behind the answers, labelled by place, in an order drawn
once for the family; then the question. The judge has to find the fact of the question's place, set
its criteria from it, and judge. Every two answers of a family meet twice with the same facts, each
being right once, so a judge that does not read the place is right in exactly half of a family's
pairs. Questions name a place or imply it by a town; with ``--named`` each begins with the label of
its place, so that nothing must be known. Families share facts, so all of a topic are one source
item, and a split keeps them together.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import itertools
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default="carb-seed", help="a seed, or a folder with sets and facts"
    )
    parser.add_argument("--languages", nargs="*", default=[], help="of the prompts; all by default")
    parser.add_argument(
        "--places",
        type=int,
        default=4,
        help="facts shown at most: the two answers' and distractors",
    )
    parser.add_argument(
        "--named", action="store_true", help="name the place before each question, as the facts do"
    )
    parser.add_argument("--out", type=Path, default=Path("open-book.jsonl"))
    parser.add_argument("--seed", type=int, default=0, help="of the order of facts")
    given = parser.parse_args()
    facts, families = read(given.data, given.languages)
    made = {name: list(pairs(name, sets, facts, given)) for name, sets in families.items()}
    rows = [row for own in made.values() for row in own]
    given.out.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    topics = {row["source_item"] for row in rows}
    print(
        f"{len(rows)} pairs of {sum(map(bool, made.values()))} families and {len(topics)} "
        f"topics in {given.out}; "
        f"{len(made) - sum(map(bool, made.values()))} families are no mirrors."
    )
    return 0 if rows else 1


def read(
    data: str, languages: Sequence[str] = ()
) -> tuple[dict[str, Fact], dict[str, list[BonSet]]]:
    """Facts by id, and the sets of every family."""
    folders = seed_folders()
    newest = max((name for name in folders if name.startswith(f"{data}@")), default=data)
    facts = {fact.id: fact for fact in load_facts(folders.get(newest, Path(data)))}
    families: dict[str, list[BonSet]] = defaultdict(list)
    for item in load(data):
        if item.family and (not languages or item.language in languages):
            families[item.family].append(item)
    return facts, families


def pairs(
    name: str, sets: Sequence[BonSet], facts: Mapping[str, Fact], given: argparse.Namespace
) -> Iterator[dict[str, str]]:
    """Both pairs of every two answers that are right in one set of a family and wrong in the
    other."""
    behind = {
        item.id: facts.get(str(item.chosen.source.fact)) if item.chosen.source else None
        for item in sets
    }
    for item, other in itertools.permutations(sets, 2):
        own, fact = behind[item.id], behind[other.id]
        wrong = next((one for one in item.rejected if one.text == other.chosen.text), None)
        mirrored = any(one.text == item.chosen.text for one in other.rejected)
        if wrong is None or not mirrored or own is None or fact is None:
            continue
        if given.named and place(own) == place(fact):
            continue
        others = [one for one in behind.values() if one is not None and one not in (own, fact)]
        shown = [own, fact, *others[: given.places - 2]]
        shown.sort(key=lambda one: random.Random(f"{given.seed}\0{name}\0{one.id}").random())
        lines = ["What people say:", *(f"{place(one)}: {one.statement}" for one in shown), ""]
        yield {
            "id": f"{item.id}/{wrong.id}/open-book",
            "source_item": f"topic:{own.topic}",
            "family": name,
            "prompt": "\n".join(
                [*lines, f"{place(own)}: {item.prompt_text}" if given.named else item.prompt_text]
            ),
            "chosen": item.chosen.text,
            "rejected": wrong.text,
            # the instructions shall not name the place, which the question does
            "culture": "general",
            "language": item.language,
            "domain": str(item.domain),
            "closed": item.prompt_text,
            "fact": own.statement,
            "other_fact": fact.statement,
        }


def place(fact: Fact) -> str:
    """The name of a fact's place."""
    return cultures[fact.culture].name if fact.culture in cultures else str(fact.culture)


if __name__ == "__main__":
    sys.exit(main())
