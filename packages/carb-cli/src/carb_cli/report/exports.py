"""The leaderboard for papers: as Markdown and as LaTeX."""

from __future__ import annotations

from carb_cli.display import percent, safe
from carb_cli.report.report_json import Report
from carb_cli.report.sections import leaderboard
from carb_metrics.show import latex_table as latex
from carb_metrics.show import markdown_escape
from carb_metrics.show import markdown_table as markdown


def markdown_table(report: Report) -> str:
    """What was scored, then the leaderboard."""
    table = leaderboard(report)
    rows = [[safe(cell.line) for cell in row] for row in table.rows]
    return f"{markdown_escape(safe(_head(report)))}\n\n{markdown(table.heads, rows)}"


def latex_table(report: Report) -> str:
    """A ``tabular`` for booktabs, after a comment on what was scored."""
    table = leaderboard(report)
    rows = [[safe(cell.line) for cell in row] for row in table.rows]
    return f"% {safe(_head(report))} Needs booktabs.\n{latex(table.heads, rows, left=2)}"


def _head(report: Report) -> str:
    data = report.dataset
    return (
        f"{', '.join(data.names)}: {data.sets:,} sets, chance {percent(data.chance)}%. {leaderboard(report).note} "
        f"Intervals: {100 * report.confidence:.4g}%; place effect: 0 for a model that does not read the place. "
        f"Fingerprint {data.fingerprint[:16]}."
    )
