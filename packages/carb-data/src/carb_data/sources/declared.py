"""The sets of a declaration: its records, read and made flat; its rules; and the form of its
sets."""

import csv
import io
import json
import random
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from carb_data.declaration import Declaration, Part, Record, Skip, all_hold, fill
from carb_data.errors import CarbError
from carb_data.joined import Joined
from carb_data.loading import table_files
from carb_data.models import BonSet, Domain, Response, Role
from carb_data.registry import cultures
from carb_data.shapes import find_shape, heading_of, is_known
from carb_data.sources.declared_rules import Made, apply
from carb_data.sources.source_files import read_text
from carb_data.table_sets import Reader
from carb_data.tables import read_table

_LETTERS = "abcdefgh"
_LARGEST = 512 * 1024 * 1024
"""Bytes of an unpacked file; more is refused."""


def declared_rows(
    declaration: Declaration,
    path: Path,
    _: object,
    seed: int,
) -> Iterator[BonSet | Skip | str]:
    """Yield a set or a skip for every record of a declaration: its ``Source.rows``."""
    name = declaration.name
    made = []
    items = Joined()
    for part in declaration.parts:
        if part.columns:
            yield from _tables(declaration, part, path)
            continue
        records = _read_records(path, part, name)
        placed = [(number, _placed(part, record)) for number, record in records]
        for one in apply(part, placed, seed):
            if isinstance(one, Skip):
                yield Skip(
                    source_id=f"{name}/{part.name}/{one.source_id}",
                    reason=one.reason,
                    culture=part.culture if part.culture in cultures else None,
                    language=part.language,
                )
                continue
            first, *others = [f"{part.space or part.name}/{key}" for key in one.keys]
            made.append((part, one, first))
            for other in others:
                items.join(first, other)
    for part, one, key in made:
        yield _set(declaration, part, one, items.name(key), seed)


def _tables(declaration: Declaration, part: Part, path: Path) -> Iterator[BonSet | Skip | str]:
    """Yield the sets and skips of a part from every table in a file or folder."""
    only = [declaration.changed(parts=(part,))]
    knows = partial(is_known, declared=only)
    headings = partial(heading_of, declared=only)
    paths = table_files(path)
    for file in paths:
        table = read_table(file, knows, headings)
        shape = replace(find_shape(table, only), source=declaration)
        prefix = ""
        if len(paths) > 1:
            prefix = file.name
        yield from Reader(table, shape, {}, cultures, prefix).sets()
        for note in table.notes:
            yield f"{file.name}: {note}"
        for problem in table.problems:
            yield Skip(
                source_id=f"{file.name}:{problem.line}",
                reason=f"{problem.field}: {problem.reason}".removeprefix(": "),
            )


def _set(
    declaration: Declaration,
    part: Part,
    one: Made,
    source_id: str,
    seed: int,
) -> BonSet:
    name = f"{declaration.name}/{part.name}"
    record = one.asked.record
    family = None
    if one.family is not None:
        family = f"{name}/{one.family}"
    human = None
    if declaration.method != "generated":
        human = "human"
    order = _order(declaration.name, part, one, family, seed)
    responses = [
        Response(
            id=letter,
            text=one.answers[n],
            role=Role.REJECTED if n else Role.CHOSEN,
            language=part.language,
            generator=human,
        )
        for letter, n in zip(_LETTERS, order, strict=False)
    ]
    return BonSet(
        id=f"{name}/{one.asked.number}",
        culture=record["culture"],
        domain=Domain(part.domain),
        topic=fill(part.topic, record) or None,
        language=part.language,
        prompt=one.prompt,
        responses=tuple(responses),
        provenance=declaration.provenance(source_id),
        family=family,
        kind=part.kind,
    )


def _order(
    name: str,
    part: Part,
    one: Made,
    family: str | None,
    seed: int,
) -> Sequence[int]:
    """In which order the answers are shown: drawn for a set, the same for all sets of a family."""
    order = list(range(len(one.answers)))
    if family is None:
        random.Random(f"{name}:{seed}:{part.name}:{one.asked.number}").shuffle(order)
        return order

    def drawn(number: int) -> float:
        drive = json.dumps([family, one.answers[number], seed])
        return random.Random(drive).random()

    return sorted(order, key=drawn)


def _placed(part: Part, record: Record | str) -> Record | str:
    """The record with its culture, or why it has none."""
    if isinstance(record, str):
        return record
    label = fill(part.make.label, record)
    if part.names and label not in part.names:
        return "its class has no name in the language"
    culture = part.cultures.get(label) or fill(part.culture, record)
    if culture not in cultures:
        of_country = cultures.of_country(culture)
        if of_country is None:
            return "its country belongs to no registered culture"
        culture = of_country
    return record | {"culture": culture, "name": part.names.get(label, "")}


