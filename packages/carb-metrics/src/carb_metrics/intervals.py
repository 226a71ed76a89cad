"""Confidence intervals of proportions and of their weighted averages."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_data import CarbError

Floats = npt.NDArray[np.float64]

RESAMPLES = 10_000
"""Bootstrap replicates unless told otherwise."""


def check_confidence(confidence: float) -> float:
    """Give ``confidence`` back, or raise ``CarbError`` where it is not strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise CarbError(f"confidence must lie between 0 and 1, for example 0.95; got {confidence}.")
    return confidence


def normal_quantile(confidence: float) -> float:
    """Two-sided critical value of the standard normal: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + check_confidence(confidence) / 2)


def wilson(successes: npt.ArrayLike, n: npt.ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson's score interval of proportions.

    With ``p = successes / n`` and ``z`` the normal quantile, the limits are
    ``(p + z²/2n ± z·sqrt(p(1−p)/n + z²/4n²)) / (1 + z²/n)``.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference", JASA 22:209-212.
    Fractional ``successes`` and ``n`` are allowed: an effective sample size takes the place of ``n`` where sets
    are clustered or credits are fractions (Korn and Graubard 1998, Survey Methodology 24:193-201).

    Args:
        successes: shape (...,), 0 to ``n``.
        n: trials, same shape; 0 gives NaN limits, which callers turn into null.
        confidence: between 0 and 1.

    Returns:
        low, high: same shape, within [0, 1].
    """
    z2 = normal_quantile(confidence) ** 2
    trials = np.asarray(n, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(successes, dtype=np.float64) / trials
        middle = (p + z2 / (2 * trials)) / (1 + z2 / trials)
        half = np.sqrt(np.clip(p * (1 - p), 0, None) * z2 / trials + (z2 / (2 * trials)) ** 2) / (1 + z2 / trials)
        low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
    # Rounding must not push the limit past an estimate that it equals.
    return np.where(p == 0, 0.0, np.minimum(low, p)), np.where(p == 1, 1.0, np.maximum(high, p))


def effective_n(n: npt.ArrayLike, p: npt.ArrayLike, variance: npt.ArrayLike) -> Floats:
    """Sample size at which a plain proportion ``p`` has the estimated ``variance``: ``p(1−p) / variance``.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201. Where the variance is 0, ``n`` itself.
    """
    size, share, var = (np.asarray(a, dtype=np.float64) for a in (n, p, variance))
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = share * (1 - share) / var
    return np.where(var > 1e-15, effective, size)


def bootstrap_means(counts: npt.ArrayLike, values: npt.ArrayLike, resamples: int = RESAMPLES, seed: Any = 0) -> Floats:
    """Bootstrap replicates of the means of strata, drawn from the exact multinomial of each.

    Resampling the n rows of a stratum with replacement makes the counts of its distinct values multinomial with
    the observed shares (Efron 1979, Annals of Statistics 7:1-26, section 2), so the counts are drawn at once: same
    distribution, at a cost that does not depend on n.

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
    means = np.empty((table.shape[0], resamples))
    for stratum, row in enumerate(table):
        left, total, sums = int(row.sum()), int(row.sum()), np.zeros(resamples)
        remaining: Any = total  # rows of this stratum not yet given to a value, per replicate
        for value, count in zip(points, row, strict=True):
            if not left:
                break
            # A multinomial is a chain of binomials; with two values there is one link.
            drawn = remaining if count == left else rng.binomial(remaining, count / left, resamples)
            sums += value * drawn
            remaining = remaining - drawn
            left -= int(count)
        means[stratum] = sums / total if total else np.nan
    return means.T


def percentile_interval(draws: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Percentile bootstrap interval over the first axis; Efron and Tibshirani (1993), chapter 13.

    Args:
        draws: (resamples, ...).

    Returns:
        low, high: shape (...,).
    """
    tail = (1 - check_confidence(confidence)) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high


def mover(accuracy: Floats, low: Floats, high: Floats, weights: Floats) -> tuple[float, float]:
    """Interval of a weighted sum from the intervals of its independent parts ("method of variance estimates recovery").

    ``θ − sqrt(Σ w²(p−l)²)`` to ``θ + sqrt(Σ w²(u−p)²)``; Zou and Donner (2008), Statistics in Medicine 27:1693-1702.
    It stands in where every replicate of a bootstrap is the same, which says nothing about the uncertainty.

    Args:
        accuracy, low, high, weights: (parts,), weights not negative.
    """
    centre = float(accuracy @ weights)
    below = float(np.sqrt(((weights * (accuracy - low)) ** 2).sum()))
    above = float(np.sqrt(((weights * (high - accuracy)) ** 2).sum()))
    return max(0.0, centre - below), min(1.0, centre + above)
