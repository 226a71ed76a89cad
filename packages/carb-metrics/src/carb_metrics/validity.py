"""Does the benchmark predict what happens downstream?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.correlations import (
    FEWEST,
    KINDS,
    bca_estimates,
    coefficient,
    estimate,
    fisher_interval,
    is_constant,
    numbers,
    t_test,
)
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.resampling import RESAMPLES, check_resamples


class Fit(Result):
    """The least-squares line y = intercept + slope·x. All null where x is constant or fewer than two points are."""

    slope: float | None = None
    intercept: float | None = None
    r2: float | None = None
    """Share of the variance of y explained; null where y is constant."""
    p: float | None = None
    """Two-sided p of slope 0."""
    slope_low: float | None = None
    slope_high: float | None = None
    n: int = 0
    residual_sd: float | None = None
    """Standard deviation of y about the line, with n−2 degrees of freedom; null for n < 5."""
    mean_x: float | None = None
    sxx: float | None = None
    """Sum of squared deviations of x from its mean."""

    def predict(self, x: npt.ArrayLike, confidence: float = 0.95) -> pl.DataFrame:
        """The line with its confidence band and its prediction band.

        Half widths ``t·s·sqrt(1/n + (x−x̄)²/Sxx)`` and ``t·s·sqrt(1 + 1/n + (x−x̄)²/Sxx)``; Draper and Smith (1998),
        Applied Regression Analysis, 3rd ed..

        Args:
            x: (k,) the places at which to predict.
            confidence: The level of both bands, a share such as 0.95.

        Returns:
            ``x``, ``y``, ``mean_low``, ``mean_high`` (where the line is), ``low``, ``high`` (where a new point is);
            null where not defined.
        """
        check_confidence(confidence)
        points = numbers(x, "x")
        slope, intercept, mean_x, sxx = self.slope, self.intercept, self.mean_x, self.sxx
        columns: dict[str, Any] = {"x": points, **dict.fromkeys(("y", "mean_low", "mean_high", "low", "high"))}
        if slope is not None and intercept is not None and mean_x is not None and sxx is not None:
            y = columns["y"] = intercept + slope * points
            if self.residual_sd is not None:
                from scipy.special import stdtrit

                scale = float(stdtrit(self.n - 2, 0.5 + confidence / 2)) * self.residual_sd
                near = 1 / self.n + (points - mean_x) ** 2 / sxx
                for name, spread in (("mean_", near), ("", 1 + near)):
                    columns[f"{name}low"] = y - scale * np.sqrt(spread)
                    columns[f"{name}high"] = y + scale * np.sqrt(spread)
        schema = dict.fromkeys(columns, pl.Float64)
        return pl.DataFrame({k: [None] * len(points) if v is None else v for k, v in columns.items()}, schema=schema)


class Partial(Result):
    """Correlations of x and y after what the covariates explain is taken out of both."""

    pearson: Estimate
    spearman: Estimate
    """Partial correlation of the ranks of x, y and the covariates."""
    covariates: int
    """Number of independent covariates taken out."""


class Correlation(Result):
    """How x and y go together over n points."""

    n: int
    pearson: Estimate
    spearman: Estimate
    kendall: Estimate
    """τ-b."""
    fit: Fit
    """y on x."""
    partial: Partial | None = None
    """Null where no covariates were given."""


def correlate(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    covariates: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    *,
    interval: Literal["analytic", "bca"] = "analytic",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlation:
    """Correlate two measurements of the same scorers, for example benchmark and downstream scores.

    Args:
        x: (n,) predictor, for example accuracies on a benchmark.
        y: (n,) outcome, for example downstream scores.
        covariates: (n,) or (n, k) the values that are held constant; they add ``.partial``.
        confidence: The level of all intervals, a share such as 0.95.
        interval: ``analytic`` (``correlations.fisher_interval``) holds its level from few points, for roughly normal
            data; ``bca`` assumes no distribution but needs some 40 points to do so.
        resamples, seed: of ``bca``.

    Returns:
        Estimates that are null where they are not defined: fewer than two points, or x or y constant. Fewer than five
        points are described, not tested: p and limits are null. Limits also need a correlation short of 1.

    Raises:
        CarbError: unequal lengths, a missing or infinite value, or an unknown option.
    """
    check_confidence(confidence)
    if interval not in ("analytic", "bca"):
        raise CarbError(f"interval must be 'analytic' or 'bca'; got '{interval}'.")
    xs = numbers(x, "x")
    ys = numbers(y, "y", len(xs))
    if interval == "bca":
        check_resamples(resamples)
        found = bca_estimates(xs, ys, confidence, resamples, seed)
    else:
        found = {kind: estimate(kind, xs, ys, confidence) for kind in KINDS}
    partial = None if covariates is None else _partial(xs, ys, _matrix(covariates, len(xs)), confidence)
    return Correlation(n=len(xs), fit=fit_line(xs, ys, confidence), partial=partial, **found)


def fit_line(x: npt.ArrayLike, y: npt.ArrayLike, confidence: float = 0.95) -> Fit:
    """Ordinary least squares of y on x, with the t test and interval of the slope (n−2 degrees of freedom)."""
    xs = numbers(x, "x")
    ys = numbers(y, "y", len(xs))
    n = len(xs)
    if n < 2 or is_constant(xs):
        return Fit(n=n)
    dx, dy = xs - xs.mean(), ys - ys.mean()
    sxx = float(dx @ dx)
    slope = float(dx @ dy) / sxx
    intercept = float(ys.mean() - slope * xs.mean())
    found = coefficient("pearson", xs, ys)
    basis = Fit(n=n, slope=slope, intercept=intercept, mean_x=float(xs.mean()), sxx=sxx)
    extra: dict[str, float | None] = {}
    if found is not None:
        extra |= {"r2": found[0] ** 2, "p": found[1]}
    if n >= FEWEST:
        from scipy.special import stdtrit

        deviation = math.sqrt(float(((dy - slope * dx) ** 2).sum()) / (n - 2))
        half = float(stdtrit(n - 2, 0.5 + check_confidence(confidence) / 2)) * deviation / math.sqrt(sxx)
        extra |= {"residual_sd": deviation, "slope_low": slope - half, "slope_high": slope + half}
    return basis.model_copy(update=extra)


def _matrix(covariates: npt.ArrayLike, n: int) -> Floats:
    columns = np.asarray(covariates, dtype=object)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.ndim != 2:
        raise CarbError(f"covariates must have shape (n,) or (n, k); got {columns.shape}.")
    if not columns.shape[1]:
        raise CarbError("covariates has no column; leave it out instead.")
    return np.column_stack([numbers(columns[:, i], f"covariates[:, {i}]", n) for i in range(columns.shape[1])])


def _partial(x: Floats, y: Floats, z: Floats, confidence: float) -> Partial:
    from scipy.stats import rankdata

    taken = int(np.linalg.matrix_rank(z - z.mean(0))) if len(z) else 0
    pearson = _partial_estimate(x, y, z, taken, "pearson", confidence)
    if len(x):
        x, y, z = rankdata(x), rankdata(y), rankdata(z, axis=0)
    return Partial(
        covariates=taken, pearson=pearson, spearman=_partial_estimate(x, y, z, taken, "spearman", confidence)
    )


def _partial_estimate(
    x: Floats, y: Floats, z: Floats, taken: int, kind: Literal["pearson", "spearman"], confidence: float
) -> Estimate:
    """Pearson's r of the residuals on z; Fisher (1924), Metron 3:329-332: each covariate costs one point."""
    if len(x) - taken < 2:
        return Estimate()
    design = np.column_stack([np.ones(len(x)), z])
    rests = []
    for values in (x, y):
        rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        if float(np.abs(rest).max()) <= 1e-10 * max(1e-300, float(np.abs(values - values.mean()).max())):
            return Estimate()  # the covariates explain it all
        rests.append(rest)
    found = coefficient("pearson", *rests)
    if found is None:
        return Estimate()
    limits = fisher_interval(found[0], len(x) - taken, kind, confidence) or (None, None)
    return Estimate(estimate=found[0], low=limits[0], high=limits[1], p=t_test(found[0], len(x) - 2 - taken))


