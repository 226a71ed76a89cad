"""The cells of CSV, TSV, Excel and JSON Lines files, row by row; what is wrong with a row is named with its number."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from carb_data.errors import CarbError, Problem, require
from carb_data.files import json_lines

__all__ = ["SHAPE_SUFFIXES", "Rows", "read_cells"]

SHAPE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".jsonl")
"""Endings of files whose rows are made into sets."""
Rows = list[tuple[int, dict[str, Any]]]
"""The number and the cells of each row, by column."""
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def read_cells(path: Path, problems: list[Problem]) -> tuple[list[str], Rows]:
    """Names of the columns, and the number and cells of each row.

    Empty cells and empty rows are left out, and the defect of a bad row is appended to ``problems``.
    """
    suffix = path.suffix.lower()
    if suffix not in SHAPE_SUFFIXES:
        raise CarbError(f"{path}: unknown file type; tables are {', '.join(SHAPE_SUFFIXES)}.")
    try:
        return _objects(path, problems) if suffix == ".jsonl" else _cells(path, problems)
    except OSError as error:
        raise CarbError(f"Cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CarbError(f"{path} is not text in UTF-8; save it as CSV UTF-8.") from None


def _objects(path: Path, problems: list[Problem]) -> tuple[list[str], Rows]:
    rows: Rows = []
    for number, row in json_lines(path, problems):
        if isinstance(row, dict):
            rows.append((number, row))
        else:
            problems.append(Problem(str(path), number, "", "the line is not a JSON object"))
    names = sorted({name for _, row in rows for name in row})
    return names, [(n, {name: value for name, value in row.items() if value is not None}) for n, row in rows]


def _lines(path: Path) -> tuple[Iterable[Sequence[Any]], str]:
    text = path.read_text(encoding="utf-8-sig")
    first = text.partition("\n")[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), separator


def _cells(path: Path, problems: list[Problem]) -> tuple[list[str], Rows]:
    table, separator = (_sheet(path), "") if path.suffix.lower() == ".xlsx" else _lines(path)
    heading: list[str] = []
    rows: Rows = []
    number = width = 0
    try:
        for number, cells in enumerate(table, 1):
            values = ["" if cell is None else str(cell).strip() for cell in cells]
            used = max((place for place, value in enumerate(values, 1) if value), default=0)
            if not used:
                continue
            if not heading:
                heading, width = values[:used], len(values)
                continue
            if separator and len(values) > width:
                used = len(values)  # what a comma shifted may end in an empty cell
            if used > len(heading):
                told = f"; put a text with {_SEPARATORS[separator]} in double quotes" if separator else ""
                reason = f"has {used} cells, the heading has {len(heading)}{told}"
                problems.append(Problem(str(path), number, "", reason))
            else:
                row = {name: value for name, value in zip(heading, values, strict=False) if name and value}
                rows.append((number, row))
    except csv.Error as error:
        reason = f"{error}; close every double quote, and write one within a text twice"
        problems.append(Problem(str(path), number + 1, "", reason))
    return [name for name in heading if name], rows


def _sheet(path: Path) -> Iterable[Sequence[Any]]:
    library = require("openpyxl", package="carb-data", extra="excel")
    try:
        book = library.load_workbook(path, read_only=True, data_only=True)
        return list(book.worksheets[0].iter_rows(values_only=True))
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CarbError(f"{path} is not a readable Excel file: {error}") from None
