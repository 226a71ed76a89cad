"""The bootstrap, drawn from counts instead of rows, and the jackknife."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.intervals import Floats, check_confidence, normal_quantile

RESAMPLES = 10_000
"""Bootstrap replicates unless told otherwise."""

Statistic = Callable[[Floats], Floats]
"""(..., sums) to (...): a number made of sums over units; NaN where it is not defined."""

_MOST_VALUES = 1000
"""Values that are looked through for a common fraction."""
_CHUNK = 500


def lattice(values: Floats) -> float:
    """The step of which all values are multiples (1 for 0 and 1, 1/12 for shares of up to four), 0 where none is."""
    if (values == np.rint(values)).all():
        return 1.0
    points = np.unique(values)
    if len(points) > _MOST_VALUES:
        return 0.0
    fractions = [Fraction(float(value)).limit_denominator(1000) for value in points]
    denominator = math.lcm(*(fraction.denominator for fraction in fractions))
    exact = all(abs(float(f) - v) < 1e-12 for f, v in zip(fractions, points, strict=True))
    return 1 / denominator if exact and denominator <= 10_000 else 0.0


def check_resamples(resamples: int) -> None:
    """Raise ``CarbError`` where there is nothing to draw."""
    if resamples < 1:
        raise CarbError(f"resamples must be at least 1; got {resamples}.")


def bootstrap_statistic(
    kinds: Floats, counts: npt.ArrayLike, statistic: Statistic, resamples: int = RESAMPLES, seed: Any = 0
) -> Floats:
    """Replicates of a statistic of sums over units, where units with the same summands are of one kind.

    The number of units of each kind in a replicate is multinomial (Efron 1979, Annals of
    Statistics 7:1-26).

    Args:
        kinds: (kinds, sums) what one unit of each kind adds to each sum.
        counts: (kinds,) units of each kind.
        statistic: the function from sums (..., sums) to the statistic (...).

    Returns:
        (resamples,), NaN where a replicate does not define the statistic.
    """
    return np.concatenate([statistic(drawn @ kinds) for drawn in draw_kinds(counts, resamples, seed)])


def draw_kinds(counts: npt.ArrayLike, resamples: int, seed: Any) -> Iterator[Floats]:
    """How many units of each kind there are in each replicate: (some replicates, kinds) at a time.

    Few kinds are drawn from their multinomial. Where nearly every unit is of its own kind, drawing the units one by
    one is the same, and several times faster.

    Args:
        counts: (kinds,) units of each kind.
        resamples: The number of replicates in all.
        seed: anything that ``numpy.random.default_rng`` takes.
    """
    table = np.asarray(counts, dtype=np.int64)
    rng, units, kinds = np.random.default_rng(seed), int(table.sum()), len(table)
    kind = np.repeat(np.arange(kinds), table)
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        if kinds * 8 <= units:
            yield rng.multinomial(units, table / units, size=size).astype(np.float64)
        else:
            place = kind[rng.integers(0, units, (size, units), dtype=np.int32)] + np.arange(size)[:, None] * kinds
            yield sum_by(place.ravel(), size=size * kinds).reshape(size, kinds)


def sum_by(index: npt.NDArray[Any], values: npt.ArrayLike | None = None, size: int = 0) -> Floats:
    """(size,) sums of ``values``, or counts of rows, by the number of their unit; ``size`` may be left out."""
    sums: Floats = np.bincount(index, values, size).astype(np.float64)
    return sums


def kinds_of(units: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(units, sums) to the distinct rows and how many units have each."""
    kinds, counts = np.unique(units, axis=0, return_counts=True)
    return kinds, counts


