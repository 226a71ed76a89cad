"""The section of culture by domain: a table for each scorer."""

from __future__ import annotations

from carb_cli.display import percent
from carb_cli.report.report_json import Report, ScorerPart
from carb_cli.report.tables import Section, Shown, Table, group_name, scorer_cell, share
from carb_metrics import Cell


def cells(report: Report) -> Section | None:
    """Accuracy of each scorer in each culture and domain."""
    if len(report.dataset.cultures) < 2 and len(report.dataset.domains) < 2:
        return None
    tables = [_table(report, name, part) for name, part in report.scorers.items()]
    finding = (
        f"Accuracy in percent over main sets, with its interval; chance is "
        f"{percent(report.dataset.chance)}%."
    )
    return Section("cells", "Where is each of them right?", finding, tuple(tables))


def _table(report: Report, name: str, part: ScorerPart) -> Table:
    by_pair = {tuple(key.split("/", 1)): cell for key, cell in part.by_culture_domain.items()}
    cultures = list(dict.fromkeys(culture for culture, _ in by_pair))
    domains = list(dict.fromkeys(domain for _, domain in by_pair))
    rows = [
        (
            Shown(group_name("culture", culture)),
            *(_cell(by_pair.get((culture, domain))) for domain in domains),
        )
        for culture in cultures
    ]
    return Table(scorer_cell(report, name).line, ("culture", *domains), rows)


def _cell(cell: Cell | None) -> Shown:
    if cell is None:
        return Shown("–")
    return share(cell)
