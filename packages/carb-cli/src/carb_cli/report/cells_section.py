"""The section of culture by domain: a table of the home line, and one for each scorer."""

from collections.abc import Mapping

from carb_cli.display import percent
from carb_cli.report.report_json import Report, ScorerPart
from carb_cli.report.tables import Section, Shown, Table, group_name, scorer_cell, share
from carb_data import HomeLine


def cells(report: Report) -> Section | None:
    """Accuracy of each scorer in each culture and domain."""
    if len(report.dataset.cultures) < 2 and len(report.dataset.domains) < 2:
        return None
    tables = [_table(report, name, part) for name, part in report.scorers.items()]
    if home := report.home_by.get("culture_domain"):
        tables.insert(0, _home_lines(home))
    finding = (
        f"Accuracy in percent over main sets, with its interval; chance is "
        f"{percent(report.dataset.chance)}%."
    )
    return Section("cells", "Where is each of them right?", finding, tuple(tables))


def _table(report: Report, name: str, part: ScorerPart) -> Table:
    shown = {key: share(cell) for key, cell in part.by_culture_domain.items()}
    return _grid(scorer_cell(report, name).line, shown)


def _home_lines(home: Mapping[str, HomeLine]) -> Table:
    shown = {key: Shown(percent(line.accuracy), (f"n {line.n:,}",)) for key, line in home.items()}
    return _grid("The home line, always the home's answer", shown)


def _grid(title: str, shown: Mapping[str, Shown]) -> Table:
    """A row for each culture and a column for each domain, from keys such as ``thai/values``."""
    pairs = [key.split("/", 1) for key in shown]
    cultures = sorted({culture for culture, _ in pairs})
    domains = sorted({domain for _, domain in pairs})
    rows = []
    for culture in cultures:
        cells = [shown.get(f"{culture}/{domain}", Shown("–")) for domain in domains]
        rows.append((Shown(group_name("culture", culture)), *cells))
    return Table(title, ("culture", *domains), rows)
