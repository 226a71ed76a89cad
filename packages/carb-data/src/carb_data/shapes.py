"""The tables that people have, as sets: each is known by its columns, as a declaration says them.

``resources/shapes`` holds a declaration of each well-known table. The last two of them take columns
by their many names: pairs (``prompt, chosen, rejected…``) and options (``question, A, B, C, D,
answer``). Without a column for it, culture and domain are ``unspecified``, and the language is
detected; ``unsaid`` tells the user.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carb_data.columns import (
    Columns,
    columns_of,
    is_doubtful,
    is_plural,
    part_count,
    parts_of,
    record_of,
)
from carb_data.declaration import (
    Declaration,
    OptionsAsGiven,
    Part,
    Template,
    fill,
    shapes,
    template_fields,
)
from carb_data.errors import CarbError, DataError, Problem
from carb_data.given import TieError, keys_of, options_of, plain_reader, read_record
from carb_data.keys import System, system_of
from carb_data.language import DETECTED, UNDETERMINED, detect_all, language_defect, language_tag
from carb_data.models import UNSPECIFIED, BonSet, Domain
from carb_data.registry import Registry, cultures, find_country
from carb_data.tables import Record, Table, plain, read_table
from carb_data.turn_marks import refuse_turns
from carb_data.validation import line_problems
from carb_data.values import UnreadError, at, text, turns, unpacked

__all__ = [
    "Loaded",
    "checked",
    "find_shape",
    "heading_of",
    "is_known",
    "left_out",
    "read_rows",
    "read_sets",
    "sets_of",
    "unsaid",
]

_GIVEN = ("culture", "domain", "language")
"""Fields that may be given once for all rows."""
_TEMPLATES = ("id", *_GIVEN, "topic", "license", "url")
"""Fields that a declaration fills from columns."""
_SHARED = itemgetter(*_TEMPLATES[1:])
_DETECTED = "language detected"
"""The provenance's note in a set whose language was not given."""
_EMPTY = "is empty"
_SAMPLE = 50
"""Rows whose values must be of the kinds that a declaration says."""
_WORDS_OF_A_SOURCE = 3
"""Spaces in what names a source; a longer text is something to read."""
_OWN = Declaration(name="own")
_MARK = re.compile(r"[a-z]|\d")
_ID = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
_PATTERNS = 1_000
"""Most sets of a table after which others are made."""
_TELLING = 250
"""Characters of a question and of an answer that tell their language."""
_BATCH = 5_000
"""Sets whose languages are detected at once."""

Progress = Callable[[int, int], None]


