"""The rows of the files that people have: CSV, TSV, Excel, JSON, JSON Lines and Parquet, packed or
not."""

import codecs
import csv
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
from polars import col
from pydantic_core import from_json

from carb_data.errors import CarbError, Problem
from carb_data.sheets import read_sheets
from carb_data.validation import repeated_name
from carb_data.values import Unreadable, as_shown

__all__ = ["read_table"]

_CELLS = (".csv", ".tsv", ".xlsx")
_KINDS = (*_CELLS, ".json", ".jsonl", ".ndjson", ".parquet")
_PACKED = [f"{kind}.gz" for kind in _KINDS[:-1] if kind != ".xlsx"]
TABLE_SUFFIXES = (*_KINDS, *_PACKED, ".zip")
"""Endings of files whose rows are read, in either case of letters."""
READS = (
    f"carb reads {', '.join(TABLE_SUFFIXES)}. Save a sheet as .xlsx or as CSV UTF-8, and what a "
    "program holds as .jsonl or .parquet."
)
_LARGEST = 2 * 1024**3
"""Bytes that a packed file may unpack to."""
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_ABOVE_HEADING = 10
"""Rows among which a table's heading is looked for."""
_HEAD = 100_000
"""Characters among which these rows are looked for."""
_PARQUET_SLICE = 1024
"""Rows of a Parquet file that are read at once, which bounds the memory."""
Cells = Sequence[str | Unreadable]
Numbered = Sequence[tuple[int, Cells]]
"""Rows of cells, each with its number."""
Record = dict[str, Any]
Row = tuple[int, Record]
"""Number and content."""
Contents = Iterator[tuple[int, Any]]
"""The number and content of each record of a file."""
Knows = Callable[[Sequence[str]], bool]
"""Whether column names are those of a known shape."""
HeadingOf = Callable[[Sequence[Sequence[str]]], Sequence[str]]
"""The names of the columns of rows without a heading; empty where they are not known."""

csv.field_size_limit(sys.maxsize)  # a prompt may be a whole article; the default is 131,072


@dataclass
class Table:
    """The rows of a file, with the numbers that a reader of the file would give them."""

    path: Path
    titles: dict[str, str] = field(default_factory=dict)
    """Plain name to the name as the file has it, in the order of the columns."""
    rows: list[Row] = field(default_factory=list)
    """Number, and filled cells by plain name."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about content that was not read."""
    defaulted: set[str] = field(default_factory=set)
    """Fields that a value for all rows filled in at least one."""

    @property
    def records(self) -> list[Record]:
        """The rows without their numbers."""
        return [record for _, record in self.rows]

    @cached_property
    def filled(self) -> Counter[str]:
        """How many rows fill each column, before they are used up."""
        return Counter(chain.from_iterable(self.records))

    def refuse(
        self,
        number: int,
        reason: str,
        field: str = "",
    ) -> None:
        """Note what keeps a row, or its field, from being read."""
        self.problems.append(Problem(str(self.path), number, field, reason))


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A column's name as it is compared: ``Correct Answer:`` is ``correct_answer``."""
    bare = as_shown(name).strip(".:*()?？؟")
    return re.sub(r"[\s\-_#]+", "_", bare.casefold())


def kind_of(path: Path) -> str | None:
    """The kind of a table by its file name, without the ending of a packed file."""
    name = path.name.lower().removesuffix(".gz")
    return next(filter(name.endswith, (*_KINDS, ".zip")), None)


def read_table(path: Path, knows: Knows, heading_of: HeadingOf = lambda _: ()) -> Table:
    """The rows of a file.

    Args:
        path: a file that ends in one of ``TABLE_SUFFIXES``.
        knows: whether names are those of a known shape; it tells a heading from a title, and which
            sheet holds the table.
        heading_of: names of the columns where no row of a CSV has them.

    Raises:
        CarbError: the file cannot be read at all, or two of its columns have one name.
    """
    table = Table(path)
    with _opened(path) as (kind, file):
        if kind in (".csv", ".tsv"):
            text = _bounded(path, file).decode("utf-8-sig")
            _delimited(table, kind, text, knows, heading_of)
        elif kind == ".xlsx":
            _workbook(table, file, knows)
        else:
            _records(table, _numbered(table, kind, file, knows))
    return table


