"""The leaderboard for papers: as Markdown and as LaTeX."""

from __future__ import annotations

from carb_cli.display import percent, safe
from carb_cli.report.report_json import Report
from carb_cli.report.sections import leaderboard
from carb_metrics.show import latex_table, markdown_escape, markdown_table


def exported(report: Report, *, latex: bool) -> str:
    """What was scored, then the leaderboard: a ``tabular`` for booktabs, or in Markdown."""
    table, data = leaderboard(report), report.dataset
    heads = [head for head, _ in table.heads]
    rows = [[safe(cell.line) for cell in row] for row in table.rows]
    head = safe(
        f"{', '.join(data.names)}: {data.sets:,} sets, chance {percent(data.chance)}%. "
        f"{table.note} "
        f"Intervals: {100 * report.confidence:.4g}%; place win rate: 50% for a model that does "
        "not read the place. "
        f"Fingerprint {data.fingerprint[:16]}."
    )
    if latex:
        return f"% {head} Needs booktabs.\n{latex_table(heads, rows, left=2)}"
    return f"{markdown_escape(head)}\n\n{markdown_table(heads, rows)}"
