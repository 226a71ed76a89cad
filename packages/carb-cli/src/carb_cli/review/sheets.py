"""A review as a sheet for a spreadsheet program, and its answers."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from carb_cli.review.answers import Person
from carb_cli.review.items import ReviewItem
from carb_cli.review.order import shown_order
from carb_cli.review.rows import AnswerRow
from carb_data import CarbError
from carb_data.extras import require

__all__ = ["read_sheet", "write_sheet"]

YOU, ANSWERS = "you", "answers"
_SPACE = uuid.UUID("0b5d1c0e-8a3f-4f0e-9c53-3a7f1f6f2f77")
"""Name space of reviewers' ids."""
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
FREE = ("best", "right too", "depends", "on", "which", "unnatural", "source", "comment")
GUIDE = (
    ("pseudonym", "A name of your choice, not your real name. Keep it when you send the sheet again."),
    ("region", "The region that you know best (optional)."),
    ("age", "18-24, 25-34, 35-44, 45-54, 55-64 or 65+ (optional)."),
    ("consent", "Write yes if your answers may be published as numbers, and comments without your pseudonym."),
)
HELP = (
    "best: the number of the answer that is best where you live; ? if you don't know; x if the question is wrong.",
    "right too: numbers of other answers that are right here too, such as 2, 4. What you name nowhere is wrong here.",
    "depends: numbers of answers that depend. on: region, generation, religion or other. which: which one.",
    "unnatural: numbers of answers that do not read naturally.",
)


def write_sheet(items: Iterable[ReviewItem], path: Path) -> int:
    """Write the choices as an .xlsx file with an order of the answers of its own.

    Returns:
        How many items it has.
    """
    openpyxl = require("openpyxl", package="carb-cli", extra="review")
    chosen = [item for item in items if item.kind == "choice"]
    widest = max((len(item.options) for item in chosen), default=0)
    book = openpyxl.Workbook()
    you = book.active
    you.title = YOU
    for row, (name, hint) in enumerate(GUIDE, start=1):
        for column, text in ((1, name), (3, hint)):
            _text(you.cell(row, column), text)
    _text(you.cell(len(GUIDE) + 1, 1), "sheet")
    _text(you.cell(len(GUIDE) + 1, 2), uuid.uuid4().hex)
    for row, text in enumerate(HELP, start=len(GUIDE) + 3):
        _text(you.cell(row, 1), text)
    sheet = book.create_sheet(ANSWERS)
    head = ["item", "order", "question", *(f"answer {n}" for n in range(1, widest + 1)), *FREE]
    for column, name in enumerate(head, start=1):
        _text(sheet.cell(1, column), name)
        sheet.column_dimensions[sheet.cell(1, column).column_letter].width = 40 if "answer" in name else 14
    for line, item in enumerate(chosen, start=2):
        shown = shown_order(item)
        texts = {option.token: option.text for option in item.options}
        cells = [item.id, json.dumps(shown), "\n".join(turn.text for turn in item.turns), *(texts[t] for t in shown)]
        for column, text in enumerate(cells, start=1):
            _text(sheet.cell(line, column), text)
    for letter in ("A", "B"):
        sheet.column_dimensions[letter].hidden = True
    sheet.freeze_panes = "D2"
    book.save(path)
    return len(chosen)


def _text(cell: Any, text: str) -> None:
    """A text is a text, also where it begins like a formula; characters that a sheet cannot hold are left out."""
    from openpyxl.styles import Alignment

    cell.value = _ILLEGAL.sub("", text)[:32_000]
    cell.data_type = "s"
    cell.quotePrefix = True
    cell.alignment = Alignment(wrap_text=True, vertical="top")


def read_sheet(path: Path) -> tuple[str, Person, list[tuple[str, AnswerRow]]]:
    """Read a filled sheet; rows without ``best`` are skipped.

    Returns:
        The reviewer's id (of the sheet and the pseudonym), what they say of themselves, and each row with its place.

    Raises:
        CarbError: it is not such a sheet, there is no consent or pseudonym, or a cell cannot be read.
    """
    openpyxl = require("openpyxl", package="carb-cli", extra="review")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=False)
        you = {str(row[0] or ""): str(row[1] or "") for row in book[YOU].iter_rows(max_col=2, values_only=True)}
        table = list(book[ANSWERS].iter_rows(values_only=True))
        book.close()
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise CarbError(f"{path} is not a sheet that `carb review page` wrote: {error}.") from None
    except Exception as error:  # openpyxl raises what its zip and XML readers raise
        raise CarbError(f"{path} is not an .xlsx file: {error}.") from None
    if you.get("consent", "").strip().casefold() != "yes":
        raise CarbError(f"{path}: the sheet '{YOU}' has no 'yes' beside consent; these answers cannot be used.")
    person = Person.model_validate(
        {"name": you.get("pseudonym", "")[:80], "region": you.get("region", "")[:80], "consent": 1}
        | ({"age": you["age"].strip()} if you.get("age", "").strip() in _ages() else {})
    )
    sheet = you.get("sheet", "")
    if not sheet.isalnum():
        raise CarbError(f"{path}: the number beside 'sheet' in '{YOU}' is gone; use the sheet as it was sent.")
    if not person.name.strip():
        raise CarbError(f"{path}: the sheet '{YOU}' has no pseudonym, which tells the copies of a sheet apart.")
    # One sheet may be copied for several people.
    reviewer = uuid.uuid5(_SPACE, f"{sheet}\0{person.name.strip().casefold()}").hex
    head = [str(name or "") for name in table[0]] if table else []
    missing = [name for name in ("item", "order", *FREE) if name not in head]
    if missing:
        raise CarbError(f"{path}: the sheet '{ANSWERS}' lacks the columns {', '.join(missing)}.")
    rows = []
    for number, cells in enumerate(table[1:], start=2):
        row = {name: _plain(cell) for name, cell in zip(head, cells, strict=False)}
        if row.get("best"):
            rows.append((f"{path.name}, row {number}", _row(row, f"{path}, row {number}")))
    return reviewer, person, rows


def _row(row: dict[str, str], where: str) -> AnswerRow:
    try:
        return AnswerRow(
            item=row["item"],
            shown=tuple(json.loads(row["order"])),
            best=row["best"].casefold(),
            right=_places(row["right too"]),
            depends=_places(row["depends"]),
            on=tuple(part for part in row["on"].replace(",", " ").casefold().split() if part),
            which=row["which"],
            unnatural=_places(row["unnatural"]),
            source=row["source"],
            comment=row["comment"],
        )
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise CarbError(f"{where}: {reason}. Write numbers of answers, such as 2, 4.") from None


def _ages() -> tuple[str, ...]:
    return tuple(str(age) for age in ("18-24", "25-34", "35-44", "45-54", "55-64", "65+"))


def _plain(cell: Any) -> str:
    """A cell as text; spreadsheet programs give the number 2 as 2.0."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _places(text: str) -> tuple[int, ...]:
    """Numbers in a cell. A program with decimal commas makes the number 2.3 of "2,3"."""
    parts = re.split(r"[\s,;.]+", text.strip(" ,;."))
    for part in parts:
        if part and not part.isdecimal():
            raise ValueError(f"'{part}' is no number")
    return tuple(int(part) for part in parts if part)