def contents(path: Path, problems: list[Problem]) -> Contents:
    """Number and content of each record of a file of objects; none of a table of cells. What is not
    JSON is appended to ``problems``."""
    table = Table(path, problems=problems)
    with _opened(path) as (kind, file):
        if kind not in _CELLS:
            yield from _numbered(table, kind, file, lambda names: "responses" in names)


_POINTER = b"version https://git-lfs"
_MARKS = {b"\x1f\x8b": ".gz", b"PK\x03\x04": ".zip or .xlsx", b"PAR1": ".parquet"}
"""How files of bytes begin, and their endings."""
_BEGINNING = 64
"""Bytes that tell the kind of a file."""


@contextmanager
def _opened(path: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The kind of a file and its unpacked bytes; a damaged or absent file is refused, also while it
    is read."""
    kind = kind_of(path)
    if kind is None:
        raise CarbError(f"{path}: unknown file type; {READS}")
    try:
        with ExitStack() as stack:
            if kind == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                member = _only_member(path, archive)
                kind = kind_of(Path(member.filename)) or ""
                file: Any = stack.enter_context(archive.open(member))
            else:
                open_file = gzip.open if path.suffix.lower() == ".gz" else Path.open
                file = stack.enter_context(open_file(path, "rb"))
            yield _checked(path, kind, file.peek(_BEGINNING)), file
    except UnicodeDecodeError:
        raise CarbError(f"{path} is not text in UTF-8; save it as UTF-8.") from None
    except (EOFError, zlib.error, zipfile.BadZipFile, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CarbError(f"Cannot read {path}: {reason}. Check the path.") from None


def _checked(path: Path, kind: str, start: bytes) -> str:
    """The kind of a file by its name, or by its first bytes where a list of JSON is called JSON
    Lines.

    Raises:
        CarbError: the bytes are those of another kind.
    """
    if start.startswith(_POINTER):
        raise CarbError(f"{path} is a pointer of Git LFS, not the file; fetch it: git lfs pull.")
    for mark, holds in _MARKS.items():
        if start.startswith(mark) and kind not in holds:
            raise CarbError(f"{path} holds no {kind}, by its first bytes; call it {holds}.")
    if b"\0" in start and kind not in (".xlsx", ".parquet"):
        raise CarbError(f"{path} is not text in UTF-8; unpack it, or save it as UTF-8.")
    text = start.lstrip(codecs.BOM_UTF8 + b" \r\n")
    if kind in (".jsonl", ".ndjson") and text.startswith(b"["):
        return ".json"
    return kind


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = []
    for member in archive.infolist():
        file = Path(member.filename)
        hidden = file.name.startswith(".") or member.filename.startswith("__MACOSX/")
        packed = file.suffix.lower() in (".gz", ".zip")
        if kind_of(file) is not None and not hidden and not packed:
            members.append(member)
    if len(members) != 1:
        raise CarbError(
            f"{path} holds {len(members)} tables; unpack it and give a file, or the folder."
        )
    _refuse_large(path, members[0].file_size)
    return members[0]


def _bounded(path: Path, file: BinaryIO) -> bytes:
    content = file.read(_LARGEST + 1)
    _refuse_large(path, len(content))
    return content


def _refuse_large(path: Path, size: int) -> None:
    if size > _LARGEST:
        raise CarbError(f"{path} unpacks to more than {_LARGEST:,} bytes; unpack it.")


# records: JSON, JSON Lines and Parquet


def _numbered(
    table: Table,
    kind: str,
    file: BinaryIO,
    knows: Knows,
) -> Contents:
    """Number and content of each record of a file."""
    if kind == ".json":
        return _json(table, _bounded(table.path, file), knows)
    if kind == ".parquet" and table.path.suffix == ".zip":
        return parquet_rows(file)
    if kind == ".parquet":
        return parquet_rows(table.path)
    return json_lines(table.path, file, table.problems)


def json_lines(path: Path, file: BinaryIO, problems: list[Problem]) -> Contents:
    """Number and content of each line that is not blank; a line that is not JSON is appended to
    ``problems``."""
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.isspace():
            continue
        try:
            content = from_json(line)
        except ValueError as error:
            reason = _not_json(line, error)
            problems.append(Problem(str(path), number, "", reason))
            continue
        if _may_repeat(line, content) and (name := repeated_name(line)):
            problems.append(Problem(str(path), number, name, _TWICE))
            continue
        yield number, content


_TWICE = "stands twice in the object; keep one"


def _may_repeat(line: bytes, content: Any) -> bool:
    """Whether an object of a line, at any depth, may have a name twice: it has more of what ends a
    name than names. Slow parsing is left to such lines."""
    if isinstance(content, dict) and line.count(b":") == len(content):
        return False
    return len(_NAME_END.findall(line)) > _names_in(content)


_NAME_END = re.compile(rb'"\s*:')


def _names_in(content: Any) -> int:
    if isinstance(content, dict):
        return len(content) + sum(map(_names_in, content.values()))
    if isinstance(content, list):
        return sum(map(_names_in, content))
    return 0


def _not_json(line: bytes, error: ValueError) -> str:
    try:
        line.decode()
    except UnicodeDecodeError:
        return "is not text in UTF-8; save the file as UTF-8"
    return f"Invalid JSON: {error}".replace("line 1 column", "column")


def parquet_rows(file: Path | BinaryIO) -> Contents:
    """Number and content of each row of a Parquet file."""
    try:
        frame = pl.scan_parquet(file)
        height = frame.select(pl.len()).collect()
        as_written = col(pl.Float32).cast(pl.String)  # 0.1 is no 0.10000000149
        for start in range(0, height.item(), _PARQUET_SLICE):
            part = frame.slice(start, _PARQUET_SLICE)
            rows = part.with_columns(as_written).collect()
            yield from enumerate(rows.iter_rows(named=True), start + 1)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise CarbError(f"{file} is not a readable Parquet file: {error}") from None


def _records(table: Table, rows: Contents) -> None:
    names = {}
    for number, row in rows:
        if not isinstance(row, dict):
            table.refuse(number, "the line is not a JSON object")
            continue
        for name in row:
            if name not in names:
                names[name] = _add_title(table, name)
        record = {names[name]: value for name, value in row.items() if value not in (None, "")}
        table.rows.append((number, record))


def _add_title(table: Table, name: str) -> str:
    """The plain name of a column, which no other column has."""
    known = plain(name)
    if known in table.titles:
        raise CarbError(f"{table.path}: two columns have the name '{name}'; give each its own.")
    table.titles[known] = name
    return known


def _json(table: Table, content: bytes, knows: Knows) -> Contents:
    """The records of a JSON document: a list, JSON Lines, or a form of pandas' ``to_json``."""
    bare = content.removeprefix(codecs.BOM_UTF8)
    bare.decode()
    try:
        whole = from_json(bare)
    except ValueError as error:
        first = bare.lstrip().partition(b"\n")[0]
        try:
            from_json(first)
        except ValueError:
            raise CarbError(f"{table.path} is not JSON: {error}.") from None
        yield from json_lines(table.path, io.BytesIO(content), table.problems)
        return
    if name := repeated_name(bare):
        raise CarbError(f"{table.path}: {name}: {_TWICE}.")
    yield from enumerate(_listed(table, whole, knows), 1)


def _listed(table: Table, whole: Any, knows: Knows) -> Iterable[Any]:
    path = table.path
    if isinstance(whole, list):
        if whole and isinstance(whole[0], list):
            raise CarbError(
                f"{path} holds rows without names of columns (pandas' orient='values'); write it "
                "with orient='records'."
            )
        return whole
    if not isinstance(whole, dict):
        raise CarbError(f"{path} holds a {type(whole).__name__}, no list of objects.")
    columns = whole.get("columns")
    data = whole.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        return _records_of(columns, data)
    if knows([*whole]):
        return _by_column(whole)
    tables = {
        name: value
        for name, value in whole.items()
        if name != "features" and isinstance(value, list) and isinstance([*value, 0][0], dict)
    }  # the Hub's viewer lists the columns as features
    lists = [*tables.values()]
    if len(lists) == 1:
        table.notes += _beside(whole, len(lists[0]))
        return _without(path, _primary_key(whole), lists[0])
    if lists and knows([*lists[0][0]]):
        raise CarbError(
            f"{path} holds lists of rows ({', '.join(tables)}); write each to a file of its own."
        )
    values = [*whole.values()]
    if values and all(isinstance(value, dict) for value in values):
        return values
    return [whole]


def _beside(whole: Mapping[str, Any], rows: int) -> Iterator[str]:
    """What stands beside the one list of rows, and how many of them it has."""
    every = whole.get("num_rows_total")
    if every not in (None, rows):
        yield f"It is a page of the Hub's viewer: {rows} of {every} rows."
    for name, value in whole.items():
        if isinstance(value, str) or value is True:
            yield f"Not read: {name}, which stands beside the rows."


def _primary_key(whole: Mapping[str, Any]) -> list[str]:
    """The columns that pandas' orient='table' adds as a key."""
    schema = whole.get("schema")
    if isinstance(schema, dict) and "data" in whole:
        return [*schema.get("primaryKey", ())]
    return []


def _records_of(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Record]:
    return [dict(zip(names, row, strict=False)) for row in rows]


def _without(
    path: Path,
    keys: Sequence[str],
    rows: Sequence[Any],
) -> Iterator[Any]:
    """The rows of a list, out of the ``row`` of the Hub's viewer, without pandas' keys.

    Raises:
        CarbError: the viewer cut texts off.
    """
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            if cut := row.get("truncated_cells"):
                raise CarbError(
                    f"{path}:{number}: {', '.join(cut)}: the Hub's viewer cut the text off; "
                    "download the data set's own file."
                )
            row = row.get("row", row)
        if isinstance(row, dict):
            row = {name: value for name, value in row.items() if name not in keys}
        yield row


def _by_column(whole: Mapping[str, Any]) -> list[Any]:
    """The rows of an object whose names are those of columns: one row, or all of them in lists or
    objects (pandas' orient='columns')."""
    columns = [*whole.values()]
    if all(isinstance(column, list) for column in columns):
        rows = zip_longest(*columns)  # what a shorter list lacks is an empty cell
        return _records_of([*whole], rows)
    if not all(isinstance(column, dict) for column in columns):
        return [whole]
    records: defaultdict[str, Record] = defaultdict(dict)
    for name, column in whole.items():
        for key, value in column.items():
            records[key][name] = value
    return [*records.values()]


# cells: CSV, TSV and Excel


def _delimited(
    table: Table,
    kind: str,
    text: str,
    knows: Knows,
    heading_of: HeadingOf,
) -> None:
    separator = _separator(kind, text, knows)
    file = io.StringIO(text, newline="")
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True, strict=True)
    rows: list[tuple[int, Cells]] = []
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            bare = [cell.strip() for cell in cells]
            rows.append((number, bare))
    except csv.Error as error:
        reason = f"{error}; close every double quote, and write one within a text twice"
        table.refuse(number + 1, reason)
    if _heading(rows, knows) is None:
        filled = [[*map(str, cells)] for _, cells in rows if any(cells)]
        if filled and (names := heading_of(filled)):
            rows.insert(0, (0, names))
            table.notes.append(f"No heading; the columns are read as {', '.join(names)}.")
    _cells(table, rows, separator, knows)


