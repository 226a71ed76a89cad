"""Tables as data: what the page, the terminal, Markdown and LaTeX show of one section of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from carb_cli import display
from carb_cli.display import interval, number, p_value, percent, safe
from carb_cli.labels import labels
from carb_cli.report.model import Report
from carb_data import cultures
from carb_metrics.rows import Cell, Estimate


@dataclass(frozen=True, slots=True)
class Shown:
    """One cell."""

    text: str
    value: float | None = None
    """What a column is sorted by; null sorts last."""
    small: tuple[str, ...] = ()
    """Lines below, such as the interval."""
    heat: str = ""
    """Class of its colour: u1 to u10 above chance and d1 to d5 below, which ``style.css`` paints."""
    link: str = ""
    """Address within the page."""
    whole: str = ""
    """The whole name, where ``text`` is a short one."""

    @property
    def line(self) -> str:
        """The cell on one line."""
        return f"{self.text} [{'; '.join(self.small)}]" if self.small and self.text else self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the row."""

    title: str
    columns: tuple[str, ...]
    """A title that begins with ``<`` is of a column of words, aligned to the left; the first always is."""
    rows: Sequence[Sequence[Shown]]
    note: str = ""

    def left(self, place: int) -> bool:
        """Whether a column is aligned to the left."""
        return place == 0 or self.columns[place].startswith("<")

    @property
    def heads(self) -> list[str]:
        """The titles as they are shown."""
        return [column.removeprefix("<") for column in self.columns]

    def show(self) -> None:
        """Print it on the terminal."""
        right = [head for place, head in enumerate(self.heads) if not self.left(place)]
        display.table(self.title, self.heads, [[cell.line for cell in row] for row in self.rows], right)
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


def word(text: str, *, whole: str = "", link: str = "") -> Shown:
    """A text."""
    return Shown(text, whole=whole, link=link)


def count(value: int | None, *small: str) -> Shown:
    """A number of things."""
    return Shown("–" if value is None else f"{value:,}", value, small)


def figure(value: float | None, digits: int = 2) -> Shown:
    """A number."""
    return Shown(number(value, digits), value)


def share(found: Estimate | Cell, *small: str, heat: str = "") -> Shown:
    """A share in percent, with its interval below."""
    value = found.accuracy if isinstance(found, Cell) else found.estimate
    limits = (interval(found.low, found.high),) if found.low is not None else ()
    return Shown(percent(value), value, (*limits, *small), heat)


def estimate(found: Estimate, digits: int = 2, heat: str = "") -> Shown:
    """A number with its interval below."""
    limits = (f"{number(found.low, digits)} to {number(found.high, digits)}",) if found.low is not None else ()
    return Shown(number(found.estimate, digits), found.estimate, limits, heat)


def probability(value: float | None) -> Shown:
    """A p value."""
    return Shown(p_value(value), value)


def scorer_cell(report: Report, name: str) -> Shown:
    """The short name of a scorer."""
    return word(safe(labels(report.scorers)[name]), whole=name)


def group_name(column: str, group: str) -> str:
    """A group as people call it."""
    return cultures[group].name if column in ("culture", "variety") and group in cultures else group


def link(report: Report, **choices: str) -> str:
    """An address within the page that shows these choices, as ``web/address.js`` reads it."""
    main = {"sets": "main"} if report.dataset.mirrors and "whose" in choices else {}
    return "#" + urlencode(choices | main, errors="replace")


def heat(cell: Cell | None, chance: float | None) -> str:
    """The class of a cell; none where its interval holds chance.

    The shade follows the limit of the interval that is nearer to chance, so that few sets give a pale cell.
    """
    if cell is None or cell.low is None or cell.high is None:
        return ""
    middle = 0.5 if chance is None else chance
    if cell.low > middle:
        return f"u{max(1, round(10 * (cell.low - middle) / (1 - middle)))}"
    if cell.high < middle:
        return f"d{max(1, round(5 * (middle - cell.high) / middle))}"
    return ""


def of_sign(value: float | None, settled: bool) -> str:
    """The class of a difference; none where it is not settled."""
    return "" if not settled or not value else "u3" if value > 0 else "d2"


def of_share(share: float | None) -> str:
    """The class of a share of 0 to 1, where more is only more."""
    return f"u{min(10, max(1, round(10 * share)))}" if share else ""
