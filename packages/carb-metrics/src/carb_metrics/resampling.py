"""The bootstrap, drawn from counts instead of rows, and the jackknife."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_metrics.intervals import Floats, check_confidence, normal_quantile

RESAMPLES = 10_000
"""Bootstrap replicates unless told otherwise."""

Statistic = Callable[[Floats], Floats]
"""(..., sums) to (...): a number made of sums over units; NaN where it is not defined."""

_WINDOW = 9.0
"""Standard deviations about the mean of a sum, beyond which its probability is below 1e-18."""
_CHUNK = 500


def bootstrap_means(counts: npt.ArrayLike, values: npt.ArrayLike, resamples: int = RESAMPLES, seed: Any = 0) -> Floats:
    """Bootstrap replicates of the means of strata, drawn from the exact multinomial of each.

    Resampling the n rows of a stratum with replacement makes the counts of its distinct values multinomial with
    the observed shares (Efron 1979, Annals of Statistics 7:1-26), so the means are drawn from what that
    implies for them: same distribution, at a cost that does not depend on n.

    Args:
        counts: (strata, values) how often each value occurs in each stratum.
        values: (values,) the distinct values, for example 0 and 1.
        resamples: number of replicates.
        seed: anything that ``numpy.random.default_rng`` takes.

    Returns:
        (resamples, strata); NaN for a stratum without rows.
    """
    table = np.asarray(counts, dtype=np.int64)
    points = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    step = _lattice(points)
    means = np.full((table.shape[0], resamples), np.nan)
    for stratum, row in enumerate(table):
        total, there = int(row.sum()), row > 0
        if there.sum() == 1:
            means[stratum] = points[there][0]
        elif total and step:
            means[stratum] = _sum_sample(row[there], np.rint(points[there] / step), resamples, rng) * (step / total)
        elif total:
            means[stratum] = rng.multinomial(total, row / total, size=resamples) @ points / total
    return means.T


def _lattice(values: Floats) -> float:
    """The step of which all values are multiples (1 for 0 and 1, 1/12 for shares of up to four), 0 where none is."""
    fractions = [Fraction(float(value)).limit_denominator(1000) for value in values]
    denominator = math.lcm(*(fraction.denominator for fraction in fractions))
    exact = all(abs(float(f) - v) < 1e-12 for f, v in zip(fractions, values, strict=True))
    return 1 / denominator if exact and denominator <= 10_000 else 0.0


def _sum_sample(counts: npt.NDArray[np.int64], values: Floats, size: int, rng: np.random.Generator) -> Floats:
    """``size`` draws of the sum of n rows drawn with replacement from rows with these integer values.

    The sum of n independent draws has the n-th power of their characteristic function, which a Fourier transform
    turns into probabilities. How many of the draws take each value is multinomial in turn, so those counts are
    drawn, spelled out and shuffled: independent draws, several times faster than one by one.
    """
    n = int(counts.sum())
    share = counts / n
    mean = n * float(share @ values)
    spread = _WINDOW * (math.sqrt(max(n * float(share @ values**2) - mean**2 / n, 0.0)) + float(np.ptp(values)))
    width = 1 << math.ceil(math.log2(2 * spread + 2))
    first = round(mean) - width // 2
    angle = 2 * np.pi / width * np.arange(width // 2 + 1)
    centre = round(mean / n)  # powers of the deviation from the centre keep the phase exact for large n
    one = np.zeros(len(angle), dtype=np.complex128)
    for p, v in zip(share, values - centre, strict=True):
        one += p * np.exp(1j * angle * v) if v else p
    one[one == 0] = 1e-300
    mass = np.fft.irfft(np.exp(np.conj(n * np.log(one) + 1j * angle * (n * centre - first))), width)
    sums = np.arange(first, first + width, dtype=np.float64)
    mass[(sums < n * values.min()) | (sums > n * values.max())] = 0
    mass = np.clip(mass, 0, None)
    draws = np.repeat(sums, rng.multinomial(size, mass / mass.sum()))
    rng.shuffle(draws)
    return draws


def stretch(n: npt.ArrayLike) -> Floats:
    """Factor ``sqrt(n/(n−1))`` for the deviations of replicates of the means of strata of n rows.

    The bootstrap's variance of such a mean is too small by (n−1)/n, which counts when many small strata are
    averaged. Source: Rao and Wu (1988), "Resampling inference with complex survey data", JASA 83:231-241, with as
    many rows drawn as there are. One row tells nothing of its variance; its factor is 1.
    """
    size = np.asarray(n, dtype=np.float64)
    factor: Floats = np.sqrt(size / np.where(size > 1, size - 1, size))
    return factor


def bootstrap_statistic(
    kinds: Floats, counts: npt.ArrayLike, statistic: Statistic, resamples: int = RESAMPLES, seed: Any = 0
) -> Floats:
    """Replicates of a statistic of sums over units, where units with the same summands are of one kind.

    The number of units of each kind in a replicate is multinomial; see ``bootstrap_means``.

    Args:
        kinds: (kinds, sums) what one unit of each kind adds to each sum.
        counts: (kinds,) units of each kind.
        statistic: (..., sums) to (...).

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
        resamples: replicates in all.
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
        draws: (resamples, ...).
        confidence: between 0 and 1.

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
        confidence: between 0 and 1.
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
        units: (units, sums).
        statistic: (..., sums) to (...).
        confidence: between 0 and 1.
        log: make the interval on the scale of logarithms, for positive ratios.

    Returns:
        estimate, low, high; null where not defined (limits need two units and a spread).
    """
    from scipy.special import stdtrit

    check_confidence(confidence)
    if not len(units):
        return None, None, None
    estimate = float(statistic(units.sum(0)))
    if not math.isfinite(estimate):
        return None, None, None
    count = len(units)
    without = jackknife_values(units, statistic) if count > 1 else np.array([np.nan])
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            without = np.log(without)
    if not np.isfinite(without).all() or (log and estimate <= 0):
        return estimate, None, None
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * error
    if log:
        return estimate, estimate * math.exp(-half), estimate * math.exp(half)
    return estimate, estimate - half, estimate + half
