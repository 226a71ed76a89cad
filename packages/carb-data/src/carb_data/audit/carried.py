"""What became of each set of the seed's first version: ``python -m carb_data.audit.carried [FOLDER]``."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from carb_data.dataset import SEED_1, SEED_2_FOLDER, Dataset, load
from carb_data.errors import Problem
from carb_data.facts import Bank, Line, read_bank, read_lines
from carb_data.models import Domain, Frozen
from carb_data.registry import is_main

__all__ = ["Carried", "check_carried", "main", "read_carried"]

Reason = Literal[
    "trivial",  # fine, but any capable model knows it: no fact was looked for
    "doubtful",  # its key or a wrong answer of it is in doubt or false
    "language",  # a rule of the language, which holds wherever it is spoken
    "holds-nearby",  # the places that share the language or a border have it, too
    "unstated",  # no page states it country by country
    "no-majority",  # the survey's answers have no clear majority
    "no-lenders",  # fewer than three other places differ from it and from each other
    "one-survey",  # a survey that did not ask the other places, or asked for more than yes and no
    "outdated",  # a figure of a year long past, which later ones contradict or may
    "not-sought",  # a fact could be made of it, but nobody has looked one up
]


class Carried(Frozen):
    """One set of the first version."""

    set: str
    verdict: Literal["fine", "doubtful", "broken"]
    """What a reader of all 440 sets found."""
    trivial: bool
    """Whether that reader held it to be trivial for a strong language model."""
    outcome: Literal["carried", "rewritten", "dropped"]
    """Carried: a fact of the bank says the same, and a set of the language asks about it. Rewritten: the topic is asked
    with another point, place or contrast."""
    topic: str | None = None
    """The bank's topic; null where the set was dropped."""
    reason: Reason | None = None
    """Why it was dropped; null where it was not."""
    note: str | None = None
    """What exactly was missing, where the reason does not say it."""


def read_carried(folder: Path, problems: list[Problem]) -> list[Line[Carried]]:
    """The lines of ``carried.jsonl``; what is no such line is added to ``problems``."""
    return list(read_lines([folder / "carried.jsonl"], Carried, problems))


def check_carried(lines: Iterable[Line[Carried]], old: Dataset, bank: Bank) -> Iterator[Problem]:
    """Every set once, with an outcome; a topic is one that the bank's families ask about in the set's language.

    Args:
        lines: what ``read_carried`` returned.
        old: the first version.
        bank: the second version.
    """
    asked: dict[str, set[str]] = defaultdict(set)
    for family in (line.content for line in bank.families):
        if any(is_main(place.culture, family.language) for place in family.places):
            asked[family.language].add(family.topic)
    missing = {item.id: item for item in old}
    for line in lines:
        one, item = line.content, missing.pop(line.content.set, None)
        if item is None:
            yield _at(line, "set", "is no set of the first version, or is there twice")
        elif (one.outcome == "dropped") == (one.reason is None) or (one.outcome == "dropped") == bool(one.topic):
            yield _at(line, "outcome", "a dropped set has a reason, any other a topic")
        elif one.topic is not None and one.topic not in asked[item.language]:
            yield _at(line, "topic", f"no family in {item.language} asks about '{one.topic}' at home")
        elif (one.reason == "trivial" and not one.trivial) or (one.reason == "doubtful" and one.verdict == "fine"):
            yield _at(line, "reason", f"'{one.reason}' is not what the reader found")
        elif one.reason not in (None, "trivial", "doubtful") and one.note is None:
            yield _at(line, "note", f"'{one.reason}' needs a note")
    yield from (Problem("carried.jsonl", 0, "set", f"{name} has no outcome") for name in missing)


def _at(line: Line[Carried], field: str, reason: str) -> Problem:
    return Problem(line.file, line.number, field, f"{line.content.set}: {reason}")


def _name(one: Carried) -> str:
    return one.outcome if one.reason is None else f"{one.outcome}: {one.reason}"


def main(folder: Path = SEED_2_FOLDER) -> int:
    """Print every problem of the record and the number of sets of each outcome; 1 where there are problems."""
    problems: list[Problem] = []
    old, bank = load(SEED_1), read_bank(folder, problems)
    lines = read_carried(folder, problems)
    problems += check_carried(lines, old, bank)
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    domain_of = {item.id: item.domain for item in old}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in (line.content for line in lines):
        fine = one.verdict == "fine" and not one.trivial
        domain = domain_of.get(one.set)
        counts[_name(one)].update({"all": 1, "fine": int(fine), "" if domain is None else domain.value: 1})
    domains = [domain.value for domain in Domain]
    sys.stdout.write(f"| outcome | sets of version 1 | fine and not trivial | {' | '.join(domains)} |\n")
    sys.stdout.write(f"|{'---|' * (3 + len(domains))}\n")
    for name in sorted(counts, key=lambda name: (name.partition(":")[0] == "dropped", -counts[name]["all"], name)):
        cells = " | ".join(str(counts[name][column]) for column in ("all", "fine", *domains))
        sys.stdout.write(f"| {name} | {cells} |\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