class InfluenceRow(Result):
    """What remains of a correlation without one point. Null where it is not defined."""

    label: str
    """The point that is left out."""
    pearson: float | None
    spearman: float | None
    kendall: float | None
    slope: float | None
    r2: float | None
    p: float | None
    """Two-sided p of slope 0."""
    cooks_distance: float | None
    """Cook's distance of the point in the line through all points."""


class Influence(Result):
    """What remains of a correlation when one point is left out."""

    points: tuple[InfluenceRow, ...]
    pearson_low: float | None
    """The lowest r that leaving one point out gives."""
    pearson_high: float | None


def leave_one_out(x: npt.ArrayLike, y: npt.ArrayLike, labels: Sequence[str] | None = None) -> Influence:
    """How much each point carries the correlation.

    Cook's distance is ``e²·h / (2·s²·(1−h)²)`` with residual e, leverage h and residual variance s² (Cook 1977,
    Technometrics 19:15-18); above 4/n is commonly looked at twice.

    Args:
        x, y: (n,)
        labels: (n,) names of the points, for example scorers; their positions if left out.
    """
    xs = numbers(x, "x")
    n = len(xs)
    ys = numbers(y, "y", n)
    names = [str(i) for i in range(n)] if labels is None else [str(label) for label in labels]
    if len(names) != n:
        raise CarbError(f"labels has {len(names)} entries for {n} points.")
    cook = _cooks_distance(xs, ys)
    rows = []
    for i in range(n):
        rest = np.arange(n) != i
        line = fit_line(xs[rest], ys[rest])
        pearson, spearman, kendall = (
            None if found is None else found[0] for found in (coefficient(kind, xs[rest], ys[rest]) for kind in KINDS)
        )
        rows.append(
            InfluenceRow(
                label=names[i],
                pearson=pearson,
                spearman=spearman,
                kendall=kendall,
                slope=line.slope,
                r2=line.r2,
                p=line.p,
                cooks_distance=cook[i],
            )
        )
    known = [row.pearson for row in rows if row.pearson is not None]
    return Influence(points=tuple(rows), pearson_low=min(known, default=None), pearson_high=max(known, default=None))


def _cooks_distance(x: Floats, y: Floats) -> list[float | None]:
    line = fit_line(x, y)
    if line.slope is None or line.intercept is None or line.mean_x is None or line.sxx is None or not line.residual_sd:
        return [None] * len(x)
    rest = y - line.intercept - line.slope * x
    leverage = 1 / len(x) + (x - line.mean_x) ** 2 / line.sxx
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = rest**2 * leverage / (2 * line.residual_sd**2 * (1 - leverage) ** 2)
    return [float(d) if math.isfinite(d) and h < 1 - 1e-12 else None for d, h in zip(distance, leverage, strict=True)]
