"""Tests and intervals of paired differences, and the sizes that they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import Ints, design, numbered
from carb_metrics.correlations import numbers
from carb_metrics.intervals import Floats, check_alpha, check_confidence, normal_quantile
from carb_metrics.resampling import lattice

EXACT_RANGE = 20_000
"""Sums of differences up to this size, in units of their common fraction, are tested exactly."""

FAR = 5.0
"""Standard deviations beyond which a tail is summed without a Fourier transform, whose rounding it would feel."""

FEW_UNITS = 15
"""Differences of any sizes are tested exactly, over all their signs, up to this number."""

_OUTSIDE = "Values must lie between 0 and 1; for others give bounded=False."


def mcnemar(only_a: npt.ArrayLike, only_b: npt.ArrayLike) -> tuple[Floats, Floats]:
    """McNemar's test of paired proportions: do the discordant pairs fall to both sides alike?

    ``exact`` is the two-sided binomial test (McNemar 1947, Psychometrika 12:153-157; Cochran 1950). It is
    conservative; ``mid-p`` counts half of the observed outcome's probability and keeps closer to its level (Lancaster
    1961, JASA 56:223-234; Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91).

    Args:
        only_a: (...,) pairs that only a won.
        only_b: (...,) pairs that only b won.

    Returns:
        exact, mid-p: (...,); 1 where there are no discordant pairs.
    """
    from scipy.special import bdtr, gammaln

    a, b = np.asarray(only_a, dtype=np.float64), np.asarray(only_b, dtype=np.float64)
    n, few = a + b, np.minimum(a, b)
    below = bdtr(few, n.astype(np.int64), 0.5)
    point = np.exp(gammaln(n + 1) - gammaln(few + 1) - gammaln(n - few + 1) - n * math.log(2))
    return np.minimum(1.0, 2 * below), np.minimum(1.0, 2 * below - point)


def sign_flip(differences: npt.NDArray[Any]) -> tuple[float | None, float]:
    """Test that differences of independent units are symmetric about 0, by the distribution over all their signs.

    With differences of −1, 0 and 1 this is McNemar's test; with whole clusters as units it holds for dependent
    sets. Exact for multiples of a common fraction (shared ties give halves, thirds and quarters) whose magnitudes sum
    to at most ``EXACT_RANGE`` of it, and for up to ``FEW_UNITS`` units of any size; else with the normal of the same
    variance. Source: Fisher (1935), The Design of Experiments, section 21; for the mid-p see ``mcnemar``.

    Args:
        differences: (units,) the differences of the pairs.

    Returns:
        exact p, null where only the normal one is known, and mid-p, two-sided; 1 where nothing differs.
    """
    sizes = np.abs(differences[np.abs(differences) > 1e-12])
    observed = abs(float(differences.sum()))
    if not len(sizes):
        return 1.0, 1.0
    step = lattice(sizes)
    if not step or np.rint(sizes / step).sum() > EXACT_RANGE:
        if len(sizes) <= FEW_UNITS:
            return _all_signs(sizes, observed)
        return None, math.erfc(observed / math.sqrt(2 * float((sizes**2).sum())))
    counts = np.bincount(np.rint(sizes / step).astype(np.int64))
    whole = np.flatnonzero(counts)
    counts = counts[whole]
    whole = whole // np.gcd.reduce(whole)
    total = observed * float(whole @ counts) / float(sizes.sum())
    if whole[-1] == 1:
        few = (len(sizes) - round(total)) // 2
        exact, mid = mcnemar(few, len(sizes) - few)
        return float(exact), float(mid)
    far = total**2 > FAR**2 * float(whole**2 @ counts)
    return _two_sided(*(_far_tails if far else _near_tails)(whole, counts, round(total)), observed)


def _near_tails(sizes: Ints, counts: Ints, total: int) -> tuple[float, float]:
    """Probability that ``counts`` signs times ``sizes`` add up to more than ``total``, and to exactly that."""
    mass = _by_transform(sizes, counts)
    place = (total + len(mass) - 1) // 2
    return float(mass[place + 1 :].sum()), float(mass[place])


def _far_tails(sizes: Ints, counts: Ints, total: int) -> tuple[float, float]:
    """``_near_tails`` of tiny probabilities: without subtractions, so that they keep their digits.

    The signs of one size, the commonest, need no convolution: their tail is looked up for each sum of the others.
    """
    common = int(np.argmax(counts))
    size, count = int(sizes[common]), int(counts[common])
    others = _by_convolution(np.delete(sizes, common), np.delete(counts, common))
    binomial = _fair_binomial(count)
    tail = np.append(np.cumsum(binomial[::-1])[::-1], 0.0)  # of at least k plus signs
    needed = total - (2 * np.arange(len(others)) - (len(others) - 1)) + count * size  # twice the size for each plus
    at, rest = np.divmod(needed, 2 * size)
    exact = (rest == 0) & (at >= 0) & (at <= count)
    return float(others @ tail[np.clip(at + 1, 0, count + 1)]), float(others[exact] @ binomial[at[exact]])


def _by_transform(sizes: Ints, counts: Ints) -> Floats:
    """The distribution of the sum of ``counts`` signs times ``sizes``, from its lowest value in steps of 2.

    With half of each sign plus a half, and moved to the centre, its characteristic function is Π cos(size·θ/2).
    """
    reach = int(sizes @ counts)
    width = 1 << (reach + 1).bit_length()
    angle = np.pi / width * np.arange(width // 2 + 1)
    product = np.ones(len(angle), dtype=np.complex128 if reach % 2 else np.float64)
    for size, count in zip(sizes, counts, strict=True):
        product *= np.cos(size * angle) ** int(count)
    if reach % 2:  # the centre lies between two places
        product *= np.exp(-1j * angle)
    return np.clip(np.roll(np.fft.irfft(product, width), reach // 2)[: reach + 1], 0, None)


def _by_convolution(sizes: Ints, counts: Ints) -> Floats:
    """The same without subtractions."""
    mass = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        binomial = _fair_binomial(count)
        spread = np.zeros(len(mass) + size * count)
        for first in range(min(size, len(mass))):  # places that this size connects
            spread[first::size] = np.convolve(mass[first::size], binomial)
        mass = spread
    return mass


def _all_signs(sizes: Floats, observed: float) -> tuple[float, float]:
    signs = 1 - 2 * (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1)
    sums = signs @ sizes
    slack = 1e-9 * float(sizes.sum())
    return _two_sided(
        float((sums > observed + slack).mean()), float((np.abs(sums - observed) <= slack).mean()), observed
    )


def _two_sided(beyond: float, at: float, observed: float) -> tuple[float, float]:
    if observed < 1e-12:
        return 1.0, 1.0
    return min(1.0, float(2 * (beyond + at))), min(1.0, float(2 * beyond + at))


@cache
def _log_factorials() -> Floats:
    from scipy.special import gammaln

    found: Floats = gammaln(np.arange(1.0, EXACT_RANGE + 2))
    return found


def _fair_binomial(n: int) -> Floats:
    known = _log_factorials()[: n + 1]
    mass: Floats = np.exp(known[n] - known - known[::-1] - n * math.log(2))
    return mass


class Paired(Result):
    """A paired difference, the first minus the second; null without pairs."""

    n: int = 0
    """Pairs."""
    estimate: float | None = None
    """Mean of the differences."""
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """Mid-p of the test that the differences are symmetric about 0 (``sign_flip``). Below 1 − confidence exactly where
    the interval does not hold 0."""
    p_exact: float | None = None
    """The same test's exact p, conservative; null where too many different sizes allow none."""
    design_effect: float = 1.0
    """Variance over that of as many independent pairs."""
    freedom: float | None = None
    """Degrees of freedom that the clusters leave; null for independent pairs."""


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
    confidence: float = 0.95,
    *,
    bounded: bool = True,
) -> Paired:
    """The mean of ``a − b`` over pairs, with the one interval and the one test of paired differences.

    Args:
        a, b: (pairs,) values of the same things, such as credits of two scorers for the same sets.
        clusters: (pairs,) anything that tells clusters apart, if pairs are dependent; null entries stand alone.
        confidence: The level of the interval, a share such as 0.95.
        bounded: whether both lie between 0 and 1; the interval then allows for it. Otherwise it is the t interval.

    Raises:
        CarbError: unequal lengths, a missing or infinite value, or ``bounded`` values outside 0 to 1.
    """
    first, second = numbers(a, "a"), numbers(b, "b")
    if len(first) != len(second):
        raise CarbError(f"a and b must be lists of the same length; their shapes are {first.shape} and {second.shape}.")
    if bounded and ((first < 0) | (first > 1) | (second < 0) | (second > 1)).any():
        raise CarbError(_OUTSIDE)
    cluster = None if clusters is None else numbered(clusters, len(first), "pairs")
    return paired(first - second, cluster, confidence, bounded=bounded)


