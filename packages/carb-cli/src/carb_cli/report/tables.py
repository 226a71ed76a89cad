"""Tables as data: one section of a report for the page, the terminal, Markdown and LaTeX."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from carb_cli import display
from carb_cli.display import interval, number, percent, sentences, whole
from carb_cli.labels import labels
from carb_cli.report.report_json import Report, marked
from carb_data import cultures
from carb_metrics import Interval, adjust


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        heads = []
        for index, column in enumerate(self.columns):
            title = column.removeprefix("<")
            heads.append((title, index == 0 or title != column))
        return heads

    def only(self, columns: Sequence[str]) -> "Table":
        """The table with some of its columns, without the note."""
        kept = [index for index, column in enumerate(self.columns) if column in columns]
        titles = tuple(self.columns[index] for index in kept)
        rows = [[row[index] for index in kept] for row in self.rows]
        return Table(self.title, titles, rows)

    def show(self) -> None:
        """Print it on the terminal."""
        titles = [title for title, _ in self.heads]
        right = [title for title, is_left in self.heads if not is_left]
        rows = [[cell.line for cell in row] for row in self.rows]
        display.table(self.title, titles, rows, right)
        if self.note:
            sentences(self.note)


@dataclass(frozen=True)
class Section:
    """One section; ``name`` is its word after ``--only`` and its anchor."""

    name: str
    title: str
    finding: str
    tables: tuple[Table, ...]

    def show(self) -> None:
        """Print it on the terminal."""
        display.say(self.title)
        sentences(self.finding)
        for table in self.tables:
            table.show()


def settled(p_values: Mapping[Any, float | None], confidence: float) -> set[Any]:
    """The keys whose p is below the level after correction over all of them; null stands for no
    test."""
    corrected = adjust([*p_values.values()])
    sure = corrected < 1 - confidence  # false where there is no test
    return {*itertools.compress(p_values, sure)}


def colour(value: float | None, sure: bool) -> str:
    """The class of a difference's colour, which ``web/style.css`` paints; none where it is not
    settled."""
    if not sure or not value:
        return ""
    if value > 0:
        return "up"
    return "down"


def count(value: int | None, *small: str) -> Shown:
    """A number of things."""
    return Shown(whole(value), small)


def share(estimated: Interval, *small: str, heat: str = "") -> Shown:
    """A share in percent, with its interval below; a dash where every set failed."""
    if estimated.low is not None:
        small = (interval(estimated.low, estimated.high), *small)
    return Shown(percent(estimated.estimate), small, heat)


def estimate(interval: Interval) -> Shown:
    """A number with its interval below."""
    if interval.low is None:
        return Shown(number(interval.estimate))
    limits = f"{number(interval.low)} to {number(interval.high)}"
    return Shown(number(interval.estimate), (limits,))


def scorer_cell(report: Report, name: str) -> Shown:
    """The short name of a scorer, and whether it is a control or told the culture."""
    mark = report.scorers[name].mark
    return Shown(labels(report.scorers)[name], (mark,) if mark else (), whole=name)


def marked_labels(report: Report) -> dict[str, str]:
    """The short name of each scorer, with its mark in brackets."""
    short = labels(report.scorers)
    return {name: marked(short[name], part.spec) for name, part in report.scorers.items()}


def group_name(column: str, group: str) -> str:
    """A group as people call it."""
    if column == "culture":
        return cultures.name(group)
    return group


def link(report: Report, **choices: str) -> str:
    """An address within the page that shows these choices, as ``web/address.js`` reads it."""
    main = {}
    if report.dataset.mirrors and "whose" in choices:
        main = {"sets": "main"}
    return "#" + urlencode(choices | main, errors="replace")
