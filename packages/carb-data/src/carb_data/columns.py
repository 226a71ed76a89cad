"""The many names that columns have: which column of a table is the question, which are answers."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from carb_data.keys import ALPHABETS
from carb_data.packaged import resource
from carb_data.values import STRUCTURES, unpacked

_HEADINGS = resource("headings")
_NAMES: dict[str, list[str]] = _HEADINGS["columns"]
_NUMBERED = re.compile(r"(.*?)_?(\d{1,2}|[^\W\d_])")
"""A word with a number or a letter behind it; either may stand alone."""
_PLURAL = re.compile(
    r"(?:.*_)?(?:answers|responses|distractors|options|choices|respuestas(?:_incorrectas)?|jawaban"
    r"|antworten|ответы|candidates|completions|generations|outputs|replies|hypotheses|continuations"
    r"|endings|beams|samples)"
)
_JOINED = re.compile(
    r"[;；؛]\s*|[\n\v\x1c-\x1f\x85\u2028\u2029]+"
    r"|\s*(?:[|｜•¦§]|#{2,}|(?<!:)//|<br\s*/?>|[<\[]sep[>\]])\s*",
    re.IGNORECASE,
)
"""Separators of several answers in a cell."""
_DOUBTFUL = re.compile(
    r"[^,،、]+([,،、][^,،、]+)+|[^/]+(/[^/]+)+"
    r"|.+(\t|\\n| or | [^\w\s.]{1,4} |[&~*+@%$=^_]{2,}|[~·]|->).+",
    re.IGNORECASE,
)
"""A cell that may be one answer or several."""
ENTITY = re.compile(r"(&#?\w+);")
"""A character as HTML writes it, whose semicolon ends no answer."""
_MARKED = re.compile(
    r"(?:(?<=\s)|\A)[(\[（【]?(\d{1,2}|\w|[①-⑳])"
    r"(?:[.):\]）】、．：](?:\s+|(?!\d))|(?<=[①-⑳]))\s*(?=\S)"
)
"""The mark of an answer in a cell, where it may stand within a line."""
_LISTED = re.compile(r"(?:\d{1,2}[.)]|[-*•])\s+(?=\S)")
"""Bullets and numbers before the answers of a list in a cell."""
_OPTION_WORDS = {*_NAMES["option"], *_NAMES["answer"], *_HEADINGS["option_words"]}
_SEVERAL = "rejected context chosen prompt answer"
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
        return {
            name: field
            for field, names in self.by_field.items()
            for name in names
            if len(names) == 1 and not is_plural(name)
        }

    @cached_property
    def unchanged(self) -> set[str]:
        """The columns whose name is their field's, where every column is taken as it is."""
        if self.options or len(self.whole) < len(self.by_field):
            return set()
        return {name for name, field in self.whole.items() if name == field}

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
        field = _field(name)
        if field is not None and name not in options:
            columns.setdefault(field, []).append(name)
    for field, same in columns.items():
        if field not in _SEVERAL.split():
            columns[field] = [min(same, key=_NAMES[field].index)]
    asked = columns.get("prompt", [])
    if len(asked) > 1 and "input" in asked:
        asked.remove("input")
        columns["after"] = ["input"]
    alone = min({"context", "history"}.intersection(columns), default="")
    if alone and not asked:
        columns["prompt"] = columns.pop(alone)
    if options:
        columns["options"] = []
    if "options" in columns and "chosen" in columns and "rejected" not in columns:
        columns.setdefault("answer", []).extend(columns.pop("chosen"))
    texts = [name for name in columns.get("answer", ()) if name in _HEADINGS["answers"]]
    if texts and "rejected" in columns and "options" not in columns:
        columns.setdefault("chosen", texts)
    return Columns(columns, options)


def _field(name: str) -> str | None:
    for known, names in _NAMES.items():
        if name in names and known != "option":  # that word stands before a letter or number
            return known
    words = [name]
    if numbered := _NUMBERED.fullmatch(name):
        words.append(numbered[1])
    for word in words:
        singular = word.removesuffix("s")
        for ending in ("", "_answer", "_response", "_option", "_text"):
            if singular.removesuffix(ending) in _NAMES["rejected"]:
                return "rejected"
    return None


def _option_columns(names: Sequence[str]) -> list[str]:
    """The largest run of columns that are numbered or lettered from the first on."""
    runs: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None or match[1] not in _OPTION_WORDS:
            continue
        word, mark = match.groups()
        if mark.isdecimal():
            if word:
                runs[word, "number"][int(mark)] = name
            continue
        letter = mark.upper()
        for kind, alphabet in ALPHABETS.items():
            if letter in alphabet:
                runs[word, kind][alphabet.index(letter) + 1] = name
    best: list[str] = []
    for run in runs.values():
        numbers = sorted(run)
        size = len(run)
        if size > max(1, len(best)) and numbers in ([*range(size)], [*range(1, size + 1)]):
            best = [run[number] for number in numbers]
    return best


def record_of(row: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """A row under the names of fields: options by column, several keys as pairs with their columns,
    and several contexts as a list."""
    if columns.unchanged.issuperset(row):
        return row
    whole = columns.whole
    if not columns.options and len(whole) == len(columns.by_field):
        return {whole[name]: value for name, value in row.items() if name in whole}
    record: dict[str, Any] = {}
    for field, names in columns.by_field.items():
        filled = [name for name in names if name in row]
        values = {name: parts_of(name, row[name]) for name in filled}
        if len(values) == 1:
            (record[field],) = values.values()
        elif values and field == "answer":
            record[field] = tuple(values.items())
        elif values and field == "options":
            record[field] = values
        elif values:
            record[field] = [*values.values()]
    if columns.options:
        texts = [row.get(name, "") for name in columns.options]
        record["options"] = dict(zip(columns.options, texts, strict=True))
    return record


@cache
def is_plural(name: str) -> bool:
    """Whether a column's name says that its cells hold several answers."""
    return name in _NAMES["options"] or _PLURAL.fullmatch(name) is not None


def is_doubtful(name: str, value: Any) -> bool:
    """Whether a cell of a plural column holds marks that may stand between answers."""
    if not isinstance(value, str) or not is_plural(name):
        return False
    is_whole = parts_of(name, value) is unpacked(value)
    return is_whole and _DOUBTFUL.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    """Whether a cell is a text, and holds no list or object."""
    return isinstance(value, str) and not value.startswith(STRUCTURES)


def parts_of(name: str, value: Any) -> Any:
    """The answers that a cell of a plural column joins, or the value as it is."""
    if not _is_text(value) or not is_plural(name):
        return value
    pieces = _JOINED.split(ENTITY.sub(r"\1\0", value))
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
    if not _is_text(value):
        return 1
    parts = _JOINED.split(ENTITY.sub("", value.strip()))
    return max(len(parts), len(_in_line(value)))


def _in_line(value: str) -> list[str]:
    """The answers of a line that numbers them in order (``1. yes 2. no``); none where it does
    not."""
    before, *rest = _MARKED.split(value)
    marks = [mark.upper() for mark in rest[::2]]
    texts = [text.strip(" \n;,|") for text in rest[1::2]]
    count = len(marks)
    orders = [[*letters[:count]] for letters in ALPHABETS.values()]
    orders.append([*map(str, range(1, count + 1))])
    if count > 1 and not before and marks in orders:
        return texts
    return []
