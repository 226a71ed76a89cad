"""Tables for papers: as Markdown and as LaTeX."""

from dataclasses import replace
from itertools import takewhile
from operator import itemgetter

from carb_cli.display import percent, safe
from carb_cli.report.report_json import Report
from carb_cli.report.sections import leaderboard, sections
from carb_cli.report.tables import Table
from carb_data import CarbError
from carb_metrics.show import latex_table, markdown_escape, markdown_table


def exported(report: Report, *, latex: bool, only: str | None = None) -> str:
    """The data set, then the leaderboard, or the tables of one section: each a ``tabular`` for
    booktabs, or in Markdown.

    Raises:
        CarbError: these runs have nothing for the section.
    """
    tables = [replace(leaderboard(report), title="")]
    if only is not None:
        tables = [table for section in sections(report, only) for table in section.tables]
    if not tables:
        raise CarbError(f"These runs have no table for '{only}'.")
    words = _about(report, tables[0].note).split()
    about = " ".join(words)  # a line break ends a comment
    shown = "\n".join(_written(table, latex=latex) for table in tables)
    if latex:
        return f"% {safe(about)} Needs booktabs.\n{shown}"
    return f"{markdown_escape(safe(about))}\n\n{shown}"


def _about(report: Report, note: str) -> str:
    data = report.dataset
    return (
        f"{', '.join(data.names)}: {data.sets:,} sets, chance {percent(data.chance)}%. {note} "
        f"Intervals: {100 * report.confidence:.4g}%; place win rate: 50% for a model that does "
        f"not read the place. Fingerprint {data.fingerprint[:16]}."
    )


def _written(table: Table, *, latex: bool) -> str:
    title = safe(table.title)
    heads = [head for head, _ in table.heads]
    lines = [[safe(cell.line) for cell in row] for row in table.rows]
    if latex:
        left = sum(1 for _ in takewhile(itemgetter(1), table.heads))
        above = f"% {title}\n"
        text = latex_table(heads, lines, left=left)
    else:
        above = f"**{markdown_escape(title)}**\n\n"
        text = markdown_table(heads, lines)
    if title:
        return above + text
    return text
