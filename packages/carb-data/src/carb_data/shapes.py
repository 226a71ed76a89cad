"""The files that people have, as sets: CSV, TSV, Excel and JSON Lines, known by their columns.

Two shapes: ``prompt, chosen, rejected…`` (one or more columns of wrong answers) and ``question, A,
B, C, D, answer`` (options, and the letter, number or text of the right one). A prompt may be a list
of chat messages. Without a column for it, culture and domain are ``unspecified``, and the language
is detected; ``unsaid`` tells the user.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carb_data.errors import CarbError, DataError, MissingExtraError, Problem
from carb_data.files import SHAPE_SUFFIXES, Rows, json_lines, read_cells
from carb_data.language import UNDETERMINED, detect
from carb_data.models import UNSPECIFIED, BonSet
from carb_data.registry import Registry, cultures
from carb_data.validation import line_problems

__all__ = ["SHAPE_SUFFIXES", "is_table", "read_rows", "unsaid"]

_NAMES: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "question", "instruction", "input", "query", "messages", "conversation"),
    "chosen": ("chosen", "correct", "correct_answer", "best", "right"),
    "answer": ("answer", "label", "gold", "key", "correct_option"),
    "id": ("id", "item_id", "uid", "qid"),
    "culture": ("culture", "country"),
    "domain": ("domain",),
    "language": ("language", "lang"),
    "topic": ("topic", "category", "subject"),
    "source": ("source", "url"),
    "license": ("license", "licence"),
}
_REJECTED = re.compile(r"(?:rejected|wrong|incorrect|distractor)(?:[ _-]?answer)?[ _-]?\d*s?")
_OPTION = re.compile(r"(?:option|choice)?[ _-]?([a-h])|(?:option|choice)[ _-]?([0-8])")
_OPTION_LIST = ("options", "choices")
_GIVEN = ("culture", "domain", "language")
"""Fields that may be given once for all rows."""
_DETECTED = "language detected"
"""What the provenance notes of a set whose language nobody said."""
_EMPTY = "is empty"
_CORRECT = "Correct these rows and run the command again."
_NO_WRONG = "every wrong answer is empty"


def read_rows(
    path: str | Path,
    *,
    defaults: Mapping[str, str] | None = None,
    registry: Registry | None = cultures,
) -> list[BonSet]:
    """The sets of a table.

    Args:
        path: a ``.csv``, ``.tsv``, ``.xlsx`` (its first sheet) or ``.jsonl`` file with a row a set.
        defaults: fields of rows without their own: ``{"culture": "thai", "domain": "values",
            "language": "th"}``.
        registry: cultures that may occur; null accepts any.

    Raises:
        DataError: with every row that makes no set; rows count from 1, the heading of a table being
            row 1.
        CarbError: the file cannot be read, its columns have no known shape, or its numbers can
            count from 0 and from 1.
    """
    path = Path(path)
    problems: list[Problem] = []
    names, rows = read_cells(path, problems)
    if not rows:
        raise DataError(problems, _CORRECT) if problems else CarbError(f"{path} holds no rows.")
    shape = _shape(path, names, rows)
    shape.number_options(rows)
    sets: list[BonSet] = []
    seen: dict[str, int] = {}
    for number, row in rows:
        try:
            content = shape.content(row, number, defaults or {})
            if registry is not None and content["culture"] not in registry:
                meant = registry.meant(content["culture"])
                if len(meant) != 1:
                    raise _RowError(("culture", str(registry.unknown(content["culture"]))))
                content["culture"] = meant[0]
            item = BonSet.model_validate(content)
            if item.id in seen:
                raise _RowError(("id", f"'{item.id}' is the id of an earlier row, {seen[item.id]}"))
            seen[item.id] = number
            sets.append(item)
        except ValidationError as error:
            found = list(line_problems(path, number, error))
            # its answers have their language from the row
            problems.extend(
                [problem for problem in found if not problem.field.startswith("responses")] or found
            )
        except _RowError as error:
            problems.extend(
                Problem(str(path), number, field, reason) for field, reason in error.defects
            )
    if problems:
        empty = sorted({p.field for p in problems if p.field in _GIVEN and p.reason == _EMPTY})
        one = (
            f" One value for all rows without one: {', '.join(f'--{field}' for field in empty)}."
            if empty
            else ""
        )
        raise DataError(problems, _CORRECT + one)
    return sets


def is_table(path: Path) -> bool:
    """Whether a file's rows have to be made into sets: any table, or JSON Lines whose first row has
    a shape."""
    suffix = path.suffix.lower()
    if suffix != ".jsonl":
        return suffix in SHAPE_SUFFIXES
    try:
        _, first = next(json_lines(path, []), (0, None))
    except OSError:
        return False
    names = {_plain(name) for name in first} if isinstance(first, dict) else set()
    keys = {*_NAMES["chosen"], *_NAMES["answer"]}
    return (
        not names & {"responses", "provenance"}
        and bool(names & keys)
        and bool(names & {*_NAMES["prompt"]})
    )


def unsaid(sets: Iterable[BonSet]) -> list[str]:
    """What a data set does not say, in sentences for the user; nothing where it says all."""
    items = list(sets)
    found = []
    for field, what in (("culture", "by culture"), ("domain", "by domain")):
        count = sum(getattr(item, field) == UNSPECIFIED for item in items)
        if count:
            found.append(
                f"No {field} in {count:,} sets: results {what} leave them out. {_fill(field)}"
            )
    told = Counter(item.language for item in items if item.provenance.notes == _DETECTED)
    if told:
        named = ", ".join(f"{language} {count:,}" for language, count in told.most_common())
        found.append(f"Languages were detected: {named}. {_fill('language')}")
    return found


def _fill(field: str) -> str:
    """What a user can do where the sets do not say a field."""
    return f"To set one for all, score them with carb eval or carb run and --{field}."


class _RowError(Exception):
    """What keeps a row from being a set: field and reason of each defect."""

    def __init__(self, *defects: tuple[str, str]) -> None:
        super().__init__(defects)
        self.defects = defects


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def _shape(path: Path, names: Sequence[str], rows: Rows) -> _Shape:
    """The shape of the columns that are not empty; if that is none, the shape of all columns."""
    plain = [_plain(name) for name in names]
    twice = next((name for name in names if plain.count(_plain(name)) > 1), None)
    if twice is not None:
        raise CarbError(f"{path}: two columns have the name '{twice}'; give each its own.")
    filled = {name for _, row in rows for name in row}
    try:
        return _Shape(path, sorted(filled))
    except CarbError:
        return _Shape(path, sorted(names))


class _Shape:
    """Which column holds what."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        plain = {_plain(name): name for name in names}
        self.column = {
            field: plain[o]
            for field, others in _NAMES.items()
            for o in reversed(others)
            if o in plain
        }
        taken = {*self.column.values()}
        self.rejected = [
            n for low, n in plain.items() if _REJECTED.fullmatch(low) and n not in taken
        ]
        options = [
            (m, n) for low, n in plain.items() if (m := _OPTION.fullmatch(low)) and n not in taken
        ]
        letters = {ord(m.group(1)) - ord("a"): n for m, n in options if m.group(1)}
        numbers = {int(m.group(2)): n for m, n in options if m.group(2)}
        found = max(letters, numbers, key=len)
        self.first = min(numbers) if found is numbers else None
        self.options = [
            found.get(place, "") for place in range(self.first or 0, max(found, default=-1) + 1)
        ]
        self.list = next((plain[name] for name in _OPTION_LIST if name in plain), None)
        pairs = "chosen" in self.column and bool(self.rejected)
        choices = "answer" in self.column and (len(found) > 1 or self.list is not None)
        if "prompt" not in self.column or not (pairs or choices):
            raise CarbError(
                f"{path}: its columns ({', '.join(names)}) are neither prompt, chosen, "
                "rejected… nor question, A, B, "
                "C, D, answer. Rename them."
            )
        self.path, self.pairs = path, pairs

    def number_options(self, rows: Rows) -> None:
        """Find the number of the first option: the columns' names tell it, or only one number is
        possible."""
        if self.first is not None or self.pairs:
            return
        possible = [firsts for _, row in rows if (firsts := self._firsts(row))]
        sure = [firsts[0] for firsts in possible if len(firsts) == 1]
        if possible and not sure:
            raise CarbError(
                f"{self.path}: its answers are numbers that can count from 0 or from 1. "
                "Write letters (A, B, …) or the "
                "texts of the right options in their place."
            )
        self.first = min(sure, default=None)

    def _firsts(self, row: Mapping[str, Any]) -> list[int]:
        """Those of 0 and 1 that may number the first option, if the row's answer is the number of
        an option."""
        try:
            key, options = _text(row.get(self.column["answer"]), "answer"), self._options(row)
        except _RowError:
            return []
        if key in options or not key.isdecimal():
            return []
        return [first for first in (0, 1) if _place(key, options, first) is not None]

    def content(
        self, row: Mapping[str, Any], number: int, defaults: Mapping[str, str]
    ) -> dict[str, Any]:
        """The fields of the row's set."""
        said = {field: row[column] for field, column in self.column.items() if column in row}
        said |= {field: _text(said[field], field) for field in ("id", *_GIVEN) if field in said}
        fields = {**defaults, **said}
        needed = ("prompt", *(field for field in _GIVEN if field in self.column))
        empty = [(field, _EMPTY) for field in needed if not fields.get(field)]
        try:
            right, wrong = self._pair(row, fields) if self.pairs else self._choice(row, fields)
        except _RowError as error:
            raise _RowError(*empty, *error.defects) from None
        if empty:
            raise _RowError(*empty)
        texts = sorted(
            [right, *wrong],
            key=lambda text: hashlib.sha256(
                f"{fields['prompt']}\0{text}".encode("utf-8", "surrogatepass")
            ).digest(),
        )
        name = str(fields.get("id") or f"row-{number}")
        detected = not fields.get("language")
        language = (
            _language(f"{_text(fields['prompt'], 'prompt')}\n{right}")
            if detected
            else fields["language"]
        )
        return {
            "id": name,
            "culture": fields.get("culture") or UNSPECIFIED,
            "domain": fields.get("domain") or UNSPECIFIED,
            "language": language,
            "topic": fields.get("topic"),
            "prompt": fields["prompt"],
            "responses": [
                {
                    "id": str(place),
                    "text": text,
                    "role": "chosen" if text == right else "rejected",
                    "language": language,
                }
                for place, text in enumerate(texts, 1)
            ],
            "provenance": {
                "source": defaults.get("origin") or "own",
                "source_id": name,
                "license": fields.get("license") or "LicenseRef-none-stated",
                "url": fields.get("source"),
                "method": "authored",
                "notes": _DETECTED if detected else None,
            },
        }

    def _pair(self, row: Mapping[str, Any], fields: Mapping[str, Any]) -> tuple[str, list[str]]:
        right = _text(fields.get("chosen"), "chosen")
        wrong = [
            _text(text, "rejected")
            for name in self.rejected
            if name in row
            for text in _several(row[name])
        ]
        if not right or not wrong:
            raise _RowError(("rejected", _NO_WRONG) if right else ("chosen", _EMPTY))
        return right, _different(right, wrong)

    def _choice(self, row: Mapping[str, Any], fields: Mapping[str, Any]) -> tuple[str, list[str]]:
        options = self._options(row)
        key = _text(fields.get("answer"), "answer")
        named = _place(key, options, self.first)
        place = options.index(key) if key and key in options else named
        if place is None:
            raise _RowError(("answer", f"'{key}' is none of the options"))
        if named is not None and options[named] != options[place]:
            reason = (
                "is the text of one option and the number or letter of another; write the "
                "letter as (B)"
            )
            raise _RowError(("answer", f"'{key}' {reason}"))
        return options[place], _different(
            options[place], [o for n, o in enumerate(options) if n != place and o]
        )

    def _options(self, row: Mapping[str, Any]) -> list[str]:
        listed = self.list is not None and row.get(self.list)
        given = _several(listed) if listed else [row.get(name, "") for name in self.options]
        return [_text(option, "options") for option in given]


