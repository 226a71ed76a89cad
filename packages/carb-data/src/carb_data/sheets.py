"""The sheets of an Excel file as the texts that a reader sees (extra ``excel``)."""

import re
import zipfile
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, BinaryIO

from carb_data.errors import CarbError, require
from carb_data.values import Unreadable

_LARGEST = 48 * 1024 * 1024
"""Bytes of an unpacked workbook: its cells take twelve to twenty times as much memory."""
_MOST_CELLS = 20_000_000
"""Cells of a sheet's area, the empty ones too: a stray cell far away makes it huge."""
_LONGEST_CELL = 32_767
"""Characters that Excel keeps of a text."""
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How files of the old format begin, and encrypted ones."""
_BY_READER = ("mm-dd-yy", "m/d/yy h:mm")
"""Formats that Excel shows in the order of the reader's country."""
_DATE_NAMES = {
    "y": "year",
    "m": "month",
    "d": "day",
    "h": "hour",
    "s": "second",
}
_DATE_PARTS = re.compile(r"[md]{3,}|y{4}|y{2}|m{1,2}|d{1,2}|h{1,2}|s{1,2}|[-/:., ]|\"[^\"]*\"|\\.")


Rows = dict[int, list[str | Unreadable]]


@dataclass(frozen=True)
class Sheet:
    """A sheet: its name, and number and cells of each row that holds something."""

    name: str
    hidden: bool
    rows: list[tuple[int, list[str | Unreadable]]]
    unseen_rows: list[int]
    """The numbers of its hidden rows."""
    unseen_columns: set[int]
    """The numbers of its hidden columns, from 1."""


def read_sheets(path: Path, file: BinaryIO) -> list[Sheet]:
    """All sheets of a workbook, hidden ones too.

    Raises:
        CarbError: the file is damaged, or too large to be held in memory.
    """
    library = require("openpyxl", "carb-data[excel]")
    if file.read(len(_OLD)) == _OLD:
        raise CarbError(
            f"{path} has a password, or is an .xls file; save it without one as .xlsx or CSV UTF-8."
        )
    try:
        members = zipfile.ZipFile(file).infolist()
        size = sum(member.file_size for member in members)
        if size > _LARGEST:
            raise CarbError(
                f"{path} unpacks to {size:,} bytes, and at most {_LARGEST:,} are read; save the "
                "sheet as CSV UTF-8."
            )
        shown = library.load_workbook(file, data_only=True)
        formulas = library.load_workbook(file, read_only=True)
        return [_sheet(path, sheet, formulas[sheet.title]) for sheet in shown.worksheets]
    except CarbError:
        raise
    except Exception as error:  # a damaged file fails anywhere in openpyxl
        raise CarbError(f"{path} is not a readable Excel file: {error}") from None


def _sheet(path: Path, sheet: Any, formulas: Any) -> Sheet:
    height = sheet.max_row
    width = sheet.max_column
    if height * width > _MOST_CELLS:
        raise CarbError(
            f"{path}: sheet '{sheet.title}' reaches to column {width:,} of row "
            f"{height:,}; delete the stray cells far from the table."
        )
    formulas.reset_dimensions()  # they are wrong in files of some programs
    rows: Rows = {}
    for number in sorted(_filled(sheet, formulas)):
        (cells,) = sheet.iter_rows(number, number, 1, width)
        rows[number] = [*map(_shown, cells)]
    for merged in sheet.merged_cells.ranges:
        _fill(rows, merged)
    if any("" in cells for cells in rows.values()):
        _mark_formulas(rows, formulas)
    unseen_rows = [number for number, row in sheet.row_dimensions.items() if row.hidden]
    unseen_columns: set[int] = set()
    for group in sheet.column_dimensions.values():
        if group.hidden:
            unseen_columns.update(range(group.min, group.max + 1))
    hidden = sheet.sheet_state != "visible"
    return Sheet(sheet.title, hidden, [*rows.items()], unseen_rows, unseen_columns)