def _read_records(folder: Path, part: Part, source: str) -> Iterator[tuple[str, Record | str]]:
    """Yield number and record, or why an entry is none.

    Args:
        folder: The folder that holds the source's files.
        part: The part of the declaration that is read.
        source: name of the source, for messages.

    Raises:
        CarbError: no file is there, or one has not the declared form.
    """
    number = 0
    for file in _files(folder, part.files, source):
        for raw in _raw(file, part, source):
            for record in _exploded(raw, part, file, source):
                name = f"{number:05}"
                numbers = {"#": name, "#pair": f"{number // 2:05}"}
                yield name, _finished(record | numbers, part)
                number += 1


def _files(folder: Path, patterns: tuple[str, ...], source: str) -> list[Path]:
    if folder.is_file():
        return [folder]
    for pattern in patterns:
        files = filter(Path.is_file, folder.glob(pattern))
        if there := sorted(files):
            return there
    raise CarbError(
        f"{folder} does not hold {source}: nothing there is called {' or '.join(patterns)}."
    )


def _raw(file: Path, part: Part, source: str) -> Iterator[Any]:
    if part.format in ("csv", "tsv"):
        yield from _rows(read_text(file, source), part.format, part.header)
        return
    read = _unpacked if file.name.endswith(".tar.gz") else read_text
    text = read(file, source)
    if part.format == "text":
        if part.pattern:
            yield from map(re.Match.groupdict, part.pattern.finditer(text))
        return
    try:
        if part.format == "jsonl":
            yield from map(json.loads, filter(str.strip, text.split("\n")))
            return
        content = json.loads(text)
        for step in filter(None, part.records.split(".")):
            content = content[step]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CarbError(
            f"{file} is not a file of {source}: {type(error).__name__} {error}."
        ) from None
    if not isinstance(content, list):
        raise CarbError(f"{file} is not a file of {source}: it holds no list of records.")
    yield from content


def _rows(text: str, format_: str, header: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    separator = {"csv": ",", "tsv": "\t"}[format_]
    file = io.StringIO(text, newline="")
    return csv.DictReader(file, header or None, delimiter=separator)


def _unpacked(file: Path, source: str) -> str:
    """The text of the files in an archive, one after the other; nothing is written to disk."""
    texts = []
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                if member.isfile() and (held := archive.extractfile(member)) is not None:
                    if member.size > _LARGEST:
                        raise CarbError(f"{file} of {source} holds more than {_LARGEST} bytes.")
                    texts.append(held.read().decode("utf-8-sig"))
    except (tarfile.TarError, OSError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read {file} of {source}: {error}.") from None
    return "\n".join(texts)


def _exploded(
    raw: Any,
    part: Part,
    file: Path,
    source: str,
) -> Iterator[Record]:
    if not isinstance(raw, Mapping):
        raise CarbError(f"{file} is not a file of {source}: an entry is no record.")
    content = dict(raw)
    for name in part.nested:
        try:
            content[name] = json.loads(content.get(name) or "null")
        except json.JSONDecodeError:
            content[name] = None
    if not part.explode:
        yield _flat(content)
        return
    entries = content.pop(part.explode, None)
    if isinstance(entries, Mapping):
        rest = _flat(content)
        for entry, value in entries.items():
            yield {**rest, "entry": str(entry), "value": str(value)}


def _flat(value: Any, name: str = "") -> Record:
    if value is None:
        return {}
    if isinstance(value, list):
        value = {"#": len(value), **dict(enumerate(value))}
    if not isinstance(value, Mapping):
        return {name: str(value)}
    flat: Record = {}
    for key, inner in value.items():
        path = str(key)
        if name:
            path = f"{name}.{key}"
        flat |= _flat(inner, path)
    return flat


def _finished(record: Record, part: Part) -> Record | str:
    if record["#"] in part.left_out:
        return "readers found it wrong or unclear"
    if part.pattern is not None and part.format != "text":
        match = part.pattern.search(record.get(part.of, ""))
        if match is None:
            return f"the field {part.of} does not have the usual form"
        record |= match.groupdict("")
    for name, value in record.items():
        for pattern, text in part.clean:
            value = pattern.sub(text, value)
        record[name] = " ".join(value.split())
    if not all_hold(part.where, record):
        return "its kind is not taken"
    return record
