"""Declared sources: a ``Source`` from a declaration."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.joined import Joined
from carb_data.models import BonSet, Provenance, Response, Role
from carb_data.options import closest
from carb_data.registry import cultures
from carb_data.sources.base import Names, Options, Source
from carb_data.sources.countries import culture_id_of, find_country
from carb_data.sources.declaration import Declaration, Part, read_declaration
from carb_data.sources.items import Left, Made
from carb_data.sources.models import Skip
from carb_data.sources.records import Record, fill, read_records
from carb_data.sources.rules import apply

__all__ = ["declared"]

_LETTERS = "abcdefgh"


class DeclaredOptions(Options):
    """Options of a declared source."""

    parts: Names = Field((), description="Parts to build, by name; by default those that are sound enough")
    languages: Names = Field((), description="Languages to build, as en; by default all")


@dataclass(frozen=True)
class _Maker:
    """Makes the rows of a declaration; a ``Source.rows``."""

    declaration: Declaration

    def __call__(self, path: Path, options: DeclaredOptions, seed: int) -> Iterator[BonSet | Skip]:
        """Yield a set or a skip for every record of the parts asked for.

        Args:
            path: the folder that holds the source's files.
            options: The parts and languages to build.
            seed: chooses among wrong answers, and the order of the answers.
        """
        made: list[tuple[Part, Made]] = []
        items = Joined()
        for part in _asked(self.declaration, options):
            for one in apply(part, list(_placed_records(path, part, self.declaration.name)), seed):
                if isinstance(one, Left):
                    yield _skip(self.declaration, part, one)
                    continue
                made.append((part, one))
                for key in one.keys:
                    items.join(_key(part, one.keys[0]), _key(part, key))
        for part, one in made:
            yield _set(self.declaration, part, one, items.name(_key(part, one.keys[0])), seed)


def _key(part: Part, key: str) -> str:
    return f"{part.space or part.name}/{key}"


def declared(path: Path) -> Source:
    """The source that a TOML file declares (``declaration.Declaration``).

    Raises:
        CarbError: the file is no declaration.
    """
    declaration = read_declaration(path)
    return Source(
        name=declaration.name,
        description=declaration.description,
        license=declaration.license,
        rows=_Maker(declaration),
        options=DeclaredOptions,
    )


def _asked(declaration: Declaration, options: DeclaredOptions) -> list[Part]:
    names = [part.name for part in declaration.parts]
    languages = sorted({part.language for part in declaration.parts})
    for what, asked, known in (("part", options.parts, names), ("language", options.languages, languages)):
        for name in asked:
            if name not in known:
                raise CarbError(
                    f"{declaration.name} has no {what} '{name}'.{closest(name, known)} It has {', '.join(known)}."
                )
    parts = [part for part in declaration.parts if (part.name in options.parts if options.parts else part.default)]
    if options.languages and not options.parts:
        parts = [part for part in declaration.parts if part.language in options.languages]
        parts = [part for part in parts if part.default] or parts
    return parts


def _placed_records(path: Path, part: Part, source: str) -> Iterator[tuple[str, Record | str]]:
    for number, record in read_records(path, part, source):
        yield number, record if isinstance(record, str) else _placed(part, record)


def _placed(part: Part, record: Record) -> Record | str:
    """The record with its culture, or why it has none."""
    label = fill(part.make.label, record)
    if part.names and label not in part.names:
        return "its class has no name in the language"
    name = part.cultures.get(label) or fill(part.culture, record)
    culture = name if name in cultures else culture_id_of(find_country(name))
    if culture is None:
        return "its country belongs to no registered culture"
    return record | {"culture": culture, "name": part.names.get(label, "")}


def _set(declaration: Declaration, part: Part, one: Made, source_id: str, seed: int) -> BonSet:
    family = None if one.family is None else f"{declaration.name}/{part.name}/{one.family}"
    order = list(range(len(one.answers)))
    if family is None:
        random.Random(f"{declaration.name}:{seed}:{part.name}:{one.asked.number}").shuffle(order)
    else:  # the same order for the whole family
        order.sort(key=lambda n: _shuffled(family, one.answers[n], seed))
    return BonSet(
        id=f"{declaration.name}/{part.name}/{one.asked.number}",
        culture=one.asked.record["culture"],
        domain=part.domain,
        topic=fill(part.topic, one.asked.record) or None,
        language=part.language,
        prompt=one.prompt,
        responses=tuple(
            Response(
                id=letter,
                text=one.answers[n],
                role=Role.REJECTED if n else Role.CHOSEN,
                language=part.language,
                generator="human" if declaration.method != "generated" else None,
            )
            for letter, n in zip(_LETTERS, order, strict=False)
        ),
        provenance=Provenance(
            source=declaration.name,
            source_id=source_id,
            license=declaration.license,
            url=declaration.url,
            method=declaration.method,
            notes=declaration.notes,
            tier=declaration.tier,
        ),
        family=family,
        kind=part.kind,
    )


def _shuffled(family: str, text: str, seed: int) -> float:
    return random.Random(json.dumps([family, text, seed])).random()


def _skip(declaration: Declaration, part: Part, left: Left) -> Skip:
    culture = part.culture if part.culture in cultures else None
    place = f"{declaration.name}/{part.name}/{left.number}"
    return Skip(source_id=place, reason=left.reason, culture=culture, language=part.language)
