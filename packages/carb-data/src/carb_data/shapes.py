"""The shape of a table and the notes on it; a declaration lists the columns of each shape.

``resources/shapes`` holds a declaration of each well-known table. The last two of them take columns
by their many names: pairs (``prompt, chosen, rejected…``) and options (``question, A, B, C, D,
answer``).
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

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
    shapes,
    template_fields,
)
from carb_data.errors import CarbError
from carb_data.keys import ALPHABETS
from carb_data.models import UNSPECIFIED, Domain
from carb_data.tables import Record, Table, plain
from carb_data.values import Unreadable, amount, at, turns, unpacked

GIVEN = ("culture", "domain", "language")
"""Fields that may be given once for all rows."""
TEMPLATES = ("id", *GIVEN, "topic", "license", "url")
"""Fields that a declaration fills from columns."""
_SAMPLE = 50
"""Rows whose values must be of the kinds that a declaration says."""
_WORDS_OF_A_SOURCE = 3
"""Spaces in what names a source; a longer text is something to read."""
_SCORE = re.compile(r"-?\d+([.,]\d+)?")
_MARK = re.compile(r"[a-z]|\d")
_WORD = re.compile(r"\w+_(?=([a-z]|\d{1,2})\Z)")
"""The word before the letter or number of an answer."""
_MARKS = re.compile(
    r"\S+ ((false )?true|false|yes|no|0|1|x)|(correct|right|wrong|incorrect) (no yes|0 1)"
)
"""A column's name and all that it holds, where that says of answers whether they are right. Yes and
no, or 0 and 1, may be answers by other names."""
_Tie = tuple[str, ...]
"""A column that is true for a tie, or two of scores that are equal; 0 stands for itself."""


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

    def names(self, field: str) -> Sequence[str]:
        """The columns that hold a field, where the columns are known by their headings."""
        return self.by_field.get(field, ())

    @cached_property
    def templates(self) -> dict[str, Template]:
        """The templates of the fields that columns of the table fill."""
        templates = {}
        for field in TEMPLATES:
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
        """The columns by which the table was known; none of a form that yields to every other."""
        if self.part.last:
            return set()
        if self.columns is None:
            return _tops([*self.part.columns, *self.rule.fields])
        return self.columns.of(self.part.columns)

    def read(self, whole: Collection[str] = ()) -> set[str]:
        """All columns that are read, where every row fills some."""
        fields = [*self.part.columns, *self.rule.fields]
        for template in self.templates.values():
            fields += template_fields(template)
        if self.columns is None:
            return _tops(fields, whole)
        return self.columns.of(fields)


def _tops(fields: Iterable[str], whole: Collection[str] = ()) -> set[str]:
    """The columns in which fields lie; a dot may be part of a column's name. Behind a column that
    every row fills, no other one is looked for."""
    paths = []
    for field in fields:
        for path in field.split("|"):
            paths.append(path)
            if path in whole:
                break
    return {*paths, *(path.split(".")[0] for path in paths)}


def is_known(names: Sequence[str], declared: Sequence[Declaration] = ()) -> bool:
    """Whether names of columns are those of a known table, or of one that is declared."""
    plain_names = [*map(plain, names)]
    for shape in _every(declared, columns_of(plain_names)):
        present = plain_names if shape.named else shape.by_field
        lacking = (_tops([path]).isdisjoint(present) for path in shape.part.columns)
        if not any(lacking):
            return True
    return False


def _every(declared: Sequence[Declaration], columns: Columns) -> Iterator[Shape]:
    """The shapes of all parts of the declarations; of the well-known ones where there are none."""
    for declaration in declared or shapes().values():
        for part in declaration.parts:
            yield Shape(declaration, part, columns if part.headings else None)


def heading_of(
    rows: Sequence[Sequence[str]], declared: Sequence[Declaration] = ()
) -> Sequence[str]:
    """The names of the columns of a table without heading, where a declaration has them; empty
    where none fits."""
    widths = {*map(len, rows)}
    for shape in _every(declared, Columns({})):
        header = shape.part.header
        if widths != {len(header)}:
            continue
        records = [dict(zip(header, cells, strict=True)) for cells in rows]
        if not _lacking(shape, records):
            return header
    return ()


def find_shape(table: Table, declared: Sequence[Declaration] = ()) -> Shape:
    """The shape of a table's filled columns.

    Args:
        table: the table.
        declared: declarations of which it must be; by default the well-known ones.

    Raises:
        CarbError: it fits none or two; with the nearest declaration and what is missing.
    """
    filled = table.filled
    names = [name for name in table.titles if name in filled]
    columns = columns_of(names)
    records = table.records
    domains = _plain_cells(records, columns.by_field.get("domain", ()))
    if domains.isdisjoint({*Domain, UNSPECIFIED}):  # such a column holds topics
        by_field = {**columns.by_field}
        by_field.pop("domain", None)
        columns = Columns(by_field, columns.options)
    records = records[:_SAMPLE]
    candidates = [shape for shape in _every(declared, columns) if declared or not shape.part.header]
    tried = [(shape, _lacking(shape, records)) for shape in candidates]
    fitting = [shape for shape, lacking in tried if not lacking]
    best = [one for one in fitting if not any(_narrower(other, one, filled) for other in fitting)]
    if not best:
        raise CarbError(_unknown(table, tried))
    if len(best) > 1:
        both = " and ".join(shape.declaration.name for shape in best)
        raise CarbError(
            f"{table.path} fits two kinds of tables, {both}; remove the columns of one."
        )
    shape = best[0]
    asked = shape.names("prompt")
    if len(asked) > 1:
        both = " and ".join(table.titles[name] for name in asked)
        raise CarbError(
            f"{table.path}: the columns {both} can be the question; rename or remove one."
        )
    if shape.named and not declared:
        shape = _completed(shape, columns, records)
    shape = _looked_up(shape, table)
    _check_lists(table, shape)
    return shape


def _cells(records: Iterable[Record], *names: str) -> Iterator[Any]:
    """The filled cells of some columns."""
    for record in records:
        for name in names:
            if name in record:
                yield record[name]


def _completed(shape: Shape, columns: Columns, records: Sequence[Record]) -> Shape:
    """A shape of one table that also reads a row's culture, its language, and the text before the
    question."""
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
        alone = cells
        if field == "context":
            alone = [cell for cell in cells if not isinstance(unpacked(cell), list)]
        if not cells or not all(map(_is_name, alone)):
            continue
        if field == "context":
            make[field] = tuple(names)
        elif field == "system":
            make[field] = names[0]
        else:
            more[field] = f"{{{names[0]}}}"
    more["make"] = rule.changed(**make)
    return replace(shape, part=part.changed(**more))


def _is_name(value: Any) -> bool:
    """Whether it is a text, and no list or number."""
    return isinstance(value, str) and unpacked(value) is value and not value.isdecimal()


def _check_lists(table: Table, shape: Shape) -> None:
    """Refuse a column whose cells may each hold one answer or several."""
    sample = table.rows[:_SAMPLE]
    for name in shape.read() & {*table.titles}:
        filled = [(number, row[name]) for number, row in sample if name in row]
        doubtful = [(number, cell) for number, cell in filled if is_doubtful(name, cell)]
        if 2 * len(doubtful) > len(filled):
            number, cell = doubtful[0]
            raise CarbError(
                f"{table.path}:{number}: {table.titles[name]}: '{cell[:60]}' may be one answer or "
                "several. Put a semicolon between answers; for one answer, name the column in the "
                "singular."
            )


def _narrower(one: Shape, other: Shape, filled: Collection[str]) -> bool:
    """Whether a shape says more about the filled columns of a table than another one."""
    claimed = one.claims().intersection(filled)
    others = other.claims().intersection(filled)
    if claimed == others:
        return one.named and not other.named
    return claimed >= others


def _lacking(shape: Shape, records: Sequence[Record]) -> list[str]:
    """The parts of a shape that a table lacks: columns, or values of their kind."""
    if not shape.named:
        records = [*map(shape.record, records)]
    lacking = []
    for name, kind in shape.part.columns.items():
        every = [at(record, name) for record in records]
        values = [value for value in every if not isinstance(value, Unreadable | None)]
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
    return kind == "any" or is_text


def _unknown(table: Table, tried: Sequence[tuple[Shape, list[str]]]) -> str:
    """Why a table has no shape: the nearest one, and its missing columns."""

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
        f"{table.path}: its columns ({titles:.1000}) are those of no well-known table.{near} "
        "Rename them to prompt, chosen, rejected… or question, A, B, C, D, answer. Or declare "
        "their contents and build the sets: carb data build MY.toml."
    )


def _looked_up(shape: Shape, table: Table) -> Shape:
    """A shape of options in place of pairs, where ``chosen`` holds the names, letters or numbers of
    other columns in every row."""
    columns = shape.columns
    if columns is None or "chosen" not in shape.part.columns:
        return shape
    records = table.records
    if "answer" in columns.by_field:
        _refuse_marks(table, columns)
    for some in (records[:_SAMPLE], records):
        chosen = _plain_cells(some, columns.by_field["chosen"])
        rejected = _plain_cells(some, columns.by_field["rejected"])
        options = columns.options
        if options:
            chosen = {key for key in chosen if not _MARK.fullmatch(key)}
        else:
            named = chosen | rejected
            options = [name for name in table.titles if name in named]
        if len(options) > 1 and chosen <= {*options}:
            continue
        if _are_labels(shape, some):
            raise CarbError(
                f"{table.path}: chosen and rejected hold numbers, letters or names of answers "
                "that stand in other columns; write the answers themselves."
            )
        return shape
    by_field = {**columns.by_field}
    by_field["answer"] = by_field.pop("chosen")
    declared = shapes()["question, A, B, C, D, answer"]
    return Shape(declared, declared.parts[0], Columns(by_field, options))


def _are_labels(shape: Shape, records: Iterable[Record]) -> bool:
    """Whether the answers of every row count, or name, what columns hold that are not read."""
    read = shape.read()
    answers = [*shape.names("chosen"), *shape.names("rejected")]
    for record in records:
        labels = [_labels(name, record[name]) for name in {*record} - read]
        every = {*map(_bare, chain.from_iterable(labels))}
        if not every.issuperset(map(_bare, _cells([record], *answers))):
            return False
    return True


def _labels(name: str, cell: Any) -> list[Any]:
    """The numbers, letters and names of the answers that a cell holds, or a model's name."""
    value = unpacked(parts_of(name, cell))
    if isinstance(value, Mapping) or name.startswith("model"):
        return [value] if isinstance(value, str) else [*value]
    if not isinstance(value, list):
        return []
    entries = [entry for entry in value if isinstance(entry, Mapping)]
    named = [entry.get(field) for entry in entries for field in ("id", "key", "label", "model")]
    count = len(value)
    return [*range(count + 1), *ALPHABETS["latin"][:count], *named]


