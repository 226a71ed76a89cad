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
from functools import cached_property
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
from carb_data.given import Asked, Given, TieError, keys_of, options_of, plain_reader, read_record
from carb_data.keys import Options, System, system_of
from carb_data.language import DETECTED, UNDETERMINED, detect_all, language_defect, language_tag
from carb_data.models import UNSPECIFIED, BonSet, Domain
from carb_data.registry import Registry, cultures, find_country
from carb_data.tables import Record, Row, Table, plain, read_table
from carb_data.turn_marks import refuse_turns
from carb_data.validation import line_problems
from carb_data.values import Defect, UnreadError, at, text_at, turns, unpacked

__all__ = [
    "Loaded",
    "checked",
    "find_shape",
    "heading_of",
    "is_known",
    "left_out",
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
_Fields = dict[str, str]
"""The fields of a set beside its question and answers."""
_Tie = tuple[str, ...]
"""A column that is true for a tie, or two columns of scores that are equal."""


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

    @property
    def by_field(self) -> Mapping[str, Sequence[str]]:
        """The columns by field; empty where the declaration names the columns themselves."""
        if self.columns is None:
            return {}
        return self.columns.by_field

    @cached_property
    def templates(self) -> dict[str, Template]:
        """The templates of the fields that columns of the table fill."""
        templates = {}
        for field in _TEMPLATES:
            template = getattr(self.part, field)
            names = {*template_fields(template)}
            filled = self.columns is None or not names.isdisjoint(self.by_field)
            if template and filled:
                templates[field] = template
        return templates

    def record(self, row: Record) -> Record:
        """A row under the names that the declaration uses."""
        if self.columns is not None:
            return record_of(row, self.columns)
        record = {name: parts_of(name, value) for name, value in row.items()}
        for name, value in record.items():
            if isinstance(value, str):
                for pattern, new in self.part.clean:
                    value = pattern.sub(new, value)
                record[name] = value
        return record

    def claims(self) -> set[str]:
        """The columns by which the table was known."""
        if self.columns is None:
            return _tops([*self.part.columns, *self.rule.fields])
        return self.columns.of(self.part.columns)

    def read(self) -> set[str]:
        """All columns that are read."""
        fields = [*self.part.columns, *self.rule.fields]
        for template in self.templates.values():
            fields += template_fields(template)
        if self.columns is None:
            return _tops(fields)
        return self.columns.of(fields)


def _tops(fields: Iterable[str]) -> set[str]:
    """The columns in which fields lie; a dot may be part of a column's name."""
    tops: set[str] = set()
    for field in fields:
        for path in field.split("|"):
            tops.add(path)
            tops.add(path.split(".")[0])
    return tops


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
    fields = columns_of(plain_names).by_field.keys()
    for part in _parts(own):
        present = {*plain_names}
        if part.headings:
            present = {*fields}
        if all(not present.isdisjoint(_tops([path])) for path in part.columns):
            return True
    return False


def _parts(own: Sequence[Declaration]) -> Iterator[Part]:
    for declaration in own or shapes().values():
        yield from declaration.parts


def heading_of(rows: Sequence[Sequence[str]], own: Sequence[Declaration] = ()) -> Sequence[str]:
    """The names of the columns of a table without heading, where a declaration has them; empty
    where none fits."""
    widths = {len(cells) for cells in rows}
    for part in _parts(own):
        if not part.header or widths != {len(part.header)}:
            continue
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
    names = [name for name in table.titles if name in filled]
    columns = columns_of(names)
    records = _records(table)
    domains = _plain_cells(records, columns.by_field.get("domain", ()))
    if domains.isdisjoint({*Domain, UNSPECIFIED}):  # such a column holds topics
        by_field = {**columns.by_field}
        by_field.pop("domain", None)
        columns = Columns(by_field, columns.options)
    records = records[:_SAMPLE]
    candidates = _candidates(columns, own)
    tried = [(shape, _lacking(shape, records)) for shape in candidates]
    fitting = [shape for shape, lacking in tried if not lacking]
    best = [one for one in fitting if not any(_narrower(other, one) for other in fitting)]
    if not best:
        raise CarbError(_unknown(table, tried))
    if len(best) > 1:
        both = " and ".join(shape.declaration.name for shape in best)
        raise CarbError(
            f"{table.path} fits two kinds of tables, {both}; remove the columns of one."
        )
    shape = best[0]
    asked = shape.by_field.get("prompt", ())
    if len(asked) > 1:
        both = " and ".join(table.titles[name] for name in asked)
        raise CarbError(
            f"{table.path}: the columns {both} can be the question; rename or remove one."
        )
    if shape.named and not own:
        shape = _completed(shape, columns, records)
    shape = _looked_up(shape, table)
    _check_lists(table, shape)
    return shape


def _candidates(columns: Columns, own: Sequence[Declaration]) -> Iterator[Shape]:
    """The shapes of all parts that read a table with a heading."""
    for declaration in own or shapes().values():
        for part in declaration.parts:
            headless = part.header and not own
            if headless or not part.columns:
                continue
            if part.headings:
                yield Shape(declaration, part, columns)
            else:
                yield Shape(declaration, part)


def _records(table: Table) -> list[Record]:
    """The rows of a table without their numbers."""
    return [record for _, record in table.rows]


def _cells(records: Iterable[Record], *names: str) -> Iterator[Any]:
    """The filled cells of some columns."""
    for record in records:
        for name in names:
            if name in record:
                yield record[name]


def _completed(shape: Shape, columns: Columns, records: Sequence[Record]) -> Shape:
    """A shape of one table that reads what else a row says, too: its culture and language, and
    what stands before the question."""
    part = shape.part
    rule = shape.rule
    read = shape.read()
    more: dict[str, Any] = {}
    make: dict[str, Any] = {}
    for field in ("culture", "language", "system", "context"):
        names = columns.by_field.get(field, ())
        cells = [*_cells(records, *names)]
        is_read = getattr(part, field, None) or getattr(rule, field, None)
        if is_read or not read.isdisjoint(names):
            continue
        if not cells or not all(map(_is_name, cells)):
            continue
        if field == "context":
            make[field] = tuple(names)
        elif field == "system":
            make[field] = names[0]
        else:
            more[field] = f"{{{names[0]}}}"
    more["make"] = rule.model_copy(update=make)
    return replace(shape, part=part.model_copy(update=more))


def _is_name(value: Any) -> bool:
    """Whether it is a text, and no list or number."""
    return isinstance(value, str) and unpacked(value) is value and not value.isdecimal()


def _check_lists(table: Table, shape: Shape) -> None:
    """Refuse a column whose cells may each hold one answer or several."""
    for name in shape.read() & {*table.titles}:
        filled = [(number, row[name]) for number, row in table.rows[:_SAMPLE] if name in row]
        doubtful = [(number, cell) for number, cell in filled if is_doubtful(name, cell)]
        if 2 * len(doubtful) > len(filled):
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


def _lacking(shape: Shape, records: Sequence[Record]) -> list[str]:
    """The parts of a shape that a table lacks: columns, or values of their kind."""
    if not shape.named:
        records = [*map(shape.record, records)]
    lacking = []
    for name, kind in shape.part.columns.items():
        every = [at(record, name) for record in records]
        values = [value for value in every if value is not None]
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
    if kind == "number":
        return re.fullmatch(r"-?\d+(\.0*)?", str(value)) is not None
    whole = unpacked(value)
    if kind == "object":
        return isinstance(whole, Mapping)
    if kind == "texts":
        return isinstance(whole, list) and all(isinstance(one, str) for one in whole)
    if kind == "messages":
        return not isinstance(whole, str) and turns(whole) is not None
    is_text = isinstance(value, str)
    if kind == "transcript":
        return is_text and turns(value) is not None
    return {"any": True, "text": is_text}[kind]


def _unknown(table: Table, tried: Sequence[tuple[Shape, list[str]]]) -> str:
    """Why a table has no shape: the nearest one, and what is missing."""

    def distance(pair: tuple[Shape, list[str]]) -> tuple[bool, float, bool]:
        shape, lacking = pair
        share = len(lacking) / len(shape.part.columns)
        is_far = shape.named and share >= 1 / 2
        return is_far, share, not shape.named

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
    records = _records(table)
    for some in (records[:_SAMPLE], records):
        chosen = _plain_cells(some, columns.by_field["chosen"])
        rejected = _plain_cells(some, columns.by_field["rejected"])
        options = columns.options
        if options:
            chosen = {key for key in chosen if not _MARK.fullmatch(key)}
        else:
            named = chosen | rejected
            options = [name for name in table.titles if name in named]
        if len(options) < 2 or not chosen <= {*options}:
            return shape
    by_field = {**columns.by_field}
    by_field["answer"] = by_field.pop("chosen")
    declared = shapes()["question, A, B, C, D, answer"]
    return Shape(declared, declared.parts[0], Columns(by_field, options))


def _plain_cells(records: Iterable[Record], names: Sequence[str]) -> set[str]:
    cells = map(str, _cells(records, *names))
    return {*map(plain, cells)}


# from a table to sets


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
    sets: list[BonSet] = []
    if rows:
        shape = find_shape(table)
        for item in sets_of(table, shape, given, registry, prefix):
            sets.append(item)
            if len(sets) % _BATCH == 0:
                progress(rows - len(table.rows), rows)
    left_out(table.problems, rows, skip_bad, table.notes)
    return Loaded(sets, table.notes, table.defaulted)


def checked(defaults: Mapping[str, str], registry: Registry | None) -> dict[str, str]:
    """The values given for all rows, with the culture's id and the language's tag.

    Raises:
        CarbError: no such language, or no or several such cultures.
    """
    given = {**defaults}
    if "language" in given:
        tag = language_tag(given["language"])
        if defect := language_defect(tag):
            raise CarbError(f"--language: {defect}")
        given["language"] = tag
    if "culture" in given and registry is not None:
        culture = _culture(given["culture"], registry)
        if culture is None:
            raise registry.unknown(given["culture"])
        given["culture"] = culture
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
    bad = len({(problem.file, problem.line) for problem in problems})
    most = skip_bad
    if skip_bad < 1:
        most *= rows or 1
    if bad > most:
        hint = f"Correct these rows and run the command again, or leave them out: --skip-bad {bad}."
        empty = {problem.field for problem in problems if problem.reason == _EMPTY}
        if options := [f"--{field}" for field in sorted(empty.intersection(_GIVEN))]:
            hint += f" One value for all rows without one: {', '.join(options)}."
        raise DataError(problems, hint)
    if bad:
        first = "; ".join(map(str, problems[:3]))
        if len(problems) > 3:
            first += "; …"
        notes.append(f"{bad:,} rows make no set and are left out: {first}.")


def sets_of(
    table: Table,
    shape: Shape,
    defaults: Mapping[str, str],
    registry: Registry | None,
    prefix: str = "",
) -> Iterator[BonSet]:
    """The sets of a table's rows, which it uses up; what has no reading goes to the table's
    problems, what the user should know to its notes, and which defaults filled a row to
    ``defaulted``."""
    _note_columns(table, shape)
    if shape.part.together:
        table.rows = _gathered(table.rows, shape)
    reader = _Reader(table, shape, defaults, registry, prefix)
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


def _gathered(rows: Sequence[Row], shape: Shape) -> list[Row]:
    """Rows of one option each as rows of a question, whose options and scores are lists."""
    several = {*shape.rule.options, *shape.rule.scores}
    groups: dict[str, Row] = {}
    for number, row in rows:
        together = [row.get(name) for name in shape.part.together]
        _, record = groups.setdefault(repr(together), (number, {}))
        for name, value in row.items():
            if name in several:
                values = record.setdefault(name, [])
                values.append(value)
            else:
                record.setdefault(name, value)
    return [*groups.values()]


def _note_columns(table: Table, shape: Shape) -> None:
    """Note how a table is read, and which columns are not."""
    if shape.named:
        table.notes.append(f"Read as {shape.declaration.name}: {shape.declaration.description}.")
    filled = table.filled()
    records = _records(table)
    ties = _tie_columns([*filled], records)
    read = shape.read().union(*ties)
    for name in shape.by_field.get("source", ()):
        if _is_prose(name, records):
            read.discard(name)
    unread = []
    for name, title in table.titles.items():
        if name in filled and name not in read:
            unread.append(f"{title} ({filled[name]:,} of {len(records):,} rows filled)")
    if unread:
        table.notes.append(f"Not read: {', '.join(unread)}.")
    table.notes += _joined(table, shape, records[:_SAMPLE])
    if ties:
        _note_ties(table, ties, records)


def _note_ties(table: Table, ties: Sequence[_Tie], records: Sequence[Record]) -> None:
    """Note in how many rows the columns of ties say that no answer is better, or the wrong one."""
    rows = len(records)
    scores = [pair for pair in ties if len(pair) == 2]
    lower = 0
    for row in records:
        lower += any(_difference(row, *pair) < 0 for pair in scores)
    if lower:
        both = ", ".join(table.titles[name] for name in scores[0])
        table.notes.append(
            f"In {lower:,} of {rows:,} rows the chosen answer has a lower score than "
            f"the rejected one ({both})."
        )
    tied = 0
    for row in records:
        tied += any(_is_tie(row, pair) for pair in ties)
    if tied:
        equations = [" = ".join(table.titles[name] for name in pair) for pair in ties]
        table.notes.append(
            f"{tied:,} of {rows:,} rows are ties by their own columns ({', '.join(equations)}), "
            "and count all the same."
        )


def _joined(table: Table, shape: Shape, records: Sequence[Record]) -> Iterator[str]:
    """What to tell of columns of wrong answers that may hold several in a cell."""
    chosen = _cells(records, *shape.by_field.get("chosen", ()))
    parted = any(part_count(cell) > 1 for cell in chosen)
    for name in shape.by_field.get("rejected", ()):
        told = f"Each text of {table.titles[name]} counts as one answer"
        cells = [*_cells(records, name)]
        several = sum(part_count(cell) > 2 for cell in cells)
        if is_plural(name):
            if all(_is_name(cell) and parts_of(name, cell) is cell for cell in cells):
                yield f"{told}; put a semicolon between several."
        elif 2 * several > len(records) and not parted:
            yield (
                f"{told}, though most have three parts or more. Where they are several, call the "
                f"column {table.titles[name]} answers."
            )


def _is_prose(name: str, records: Sequence[Record]) -> bool:
    """Whether a column holds texts, such as those that a question is about, and no addresses."""
    first = str(next(_cells(records, name), ""))
    return first.count(" ") > _WORDS_OF_A_SOURCE and "://" not in first


def _tie_columns(names: Sequence[str], records: Sequence[Record]) -> list[_Tie]:
    """Columns that say that a row is a tie: one that is true, or two scores that are equal."""
    ties: list[_Tie] = []
    for name in names:
        if name in ("tie", "is_tie", "ties"):
            ties.append((name,))
        other = name.replace("chosen", "rejected")
        if name == "chosen" or name == other or other not in names:
            continue
        if _is_score(name, records):
            ties.append((name, other))
    return ties


def _is_score(name: str, records: Sequence[Record]) -> bool:
    """Whether the first cell of a column is a number."""
    first = str(next(_cells(records, name), None))
    return re.fullmatch(r"-?\d+(\.\d+)?", first) is not None


def _is_tie(row: Record, names: _Tie) -> bool:
    if len(names) > 1:
        return _difference(row, *names) == 0
    flag = str(row.get(names[0]))
    return flag.casefold() in ("true", "1", "yes")


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
    prompt: Asked
    texts: list[str]
    """All answers, in an order that tells nothing."""
    right: int
    """The index of the right one."""
    fields: _Fields
    notes: str | None = None

    @property
    def asked(self) -> str:
        """The words whose language is the set's: the last turn and the right answer."""
        prompt = self.prompt
        if not isinstance(prompt, str):
            prompt = prompt[-1]["content"]
        answer = self.texts[self.right]
        return f"{prompt[:_TELLING]}\n{answer[:_TELLING]}"


class _Reader:
    """Reads the rows of one table, and counts what the user should know."""

    def __init__(
        self,
        table: Table,
        shape: Shape,
        defaults: Mapping[str, str],
        registry: Registry | None,
        prefix: str,
    ) -> None:
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
        self.system = _system(table, shape)
        self.names: list[str] = []
        """The columns that fill the fields of a set, but for its id."""
        for field, template in shape.templates.items():
            if field != "id":
                self.names += template_fields(template)
        self.known: dict[str, _Fields] = {}

    def drafts(self) -> Iterator[_Draft]:
        """The content of each set to be made; the rows are used up, to free their memory."""
        rows = self.table.rows
        rows.reverse()
        while rows:
            number, row = rows.pop()
            try:
                yield from self._drafts(number, self.shape.record(row))
            except TieError:
                self.ties += 1
            except UnreadError as error:
                for field, reason in error.defects:
                    self.table.refuse(number, reason, field)

    def _drafts(self, number: int, record: Record) -> Iterator[_Draft]:
        defects: list[Defect] = []
        fields: _Fields = {}
        try:
            fields = self._fields(record)
        except UnreadError as error:
            defects += error.defects
        try:
            given = self._given(record)
        except UnreadError as error:
            raise UnreadError(*error.defects, *defects) from None
        if defects:
            raise UnreadError(*defects)
        self.lettered += given.lettered
        name = item = self._id(fields["id"], number)
        for position, right in enumerate(given.right, 1):
            texts = _in_no_order(given.prompt, [right, *given.wrong])
            if len(given.right) > 1:
                item = f"{name}/{position}"
            index = texts.index(right)
            yield _Draft(number, item, name, given.prompt, texts, index, fields)

    def _given(self, record: Record) -> Given:
        """The question and the answers of a record."""
        given = self.plain(record) or read_record(self.shape.rule, record, self.system)
        answers = (*given.right, *given.wrong)
        refuse_turns(given.prompt, answers)
        return given

    def made(self, draft: _Draft) -> BonSet:
        """The set of a draft: validated, or like an earlier one that was.

        Raises:
            ValidationError: something of it has not its form.
        """
        shared = _SHARED(draft.fields)
        kind = (*shared, draft.notes, draft.right, len(draft.texts))
        pattern = self.patterns.get(kind)
        is_like = isinstance(draft.prompt, str) and _ID.fullmatch(draft.id)
        if pattern is None or not is_like:
            content = _content(draft, self.shape.source)
            item = BonSet.model_validate(content).compacted()
            if len(self.patterns) < _PATTERNS:
                self.patterns[kind] = item
            return item
        answers = zip(pattern.responses, draft.texts, strict=True)
        responses = [response.changed(text=text) for response, text in answers]
        return pattern.changed(
            id=draft.id,
            prompt=draft.prompt,
            responses=tuple(responses),
            provenance=pattern.provenance.changed(source_id=draft.source_id),
        )

    def _id(self, own: str, number: int) -> str:
        name = own or f"row-{number}"
        if self.prefix:
            name = f"{self.prefix}:{name}"
        if name in self.seen:
            if not self.shape.named:
                reason = f"'{own}' is the id of an earlier row, {self.seen[name]}"
                raise UnreadError(("id", reason))
            name = f"{name}/row-{number}"
        self.seen[name] = number
        return name

    def _fields(self, record: Record) -> _Fields:
        """The fields of a set beside its question and answers; rows with equal columns share
        them."""
        values = [at(record, name) for name in self.names]
        key = repr(values)
        template = self.shape.templates.get("id")
        if known := self.known.get(key):
            if template is None:
                return known
            return known | {"id": _filled(template, record, "id")}
        fields = self._read_fields(record)
        if len(self.known) < _PATTERNS and not self.shape.loose:
            self.known[key] = fields
        return fields

    def _read_fields(self, record: Record) -> _Fields:
        defects: list[Defect] = []
        fields = dict.fromkeys(_TEMPLATES, "")
        for field, template in self.shape.templates.items():
            try:
                fields[field] = _filled(template, record, field)
            except UnreadError as error:
                defects += error.defects
        unread = {field for field, _ in defects}
        for field in _GIVEN:
            if fields[field]:
                continue
            if field in self.defaults:
                self.table.defaulted.add(field)
                fields[field] = self.defaults[field]
            elif field in self.shape.by_field and field not in unread:
                defects.append((field, _EMPTY))
        defects += self._named_culture(fields)
        defects += self._named_language(fields)
        if defects:
            raise UnreadError(*dict.fromkeys(defects))
        return fields

    def _named_culture(self, fields: _Fields) -> list[Defect]:
        name = fields["culture"]
        if not name or self.registry is None:
            return []
        if name not in self.meant:
            self.meant[name] = _culture(name, self.registry)
        known = self.meant[name]
        if known is None:
            if not self.shape.loose:
                unknown = self.registry.unknown(name)
                return [("culture", str(unknown))]
            self.unregistered[name] += 1
            known = self.defaults.get("culture", "")
        fields["culture"] = known
        return []

    def _named_language(self, fields: _Fields) -> list[Defect]:
        if not fields["language"]:
            return []
        tag = language_tag(fields["language"])
        if defect := language_defect(tag):
            if not self.shape.loose:
                return [("language", defect)]
            tag = self.defaults.get("language", "")
        fields["language"] = tag
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
        if self.unregistered:
            most = self.unregistered.most_common(10)
            places = ", ".join(f"{name} {count:,}" for name, count in most)
            self.table.notes.append(f"No culture is registered for these places: {places}.")


def _filled(template: Template, record: Record, field: str) -> str:
    texts = {}
    for name in template_fields(template):
        texts[name] = text_at(record, name, field)
    return fill(template, texts)


def _system(table: Table, shape: Shape) -> System:
    """How the keys of a table count."""
    rule = shape.rule
    if not rule.key or rule.keys:
        return System()

    def keyed() -> Iterator[tuple[str, Options]]:
        for _, row in table.rows:
            record = shape.record(row)
            try:
                given, _ = options_of(rule, record)
                keys = keys_of(rule, record)
            except (UnreadError, TieError):
                continue
            for key in keys.values():
                yield key, given

    first = rule.first
    options = shape.columns.options if shape.columns else ()
    if options and options[0].endswith("0"):
        first = 0  # as the columns are numbered
    system = system_of(keyed(), table.path, first)
    if rule.first is None and system.first is not None:
        table.notes.append(f"Answers that are numbers count from {system.first}.")
    return system


def _detect(batch: Sequence[_Draft]) -> None:
    """Set the language of sets without one."""
    unsaid = [draft for draft in batch if not draft.fields["language"]]
    texts = [draft.asked for draft in unsaid]
    languages = detect_all(texts)
    for draft, language in zip(unsaid, languages, strict=True):
        spoken = {"language": language or UNDETERMINED}
        draft.fields = draft.fields | spoken
        draft.notes = _DETECTED


def _in_no_order(prompt: Asked, texts: Sequence[str]) -> list[str]:
    """Answers in an order that tells nothing and depends on the texts alone."""
    seed = f"{prompt}\0"
    asked = hashlib.sha256(seed.encode("utf-8", "surrogatepass"))

    def digest(text: str) -> bytes:
        whole = asked.copy()
        whole.update(text.encode("utf-8", "surrogatepass"))
        return whole.digest()

    return sorted(texts, key=digest)


def _content(draft: _Draft, declared: Declaration | None) -> dict[str, Any]:
    """The content of a set."""
    fields = draft.fields
    source = declared or _OWN
    responses = []
    for index, text in enumerate(draft.texts):
        response = {
            "id": str(index + 1),
            "text": text,
            "role": "chosen" if index == draft.right else "rejected",
            "language": fields["language"],
        }
        responses.append(response)
    return {
        "id": draft.id,
        "culture": fields["culture"] or UNSPECIFIED,
        "domain": fields["domain"] or UNSPECIFIED,
        "language": fields["language"],
        "topic": fields["topic"] or None,
        "prompt": draft.prompt,
        "responses": responses,
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
