"""The sets of a declaration: its records, its rules, and what a set of them looks like."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from carb_data.joined import Joined
from carb_data.models import BonSet, Response, Role
from carb_data.registry import cultures
from carb_data.sources.declaration import Declaration, Part
from carb_data.sources.declared_records import Record, fill, read_records
from carb_data.sources.declared_rules import Left, Made, apply
from carb_data.sources.source_interface import Skip

__all__ = ["declared_rows"]

_LETTERS = "abcdefgh"


def declared_rows(declaration: Declaration, path: Path, _: object, seed: int) -> Iterator[BonSet | Skip]:
    """Yield a set or a skip for every record of a declaration: its ``Source.rows``."""
    name = declaration.name
    made: list[tuple[Part, Made]] = []
    items = Joined()
    for part in declaration.parts:
        records = [(number, _placed(part, record)) for number, record in read_records(path, part, name)]
        for one in apply(part, records, seed):
            if isinstance(one, Left):
                culture = part.culture if part.culture in cultures else None
                place = f"{name}/{part.name}/{one.number}"
                yield Skip(source_id=place, reason=one.reason, culture=culture, language=part.language)
                continue
            made.append((part, one))
            for key in one.keys:
                items.join(_key(part, one.keys[0]), _key(part, key))
    for part, one in made:
        yield _set(declaration, part, one, items.name(_key(part, one.keys[0])), seed)


def _set(declaration: Declaration, part: Part, one: Made, source_id: str, seed: int) -> BonSet:
    name = declaration.name
    family = None if one.family is None else f"{name}/{part.name}/{one.family}"
    human = "human" if declaration.method != "generated" else None
    responses = [
        Response(
            id=letter,
            text=one.answers[n],
            role=Role.REJECTED if n else Role.CHOSEN,
            language=part.language,
            generator=human,
        )
        for letter, n in zip(_LETTERS, _order(name, part, one, family, seed), strict=False)
    ]
    return BonSet(
        id=f"{name}/{part.name}/{one.asked.number}",
        culture=one.asked.record["culture"],
        domain=part.domain,
        topic=fill(part.topic, one.asked.record) or None,
        language=part.language,
        prompt=one.prompt,
        responses=tuple(responses),
        provenance=declaration.provenance(source_id),
        family=family,
        kind=part.kind,
    )


def _order(name: str, part: Part, one: Made, family: str | None, seed: int) -> Sequence[int]:
    """In which order the answers are shown: drawn for a set, the same for all sets of a family."""
    order = list(range(len(one.answers)))
    if family is None:
        random.Random(f"{name}:{seed}:{part.name}:{one.asked.number}").shuffle(order)
        return order
    return sorted(order, key=lambda n: random.Random(json.dumps([family, one.answers[n], seed])).random())


def _key(part: Part, key: str) -> str:
    return f"{part.space or part.name}/{key}"


def _placed(part: Part, record: Record | str) -> Record | str:
    """The record with its culture, or why it has none."""
    if isinstance(record, str):
        return record
    label = fill(part.make.label, record)
    if part.names and label not in part.names:
        return "its class has no name in the language"
    name = part.cultures.get(label) or fill(part.culture, record)
    culture = name if name in cultures else cultures.of_country(name)
    if culture is None:
        return "its country belongs to no registered culture"
    return record | {"culture": culture, "name": part.names.get(label, "")}