def _language(text: str) -> str:
    """The language of a text as far as it can be detected; the detector is an extra."""
    try:
        return detect(text) or UNDETERMINED
    except MissingExtraError:
        return UNDETERMINED


def _place(key: str, options: Sequence[str], first: int | None) -> int | None:
    """Which option a key names by a letter, or by a number that counts from ``first``."""
    if letter := re.fullmatch(r"\(?([A-Ha-h])[.)]?", key):
        place = ord(letter[1].lower()) - ord("a")
    elif first is not None and re.fullmatch(r"\d{1,3}", key):
        place = int(key) - first
    else:
        return None
    return place if 0 <= place < len(options) and options[place] else None


def _several(value: Any) -> list[Any]:
    return (
        list(value)
        if isinstance(value, list) and not (value and isinstance(value[0], Mapping))
        else [value]
    )


def _text(value: Any, field: str) -> str:
    """A text or number, or the last turn of a conversation."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content", value)
    if value is None:
        return ""
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int | float)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        raise _RowError((field, "must be a text, a finite number or messages"))
    return str(value).strip()


def _different(right: str, wrong: Sequence[str]) -> list[str]:
    found = [text for text in wrong if text]
    if right in found or len(set(found)) != len(found):
        raise _RowError(("rejected", "two answers are the same"))
    if not found:
        raise _RowError(("rejected", _NO_WRONG))
    return found
