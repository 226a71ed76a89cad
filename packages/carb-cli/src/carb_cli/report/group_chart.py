"""Accuracy by the kind of language and by domain, as a picture: Figures 2 and 3 of the paper."""

from statistics import fmean
from typing import Any

from carb_cli.report.report_json import Report
from carb_metrics import Cell

PANELS = (
    ("resource_class", "Resource class of the language"),
    ("family", "Family of the language"),
    ("script", "Script"),
    ("domain", "Domain"),
)
HEIGHT = 160
"""Units from 0 to 100% of a panel."""
STEP = 70
"""Units between two groups."""


def panels(report: Report) -> list[dict[str, Any]]:
    """A panel for each column with two groups or more: a line for each scorer, and the models'
    mean."""
    drawn = (_panel(report, column, title) for column, title in PANELS)
    return [panel for panel in drawn if len(panel["groups"]) > 1]


def _panel(report: Report, column: str, title: str) -> dict[str, Any]:
    cells = {name: getattr(part, f"by_{column}") for name, part in report.scorers.items()}
    groups = sorted({group for of_scorer in cells.values() for group in of_scorer})
    lines = []
    of_models = []
    for name, of_scorer in cells.items():
        shares = [of_scorer.get(group, Cell()).accuracy for group in groups]
        model = name in report.models
        if model:
            of_models.append(shares)
        lines.append({"name": name, "model": model, "points": _points(shares), "shares": shares})
    means = []
    for of_group in zip(*of_models, strict=True):
        known = [share for share in of_group if share is not None]
        means.append(fmean(known) if known else None)
    return {"title": title, "groups": groups, "lines": lines, "mean": _points(means)}


def _points(shares: list[float | None]) -> list[tuple[int, float]]:
    """Where a line's points stand; a group without a share has none."""
    points = []
    for index, share in enumerate(shares):
        if share is not None:
            x = STEP * index + STEP // 2
            points.append((x, round(HEIGHT * (1 - share), 1)))
    return points
