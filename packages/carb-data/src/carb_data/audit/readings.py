"""How hard the seed is for a blind reader: ``python -m carb_data.audit.readings [FOLDER]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from carb_data.audit.attack import wilson
from carb_data.audit.near import near_wrong
from carb_data.dataset import SEED_2_FOLDER, content_hash
from carb_data.facts import Bank, Family, expand, read_bank
from carb_data.models import BonSet, Frozen

__all__ = ["Reading", "main", "read_readings", "shares"]

HASH = 12
"""Digits of a set's content hash that a reading keeps."""


class Reading(Frozen):
    """One answer of a reader who saw neither keys nor facts."""

    set: str
    shown: Literal["question", "answers"]
    """The question with the four answers, or the answers alone."""
    picked: str
    """The fact whose answer was picked."""
    right: bool
    content: str
    """The first digits of the set's content hash: a set that was edited since has no reading."""
    confidence: Literal[1, 2, 3] | None = None
    """How sure the reader was: 3 is sure; null where the reader was not asked."""
    note: str | None = None


def read_readings(folder: Path = SEED_2_FOLDER) -> list[Reading]:
    """All lines of ``readings/*.jsonl``, of edited and dropped sets as well."""
    lines = (line for path in sorted((folder / "readings").glob("*.jsonl")) for line in path.read_bytes().splitlines())
    return [Reading.model_validate_json(line) for line in lines]


def shares(bank: Bank, readings: Iterable[Reading]) -> Iterator[tuple[str, str, int, int]]:
    """What was shown, a group of sets, how many of them a blind reader answered, and how many rightly.

    Groups are all sets, the domains, the forms, the languages, and main sets by whether two wrong answers or more hold
    in near places. Readings count whose set still has the text that was read.
    """
    facts, family_of, near = bank.by_id, dict[str, Family](), dict[str, int]()
    content: dict[str, str] = {}
    for line in bank.families:
        near |= near_wrong(line.content, facts)
        for item in expand(line.content, facts):
            family_of[item.id], content[item.id] = line.content, digest(item)
    valid = [reading for reading in readings if content.get(reading.set) == reading.content]
    groups: Mapping[str, Callable[[Reading], str | None]] = {
        "all": lambda _: "all",
        "domain": lambda r: family_of[r.set].domain.value,
        "form": lambda r: family_of[r.set].form,
        "language": lambda r: family_of[r.set].language,
        "near": lambda r: ("two near" if near[r.set] >= 2 else "fewer near") if r.set in near else None,
    }
    for shown in ("question", "answers"):
        seen = [reading for reading in valid if reading.shown == shown]
        for rule in groups.values():
            for name in dict.fromkeys(sorted(filter(None, map(rule, seen)))):
                own = [reading.right for reading in seen if rule(reading) == name]
                yield shown, name, len(own), sum(own)


def digest(item: BonSet) -> str:
    """What a reading keeps of a set's content hash."""
    return content_hash(item)[:HASH]


def main(folder: Path = SEED_2_FOLDER) -> int:
    """Print, as a table, the share of right answers in each group with its 95% interval."""
    sys.stdout.write("| shown | sets of | read | right | share | 95% interval |\n|---|---|---|---|---|---|\n")
    bank = read_bank(folder, [])
    for shown, name, n, right in shares(bank, read_readings(folder)):
        low, high = wilson(right / n, n)
        sys.stdout.write(f"| {shown} | {name} | {n} | {right} | {right / n:.1%} | {low:.1%} to {high:.1%} |\n")
    sys.stdout.write(f"The bank has {len(bank.families)} families and items of one place.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
