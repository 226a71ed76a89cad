"""Tables for papers: as Markdown and as LaTeX."""

from __future__ import annotations

from itertools import takewhile

from carb_cli.display import percent, safe
from carb_cli.report.report_json import Report
from carb_cli.report.sections import leaderboard, sections
from carb_cli.report.tables import Table
from carb_data import CarbError
from carb_metrics.show import latex_table, markdown_escape, markdown_table


def exported(report: Report, *, latex: bool, only: str | None = None) -> str:
    """What was scored, then the leaderboard, or the tables of one section: each a ``tabular`` for
    booktabs, or in Markdown.

    Raises:
        CarbError: these runs have nothing for the section.
    """
    tables = [leaderboard(report)] if only is None else _tables_of(report, only)
    head = safe(" ".join(_about(report, tables[0].note).split()))  # a line break ends a comment
    if latex:
        shown = "\n".join(_latex(table, named=only is not None) for table in tables)
        return f"% {head} Needs booktabs.\n{shown}"
    shown = "\n".join(_markdown(table, named=only is not None) for table in tables)
    return f"{markdown_escape(head)}\n\n{shown}"


def _tables_of(report: Report, only: str) -> list[Table]:
    tables = [table for section in sections(report, only) for table in section.tables]
    if not tables:
        raise CarbError(f"These runs have no table for '{only}'.")
    return tables


def _about(report: Report, note: str) -> str:
    data = report.dataset
    return (
        f"{', '.join(data.names)}: {data.sets:,} sets, chance {percent(data.chance)}%. {note} "
        f"Intervals: {100 * report.confidence:.4g}%; place win rate: 50% for a model that does "
        f"not read the place. Fingerprint {data.fingerprint[:16]}."
    )


def _latex(table: Table, *, named: bool) -> str:
    left = sum(1 for _ in takewhile(lambda head: head[1], table.heads))
    title = f"% {safe(table.title)}\n" if named else ""
    return title + latex_table([head for head, _ in table.heads], _lines(table), left=left)


def _markdown(table: Table, *, named: bool) -> str:
    title = f"**{markdown_escape(safe(table.title))}**\n\n" if named else ""
    return title + markdown_table([head for head, _ in table.heads], _lines(table))


def _lines(table: Table) -> list[list[str]]:
    return [[safe(cell.line) for cell in row] for row in table.rows]