def paired(d: Floats, cluster: Ints | None = None, confidence: float = 0.95, *, bounded: bool = True) -> Paired:
    """``paired_difference`` of differences, with clusters by number."""
    return paired_rows(d[None], cluster, confidence, bounded=bounded)[0]


def paired_rows(
    d: Floats, cluster: Ints | None = None, confidence: float = 0.95, *, bounded: bool = True
) -> list[Paired]:
    """``paired`` for each row of differences; many at once take less time.

    Args:
        d: (rows, pairs) differences, NaN where a row has no such pair.
        cluster: (pairs,) the cluster of each pair; null where all are independent.
        confidence: the confidence level of all intervals, between 0 and 1.
        bounded: whether values lie between 0 and 1, as for ``paired_difference``.
    """
    check_confidence(confidence)
    if not len(d):
        return []
    row, pair = np.nonzero(~np.isnan(d))
    values = d[row, pair]
    n = np.bincount(row, minlength=len(d))
    parts = np.split(values, np.cumsum(n)[:-1])
    mean = np.array([part.mean() if len(part) else 0.0 for part in parts])
    effect, freedom, units = np.ones(len(d)), np.full(len(d), math.inf), parts
    if cluster is not None and len(values):
        of, count = cluster[pair], int(cluster.max()) + 1
        found = design(of, values - mean[row], mean=row, means=len(d))
        effect, freedom = found.effect, found.freedom
        # A cluster without pairs gives 0, which has no sign.
        units = list(np.bincount(row * count + of, values, len(d) * count).reshape(len(d), count))
    results = []
    for i, part in enumerate(parts):
        if not len(part):
            results.append(Paired())
            continue
        exact, mid = sign_flip(units[i])
        low, high = difference_interval(part, confidence, float(effect[i]), float(freedom[i]), bounded=bounded)
        low, high = agreeing(float(mean[i]), low, high, settled=mid < 1 - confidence)
        results.append(
            Paired(
                n=len(part),
                estimate=float(mean[i]),
                low=low,
                high=high,
                p=mid,
                p_exact=exact,
                design_effect=float(effect[i]),
                freedom=None if math.isinf(freedom[i]) else float(freedom[i]),
            )
        )
    return results


