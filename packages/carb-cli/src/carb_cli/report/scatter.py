"""Downstream results over benchmark scores as a picture."""

from collections.abc import Sequence
from typing import Any

from carb_cli.display import number, p_value
from carb_metrics.rows import Correlation

SIZE = 300
"""Units of a panel's width and height."""
MARGIN = 0.08
"""Share of a panel that no point stands in, at each side."""


Points = Sequence[tuple[str, float, float]]
"""The name of each scorer, its benchmark score and its downstream result."""


def panel(title: str, axis: str, points: Points, correlation: Correlation) -> dict[str, Any]:
    """The points of one policy over a benchmark, which names the axis; with the fitted line, r² and
    p."""
    xs = [x for _, x, _ in points]
    ys = [y for _, _, y in points]
    fit = correlation.fit
    line = None
    if fit.slope is not None and fit.intercept is not None:
        line = [
            (_at(x, xs), SIZE - _at(fit.intercept + fit.slope * x, ys)) for x in (min(xs), max(xs))
        ]
    return {
        "title": title or "all scorers",
        "axis": axis,
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
    low = min(values)
    high = max(values)
    share = 0.5
    if high != low:
        share = (value - low) / (high - low)
    inside = 1 - 2 * MARGIN
    return round(SIZE * (MARGIN + inside * share), 1)
