"""Points, line and bands of the validity figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from carb_cli.csvs import Points
from carb_cli.display import short
from carb_metrics import Correlation

Rows = list[dict[str, Any]]
STEPS = 41
"""Points along the line."""


def chart_rows(points: Points, found: Correlation, confidence: float) -> tuple[Rows, Rows]:
    """Rows for ``figures.charts.regression``: the points, and the line with its bands over their range."""
    x, y = points.columns["benchmark"], points.columns["downstream"]
    rows = [{"name": short(n), "x": a, "y": b} for n, a, b in zip(points.names, x, y, strict=True)]
    if found.fit.slope is None or not rows:
        return rows, []
    along = np.linspace(min(x), max(x), STEPS)
    return rows, found.fit.predict(along, confidence).to_dicts()
