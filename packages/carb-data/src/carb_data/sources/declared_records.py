"""The records of a declared part: read from its files, made flat, cleaned."""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from carb_data.errors import CarbError
from carb_data.sources.declaration import Mask, Part
from carb_data.sources.source_files import read_text

__all__ = ["Record", "fill", "read_records"]

Record = dict[str, str]
"""Field to text; what lies deeper has a dotted name: ``question.choices.0.text``. ``#`` is the running number,
``#pair`` that of two neighbours."""

_FIELD = re.compile(r"\{([^{}]+)\}")
_LARGEST = 512 * 1024 * 1024
"""Bytes of an unpacked file; more is refused."""


def fill(template: str, record: Mapping[str, str]) -> str:
    """The template with the record's fields in place; fields that it lacks are empty. Values are taken as they are."""
    return _FIELD.sub(lambda found: record.get(found[1], ""), template).strip()


def read_records(folder: Path, part: Part, source: str) -> Iterator[tuple[str, Record | str]]:
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
                record |= {"#": f"{number:05}", "#pair": f"{number // 2:05}"}
                yield record["#"], _finished(record, part)
                number += 1


def _files(folder: Path, patterns: tuple[str, ...], source: str) -> list[Path]:
    if folder.is_file():
        return [folder]
    for pattern in patterns:
        if found := sorted(file for file in folder.glob(pattern) if file.is_file()):
            return found
    raise CarbError(f"{folder} does not hold {source}: nothing there is called {' or '.join(patterns)}.")


def _raw(file: Path, part: Part, source: str) -> Iterator[Any]:
    if part.format in ("csv", "tsv"):
        yield from _rows(read_text(file, source), part.format, part.header)
        return
    text = _unpacked(file, source) if file.name.endswith(".tar.gz") else read_text(file, source)
    if part.format == "text":
        yield from (found.groupdict() for found in re.finditer(part.pattern or "", text))
        return
    try:
        if part.format == "jsonl":
            yield from (json.loads(line) for line in text.split("\n") if line.strip())
            return
        content = json.loads(text)
        for step in filter(None, part.records.split(".")):
            content = content[step]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CarbError(f"{file} is not a file of {source}: {type(error).__name__} {error}.") from None
    if not isinstance(content, list):
        raise CarbError(f"{file} is not a file of {source}: it holds no list of records.")
    yield from content


def _rows(text: str, format_: str, header: tuple[str, ...]) -> Iterator[dict[str, str]]:
    tabs = format_ == "tsv"
    lines = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if tabs else ",")
    names = list(header) or next(lines, [])
    for row in lines:
        if row:
            yield dict(zip(names, row, strict=False))


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


def _exploded(raw: Any, part: Part, file: Path, source: str) -> Iterator[Record]:
    if not isinstance(raw, Mapping):
        raise CarbError(f"{file} is not a file of {source}: an entry is no record.")
    content = dict(raw)
    for name in part.nested:
        try:
            content[name] = json.loads(content.get(name) or "null")
        except json.JSONDecodeError:
            content[name] = None
    entries = content.get(part.explode) if part.explode else None
    if not part.explode:
        yield _flat(content)
    elif isinstance(entries, Mapping):
        rest = _flat({name: value for name, value in content.items() if name != part.explode})
        for entry, value in entries.items():
            yield {**rest, "entry": str(entry), "value": str(value)}


def _flat(value: Any, name: str = "") -> Record:
    if isinstance(value, Mapping):
        entries = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list):
        entries = [("#", len(value)), *((str(n), inner) for n, inner in enumerate(value))]
    else:
        return {} if value is None else {name: str(value)}
    found: Record = {}
    for key, inner in entries:
        found |= _flat(inner, f"{name}.{key}" if name else key)
    return found


def _finished(record: Record, part: Part) -> Record | str:
    if record["#"] in part.left_out:
        return "readers found it wrong or unclear"
    if part.pattern is not None and part.format != "text":
        found = re.search(part.pattern, record.get(part.of, ""), re.DOTALL)
        if found is None:
            return f"the field {part.of} does not have the usual form"
        record |= {name: text or "" for name, text in found.groupdict().items()}
    for pattern, text in part.clean:
        record = {name: re.sub(pattern, text, value) for name, value in record.items()}
    record = {name: " ".join(value.split()) for name, value in record.items()}
    if not all(condition.holds(record) for condition in part.where):
        return "it is not of the kind that is taken"
    return _masked(record, part.mask) if part.mask is not None else record


def _masked(record: Record, mask: Mask) -> Record | str:
    text, word = record.get(mask.field, ""), record.get(mask.word, "")
    place = text.casefold().find(word.casefold()) if word else -1
    if place < 0:
        return f"{mask.field} does not hold {mask.word}"
    return record | {mask.to: f"{text[:place]}____{text[place + len(word) :]}"}
