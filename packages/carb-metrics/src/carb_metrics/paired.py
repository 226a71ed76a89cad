"""Tests and intervals of paired differences, and the sizes that they need."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.intervals import Floats, check_confidence, normal_quantile

EXACT_RANGE = 20_000
"""Sums of cluster differences up to this size are tested exactly."""


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


def sign_flip(differences: npt.NDArray[Any]) -> tuple[float, float]:
    """Test that differences of independent units are symmetric about 0, by the distribution over all their signs.

    With differences of −1, 0 and 1 this is McNemar's test; with whole clusters as units it holds for dependent
    sets. Exact for whole numbers whose magnitudes sum to at most ``EXACT_RANGE``, else with the normal of the same
    variance. Source: Fisher (1935), The Design of Experiments, section 21; for the mid-p see ``mcnemar``.

    Args:
        differences: (units,)

    Returns:
        exact and mid-p, two-sided; 1 where nothing differs.
    """
    sizes = np.abs(differences[np.abs(differences) > 1e-12])
    observed = abs(float(differences.sum()))
    if not len(sizes):
        return 1.0, 1.0
    whole = np.rint(sizes).astype(np.int64)
    if np.abs(sizes - whole).max() > 1e-9 or whole.sum() > EXACT_RANGE:
        p = math.erfc(observed / math.sqrt(2 * float((sizes**2).sum())))
        return p, p
    if whole.max() == 1:
        few = (len(whole) - round(observed)) // 2
        exact, mid = mcnemar(few, len(whole) - few)
        return float(exact), float(mid)
    mass = np.ones(1)
    for size, count in zip(*np.unique(whole, return_counts=True), strict=True):
        # The sum of `count` signs times `size` lies on every 2·size-th place.
        spread = np.zeros(2 * size * count + 1)
        spread[:: 2 * size] = _fair_binomial(int(count))
        mass = np.convolve(mass, spread)
    sums = np.arange(len(mass)) - whole.sum()
    beyond, at = mass[sums > observed + 0.5].sum(), mass[np.abs(sums - observed) < 0.5].sum()
    return min(1.0, float(2 * (beyond + at))), min(1.0, float(2 * beyond + at))


def _fair_binomial(n: int) -> Floats:
    from scipy.special import gammaln

    k = np.arange(n + 1)
    mass: Floats = np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * math.log(2))
    return mass


def difference_interval(
    differences: Floats, confidence: float = 0.95, clusters: npt.NDArray[np.int64] | None = None
) -> tuple[float, float]:
    """Closed-form interval of the mean of paired differences between −1 and 1.

    Wald's interval after adding one pair to each side, which for won and lost is Bonett and Price's (2012,
    "Adjusted Wald confidence interval for a difference of binomial proportions based on paired data", Journal of
    Educational and Behavioral Statistics 37:479-488). For clusters the variance grows by the ratio of the variance
    of cluster totals to that of independent pairs.

    Args:
        differences: (pairs,) at least one.
        confidence: between 0 and 1.
        clusters: (pairs,) numbers of clusters, if pairs are dependent.
    """
    n, total, square = len(differences), float(differences.sum()), float((differences**2).sum())
    mean = total / (n + 2)
    variance = ((square + 2) / (n + 2) - mean**2) / (n + 2)
    if clusters is not None:
        away = differences - total / n
        alone = float((away**2).sum())
        sums = np.bincount(np.unique(clusters, return_inverse=True)[1], away)
        if alone > 0:
            variance *= max(1.0, float((sums**2).sum()) / alone * len(sums) / max(len(sums) - 1, 1))
    half = normal_quantile(confidence) * math.sqrt(variance)
    return max(-1.0, mean - half), min(1.0, mean + half)


def adjust(p: npt.ArrayLike, method: str = "holm") -> Floats:
    """p values corrected for their number.

    ``holm``: the chance of any false finding stays below the level (Holm 1979, Scandinavian Journal of Statistics
    6:65-70). ``bh``: the expected share of false findings does (Benjamini and Hochberg 1995, JRSS B 57:289-300).

    Args:
        p: (tests,); NaN stays NaN and does not count as a test.
        method: ``holm`` or ``bh``.

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


def sets_needed(difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Sets at which a true paired difference is found with the given power.

    ``n = (z_{1−α/2}·sqrt(ψ) + z_{power}·sqrt(ψ − δ²))² / δ²``, rounded up; Connor (1987), "Sample size for testing
    differences in proportions for the paired-sample design", Biometrics 43:207-211.

    Args:
        difference: δ, the true difference of accuracies.
        discordance: ψ, the share of sets that exactly one of both wins; at least ``abs(difference)``. For scorers
            that err independently it is ``p_a(1−p_b) + p_b(1−p_a)``.
        alpha: two-sided level of the test.
        power: chance to find the difference, between ``alpha`` and 1.

    Returns:
        the number of sets; null where the difference is 0.

    Raises:
        CarbError: a value out of range.
    """
    level, strength = _normal_pair(alpha, power)
    if not abs(difference) <= discordance <= 1:
        raise CarbError(
            f"discordance must lie between the size of the difference ({abs(difference)}) and 1; got {discordance}."
        )
    if difference == 0:
        return None
    root = level * math.sqrt(discordance) + strength * math.sqrt(discordance - difference**2)
    return max(1, math.ceil(root**2 / difference**2 - 1e-9))


def minimum_detectable_difference(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest true paired difference that n sets find with the given power: ``sets_needed`` solved for δ.

    Args:
        n: sets, at least 1.
        discordance: share of sets that exactly one of both wins, above 0; between related scorers 0.1 to 0.3 is
            usual, and ``Comparison.discordance`` gives that of two given ones.
        alpha, power: as for ``sets_needed``.

    Returns:
        δ; null where n is so small that no difference with this discordance would be found.
    """
    level, strength = _normal_pair(alpha, power)
    if n < 1 or not 0 < discordance <= 1:
        raise CarbError(f"n must be at least 1 and discordance in (0, 1]; got {n} and {discordance}.")
    a, squared = level * math.sqrt(discordance), strength**2
    root = math.sqrt(max(0.0, n * a**2 - (n + squared) * (a**2 - squared * discordance)))
    found = (math.sqrt(n) * a + math.copysign(root, strength)) / (n + squared)
    return found if found <= discordance else None


def _normal_pair(alpha: float, power: float) -> tuple[float, float]:
    check_confidence(1 - alpha)
    if not alpha < power < 1:
        raise CarbError(f"power must lie between alpha ({alpha}) and 1; got {power}.")
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