def _separator(kind: str, text: str, knows: Knows) -> str:
    """The separator between names of a known shape, or else the one that the first line has most
    of."""
    first = next(filter(str.strip, text.splitlines()), "")
    usual = max(_SEPARATORS, key=first.count)
    if kind == ".tsv":
        usual = "\t"
    if knows(first.split(usual)):
        return usual
    lines = text[:_HEAD].splitlines()
    for other in _SEPARATORS:
        if any(knows(line.split(other)) for line in lines[:_ABOVE_HEADING]):
            return other
    return usual


def _workbook(table: Table, file: BinaryIO, knows: Knows) -> None:
    sheets = read_sheets(table.path, file)
    visible = [sheet for sheet in sheets if not sheet.hidden]
    known = [sheet for sheet in visible if _heading(sheet.rows, knows) is not None]
    if len(known) > 1:
        titles = ", ".join(sheet.name for sheet in known)
        raise CarbError(
            f"{table.path}: {len(known)} sheets hold tables ({titles}), and one is read. Save each "
            "as a file of its own and give the folder, or hide those that do not count."
        )
    if not visible:
        raise CarbError(f"{table.path} has no visible sheet; unhide the one with the table.")
    shown, *_ = known or visible
    others = [sheet for sheet in sheets if sheet is not shown and sheet.rows]
    if others:
        names = [f"{sheet.name} (hidden)" if sheet.hidden else sheet.name for sheet in others]
        count = f"{len(others)} more sheets"
        if len(others) == 1:
            count = "1 more sheet"
        table.notes.append(f"{count} not read: {', '.join(names)}.")
    _cells(table, shown.rows, "", knows)
    unseen = [f"row {number}" for number in shown.unseen_rows]
    headings = enumerate(table.titles.values(), 1)
    unseen += [f"column '{title}'" for number, title in headings if number in shown.unseen_columns]
    if unseen:
        table.notes.append(f"Hidden in Excel, and read all the same: {', '.join(unseen)}.")