def silent(_done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Shape:
    """How a table is read."""

    declaration: Declaration
    part: Part
    columns: Columns | None = None
    """For a part with ``headings``, which column holds which field."""
    source: Declaration | None = None
    """Whose sets these are, where a user says it; columns alone do not tell a licence."""

    @property
    def rule(self) -> OptionsAsGiven:
        """The rule that makes sets of records."""
        assert isinstance(self.part.make, OptionsAsGiven)  # the part's validator saw to it
        return self.part.make

    @property
    def named(self) -> bool:
        """Whether it is the shape of one table, and not of columns by their many names."""
        return self.columns is None

    @property
    def loose(self) -> bool:
        """Whether the table is a public one, which may name places and languages that we lack."""
        return self.named and self.source is None

    def record(self, row: Record) -> Record:
        """A row under the names that the declaration uses."""
        if self.columns is not None:
            return record_of(row, self.columns)
        record = {name: parts_of(name, value) for name, value in row.items()}
        for pattern, new in self.part.clean:
            record = {
                name: pattern.sub(new, value) if isinstance(value, str) else value
                for name, value in record.items()
            }
        return record

    def claims(self) -> set[str]:
        """The columns by which the table was known."""
        if self.columns is None:
            return _tops([*self.part.columns, *self.rule.fields])
        return self.columns.of(self.part.columns)

    def read(self) -> set[str]:
        """All columns that are read."""
        part = self.part
        fields = [*part.columns, *self.rule.fields]
        for field in _TEMPLATES:
            fields += template_fields(getattr(part, field))
        if self.columns is None:
            return _tops(fields)
        return self.columns.of(fields)


def _tops(fields: Iterable[str]) -> set[str]:
    """The columns in which fields lie; a dot may be part of a column's name."""
    paths = [path for name in fields for path in name.split("|")]
    return {*paths, *(path.split(".")[0] for path in paths)}


@dataclass(frozen=True)
class Loaded:
    """The sets of a table, and what to tell the user about the reading."""

    sets: list[BonSet]
    notes: list[str]
    filled: set[str]
    """Fields that a value for all rows filled in at least one."""


# which shape a table has


def is_known(names: Sequence[str], own: Sequence[Declaration] = ()) -> bool:
    """Whether names of columns are those of a known table, or of one that is declared."""
    plain_names = [*map(plain, names)]
    columns = columns_of(plain_names)
    fields = {*columns.by_field}
    if columns.options:
        fields.add("options")
    for part in _parts(own):
        present = fields if part.headings else {*plain_names}
        if all(not present.isdisjoint(_tops([path])) for path in part.columns):
            return True
    return False


def _parts(own: Sequence[Declaration]) -> Iterator[Part]:
    for declaration in own or shapes().values():
        yield from declaration.parts


def heading_of(rows: Sequence[Sequence[str]], own: Sequence[Declaration] = ()) -> Sequence[str]:
    """The names of the columns of a table without heading, where a declaration has them; empty
    where none fits."""
    for part in _parts(own):
        if part.header and all(len(cells) == len(part.header) for cells in rows):
            records = [dict(zip(part.header, cells, strict=True)) for cells in rows]
            shape = Shape(_OWN, part)
            if not _lacking(shape, records):
                return part.header
    return ()


def find_shape(table: Table, own: Sequence[Declaration] = ()) -> Shape:
    """The shape of a table's filled columns.

    Args:
        table: the table.
        own: declarations of which it must be; by default the well-known ones.

    Raises:
        CarbError: it fits none or two; with the nearest declaration and what is missing.
    """
    filled = table.filled()
    columns = columns_of([name for name in table.titles if name in filled])
    domains = _values(table.rows, columns.by_field.get("domain", ()))
    if domains.isdisjoint({*Domain, UNSPECIFIED}):  # such a column holds topics
        by_field = {name: same for name, same in columns.by_field.items() if name != "domain"}
        columns = Columns(by_field, columns.options)
    rows = [row for _, row in table.rows[:_SAMPLE]]
    tried = []
    for declaration in own or shapes().values():
        for part in declaration.parts:
            headless = part.header and not own
            if part.columns and isinstance(part.make, OptionsAsGiven) and not headless:
                shape = Shape(declaration, part, columns if part.headings else None)
                tried.append((shape, _lacking(shape, rows)))
    fitting = [shape for shape, lacking in tried if not lacking]
    best = [one for one in fitting if not any(_narrower(other, one) for other in fitting)]
    if not best:
        raise CarbError(_unknown(table, tried))
    if len(best) > 1:
        both = " and ".join(shape.declaration.name for shape in best)
        raise CarbError(
            f"{table.path} fits two kinds of tables, {both}; remove the columns of one."
        )
    asked = columns.by_field.get("prompt", ()) if best[0].part.headings else ()
    if len(asked) > 1:
        both = " and ".join(table.titles[name] for name in asked)
        raise CarbError(
            f"{table.path}: the columns {both} can be the question; rename or remove one."
        )
    shape = best[0] if own else _completed(best[0], columns, rows)
    shape = _looked_up(shape, table)
    _check_lists(table, shape)
    return shape


def _completed(shape: Shape, columns: Columns, rows: Sequence[Record]) -> Shape:
    """A shape of one table that reads what else a row says, too: its culture and language, and
    what stands before the question."""
    if not shape.named:
        return shape
    part = shape.part
    read = shape.read()
    more: dict[str, Any] = {}
    make: dict[str, Any] = {}
    for field in ("culture", "language", "system", "context"):
        names = columns.by_field.get(field, ())
        texts = [row[name] for row in rows for name in names if name in row]
        if not texts or not read.isdisjoint(names) or not all(map(_is_name, texts)):
            continue
        if field == "context" and not shape.rule.context:
            make[field] = tuple(names)
        elif field == "system" and not shape.rule.system:
            make[field] = names[0]
        elif not getattr(part, field, "no template"):
            more[field] = f"{{{names[0]}}}"
    more["make"] = shape.rule.model_copy(update=make)
    return replace(shape, part=part.model_copy(update=more))


def _is_name(value: Any) -> bool:
    """Whether it is a text, and no list or number."""
    return isinstance(value, str) and unpacked(value) is value and not value.isdecimal()


def _check_lists(table: Table, shape: Shape) -> None:
    """Refuse a column whose cells may each hold one answer or several."""
    for name in shape.read() & {*table.titles}:
        cells = [(number, row[name]) for number, row in table.rows[:_SAMPLE] if name in row]
        doubtful = [row for row in cells if is_doubtful(name, row[1])]
        if 2 * len(doubtful) > len(cells):
            number, cell = doubtful[0]
            raise CarbError(
                f"{table.path}:{number}: {table.titles[name]}: '{cell[:60]}' may be one answer or "
                "several. Put a semicolon between answers; for one answer, name the column in the "
                "singular."
            )


def _narrower(one: Shape, other: Shape) -> bool:
    """Whether a shape says more about a table than another one."""
    if one.claims() == other.claims():
        return one.named and not other.named
    return one.claims() >= other.claims()


def _lacking(shape: Shape, rows: Sequence[Record]) -> list[str]:
    """The parts of a shape that a table lacks: columns, or values of their kind."""
    records = rows if shape.named else [*map(shape.record, rows)]
    lacking = []
    for name, kind in shape.part.columns.items():
        values = [value for record in records if (value := at(record, name)) is not None]
        if not values:
            lacking.append(name.replace("|", " or "))
            continue
        others = [value for value in values if not _is_of_kind(value, kind)]
        if others:
            expected = kind.removeprefix("~")
            lacking.append(f"{name} that holds {expected}, and not '{str(others[0])[:60]}'")
    return lacking


def _is_of_kind(value: Any, kind: str) -> bool:
    if kind.startswith("~"):
        return re.search(kind[1:], str(value)) is not None
    whole = unpacked(value)
    if kind == "texts":
        return isinstance(whole, list) and all(isinstance(one, str) for one in whole)
    if kind == "messages":
        return not isinstance(whole, str) and turns(whole) is not None
    return {
        "any": True,
        "text": isinstance(value, str),
        "number": re.fullmatch(r"-?\d+(\.0*)?", str(value)) is not None,
        "object": isinstance(whole, Mapping),
        "transcript": isinstance(value, str) and turns(value) is not None,
    }[kind]


def _unknown(table: Table, tried: Sequence[tuple[Shape, list[str]]]) -> str:
    """Why a table has no shape: the nearest one, and what is missing."""

    def distance(pair: tuple[Shape, list[str]]) -> tuple[bool, float, bool]:
        shape, lacking = pair
        share = len(lacking) / len(shape.part.columns)
        return shape.named and share >= 1 / 2, share, not shape.named

    nearest, lacking = min(tried, key=distance)
    missing = ", ".join(lacking)
    titles = ", ".join(sorted(table.titles.values()))
    near = ""
    if len(lacking) < len(nearest.part.columns):
        near = f" Nearest is {nearest.declaration.name}; missing: {missing}."
    return (
        f"{table.path}: its columns ({titles}) are neither "
        "prompt, chosen, rejected… nor question, A, B, C, D, answer, nor those of a well-known "
        f"table.{near} Rename them, or "
        "declare what they hold and build the sets: carb data build MY.toml."
    )


def _looked_up(shape: Shape, table: Table) -> Shape:
    """A shape of options in place of pairs, where ``chosen`` holds the names, letters or numbers of
    other columns in every row."""
    columns = shape.columns
    if columns is None or "chosen" not in shape.part.columns:
        return shape
    for rows in (table.rows[:_SAMPLE], table.rows):
        told = {known: _values(rows, columns.by_field[known]) for known in ("chosen", "rejected")}
        chosen = told["chosen"]
        either = chosen | told["rejected"]
        options = columns.options or [name for name in table.titles if name in either]
        if columns.options:
            chosen = {value for value in chosen if not _MARK.fullmatch(value)}
        if len(options) < 2 or not chosen <= {*options}:
            return shape
    by_field = {**columns.by_field}
    by_field["answer"] = by_field.pop("chosen")
    declared = shapes()["question, A, B, C, D, answer"]
    return Shape(declared, declared.parts[0], Columns(by_field, options))


def _values(rows: Sequence[tuple[int, Record]], names: Sequence[str]) -> set[str]:
    values: set[str] = set()
    for _, row in rows:
        for name in names:
            if name in row:
                values.add(plain(str(row[name])))
    return values


# from a table to sets


def read_rows(
    path: str | Path,
    *,
    defaults: Mapping[str, str] | None = None,
    registry: Registry | None = cultures,
) -> list[BonSet]:
    """The sets of a table, as ``read_sets`` gives them."""
    return read_sets(Path(path), defaults=defaults or {}, registry=registry).sets


def read_sets(
    path: Path,
    *,
    defaults: Mapping[str, str],
    registry: Registry | None = cultures,
    prefix: str = "",
    skip_bad: float = 0,
    progress: Progress = silent,
) -> Loaded:
    """The sets of a table.

    Args:
        path: a file that ``tables`` reads, with a row a set.
        defaults: fields of rows without their own: ``{"culture": "thai", "domain": "values",
            "language": "th"}``.
        registry: cultures that may occur; null accepts any.
        prefix: what stands before the ids, so that tables can be put together.
        skip_bad: how many rows, or which share below 1, may be left out because they make no set.
        progress: called with how many rows were read, of how many.

    Raises:
        DataError: with every row that makes no set; rows count from 1, the heading of a table being
            row 1.
        CarbError: the file cannot be read, its columns have no known shape, or its numbers can
            count from 0 and from 1.
    """
    given = checked(defaults, registry)
    table = read_table(path, is_known, heading_of)
    if not table.rows and not table.problems:
        raise CarbError(f"{path} holds no rows.")
    rows = len(table.rows)
    used: set[str] = set()
    sets: list[BonSet] = []
    if rows:
        for item in sets_of(table, find_shape(table), given, registry, prefix, used):
            sets.append(item)
            if len(sets) % _BATCH == 0:
                progress(rows - len(table.rows), rows)
    left_out(table.problems, rows, skip_bad, table.notes)
    return Loaded(sets, table.notes, used)


def checked(defaults: Mapping[str, str], registry: Registry | None) -> dict[str, str]:
    """The values given for all rows, with the culture's id and the language's tag.

    Raises:
        CarbError: no such language, or no or several such cultures.
    """
    given = {**defaults}
    if "language" in given:
        given["language"] = language_tag(given["language"])
        if defect := language_defect(given["language"]):
            raise CarbError(f"--language: {defect}")
    if "culture" in given and registry is not None:
        given["culture"] = _culture(given["culture"], registry) or given["culture"]
        if given["culture"] not in registry:
            raise registry.unknown(given["culture"])
    return given


def _culture(name: str, registry: Registry) -> str | None:
    """The id of a culture by its id or name, or by a country; null where none or several are
    meant, and where a language is the name: Kenya is not all that speaks Swahili."""
    if name in registry:
        return name
    meant = registry.meant(name)
    spoken = find_country(name) is None and meant and not registry.is_called(meant[0], name)
    if len(meant) != 1 or (spoken and meant[0] not in registry.listed):
        return None
    return meant[0]


def left_out(
    problems: list[Problem],
    rows: int,
    skip_bad: float,
    notes: list[str],
) -> None:
    """Raise for rows that make no set, or note them where so many may be left out.

    Raises:
        DataError: there are more of them.
    """
    problems = sorted(problems, key=lambda problem: problem.line)
    bad = {(problem.file, problem.line) for problem in problems}
    if len(bad) > (skip_bad if skip_bad >= 1 else skip_bad * (rows or 1)):
        empty = sorted({p.field for p in problems if p.field in _GIVEN and p.reason == _EMPTY})
        one = f" One value for all rows without one: {', '.join(f'--{f}' for f in empty)}."
        raise DataError(
            problems,
            "Correct these rows and run the command again, or leave them out: "
            f"--skip-bad {len(bad)}.{one if empty else ''}",
        )
    if bad:
        first = "; ".join(map(str, problems[:3]))
        more = "; …" if len(problems) > 3 else ""
        notes.append(f"{len(bad):,} rows make no set and are left out: {first}{more}.")


def sets_of(
    table: Table,
    shape: Shape,
    defaults: Mapping[str, str],
    registry: Registry | None,
    prefix: str = "",
    used: set[str] | None = None,
) -> Iterator[BonSet]:
    """The sets of a table's rows, which it uses up; what has no reading goes to the table's
    problems, what the user should know to its notes, and which defaults filled a row to
    ``used``."""
    _note_columns(table, shape)
    if shape.part.together:
        table.rows = _gathered(table.rows, shape)
    reader = _Reader(table, shape, defaults, registry, prefix, set() if used is None else used)
    drafts = reader.drafts()
    while batch := list(islice(drafts, _BATCH)):
        _detect(batch)
        for draft in batch:
            try:
                yield reader.made(draft)
            except ValidationError as error:
                problems = list(line_problems(table.path, draft.number, error))
                # its answers have their language from the row
                whole = [one for one in problems if not one.field.startswith("responses")]
                table.problems.extend(whole or problems)
    reader.note()


def _gathered(rows: Sequence[tuple[int, Record]], shape: Shape) -> list[tuple[int, Record]]:
    """Rows of one option each as rows of a question, whose options and scores are lists."""
    several = {*shape.rule.options, *shape.rule.scores}
    groups: dict[str, tuple[int, Record]] = {}
    for number, row in rows:
        key = repr([row.get(name) for name in shape.part.together])
        _, record = groups.setdefault(key, (number, {}))
        for name, value in row.items():
            if name in several:
                record.setdefault(name, []).append(value)
            else:
                record.setdefault(name, value)
    return [*groups.values()]


def _note_columns(table: Table, shape: Shape) -> None:
    if shape.named:
        table.notes.append(f"Read as {shape.declaration.name}: {shape.declaration.description}.")
    filled = table.filled()
    ties = _tie_columns([*filled], table.rows)
    read = shape.read() | {name for pair in ties for name in pair}
    read -= {name for name in _sources(shape) if _is_prose(name, table.rows)}
    unread = [
        f"{table.titles[name]} ({filled[name]:,} of {len(table.rows):,} rows filled)"
        for name in table.titles
        if name in filled and name not in read
    ]
    if unread:
        table.notes.append(f"Not read: {', '.join(unread)}.")
    table.notes += _joined(table, shape)
    scores = [pair for pair in ties if len(pair) == 2]
    if not ties:
        return
    lower = sum(any(_difference(row, *pair) < 0 for pair in scores) for _, row in table.rows)
    if lower:
        table.notes.append(
            f"In {lower:,} of {len(table.rows):,} rows the chosen answer has a lower score than "
            f"the rejected one ({', '.join(table.titles[name] for name in scores[0])})."
        )
    tied = sum(any(_is_tie(row, pair) for pair in ties) for _, row in table.rows)
    if tied:
        named = ", ".join(" = ".join(table.titles[name] for name in pair) for pair in ties)
        table.notes.append(
            f"{tied:,} of {len(table.rows):,} rows are ties by their own columns ({named}), and "
            "count all the same."
        )


def _joined(table: Table, shape: Shape) -> Iterator[str]:
    """What to tell of columns of wrong answers that may hold several in a cell."""
    names = shape.columns.by_field if shape.columns else {}
    rows = [row for _, row in table.rows[:_SAMPLE]]
    parted = any(part_count(row.get(name)) > 1 for row in rows for name in names.get("chosen", ()))
    for name in names.get("rejected", ()):
        cells = [row[name] for row in rows if name in row]
        told = f"Each text of {table.titles[name]} counts as one answer"
        if is_plural(name) and all(
            _is_name(cell) and parts_of(name, cell) is cell for cell in cells
        ):
            yield f"{told}; put a semicolon between several."
        several = sum(part_count(cell) > 2 for cell in cells)
        if 2 * several > len(rows) and not is_plural(name) and not parted:
            yield (
                f"{told}, though most have three parts or more. Where they are several, call the "
                f"column {table.titles[name]} answers."
            )


def _options(shape: Shape) -> Sequence[str]:
    """The columns of single options."""
    return shape.columns.options if shape.columns else ()


def _sources(shape: Shape) -> Sequence[str]:
    """The columns that say where a row comes from."""
    return shape.columns.by_field.get("source", ()) if shape.columns else ()


def _is_prose(name: str, rows: Sequence[tuple[int, Record]]) -> bool:
    """Whether a column holds texts, such as those that a question is about, and no addresses."""
    first = next((str(row[name]) for _, row in rows if name in row), "")
    return first.count(" ") > _WORDS_OF_A_SOURCE and "://" not in first


def _tie_columns(names: Sequence[str], rows: Sequence[tuple[int, Record]]) -> list[tuple[str, ...]]:
    """Columns that say that a row is a tie: one that is true, or two scores that are equal."""
    ties: list[tuple[str, ...]] = []
    for name in names:
        other = name.replace("chosen", "rejected")
        if name in ("tie", "is_tie", "ties"):
            ties.append((name,))
        elif name not in ("chosen", other) and other in names and _is_score(name, rows):
            ties.append((name, other))
    return ties


def _is_score(name: str, rows: Sequence[tuple[int, Record]]) -> bool:
    """Whether the first cell of a column is a number."""
    first = next((row[name] for _, row in rows if name in row), None)
    return re.fullmatch(r"-?\d+(\.\d+)?", str(first)) is not None


def _is_tie(row: Record, names: tuple[str, ...]) -> bool:
    if len(names) == 1:
        return str(row.get(names[0])).casefold() in ("true", "1", "yes")
    return _difference(row, *names) == 0


def _difference(row: Record, chosen: str, rejected: str) -> float:
    """How much higher the score of the chosen answer is; not a number where one is missing."""
    try:
        return float(row[chosen]) - float(row[rejected])
    except (KeyError, TypeError, ValueError):
        return math.nan


@dataclass(slots=True)
class _Draft:
    """The content of a set to be made."""

    number: int
    """The row."""
    id: str
    source_id: str
    prompt: str | list[dict[str, str]]
    texts: list[str]
    """All answers, in an order that tells nothing."""
    right: int
    """The index of the right one."""
    fields: dict[str, str]
    notes: str | None = None

    @property
    def asked(self) -> str:
        """The words whose language is the set's: the last turn and the right answer."""
        prompt = self.prompt if isinstance(self.prompt, str) else self.prompt[-1]["content"]
        return f"{prompt[:_TELLING]}\n{self.texts[self.right][:_TELLING]}"


class _Reader:
    """Reads the rows of one table, and counts what the user should know."""

    def __init__(
        self,
        table: Table,
        shape: Shape,
        defaults: Mapping[str, str],
        registry: Registry | None,
        prefix: str,
        used: set[str],
    ) -> None:
        self.used = used
        self.table = table
        self.shape = shape
        self.defaults = defaults
        self.registry = registry
        self.prefix = prefix
        self.seen: dict[str, int] = {}
        self.ties = self.lettered = 0
        self.meant: dict[str, str | None] = {}
        self.unregistered: Counter[str] = Counter()
        self.patterns: dict[tuple[object, ...], BonSet] = {}
        self.plain = plain_reader(shape.rule)
        part = shape.part
        templates = {field: getattr(part, field) for field in _TEMPLATES}
        columns = shape.columns.by_field if shape.columns else None
        self.templates = {
            field: template
            for field, template in templates.items()
            if template and (columns is None or columns.keys() & {*template_fields(template)})
        }
        self.names = [
            name
            for field, template in self.templates.items()
            if field != "id"
            for name in template_fields(template)
        ]
        self.known: dict[str, dict[str, str]] = {}

    def drafts(self) -> Iterator[_Draft]:
        """The content of each set to be made; the rows are used up, to free their memory."""
        system = _system(self.table, self.shape)
        rows = self.table.rows
        rows.reverse()
        while rows:
            number, row = rows.pop()
            try:
                yield from self._drafts(number, self.shape.record(row), system)
            except TieError:
                self.ties += 1
            except UnreadError as error:
                for field, reason in error.defects:
                    self.table.refuse(number, reason, field)

    def _drafts(
        self,
        number: int,
        record: Record,
        system: System,
    ) -> Iterator[_Draft]:
        defects: list[tuple[str, str]] = []
        given = fields = None
        try:
            fields = self._fields(record)
        except UnreadError as error:
            defects += error.defects
        try:
            given = self.plain(record) or read_record(self.shape.rule, record, system)
            refuse_turns(given.prompt, (*given.right, *given.wrong))
        except UnreadError as error:
            defects = [*error.defects, *defects]
        if defects or given is None or fields is None:
            raise UnreadError(*defects)
        self.lettered += given.lettered
        name = self._id(fields["id"], number)
        for position, right in enumerate(given.right, 1):
            texts = _in_no_order(given.prompt, [right, *given.wrong])
            item = f"{name}/{position}" if len(given.right) > 1 else name
            yield _Draft(number, item, name, given.prompt, texts, texts.index(right), fields)

    def made(self, draft: _Draft) -> BonSet:
        """The set of a draft: validated, or like an earlier one that was.

        Raises:
            ValidationError: something of it has not its form.
        """
        kind = (*_SHARED(draft.fields), draft.notes, draft.right, len(draft.texts))
        pattern = self.patterns.get(kind)
        if pattern is None or not isinstance(draft.prompt, str) or not _ID.fullmatch(draft.id):
            item = BonSet.model_validate(_content(draft, self.shape.source)).compacted()
            if len(self.patterns) < _PATTERNS:
                self.patterns[kind] = item
            return item
        answers = zip(pattern.responses, draft.texts, strict=True)
        return pattern.changed(
            id=draft.id,
            prompt=draft.prompt,
            responses=(*[response.changed(text=text) for response, text in answers],),
            provenance=pattern.provenance.changed(source_id=draft.source_id),
        )

    def _id(self, own: str, number: int) -> str:
        name = f"{self.prefix}:" if self.prefix else ""
        name += own or f"row-{number}"
        if name in self.seen:
            if not self.shape.named:
                reason = f"'{own}' is the id of an earlier row, {self.seen[name]}"
                raise UnreadError(("id", reason))
            name = f"{name}/row-{number}"
        self.seen[name] = number
        return name

    def _fields(self, record: Record) -> dict[str, str]:
        """The fields of a set beside its question and answers; rows with equal columns share
        them."""
        key = repr([at(record, name) for name in self.names])
        if known := self.known.get(key):
            if "id" not in self.templates:
                return known
            return known | {"id": _filled(self.templates["id"], record, "id")}
        fields = self._read_fields(record)
        if len(self.known) < _PATTERNS and not self.shape.loose:
            self.known[key] = fields
        return fields

    def _read_fields(self, record: Record) -> dict[str, str]:
        defects: list[tuple[str, str]] = []
        fields = dict.fromkeys(_TEMPLATES, "")
        for field, template in self.templates.items():
            try:
                fields[field] = _filled(template, record, field)
            except UnreadError as error:
                defects += error.defects
        told = {field for field, _ in defects}
        columns = self.shape.columns
        for field in _GIVEN:
            if not fields[field] and field in self.defaults:
                self.used.add(field)
                fields[field] = self.defaults[field]
            elif not fields[field] and columns and field in columns.by_field and field not in told:
                defects.append((field, _EMPTY))
        defects += self._named_culture(fields) + self._named_language(fields)
        if defects:
            raise UnreadError(*dict.fromkeys(defects))
        return fields

    def _named_culture(self, fields: dict[str, str]) -> list[tuple[str, str]]:
        name = fields["culture"]
        if not name or self.registry is None:
            return []
        if name not in self.meant:
            self.meant[name] = _culture(name, self.registry)
        known = self.meant[name]
        if known is None and not self.shape.loose:
            return [("culture", str(self.registry.unknown(name)))]
        self.unregistered[name] += known is None
        fields["culture"] = known or self.defaults.get("culture", "")
        return []

    def _named_language(self, fields: dict[str, str]) -> list[tuple[str, str]]:
        fields["language"] = language_tag(fields["language"])
        defect = language_defect(fields["language"]) if fields["language"] else None
        if defect is not None and not self.shape.loose:
            return [("language", defect)]
        if defect is not None:
            fields["language"] = self.defaults.get("language", "")
        return []

    def note(self) -> None:
        """Note what was left out or changed."""
        if self.ties:
            self.table.notes.append(
                f"{self.ties:,} rows are ties, name several answers or have no wrong one, and are "
                "left out."
            )
        if self.lettered:
            self.table.notes.append(
                f"The options of {self.lettered:,} rows carry their own letters, which are taken "
                "off."
            )
        if names := +self.unregistered:
            told = ", ".join(f"{name} {count:,}" for name, count in names.most_common(10))
            self.table.notes.append(f"No culture is registered for these places: {told}.")


def _filled(template: Template, record: Record, field: str) -> str:
    texts = {name: text(at(record, name), field) for name in template_fields(template)}
    return fill(template, texts)


def _system(table: Table, shape: Shape) -> System:
    """How the keys of a table count."""
    rule = shape.rule
    if not rule.key or rule.keys:
        return System()

    def keyed() -> Iterator[tuple[str, Any]]:
        for _, row in table.rows:
            record = shape.record(row)
            try:
                options, _ = options_of(rule, record)
                keys = keys_of(rule, record)
            except (UnreadError, TieError):
                continue
            yield from ((key, options) for key in keys.values())

    first = rule.first
    if any(name.endswith("0") for name in _options(shape)[:1]):
        first = 0  # as the columns are numbered
    system = system_of(keyed(), table.path, first)
    if rule.first is None and system.first is not None:
        table.notes.append(f"Answers that are numbers count from {system.first}.")
    return system


def _detect(batch: Sequence[_Draft]) -> None:
    """Set the language of sets without one."""
    unsaid = [draft for draft in batch if not draft.fields["language"]]
    languages = detect_all([draft.asked for draft in unsaid])
    for draft, language in zip(unsaid, languages, strict=True):
        draft.fields = draft.fields | {"language": language or UNDETERMINED}
        draft.notes = _DETECTED


def _in_no_order(prompt: str | list[dict[str, str]], texts: Sequence[str]) -> list[str]:
    """Answers in an order that tells nothing and depends on the texts alone."""
    asked = hashlib.sha256(f"{prompt}\0".encode("utf-8", "surrogatepass"))

    def digest(text: str) -> bytes:
        whole = asked.copy()
        whole.update(text.encode("utf-8", "surrogatepass"))
        return whole.digest()

    return sorted(texts, key=digest)


def _content(draft: _Draft, declared: Declaration | None) -> dict[str, Any]:
    """The content of a set."""
    fields = draft.fields
    source = declared or _OWN
    return {
        "id": draft.id,
        "culture": fields["culture"] or UNSPECIFIED,
        "domain": fields["domain"] or UNSPECIFIED,
        "language": fields["language"],
        "topic": fields["topic"] or None,
        "prompt": draft.prompt,
        "responses": [
            {
                "id": str(number),
                "text": text,
                "role": "rejected" if number - 1 != draft.right else "chosen",
                "language": fields["language"],
            }
            for number, text in enumerate(draft.texts, 1)
        ],
        "provenance": {
            "source": source.name,
            "source_id": draft.source_id,
            "license": fields["license"] or source.license,
            "url": fields["url"] or source.url,
            "method": source.method,
            "tier": source.tier,
            "notes": draft.notes,
        },
    }


def unsaid(sets: Iterable[BonSet]) -> list[str]:
    """The fields that a data set lacks, in sentences for the user; empty where it has all."""
    items = list(sets)
    gaps = []
    for field, what in (("culture", "by culture"), ("domain", "by domain")):
        count = sum(getattr(item, field) == UNSPECIFIED for item in items)
        if count:
            gaps.append(
                f"No {field} in {count:,} sets: results {what} leave them out. {_fill(field)}"
            )
    told = Counter(item.language for item in items if item.provenance.notes == _DETECTED)
    if told:
        named = ", ".join(f"{language} {count:,}" for language, count in told.most_common())
        gaps.append(
            f"Languages were detected: {named}, out of {', '.join(DETECTED)}; und is a "
            f"text that its words show in none of these. {_fill('language')}"
        )
    return gaps


def _fill(field: str) -> str:
    """The remedy for a field that the sets lack."""
    return f"To set one for all: --{field}."
