"""The validity figure: benchmark scores of reward models against their downstream results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from carb_cli.csvs import Points
from carb_cli.labels import labels
from carb_cli.report.model import Downstream
from carb_metrics import Correlation, fit_line

Rows = list[dict[str, Any]]
STEPS = 41
"""Points along the line."""


def downstream(file: str, points: Points, found: Correlation) -> Downstream:
    """What a report says about it."""
    both = zip(points.columns["benchmark"], points.columns["downstream"], strict=True)
    return Downstream(file=file, points=dict(zip(points.names, both, strict=True)), **dict(found))


def chart_rows(points: Mapping[str, tuple[float, float]], confidence: float) -> tuple[Rows, Rows]:
    """Rows for ``figures.charts.regression``: the points, and the line with its bands over their range.

    Args:
        points: the benchmark result and the downstream result of each scorer, by its name.
        confidence: the confidence level of the bands, between 0 and 1.
    """
    short = labels(points)
    rows: Rows = [{"name": short[name], "x": x, "y": y} for name, (x, y) in points.items()]
    x = [x for x, _ in points.values()]
    line = fit_line(x, [y for _, y in points.values()], confidence)
    if line.slope is None:
        return rows, []
    return rows, line.predict(np.linspace(min(x), max(x), STEPS), confidence).to_dicts()
