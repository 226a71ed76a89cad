"""The one interval and the one test of paired differences and means, and the sizes that they
need."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.clusters import Ints, numbered
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence, finite, same_order
from carb_metrics.means import means


class Paired(Interval):
    """A paired difference, the first minus the second; null without pairs.

    ``p`` is from the interval's own t: below 1 − confidence exactly where it leaves 0 out.
    """

    n: int = 0
    """Pairs."""
    design_effect: float = 1.0
    """Variance over that of as many independent pairs."""


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
    confidence: float = 0.95,
    *,
    bounded: bool = True,
) -> Paired:
    """The mean of ``a − b`` over pairs, with its t interval and its t test.

    For bounded values, two clusters of average size are added, one at each bound. So values that
    are all alike do not look certain (Bonett and Price 2012, Journal of Educational and Behavioral
    Statistics 37:479-488). With clusters, the variance grows by their design effect
    (``means.design``). Every comparison of this package uses this interval and this test.

    Args:
        a: (pairs,) values, such as credits of one scorer.
        b: (pairs,) values of the same things, such as credits of another scorer for the same sets.
        clusters: (pairs,) anything that tells clusters apart, if pairs are dependent; null entries
            stand alone.
        confidence: The level of the interval, a share such as 0.95.
        bounded: whether both lie between 0 and 1; the interval then allows for it.

    Returns:
        One difference in the unit of the values, with limits, a two-sided p, the number of pairs
        and the design effect. Null without pairs.

    Raises:
        CarbError: unequal lengths, a missing or infinite value, or ``bounded`` values outside 0 to
            1. Or there is a cluster too many or too few, or ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    same_order(a=a, b=b)
    first = finite(a, "a")
    second = finite(b, "b")
    if len(first) != len(second):
        raise CarbError(
            f"a and b must be lists of the same length; their shapes are {first.shape} and "
            f"{second.shape}."
        )
    if bounded:
        _check_bounds(first)
        _check_bounds(second)
    cluster = numbered(clusters, len(first), "pairs")
    d = first - second
    (paired,) = paired_rows(d[None], cluster, confidence, bounded=bounded)
    return paired


def paired_rows(
    d: Floats,
    cluster: Ints,
    confidence: float,
    *,
    bounded: bool = True,
) -> list[Paired]:
    """``paired_difference`` for each row of differences, NaN where a row has no such pair."""
    bounds = None
    if bounded:
        bounds = (-1.0, 1.0)
    result = means(d, cluster, confidence, bounds)
    rows = []
    for index, effect in enumerate(result.effect):
        row = Paired.of(result.at(index), design_effect=float(effect))
        rows.append(row)
    return rows


def _check_bounds(values: Floats) -> None:
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise CarbError("Values must lie between 0 and 1; for others give bounded=False.")


def won_alone(d: Floats) -> dict[str, int]:
    """The numbers of pairs in which each side has more; NaN counts for none."""
    more = d > 0
    less = d < 0
    return {
        "only_a": int(more.sum()),
        "only_b": int(less.sum()),
    }


def mean_interval(
    values: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any] | None = None,
    confidence: float = 0.95,
    *,
    bounded: bool = True,
) -> Interval:
    """A mean with the t interval of ``paired_difference`` for a single sample, without a test.

    For bounded values, two clusters of average size are added, one at each bound (Agresti and Coull
    1998, The American Statistician 52:119-126).

    Args:
        values: (units,) the values whose mean is wanted.
        clusters: (units,) anything that tells clusters apart, if units are dependent; null entries
            stand alone.
        confidence: The level of the interval, a share such as 0.95.
        bounded: whether values lie between 0 and 1; the interval then allows for it.

    Returns:
        One mean in the unit of the values, with its limits; null without values.

    Raises:
        CarbError: a missing or infinite value, or ``bounded`` values outside 0 to 1. Or there is a
            cluster too many or too few, or ``confidence`` is not between 0 and 1.
    """
    x = finite(values, "values")
    check_confidence(confidence)
    if bounded:
        _check_bounds(x)
    cluster = numbered(clusters, len(x), "values")
    bounds = None
    if bounded:
        bounds = (0.0, 1.0)
    result = means(x[None], cluster, confidence, bounds)
    return result.at(0).changed(n=None, p=None)