def _bare(key: Any) -> str:
    """A key as it is compared: a number or letter without the word before it."""
    return _WORD.sub("", plain(str(key)))


def _refuse_marks(table: Table, columns: Columns) -> None:
    """Refuse a column of marks among answers, where another column holds an answer."""
    names = [*columns.by_field["chosen"], *columns.by_field["rejected"]]
    cells = [[name, *sorted(_plain_cells(table.records, [name]))] for name in names]
    marked = [*filter(_MARKS.fullmatch, map(" ".join, cells))]
    if 0 < len(marked) < len(names):
        name, *_ = marked[0].split()
        raise CarbError(
            f"{table.path}: {table.titles[name]} holds marks, and no answers; rename it."
        )


def _plain_cells(records: Iterable[Record], names: Sequence[str]) -> set[str]:
    return {*map(plain, map(str, _cells(records, *names)))}


# what to tell of a table


def note_columns(table: Table, shape: Shape) -> None:
    """Note how a table is read, and which columns are not."""
    if shape.named:
        table.notes.append(f"Read as {shape.declaration.name}: {shape.declaration.description}.")
    filled = table.filled
    records = table.records
    ties = _tie_columns([*filled], records)
    whole = [name for name, count in filled.items() if count == len(records)]
    read = shape.read(whole).union(*ties)
    for name in shape.names("source"):
        text = _first(name, records)
        if text.count(" ") > _WORDS_OF_A_SOURCE and "://" not in text:
            read.discard(name)  # what a question is about, and no address
    unread = [
        f"{title} ({filled[name]:,} of {len(records):,} rows filled)"
        for name, title in table.titles.items()
        if name in filled and name not in read
    ]
    if unread:
        table.notes.append(f"Not read: {', '.join(unread)}.")
    table.notes += _joined(table, shape, records[:_SAMPLE])
    if ties:
        _note_ties(table, ties, records)


