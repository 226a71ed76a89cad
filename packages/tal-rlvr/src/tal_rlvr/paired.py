"""Uncertainty of a rate and of a difference over pairs: bootstrap intervals and a sign-flip test."""

from __future__ import annotations

import random
from collections.abc import Sequence

from carb_data.models import Frozen

ROUNDS = 5_000


class Estimate(Frozen):
    """A mean with its 95% percentile bootstrap interval over source items; null where there is nothing to average."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Difference(Estimate):
    """After minus before, with a two-sided sign-flip p-value over source items."""

    p: float | None


def estimate(values: Sequence[float], *, seed: int = 0) -> Estimate:
    """Mean and 95% percentile bootstrap interval (Efron 1979) of independent values."""
    if not values:
        return Estimate(mean=None, low=None, high=None, n=0)
    mean, low, high = _bootstrap(values, seed)
    return Estimate(mean=mean, low=low, high=high, n=len(values))


def difference(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Difference:
    """Paired difference of means, ``after - before``.

    The p-value is that of the sign-flip (Fisher-Pitman) permutation test by Monte Carlo, (1 + hits) / (1 + rounds)
    (Phipson and Smyth 2010), exact in the sense that it never understates.

    Raises:
        ValueError: the two differ in length.
    """
    gaps = [late - early for early, late in zip(before, after, strict=True)]
    if not gaps:
        return Difference(mean=None, low=None, high=None, n=0, p=None)
    mean, low, high = _bootstrap(gaps, seed)
    rng = random.Random(f"{seed}\0flip")
    seen = abs(sum(gaps))
    moved = [gap for gap in gaps if gap != 0]
    hits = 0
    for _ in range(ROUNDS):
        signs = rng.getrandbits(len(moved)) if moved else 0
        total = sum(gap if signs >> place & 1 else -gap for place, gap in enumerate(moved))
        hits += abs(total) >= seen - 1e-9
    return Difference(mean=mean, low=low, high=high, n=len(gaps), p=(1 + hits) / (1 + ROUNDS))


def _bootstrap(values: Sequence[float], seed: int) -> tuple[float, float, float]:
    rng = random.Random(f"{seed}\0bootstrap")
    n = len(values)
    means = sorted(sum(rng.choices(values, k=n)) / n for _ in range(ROUNDS))
    return sum(values) / n, means[round(0.025 * (ROUNDS - 1))], means[round(0.975 * (ROUNDS - 1))]
