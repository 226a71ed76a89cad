"""The heat-maps of a report, and which colour a cell has. ``web/style.css`` paints the classes that are named here."""

from __future__ import annotations

from carb_cli.display import percent
from carb_cli.report.report_json import Report
from carb_cli.report.tables import Section, Shown, Table, group_name, scorer_cell, share
from carb_metrics.rows import Cell


def colour(cell: Cell, chance: float | None) -> str:
    """The class of a cell's colour, u1 to u3 above chance and d1 to d3 below; none where its interval holds chance.

    The shade follows the limit of the interval that is nearer to chance, so that few sets give a pale cell.
    """
    if cell.low is None or cell.high is None:
        return ""
    middle = 0.5 if chance is None else chance
    if cell.low > middle:
        return f"u{max(1, round(3 * (cell.low - middle) / (1 - middle)))}"
    if cell.high < middle:
        return f"d{max(1, round(3 * (middle - cell.high) / middle))}"
    return ""


def colour_of_difference(value: float | None, settled: bool) -> str:
    """The class of a difference; none where it is not settled."""
    return "" if not settled or not value else "u2" if value > 0 else "d2"


def groups(report: Report) -> Section | None:
    """Accuracy by culture, domain, and kind of fact."""
    titles = {"by_culture": "Cultures", "by_domain": "Domains", "by_kind": "Kinds of fact"}
    made = [_heat_map(report, key, title) for key, title in titles.items()]
    tables = tuple(table for table in made if len(table.rows) and len(table.columns) > 1)
    finding = (
        f"Accuracy in percent with its interval and the number of sets; chance is {percent(report.dataset.chance)}%. A "
        "cell has a colour where its interval leaves out chance: blue above, orange below."
    )
    return Section("groups", "Where is it right?", finding, tables)


def _heat_map(report: Report, key: str, title: str) -> Table:
    names = sorted({group for part in report.scorers.values() for group in getattr(part, key)})

    def cell(scorer: str, group: str) -> Shown:
        found = getattr(report.scorers[scorer], key).get(group, Cell())
        more = [f"n {found.n:,}"] * bool(found.n) + [f"{found.errors:,} errors"] * bool(found.errors)
        return share(found, *more, heat=colour(found, report.dataset.chance))

    rows = [(scorer_cell(report, one), *(cell(one, group) for group in names)) for one in report.scorers]
    return Table(title, ("scorer", *(group_name(key.removeprefix("by_"), group) for group in names)), rows)