def agreeing(mean: float, low: float, high: float, *, settled: bool, null: float = 0.0) -> tuple[float, float]:
    """The interval, with ``null`` in it or not as a test of ``null`` says; it always holds the mean.

    Values on the far side of ``null`` are rejected wherever ``null`` is, so that the interval covers them as often as
    the test keeps its level.
    """
    low, high = min(low, mean), max(high, mean)
    if not settled:
        return min(low, null), max(high, null)
    edge = null + (mean - null) * 1e-6
    return (max(low, edge), high) if mean > null else (low, min(high, edge))


def difference_interval(
    differences: Floats,
    confidence: float = 0.95,
    effect: float = 1.0,
    freedom: float = math.inf,
    *,
    bounded: bool = True,
) -> tuple[float, float]:
    """Closed-form interval of the mean of paired differences.

    Wald's interval after adding one pair to each side, which for won and lost is Bonett and Price's (2012,
    "Adjusted Wald confidence interval for a difference of binomial proportions based on paired data", Journal of
    Educational and Behavioral Statistics 37:479-488). For clusters the variance grows by their design effect
    (``clusters.design``) and the quantile is that of t.

    Args:
        differences: (pairs,) the differences, at least one.
        confidence: the level of the interval, between 0 and 1.
        effect, freedom: the design effect and the degrees of freedom of the clusters.
        bounded: whether differences lie between −1 and 1. Otherwise no pair is added, and the quantile is that of t
            with at most pairs − 1 degrees of freedom.
    """
    from scipy.special import stdtrit

    n, total, square = len(differences), float(differences.sum()), float((differences**2).sum())
    added = 2 if bounded else 0
    mean = total / (n + added)
    variance = ((square + added) / (n + added) - mean**2) / (n + added if bounded else max(n - 1, 1)) * effect
    freedom = freedom if bounded else min(freedom, n - 1)
    if freedom < 1:
        return -math.inf, math.inf
    t = normal_quantile(confidence) if math.isinf(freedom) else float(stdtrit(freedom, 0.5 + confidence / 2))
    half = t * math.sqrt(max(variance, 0.0))
    return (max(-1.0, mean - half), min(1.0, mean + half)) if bounded else (mean - half, mean + half)