def percentile_interval(draws: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Percentile bootstrap interval over the first axis; Efron and Tibshirani (1993), chapter 13.

    Args:
        draws: (resamples, ...) the replicates of the statistic.
        confidence: the level of the interval, between 0 and 1.

    Returns:
        low, high: shape (...,).
    """
    tail = (1 - check_confidence(confidence)) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high


def bca_interval(
    draws: Floats,
    estimate: float,
    jackknife: Floats,
    confidence: float = 0.95,
    *,
    counts: npt.ArrayLike | None = None,
    expand: int | None = None,
) -> tuple[float, float] | None:
    """Bias-corrected and accelerated bootstrap interval.

    Source: Efron (1987), "Better bootstrap confidence intervals", JASA 82:171-185, with the acceleration from the
    jackknife (Efron and Tibshirani 1993, chapter 14).

    Args:
        draws: (resamples,) replicates; NaN ones are left out.
        estimate: the statistic of the data.
        jackknife: (units,) the statistic without each unit, or (kinds,) without one unit of each kind.
        confidence: the level of the interval, between 0 and 1.
        counts: (kinds,) units of each kind; one each if left out.
        expand: number n of units, to make up for the bootstrap's narrowness with few of them: ``sqrt(n/(n−1))``
            times the quantile of t with n−1 degrees of freedom takes the place of the normal one (Hesterberg 2015,
            "What teachers should know about the bootstrap", The American Statistician 69:371-386).

    Returns:
        low and high, or null where all replicates are alike or the statistic is not defined.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    draws = draws[~np.isnan(draws)]
    if not len(draws) or math.isnan(estimate) or draws.min() == draws.max():
        return None
    share = ((draws < estimate).mean() + (draws <= estimate).mean()) / 2
    share = min(max(share, 0.5 / len(draws)), 1 - 0.5 / len(draws))
    weight = np.ones(len(jackknife)) if counts is None else np.asarray(counts, dtype=np.float64)
    known = ~np.isnan(jackknife)
    weight, without = weight[known], jackknife[known]
    away = (weight @ without) / weight.sum() - without
    scale = (weight @ away**2) ** 1.5
    acceleration = (weight @ away**3) / (6 * scale) if scale > 0 else 0.0
    bias, z = ndtri(share), normal_quantile(confidence)
    if expand is not None and expand > 1:
        z = math.sqrt(expand / (expand - 1)) * float(stdtrit(expand - 1, 0.5 + confidence / 2))
    tails = [ndtr(bias + (bias + side) / (1 - acceleration * (bias + side))) for side in (-z, z)]
    low, high = np.quantile(draws, tails)
    return float(low), float(high)


def jackknife_values(units: Floats, statistic: Statistic) -> Floats:
    """(units,) the statistic of the sums without each unit; ``units`` is (units, sums)."""
    return statistic(units.sum(0) - units)


def jackknife_interval(
    units: Floats, statistic: Statistic, confidence: float = 0.95, *, log: bool = False
) -> tuple[float | None, float | None, float | None]:
    """A statistic of sums over independent units, with the t interval of its jackknife standard error.

    Source: Tukey (1958); Efron and Tibshirani (1993), chapter 11: ``se² = (C−1)/C·Σ (θ_(c) − mean θ_(·))²`` over
    the C units, which may be clusters.

    Args:
        units: (units, sums) what each unit adds to each sum.
        statistic: the function from sums (..., sums) to the statistic (...).
        confidence: the level of the interval, between 0 and 1.
        log: whether to make the interval on the scale of logarithms, for positive ratios.

    Returns:
        estimate, low, high; null where not defined (limits need two units and a spread).
    """
    from scipy.special import stdtrit

    check_confidence(confidence)
    if not len(units):
        return None, None, None
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not defined is null, as below
        estimate = float(statistic(units.sum(0)))
        if not math.isfinite(estimate):
            return None, None, None
        count = len(units)
        without = jackknife_values(units, statistic) if count > 1 else np.array([np.nan])
        without = np.log(without) if log else without
    if not np.isfinite(without).all() or (log and estimate <= 0):
        return estimate, None, None
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * error
    if log:
        return estimate, estimate * math.exp(-half), estimate * math.exp(half)
    return estimate, estimate - half, estimate + half
