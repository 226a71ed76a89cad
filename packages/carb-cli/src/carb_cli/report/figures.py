"""The charts of a report: which there are, and what goes into each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carb_cli.figures import charts, theme
from carb_cli.labels import labels
from carb_cli.report.model import Report
from carb_cli.report.validity import chart_rows
from carb_data import cultures

Rows = list[dict[str, Any]]
KINDS = ("CC", "RC", "CL", "RP")


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart of the report."""

    name: str
    """The name of its file."""
    says: str
    """One sentence for those who do not see it."""
    chart: Any

    def inline(self) -> str:
        """As an element of the page."""
        return theme.to_inline(self.chart, self.says)


def figures(report: Report) -> Iterator[Figure]:
    """All charts that the content allows."""
    yield leaderboard(report)
    for key, name, title in (("by_culture", "cultures", None), ("by_domain", "domains", None)):
        yield heat_map(report, key, name, title)
    if len(report.dataset.domains) > 1:
        yield small_multiples(report, "by_domain", "domains-intervals")
    if any(part.perturbation for part in report.scorers.values()):
        yield changes(report, "spread", "perturbations")
        yield changes(report, "relative", "perturbations-relative")
    yield from consistency(report)
    if report.validity is not None:
        yield validity(report)


def save(report: Report, folder: Path) -> list[Path]:
    """Write all charts as SVG and PNG files; returns their paths."""
    return [path for figure in figures(report) for path in theme.save(figure.chart, folder / figure.name)]


def leaderboard(report: Report) -> Figure:
    """Accuracy with intervals."""
    short = labels(report.scorers)
    rows = [{"name": short[n], **_cell(part.overall)} for n, part in report.scorers.items()]
    best = next(iter(report.scorers))
    says = f"Accuracy of {len(rows)} scorers with intervals; the best is {short[best]}."
    floor = None if report.floor is None else report.floor.overall.floor.accuracy
    return Figure("leaderboard", says, charts.leaderboard(rows, chance=report.dataset.chance, floor=floor))


def heat_map(report: Report, key: str, name: str, title: str | None) -> Figure:
    """Accuracy by group as colour."""
    rows = _group_rows(report, key)
    says = f"Accuracy of each scorer by {(title or name).rstrip('s')}; the table beside it has the numbers."
    return Figure(name, says, charts.heat_map(rows, chance=report.dataset.chance, x_title=title))


def small_multiples(report: Report, key: str, name: str) -> Figure:
    """Accuracy with intervals, a panel for each group."""
    says = "Accuracy of each scorer with intervals, one panel for each domain."
    return Figure(name, says, charts.small_multiples(_group_rows(report, key), chance=report.dataset.chance, columns=4))


def changes(report: Report, measure: str, name: str) -> Figure:
    """How much perturbations move the scores."""
    short = labels(report.scorers)
    rows: Rows = []
    for scorer, part in report.scorers.items():
        for kind in KINDS:
            found = part.perturbation.get(kind)
            if found is not None and getattr(found, measure) is not None:
                low, high = getattr(found, f"{measure}_low"), getattr(found, f"{measure}_high")
                value = getattr(found, measure)
                rows.append({"name": short[scorer], "kind": kind, "value": value, "low": value if low is None else low,
                             "high": value if high is None else high})  # fmt: skip
    title = "relative change" if measure == "relative" else "change in standard deviations"
    says = f"Mean {title} of scores under the perturbations CC, RC, CL and RP, for each scorer."
    return Figure(name, says, charts.changes(rows, title=title, percent=measure == "relative"))


def consistency(report: Report) -> Iterator[Figure]:
    """The language × language matrix of each scorer that has one."""
    short = labels(report.scorers)
    for number, (name, part) in enumerate(report.scorers.items(), 1):
        if part.consistency is None or not part.consistency.pairs:
            continue
        known = {(p.a, p.b): p.consistency for p in part.consistency.pairs}
        languages = sorted({language for pair in known for language in pair})
        rows = [
            {"a": a, "b": b, "value": 1.0 if a == b else known.get((min(a, b), max(a, b)))}
            for a in languages
            for b in languages
        ]
        says = f"Cross-lingual consistency of {short[name]} between {len(languages)} languages."
        yield Figure(f"consistency-{number:02}", says, charts.matrix(rows, title="consistency"))


def validity(report: Report) -> Figure:
    """Benchmark against downstream."""
    found = report.validity
    assert found is not None
    rows, band = chart_rows(found.points, report.confidence)
    says = f"Downstream results of {found.n} reward models against their benchmark scores, with the fitted line."
    return Figure("validity", says, charts.regression(rows, band, x_title="benchmark", y_title="downstream"))


def group_names(report: Report, key: str) -> list[str]:
    """The groups in the order in which they are shown: cultures and domains by name, others as their kind has it."""
    groups = list(dict.fromkeys(group for part in report.scorers.values() for group in getattr(part, key)))
    return sorted(groups, reverse=key == "by_resource_class")


def group_label(key: str, group: str) -> str:
    """A group as people call it."""
    if key == "by_variety":
        group = group.rpartition("/")[2]
    return cultures[group].name if key in ("by_culture", "by_variety") and group in cultures else group


def _group_rows(report: Report, key: str) -> Rows:
    short = labels(report.scorers)
    groups = group_names(report, key)
    return [
        {"name": short[name], "group": group_label(key, group), **_cell(getattr(part, key)[group])}
        for name, part in report.scorers.items()
        for group in groups
        if group in getattr(part, key)
    ]


def _cell(cell: Any) -> dict[str, float | None]:
    return {"accuracy": cell.accuracy, "low": cell.low, "high": cell.high}
