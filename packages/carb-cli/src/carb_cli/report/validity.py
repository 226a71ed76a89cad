"""The validity figure: benchmark scores of reward models against their downstream results."""

from __future__ import annotations

from typing import Any

import numpy as np

from carb_cli.csvs import Points
from carb_cli.labels import labels
from carb_cli.report.model import PointPart, ValidityPart
from carb_metrics import Correlation, fit_line

Rows = list[dict[str, Any]]
STEPS = 41
"""Points along the line."""


def validity_part(file: str, points: Points, found: Correlation) -> ValidityPart:
    """What a report says about it."""
    x, y = points.columns["benchmark"], points.columns["downstream"]
    return ValidityPart(
        file=file,
        n=found.n,
        pearson=found.pearson,
        spearman=found.spearman,
        kendall=found.kendall,
        slope=found.fit.slope,
        intercept=found.fit.intercept,
        r2=found.fit.r2,
        p=found.fit.p,
        points=tuple(
            PointPart(scorer=name, benchmark=a, downstream=b) for name, a, b in zip(points.names, x, y, strict=True)
        ),
    )


def chart_rows(part: ValidityPart, confidence: float) -> tuple[Rows, Rows]:
    """Rows for ``figures.charts.regression``: the points, and the line with its bands over their range."""
    short = labels(point.scorer for point in part.points)
    rows = [{"name": short[p.scorer], "x": p.benchmark, "y": p.downstream} for p in part.points]
    if part.slope is None:
        return rows, []
    x = [p.benchmark for p in part.points]
    line = fit_line(x, [p.downstream for p in part.points], confidence)
    return rows, line.predict(np.linspace(min(x), max(x), STEPS), confidence).to_dicts()
