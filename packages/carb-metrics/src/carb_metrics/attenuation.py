"""Validity when the measurements have errors of their own, and scorers are relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import numbered
from carb_metrics.correlations import FEWEST, coefficient, numbers
from carb_metrics.intervals import Floats, check_confidence

__all__ = ["UncertainCorrelation", "correlate_uncertain"]

_DRAWS = 4_000


class UncertainCorrelation(Result):
    """Pearson's correlation as measured, and of what was measured."""

    n: int
    clusters: int
    """Base models: the scorers that are independent of one another."""
    observed: Estimate
    """The correlation as measured. The interval holds for other items and other base models."""
    corrected: Estimate
    """The correlation without the errors of measurement; null where they are as large as the differences between
    scorers."""
    reliability_x: float | None
    """Share of the variance of x that is not error of measurement."""
    reliability_y: float | None
    shared_source: bool
    """Whether predictor and outcome come from one source, whose mistakes both share: the correlation is too high."""


def correlate_uncertain(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_error: npt.ArrayLike | None = None,
    y_error: npt.ArrayLike | None = None,
    bases: Sequence[Any] | None = None,
    confidence: float = 0.95,
    *,
    shared_source: bool = False,
    seed: int = 0,
) -> UncertainCorrelation:
    """Correlate two measurements of the same scorers that have standard errors.

    The correction is Spearman's (1904, American Journal of Psychology 15:72-101): r over the root of the product of the
    reliabilities, ``1 − mean(error²)/variance``. Intervals are t intervals on the scale of artanh r; their standard
    error is that of a bootstrap which draws base models with all their scorers, and new items for each (as a normal
    error of the given size) at once.

    Args:
        x, y: (n,) for example accuracies on a benchmark, and downstream results.
        x_error, y_error: (n,) standard errors; exact if left out.
        bases: (n,) the base model of each scorer; null entries stand alone, and all do if left out.
        confidence: The level of the intervals, a share such as 0.95.
        shared_source: whether predictor and outcome rest on the same source, for example both on BLEnD.
        seed: The seed of the bootstrap.

    Returns:
        Intervals are null with fewer than five base models.

    Raises:
        CarbError: unequal lengths, a missing value, or a negative error.
    """
    check_confidence(confidence)
    xs = numbers(x, "x")
    n = len(xs)
    ys = numbers(y, "y", n)
    errors = [
        np.zeros(n) if e is None else numbers(e, f"{name}_error", n) for name, e in (("x", x_error), ("y", y_error))
    ]
    if any((error < 0).any() for error in errors):
        raise CarbError("Standard errors cannot be negative.")
    if bases is not None and len(bases) != n:
        raise CarbError(f"bases has {len(bases)} values where {n} are needed, one for each point.")
    base = numbered(bases, n)
    models = len(np.unique(base))
    found = coefficient("pearson", xs, ys)
    reliable = [_reliability(values, error) for values, error in zip((xs, ys), errors, strict=True)]
    result = UncertainCorrelation(
        n=n,
        clusters=models,
        observed=Estimate(estimate=None if found is None else found[0]),
        corrected=Estimate(),
        reliability_x=reliable[0],
        reliability_y=reliable[1],
        shared_source=shared_source,
    )
    if found is None:
        return result
    shrink = math.sqrt(max(reliable[0] or 0.0, 0.0) * max(reliable[1] or 0.0, 0.0))
    corrected = found[0] / shrink if shrink > 0 else None
    spread = _spread(xs, ys, errors, base, seed) if models >= FEWEST else None
    return result.model_copy(
        update={
            "observed": _around(found[0], 1.0, spread, models, confidence),
            "corrected": Estimate() if corrected is None else _around(found[0], shrink, spread, models, confidence),
        }
    )


def _reliability(values: Floats, error: Floats) -> float | None:
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return 1 - float((error**2).mean()) / variance if variance > 0 else None


def _spread(x: Floats, y: Floats, errors: Sequence[Floats], base: npt.NDArray[np.int64], seed: int) -> float | None:
    """Standard error of artanh r."""
    rng, count, clusters = np.random.default_rng(seed), len(x), int(base.max()) + 1
    weight = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=_DRAWS)[:, base].astype(np.float64)
    a, b = (v + rng.normal(size=(_DRAWS, count)) * e for v, e in zip((x, y), errors, strict=True))
    total = weight.sum(1, keepdims=True)
    a, b = (v - (weight * v).sum(1, keepdims=True) / total for v in (a, b))
    aa, bb, ab = (weight * a * a).sum(1), (weight * b * b).sum(1), (weight * a * b).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.arctanh(np.clip(ab / np.sqrt(aa * bb), -0.9999, 0.9999))
    known = z[np.isfinite(z)]
    return float(known.std(ddof=1)) if len(known) > _DRAWS // 2 else None


def _around(r: float, shrink: float, spread: float | None, clusters: int, confidence: float) -> Estimate:
    from scipy.special import stdtrit

    estimate = max(-1.0, min(1.0, r / shrink))
    if spread is None or abs(r) > 1 - 1e-12:
        return Estimate(estimate=estimate)
    half = float(stdtrit(clusters - 2, 0.5 + confidence / 2)) * spread
    low, high = (max(-1.0, min(1.0, math.tanh(math.atanh(r) + side) / shrink)) for side in (-half, half))
    return Estimate(estimate=estimate, low=low, high=high)
