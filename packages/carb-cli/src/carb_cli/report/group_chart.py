"""Accuracy by what the language is, and by domain, as a picture: Figures 2 and 3 of the paper."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from carb_cli.report.report_json import Report

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
    for name, of_scorer in cells.items():
        shares = [of_scorer[group].accuracy if group in of_scorer else None for group in groups]
        model = name in report.models
        lines.append({"name": name, "model": model, "points": _points(shares), "shares": shares})
    columns = zip(*(line["shares"] for line in lines if line["model"]), strict=True)
    known = [[share for share in shares if share is not None] for shares in columns]
    mean = _points([fmean(shares) if shares else None for shares in known])
    return {"title": title, "groups": groups, "lines": lines, "mean": mean}


def _points(shares: list[float | None]) -> list[tuple[int, float]]:
    """Where a line's points stand; a group without a share has none."""
    return [
        (STEP * index + STEP // 2, round(HEIGHT * (1 - share), 1))
        for index, share in enumerate(shares)
        if share is not None
    ]