def adjust(p: npt.ArrayLike, method: str = "holm") -> Floats:
    """p values corrected for their number.

    ``holm``: the chance of any false finding stays below the level (Holm 1979, Scandinavian Journal of Statistics
    6:65-70). ``bh``: the expected share of false findings does (Benjamini and Hochberg 1995, JRSS B 57:289-300).

    Args:
        p: (tests,) the p values; NaN stays NaN and does not count as a test.
        method: The correction: ``holm`` (Holm) or ``bh`` (Benjamini and Hochberg).

    Returns:
        (tests,) adjusted values, at most 1, in the given order.
    """
    values = np.asarray(p, dtype=np.float64)
    if method not in ("holm", "bh"):
        raise CarbError(f"method must be 'holm' or 'bh'; got '{method}'.")
    if ((values < 0) | (values > 1)).any():
        raise CarbError("p values lie between 0 and 1.")
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    count, place = len(order), np.arange(len(order))
    if method == "holm":
        steps = np.maximum.accumulate(values[order] * (count - place))
    else:
        steps = np.minimum.accumulate((values[order] * count / (place + 1))[::-1])[::-1]
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def check_difference(difference: float, discordance: float) -> None:
    """Refuse what two accuracies cannot have.

    Raises:
        CarbError: a difference of more than 1, or more than the share of sets that only one of both wins.
    """
    if not abs(difference) <= 1:
        raise CarbError(f"A difference of accuracies must lie between -1 and 1, for example 0.03; got {difference}.")
    if not abs(difference) <= discordance <= 1:
        raise CarbError(
            f"discordance must lie between the size of the difference ({abs(difference)}) and 1; got {discordance}."
        )


def sets_needed(
    difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8, design_effect: float = 1.0
) -> int | None:
    """Sets at which a true paired difference is found with the given power.

    ``n = (z_{1−α/2}·sqrt(ψ) + z_{power}·sqrt(ψ − δ²))² / δ²``, rounded up; Connor (1987), "Sample size for testing
    differences in proportions for the paired-sample design", Biometrics 43:207-211.

    Args:
        difference: δ, the true difference of accuracies.
        discordance: ψ, the share of sets that exactly one of both wins; at least ``abs(difference)``. For scorers
            that err independently it is ``p_a(1−p_b) + p_b(1−p_a)``.
        alpha: two-sided level of the test.
        power: chance to find the difference, between ``alpha`` and 1.
        design_effect: how many times more sets clusters need than independent sets; ``Comparison.design_effect``.

    Returns:
        the number of sets; null where the difference is 0.

    Raises:
        CarbError: a value out of range.
    """
    level, strength = _normal_pair(alpha, power)
    check_difference(difference, discordance)
    if difference == 0:
        return None
    root = level * math.sqrt(discordance) + strength * math.sqrt(discordance - difference**2)
    return max(1, math.ceil(root**2 / difference**2 * _effect(design_effect) - 1e-9))


