"""The charts of a report: which there are, and what goes into each. The first is on the page's first screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import Any

from markupsafe import Markup

from carb_cli.figures import charts, theme
from carb_cli.labels import labels
from carb_cli.report.model import Report
from carb_cli.report.sections import KINDS

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart of the report."""

    name: str
    """The name of its file."""
    says: str
    """One sentence for those who do not see it."""
    chart: Any


def figures(report: Report) -> Iterator[Figure]:
    """All charts that the content allows."""
    rows = place_rows(report)
    says = f"Place effect and accuracy of {len(report.scorers)} scorers, with intervals; the table has the numbers."
    yield Figure("place-effect", says, charts.readings(rows, chance=place_chance(report)))
    if any(part.perturbation for part in report.scorers.values()):
        yield changes(report)


def save(report: Report, folder: Path) -> list[Path]:
    """Write all charts as SVG and PNG files; returns their paths."""
    return [path for figure in figures(report) for path in theme.save(figure.chart, folder / figure.name)]


def inline(report: Report) -> dict[str, Markup]:
    """The charts within the page, by the section that each belongs to."""
    if not any(part.perturbation for part in report.scorers.values()):
        return {}
    made = changes(report)
    return {made.name: Markup(theme.to_inline(made.chart, made.says))}  # noqa: S704 - Vega escapes texts


def place_chance(report: Report) -> float | None:
    """Chance of the row accuracy of families, or without families of accuracy."""
    if report.families is None:
        return report.dataset.chance
    return next((row.chance for row in report.families.rows if row.group is None), None)


def place_rows(report: Report) -> Rows:
    """For each scorer the two numbers of the first chart with their limits: the share of right answers on top under
    the place (accuracy, without families), and the place effect."""
    short, rows = labels(report.scorers), []
    for name, part in report.scorers.items():
        cell = part.overall
        share = (cell.accuracy, cell.low, cell.high)
        effect: tuple[float | None, ...] = (None, None, None)
        if report.families is not None:
            found = report.families.of(name)
            share = (found.row.estimate, found.row.low, found.row.high)
            effect = (found.place_effect.estimate, found.place_effect.low, found.place_effect.high)
        rows.append(
            {"name": short[name], "whole": name, "model": name in report.models, "share": share, "effect": effect}
        )
    return rows


def reach(report: Report) -> tuple[float, float]:
    """The ends of the axis of place effects: quarters that leave no limit out, and 0 to a half at least."""
    limits = [limit for row in place_rows(report) for limit in row["effect"] if limit is not None]
    return floor(4 * min([-0.25, *limits])) / 4, ceil(4 * max([0.5, *limits])) / 4


def changes(report: Report) -> Figure:
    """How much perturbations move the scores, in units of the scorer's own spread."""
    short = labels(report.scorers)
    rows = [
        {"name": short[name], "kind": kind, "value": found.spread, "low": found.spread_low, "high": found.spread_high}
        for name in report.models  # a baseline that hardly moves by itself would stretch the axis
        for kind in KINDS
        if (found := report.scorers[name].perturbation.get(kind)) is not None and found.spread is not None
    ]
    says = "Mean change of scores under the perturbations CC, RC, CL and RP, for each scorer, in its own spread."
    return Figure("perturbations", says, charts.changes(rows, title="change in standard deviations of the scorer"))