def _heading(rows: Numbered, knows: Knows) -> int | None:
    """At which index of the rows the heading stands: the first one that has a known shape."""
    filled = [index for index, (_, cells) in enumerate(rows) if any(cells)]
    for index in filled[:_ABOVE_HEADING]:
        _, cells = rows[index]
        names = [cell for cell in cells if isinstance(cell, str) and cell]
        if knows(names):
            return index
    return None


def _cells(
    table: Table,
    rows: Numbered,
    separator: str,
    knows: Knows,
) -> None:
    """Make records of rows of cells, the heading among the first of them."""
    filled = [row for row in rows if any(row[1])]
    if not filled:
        return
    index = _heading(filled, knows) or 0
    number, titles = filled[index]
    if index:
        table.notes.append(f"The heading is row {number}; the rows above it are not read.")
    heading = _titles(table, titles, every=not separator)
    for number, cells in _without_survey_rows(table, filled[index + 1 :]):
        used = _width(cells)
        if separator and len(cells) > len(titles):
            used = len(cells)  # what a comma shifted may end in an empty cell
        if used > len(heading):
            quote = f"put a text with {_SEPARATORS[separator]} in double quotes"
            table.refuse(number, f"has {used} cells, the heading has {len(heading)}; {quote}")
            continue
        if cells == titles:
            table.refuse(number, "repeats the heading; take it out")
            continue
        record: Record = {}
        for name, cell in zip(heading, cells, strict=False):
            if isinstance(cell, Unreadable):
                record[name] = replace(cell, column=table.titles[name])
            elif cell:
                record[name] = cell
        table.rows.append((number, record))


def _without_survey_rows(table: Table, rows: Numbered) -> Numbered:
    """The rows below a heading, without the texts and the ids of a Qualtrics survey's questions."""
    if '{"ImportId":' not in str(rows[1:2]):
        return rows
    table.notes.append("The two rows below the heading describe the survey and are not read.")
    return rows[2:]


def _width(cells: Cells) -> int:
    """The number of cells up to the last that is filled."""
    filled = (number for number, cell in enumerate(cells, 1) if cell)
    return max(filled, default=0)


def _titles(table: Table, cells: Cells, *, every: bool) -> list[str]:
    """The plain names of all columns up to the last heading, or of every column; one without a
    heading is called by its number."""
    if not every:
        cells = cells[: _width(cells)]
    names = []
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, Unreadable):
            raise CarbError(f"{table.path}: the heading cannot be read: {cell.reason}.")
        names.append(_add_title(table, cell or f"column {number}"))
    return names
