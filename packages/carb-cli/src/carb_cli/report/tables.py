"""Tables as data: what the page, the terminal, Markdown and LaTeX show of one section of a
report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from carb_cli import display
from carb_cli.display import interval, number, percent, safe
from carb_cli.labels import labels
from carb_cli.report.report_json import Report
from carb_data import cultures
from carb_metrics import Interval, adjust


@dataclass(frozen=True, slots=True)
class Shown:
    """One cell."""

    text: str
    small: tuple[str, ...] = ()
    """Lines below, such as the interval."""
    heat: str = ""
    """Class of its colour, see ``colour``."""
    link: str = ""
    """Address within the page."""
    whole: str = ""
    """The whole name, where ``text`` is a short one."""

    @property
    def line(self) -> str:
        """The cell on one line."""
        if self.small and self.text:
            return f"{self.text} [{'; '.join(self.small)}]"
        return self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the row."""

    title: str
    columns: tuple[str, ...]
    """A title that begins with ``<`` is of a column of words, aligned to the left; the first always
    is."""
    rows: Sequence[Sequence[Shown]]
    note: str = ""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """Each title as it is shown, and whether its column is aligned to the left."""
        places = enumerate(self.columns)
        return [
            (column.removeprefix("<"), position == 0 or column.startswith("<"))
            for position, column in places
        ]

    def only(self, columns: Sequence[str]) -> Table:
        """The table with some of its columns, without the note."""
        kept = [index for index, column in enumerate(self.columns) if column in columns]
        rows = [[row[index] for index in kept] for row in self.rows]
        return Table(self.title, tuple(self.columns[index] for index in kept), rows)

    def show(self) -> None:
        """Print it on the terminal."""
        right = [head for head, left in self.heads if not left]
        titles = [head for head, _ in self.heads]
        display.table(self.title, titles, [[cell.line for cell in row] for row in self.rows], right)
        if self.note:
            display.sentences(self.note)


@dataclass(frozen=True, slots=True)
class Section:
    """One section; ``name`` is its word after ``--only`` and its anchor."""

    name: str
    title: str
    finding: str
    tables: tuple[Table, ...]

    def show(self) -> None:
        """Print it on the terminal."""
        display.say(self.title)
        display.sentences(self.finding)
        for table in self.tables:
            table.show()


def settled(p_values: Mapping[Any, float | None], confidence: float) -> set[Any]:
    """The keys whose p is below the level after correction over all of them; null stands for no
    test."""
    corrected = adjust([math.nan if p is None else p for p in p_values.values()])
    return {key for key, p in zip(p_values, corrected, strict=True) if p < 1 - confidence}


def colour(value: float | None, sure: bool) -> str:
    """The class of a difference's colour, which ``web/style.css`` paints; none where it is not
    settled."""
    if not sure or not value:
        return ""
    return "up" if value > 0 else "down"


def count(value: int | None, *small: str) -> Shown:
    """A number of things."""
    return Shown("–" if value is None else f"{value:,}", small)


def share(estimated: Interval, *small: str, heat: str = "") -> Shown:
    """A share in percent, with its interval below; a dash where every set failed."""
    limits = (interval(estimated.low, estimated.high),) if estimated.low is not None else ()
    return Shown(percent(estimated.estimate), (*limits, *small), heat)


def estimate(interval: Interval, *small: str, heat: str = "") -> Shown:
    """A number with its interval below."""
    limits = (
        (f"{number(interval.low)} to {number(interval.high)}",) if interval.low is not None else ()
    )
    return Shown(number(interval.estimate), (*limits, *small), heat)


def scorer_cell(report: Report, name: str) -> Shown:
    """The short name of a scorer, and whether it is a control or told the culture."""
    mark = report.scorers[name].mark
    return Shown(safe(labels(report.scorers)[name]), (mark,) if mark else (), whole=name)


def marked_labels(report: Report) -> dict[str, str]:
    """The short name of each scorer, with its mark in brackets."""
    return {
        name: safe(f"{label} ({mark})" if (mark := report.scorers[name].mark) else label)
        for name, label in labels(report.scorers).items()
    }


def group_name(column: str, group: str) -> str:
    """A group as people call it."""
    if column in ("culture", "variety") and group in cultures:
        return cultures[group].name
    return group


def link(report: Report, **choices: str) -> str:
    """An address within the page that shows these choices, as ``web/address.js`` reads it."""
    main = {}
    if report.dataset.mirrors and "whose" in choices:
        main = {"sets": "main"}
    return "#" + urlencode(choices | main, errors="replace")