def minimum_detectable_difference(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8, design_effect: float = 1.0
) -> float | None:
    """Smallest true paired difference that n sets find with the given power: ``sets_needed`` solved for δ.

    Args:
        n: sets, at least 1.
        discordance: share of sets that exactly one of both wins, above 0; between related scorers 0.1 to 0.3 is
            usual, and ``Comparison.discordance`` gives that of two given ones.
        alpha, power, design_effect: as for ``sets_needed``.

    Returns:
        δ; null where n is so small that no difference with this discordance would be found.
    """
    level, strength = _normal_pair(alpha, power)
    if n < 1 or not 0 < discordance <= 1:
        raise CarbError(f"n must be at least 1 and discordance in (0, 1]; got {n} and {discordance}.")
    a, squared, size = level * math.sqrt(discordance), strength**2, n / _effect(design_effect)
    root = math.sqrt(max(0.0, size * a**2 - (size + squared) * (a**2 - squared * discordance)))
    found = (math.sqrt(size) * a + math.copysign(root, strength)) / (size + squared)
    return found if found <= discordance else None


def _effect(design_effect: float) -> float:
    if not design_effect >= 1:
        raise CarbError(f"design_effect must be at least 1; got {design_effect}.")
    return design_effect


def _normal_pair(alpha: float, power: float) -> tuple[float, float]:
    check_alpha(alpha)
    if not alpha < power < 1:
        raise CarbError(f"power must lie between alpha ({alpha}) and 1; got {power}.")
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)


def mean_interval(
    values: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
    confidence: float = 0.95,
    *,
    bounded: bool = True,
) -> Estimate:
    """A mean with its interval: that of ``paired_difference`` for a single sample, without a test.

    Args:
        values: (units,) the values whose mean is wanted.
        clusters: (units,) anything that tells clusters apart, if units are dependent; null entries stand alone.
        confidence: The level of the interval, a share such as 0.95.
        bounded: whether values lie between 0 and 1. One unit at each end is then added, so that units that are all
            alike do not look certain (Agresti and Coull 1998, The American Statistician 52:119-126); otherwise the t
            interval.

    Raises:
        CarbError: a missing or infinite value, ``bounded`` values outside 0 to 1, or a cluster too many or too few.
    """
    from scipy.special import stdtrit

    x = numbers(values, "values")
    check_confidence(confidence)
    if bounded and ((x < 0) | (x > 1)).any():
        raise CarbError(_OUTSIDE)
    if not len(x):
        return Estimate()
    found = None if clusters is None else design(numbered(clusters, len(x), "values"), x - x.mean())
    effect, freedom = (1.0, math.inf) if found is None else (float(found.effect[0]), float(found.freedom[0]))
    n, added = len(x), 2 if bounded else 0
    estimate = float(x.mean())
    centre = (float(x.sum()) + added / 2) / (n + added)
    square = (float((x**2).sum()) + added / 2) / (n + added)
    freedom = min(freedom, n + added - 1)
    if freedom < 1 or (n < 2 and not bounded):
        return Estimate(estimate=estimate)
    variance = max(square - centre**2, 0.0) / (n + added - 1) * effect
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(variance)
    low, high = min(centre - half, estimate), max(centre + half, estimate)
    return Estimate(estimate=estimate, low=max(low, 0.0) if bounded else low, high=min(high, 1.0) if bounded else high)