def _filled(sheet: Any, formulas: Any) -> set[int]:
    """The numbers of the rows that hold something: others of a large area take no memory."""
    every = enumerate(formulas.iter_rows(values_only=True), 1)
    numbers = {number for number, cells in every if any(cell is not None for cell in cells)}
    for merged in sheet.merged_cells.ranges:
        numbers.update(range(merged.min_row, merged.max_row + 1))
    return numbers


def _fill(rows: Rows, merged: Any) -> None:
    """Cells that are merged downwards all show the first one's text."""
    left = merged.min_col - 1
    first = rows[merged.min_row][left]
    split = Unreadable(f"the cells {merged.coord} are merged; split them")
    for number in range(merged.min_row, merged.max_row + 1):
        rows[number][left] = first
        for column in range(merged.min_col, merged.max_col):
            rows[number][column] = split


def _mark_formulas(rows: Rows, formulas: Any) -> None:
    """A formula whose result was never saved is no empty cell."""
    unsaved = Unreadable("holds a formula without a result; open the file in Excel and save it")
    every = formulas.iter_rows(values_only=True)
    for number, formulas_of_row in enumerate(every, 1):
        row = rows.get(number, [])
        for column, formula in enumerate(formulas_of_row[: len(row)]):
            if row[column] == "" and str(formula).startswith("="):
                row[column] = unsaved


def _shown(cell: Any) -> str | Unreadable:
    """The text that a cell shows."""
    value = cell.value
    form = cell.number_format
    if value is None:
        return ""
    if cell.data_type == "e":
        return Unreadable(f"cell {cell.coordinate} shows the error {value}")
    if isinstance(value, str):
        if len(value) >= _LONGEST_CELL:
            return Unreadable(f"cell {cell.coordinate} is full, so its end may be cut off; use CSV")
        return value.strip()
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        text = _number(value, form)
    elif isinstance(value, datetime | date | time):
        text = _date(value, form)
    else:
        text = None
    if text is None:
        reason = (
            f"cell {cell.coordinate} shows {value} in the format '{form}', which depends on the "
            "reader's Excel; format the column as Text and write what people should read"
        )
        return Unreadable(reason)
    return text


def _number(value: float, form: str) -> str | None:
    if form in ("General", "@"):
        if isinstance(value, int):
            return str(value)
        return f"{value:.11g}"
    if re.fullmatch(r"0+", form):
        return f"{int(_rounded(value, 0)):0{len(form)}d}"
    match = re.fullmatch(r"(#,##)?0(?:\.(0+))?(%)?", form)
    if match is None:
        return None
    grouped, decimals, percent = match.groups("")
    if percent:
        value *= 100
    rounded = _rounded(value, len(decimals))
    if grouped:
        return f"{rounded:,f}{percent}"
    return f"{rounded:f}{percent}"


def _rounded(value: float, decimals: int) -> Decimal:
    """Rounded as Excel does it: halves away from zero."""
    step = Decimal(1).scaleb(-decimals)
    return Decimal(f"{value:.15g}").quantize(step, ROUND_HALF_UP)


def _date(value: datetime | date | time, form: str) -> str | None:
    form = form.lower().removesuffix(";@")
    parts = _DATE_PARTS.findall(form)
    if form in _BY_READER or "".join(parts) != form:
        return None
    shown = []
    previous = ""
    for number, part in enumerate(parts):
        following = [other[0] for other in parts[number + 1 :] if other[0] in "ymdhs"]
        beside_time = previous == "h" or following[:1] == ["s"]
        minute = part[0] == "m" and beside_time
        text = _date_part(value, part, minute=minute)
        if text is None:
            return None
        shown.append(text)
        if part[0] in "ymdhs":
            previous = part[0]
    return "".join(shown)


def _date_part(value: datetime | date | time, part: str, *, minute: bool) -> str | None:
    """One part of a date's format as text; null where the value has no such part."""
    if part[:3] in ("mmm", "ddd"):
        return None  # a name, in the language of the reader's Excel
    if part[0] not in "ymdhs":
        return part.strip('"').removeprefix("\\")
    name = _DATE_NAMES[part[0]]
    if minute:
        name = "minute"
    number = getattr(value, name, None)
    if number is None:
        return None
    if part == "yyyy":
        return str(number)
    if part == "yy":
        number %= 100
    return f"{number:0{len(part)}d}"
