"""Downstream results over benchmark scores as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carb_cli.display import number, p_value
from carb_cli.report.page import drawn
from carb_metrics.rows import Correlation

SIZE = 300
"""Units of a panel's width and height."""
MARGIN = 0.08
"""Share of a panel that no point stands in, at each side."""

Points = Sequence[tuple[str, float, float]]
"""The name of each scorer, its benchmark score and its downstream result."""


def scatter(policies: Mapping[str, tuple[Points, Correlation]]) -> str:
    """An SVG file with a panel for each policy: its points, the fitted line, r² and p."""
    panels = [_panel(name, points, correlation) for name, (points, correlation) in policies.items()]
    return drawn("scatter.svg.jinja", panels=panels)


def _panel(title: str, points: Points, correlation: Correlation) -> dict[str, Any]:
    xs, ys = [x for _, x, _ in points], [y for _, _, y in points]
    line, fit = None, correlation.fit
    if fit.slope is not None and fit.intercept is not None:
        ends = (min(xs), max(xs))
        fitted = [fit.intercept + fit.slope * x for x in ends]
        line = [(_at(x, xs), SIZE - _at(y, ys)) for x, y in zip(ends, fitted, strict=True)]
    return {
        "title": title or "all scorers",
        "fit": f"r² {number(fit.r2, 3)}, p {p_value(fit.p)}, n {correlation.n}",
        "line": line,
        "points": [
            {"name": name, "x": _at(x, xs), "y": SIZE - _at(y, ys)} for name, x, y in points
        ],
        "low": (number(min(xs), 3), number(min(ys), 3)),
        "high": (number(max(xs), 3), number(max(ys), 3)),
    }


def _at(value: float, values: Sequence[float]) -> float:
    """Where a value stands between the lowest and the highest."""
    low, high = min(values), max(values)
    share = 0.5 if high == low else (value - low) / (high - low)
    return round(SIZE * (MARGIN + (1 - 2 * MARGIN) * share), 1)