def adjust(p: npt.ArrayLike | Sequence[float | None]) -> Floats:
    """Correct p values for their number, so that few false findings get through.

    The chance of any false finding among all tests then stays below the level of the tests. The
    method is Holm's (1979, Scandinavian Journal of Statistics 6:65-70).

    Args:
        p: (tests,) the p values; null and NaN become NaN and do not count as a test.

    Returns:
        (tests,) adjusted values, at most 1, in the given order.

    Raises:
        CarbError: a value is below 0 or above 1.
    """
    values = np.asarray(p, dtype=float)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise CarbError("p values lie between 0 and 1.")
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    tests_left = np.arange(len(order), 0, -1)
    stepped = np.maximum.accumulate(values[order] * tests_left)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def sets_needed(
    difference: float,
    discordance: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    design_effect: float = 1.0,
) -> int | None:
    """Sets at which ``compare`` finds a true paired difference with the given power.

    ``n = (z_{1−α/2}·sqrt(ψ) + z_{power}·sqrt(ψ − δ²))² / δ²``, times the design effect, rounded up.
    Source: Connor (1987), "Sample size for testing differences in proportions for the paired-sample
    design", Biometrics 43:207-211.

    Args:
        difference: δ, the true difference of accuracies.
        discordance: ψ, the share of sets that exactly one of both wins; at least
            ``abs(difference)``. For scorers that err independently it is ``p_a(1−p_b) +
            p_b(1−p_a)``.
        alpha: two-sided level of the test.
        power: chance to find the difference, between ``alpha`` and 1.
        design_effect: how many times more sets clusters need than independent sets;
            ``Comparison.design_effect``.

    Returns:
        the number of sets; null where the difference is 0.

    Raises:
        CarbError: a value out of range.
    """
    level, strength = _normal_pair(alpha, power)
    if not abs(difference) <= 1:
        raise CarbError(
            "A difference of accuracies must lie between -1 and 1, for example 0.03; got "
            f"{difference}."
        )
    if not abs(difference) <= discordance <= 1:
        raise CarbError(
            f"discordance must lie between the size of the difference ({abs(difference)}) "
            f"and 1; got {discordance}."
        )
    if difference == 0:
        return None
    square = difference**2
    unlike = math.sqrt(discordance)
    root = level * unlike + strength * math.sqrt(discordance - square)
    needed = root**2 / square * _effect(design_effect)
    return max(1, math.ceil(needed - 1e-9))


def minimum_detectable_difference(
    n: int,
    discordance: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    design_effect: float = 1.0,
) -> float | None:
    """Smallest true paired difference that n sets find with the given power: ``sets_needed`` solved
    for δ.

    Args:
        n: sets, at least 1.
        discordance: share of sets that exactly one of both wins, above 0; between related scorers
            0.1 to 0.3 is usual, and ``Comparison.discordance`` gives that of two given ones.
        alpha: as for ``sets_needed``.
        power: as for ``sets_needed``.
        design_effect: as for ``sets_needed``.

    Returns:
        δ; null where n is so small that no difference with this discordance would be found.
    """
    level, strength = _normal_pair(alpha, power)
    if n < 1 or not 0 < discordance <= 1:
        raise CarbError(
            f"n must be at least 1 and discordance in (0, 1]; got {n} and {discordance}."
        )
    a = level * math.sqrt(discordance)
    squared = strength**2
    size = n / _effect(design_effect)
    whole = size + squared
    square = a**2
    inside = size * square - whole * (square - squared * discordance)
    root = math.sqrt(max(0.0, inside))
    above = math.sqrt(size) * a + math.copysign(root, strength)
    difference = above / whole
    if difference > discordance:
        return None
    return difference


def _effect(design_effect: float) -> float:
    if not design_effect >= 1:
        raise CarbError(f"design_effect must be at least 1; got {design_effect}.")
    return design_effect


def _normal_pair(
    alpha: float,
    power: float,
) -> tuple[float, float]:
    if not 0 < alpha < 1:
        raise CarbError(f"alpha must lie between 0 and 1, for example 0.05; got {alpha}.")
    if not alpha < power < 1:
        raise CarbError(f"power must lie between alpha ({alpha}) and 1; got {power}.")
    quantile = NormalDist().inv_cdf
    return quantile(1 - alpha / 2), quantile(power)