def _note_ties(table: Table, ties: Sequence[_Tie], records: Sequence[Record]) -> None:
    """Note in how many rows the columns of ties say that no answer is better, or the wrong one."""
    rows = len(records)
    scores = [pair for pair in ties if len(pair) == 2]
    both = [" and ".join(table.titles.get(name, name) for name in pair) for pair in ties]
    columns = ", ".join(both)
    lower = sum(any(_difference(row, *pair) < 0 for pair in scores) for row in records)
    if lower:
        table.notes.append(
            f"In {lower:,} of {rows:,} rows the chosen answer has a lower score than "
            f"the rejected one ({columns})."
        )
    tied = sum(any(_is_tie(row, pair) for pair in ties) for row in records)
    if tied:
        table.notes.append(
            f"{tied:,} of {rows:,} rows are ties by their own columns ({columns}), "
            "and count all the same."
        )


def _joined(table: Table, shape: Shape, records: Sequence[Record]) -> Iterator[str]:
    """The note on columns of wrong answers that may hold several in a cell."""
    chosen = _cells(records, *shape.names("chosen"))
    parted = any(part_count(cell) > 1 for cell in chosen)
    for name in shape.names("rejected"):
        several = sum(part_count(cell) > 2 for cell in _cells(records, name))
        if 2 * several > len(records) and not parted and not is_plural(name):
            yield (
                f"Each text of {table.titles[name]} counts as one answer, though most have three "
                f"parts or more. Where they are several, call the column {table.titles[name]} "
                "answers."
            )


def _first(name: str, records: Sequence[Record]) -> str:
    """The first filled cell of a column."""
    return str(next(_cells(records, name), ""))


def _tie_columns(names: Sequence[str], records: Sequence[Record]) -> list[_Tie]:
    """Columns that say that a row is a tie: one that is true, or two scores that are equal."""
    ties: list[_Tie] = []
    for name in names:
        if name in ("tie", "is_tie", "ties"):
            ties.append((name,))
        if name.endswith(("margin", "score_diff")):
            ties.append((name, "0"))
        other = name.replace("chosen", "rejected")
        if name == "chosen" or name == other or other not in names:
            continue
        if _SCORE.fullmatch(_first(name, records)):
            ties.append((name, other))
    return ties


def _is_tie(row: Record, names: _Tie) -> bool:
    if len(names) > 1:
        return _difference(row, *names) == 0
    return str(row.get(names[0])).casefold() in ("true", "1", "yes")


def _difference(row: Record, chosen: str, rejected: str) -> float:
    """How much higher the score of the chosen answer is; not a number where one is missing."""
    try:
        return amount(row[chosen]) - amount(row.get(rejected, rejected))
    except (KeyError, ValueError):
        return math.nan
