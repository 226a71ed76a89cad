"""The many names that columns have: which column of a table is the question, which are answers."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from carb_data.keys import ALPHABETS
from carb_data.packaged import resource
from carb_data.values import STRUCTURES

__all__ = [
    "Columns",
    "columns_of",
    "is_doubtful",
    "is_plural",
    "part_count",
    "parts_of",
    "record_of",
]

_HEADINGS = resource("headings")
_NAMES: dict[str, list[str]] = _HEADINGS["columns"]
_NUMBERED = re.compile(r"(.*?)_?(\d{1,2}|[^\W\d_])")
"""A word with a number or a letter behind it; either may stand alone."""
_PLURAL = re.compile(
    r"(?:.*_)?(?:answers|responses|distractors|options|choices|respuestas(?:_incorrectas)?|jawaban"
    r"|antworten|ответы|candidates)"
)
_JOINED = re.compile(r"[;；؛]\s*|\n+|\s*\|\s*|\s*<br\s*/?>\s*", re.IGNORECASE)
"""Separators of several answers in a cell."""
_DOUBTFUL = re.compile(r"[^,،、]+([,،、][^,،、]+)+|[^/]+(/[^/]+)+|.+(\t|&&).+")
"""A cell that may be one answer or several."""
_ENTITY = re.compile(r"(&#?\w+);")
"""A character as HTML writes it, whose semicolon ends no answer."""
_MARKED = re.compile(r"(?:(?<=\s)|\A)[(\[]?(\d{1,2}|[A-Za-z])[.):\]]\s+(?=\S)")
"""The mark of an answer in a cell, where it may stand within a line."""
_LISTED = re.compile(r"(?:\d{1,2}[.)]|[-*•])\s+(?=\S)")
"""Bullets and numbers before the answers of a list in a cell."""
_OPTION_WORDS = {*_NAMES["option"], *_NAMES["answer"], *_HEADINGS["option_words"]}
_SEVERAL = ("rejected", "context", "chosen", "prompt", "answer")
"""Fields that several columns may hold; of others the first name in the list counts."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table by field: plain names, in the table's order."""

    by_field: Mapping[str, Sequence[str]]
    options: Sequence[str] = ()
    """Columns of single options, from the first."""

    @cached_property
    def whole(self) -> Mapping[str, str]:
        """The field of each column whose cells are taken as they are."""
        single = {names[0]: field for field, names in self.by_field.items() if len(names) == 1}
        return {name: field for name, field in single.items() if not is_plural(name)}

    def of(self, fields: Iterable[str]) -> set[str]:
        """The columns of some fields."""
        names: set[str] = set()
        for known in fields:
            names.update(self.by_field.get(known, ()))
            if known == "options":
                names.update(self.options)
        return names


def columns_of(names: Sequence[str]) -> Columns:
    """Look up the plain names of a table's columns."""
    options = _option_columns(names)
    columns: dict[str, list[str]] = {}
    for name in names:
        if name not in options and (known := _field(name)) is not None:
            columns.setdefault(known, []).append(name)
    for known, same in columns.items():
        if known not in _SEVERAL:
            columns[known] = sorted(same, key=_NAMES[known].index)[:1]
    asked = columns.get("prompt", [])
    if len(asked) > 1 and "input" in asked:
        asked.remove("input")
        columns["after"] = ["input"]
    if not asked and "context" in columns:
        columns["prompt"] = columns.pop("context")
    optional = bool(options) or "options" in columns
    if optional and "chosen" in columns and "rejected" not in columns:
        columns.setdefault("answer", []).extend(columns.pop("chosen"))
    if options or "options" in columns:
        columns["options"] = columns.get("options", [])
    return Columns(columns, options)


def _field(name: str) -> str | None:
    for known, names in _NAMES.items():
        if name in names:
            return known
    numbered = _NUMBERED.fullmatch(name)
    words = [name]
    if numbered:
        words.append(numbered[1])
    for word in (word.removesuffix("s") for word in words):
        for ending in ("", "_answer", "_response", "_option", "_text"):
            base = word.removesuffix(ending)
            if base in _NAMES["rejected"]:
                return "rejected"
    return None


def _option_columns(names: Sequence[str]) -> list[str]:
    """The largest run of columns that are numbered or lettered from the first on."""
    runs: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None or match[1] not in _OPTION_WORDS:
            continue
        word, mark = match.groups()
        if mark.isdecimal():
            if word:
                runs.setdefault((word, "number"), {})[int(mark)] = name
            continue
        for kind, alphabet in ALPHABETS.items():
            if mark.upper() in alphabet:
                runs.setdefault((word, kind), {})[alphabet.index(mark.upper())] = name
    best: list[str] = []
    for (_, kind), run in runs.items():
        first = 1 if kind == "number" and 0 not in run else 0
        places = range(first, first + len(run))
        row = [run[label] for label in places if label in run]
        if len(row) == len(run) > max(1, len(best)):
            best = row
    return best


def record_of(row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """A row under the names of fields: options and keys by column, several contexts as a list."""
    whole = columns.whole
    if not columns.options and len(whole) == len(columns.by_field):
        return {whole[name]: value for name, value in row.items() if name in whole}
    record: dict[str, Any] = {}
    for known, names in columns.by_field.items():
        if len(names) == 1:
            if names[0] in row:
                record[known] = parts_of(names[0], row[names[0]])
            continue
        values = {name: parts_of(name, row[name]) for name in names if name in row}
        if known in ("options", "answer") and len(values) > 1:
            record[known] = values
        elif len(values) > 1:
            record[known] = [*values.values()]
        elif values:
            record[known] = next(iter(values.values()))
    if columns.options:
        record["options"] = {name: row.get(name, "") for name in columns.options}
    return record


@cache
def is_plural(name: str) -> bool:
    """Whether a column's name says that its cells hold several answers."""
    return _PLURAL.fullmatch(name) is not None


def is_doubtful(name: str, value: Any) -> bool:
    """Whether a cell of a plural column holds marks that may stand between answers."""
    if not isinstance(value, str) or value.startswith(STRUCTURES) or not is_plural(name):
        return False
    return parts_of(name, value) is value and _DOUBTFUL.fullmatch(value) is not None


def parts_of(name: str, value: Any) -> Any:
    """The answers that a cell of a plural column joins, or the value as it is."""
    if isinstance(value, str) and not value.startswith(STRUCTURES) and is_plural(name):
        pieces = _JOINED.split(_ENTITY.sub(r"\1\0", value))
        parts = [piece.replace("\0", ";").strip() for piece in pieces if piece.strip()]
        if len(parts) == 1:
            parts = _in_line(value)
        if all(map(_LISTED.match, parts)):
            parts = [_LISTED.sub("", part, count=1) for part in parts]
        if len(parts) > 1:
            return parts
    return value


def part_count(value: Any) -> int:
    """The number of a text's parts, as marks between answers would part it; 1 for other values."""
    if not isinstance(value, str) or value.startswith(STRUCTURES):
        return 1
    return len(_JOINED.split(_ENTITY.sub("", value.strip())))


def _in_line(value: str) -> list[str]:
    """The answers of a line that numbers them in order (``1. yes 2. no``); none where it does
    not."""
    before, *rest = _MARKED.split(value)
    marks = [mark.lower() for mark in rest[::2]]
    counted = [*map(str, range(1, len(marks) + 1))]
    lettered = [*string.ascii_lowercase[: len(marks)]]
    if before or len(marks) < 2 or marks not in (counted, lettered):
        return []
    return [part.strip(" \n;,|") for part in rest[1::2]]
