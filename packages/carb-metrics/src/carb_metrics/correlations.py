"""Correlation coefficients, their intervals, and replicates of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Estimate
from carb_metrics.intervals import Floats, normal_quantile
from carb_metrics.resampling import bca_interval

Kind = Literal["pearson", "spearman", "kendall"]
KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall")
_CHUNK = 1000

FEWEST = 5
"""Points that a test and an interval need; fewer are described by the coefficient alone."""

EXACT_RANKS = 9
"""Spearman's p is exact, over all orders of the ranks, up to this number of points."""


def numbers(values: npt.ArrayLike, name: str, length: int | None = None) -> Floats:
    """A one-dimensional array of finite numbers, or ``CarbError`` that names what is not.

    Args:
        values: (n,) the values to rank.
        name: The name of the argument, for the message of an error.
        length: The number of values that there must be; any if null.
    """
    try:
        array = np.array([math.nan if v is None else v for v in cast("Iterable[Any]", values)], np.float64)
    except (TypeError, ValueError):
        raise CarbError(f"{name} must be a list of numbers.") from None
    if array.ndim != 1:
        raise CarbError(f"{name} must have one dimension; its shape is {array.shape}.")
    if length is not None and len(array) != length:
        raise CarbError(f"{name} has {len(array)} values where {length} are needed, one for each point.")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise CarbError(f"{name}[{bad[0]}] is missing, NaN or infinite; leave such points out of all inputs.")
    return array


def is_constant(values: Floats) -> bool:
    """Are all values the same, up to rounding?"""
    return len(values) == 0 or float(np.ptp(values)) <= 1e-13 * max(1.0, float(np.abs(values).max()))


def coefficient(kind: Kind, x: Floats, y: Floats) -> tuple[float, float | None] | None:
    """A coefficient and its two-sided p.

    Pearson's r has the t test of n−2 degrees of freedom and Kendall's τ-b the exact distribution for few points without
    ties and the normal else (as in ``scipy.stats``). Spearman's ρ is tested over all orders of the ranks, tied or not,
    for up to ``EXACT_RANKS`` points, and with the same t test for more, but never below 2/n!, the share of the two
    extreme orders (Kendall and Gibbons 1990, Rank Correlation Methods, 5th ed., chapter 4).

    Returns:
        null with fewer than two points, or where x or y is constant; p is null with fewer than ``FEWEST`` points.
    """
    if len(x) < 2 or is_constant(x) or is_constant(y):
        return None
    from scipy import stats

    tested = len(x) >= FEWEST
    if kind == "kendall":
        tau, p = stats.kendalltau(x, y)
        return float(tau), float(p) if tested else None
    if kind == "pearson":
        r = _pearson(x, y)
        return r, t_test(r, len(x) - 2) if tested else None
    x, y = stats.rankdata(x), stats.rankdata(y)
    r = _pearson(x, y)
    if not tested:
        return r, None
    if len(x) <= EXACT_RANKS:
        return r, _exact_rank_p(x, y)
    return r, max(t_test(r, len(x) - 2) or 0.0, 2 / math.factorial(min(len(x), 100)))


def _exact_rank_p(x: Floats, y: Floats) -> float:
    """Share of all orders of y in which the ranks go together at least as closely as they do."""
    x, y = x - x.mean(), y - y.mean()
    sums = y[_orders(len(y))] @ x
    return float((np.abs(sums) >= abs(float(x @ y)) - 1e-9).mean())


@lru_cache(maxsize=2)
def _orders(n: int) -> npt.NDArray[np.int8]:
    """(n!, n) all orders of n places."""
    orders = np.zeros((1, 1), dtype=np.int8)
    for size in range(2, n + 1):
        places = [np.insert(orders, place, size - 1, axis=1) for place in range(size)]
        orders = np.concatenate(places)
    return orders


def _pearson(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return max(-1.0, min(1.0, float(x @ y / math.sqrt((x @ x) * (y @ y)))))


def t_test(r: float, freedom: int) -> float | None:
    """Two-sided p of a correlation: t = r·sqrt(f / (1−r²)) with f degrees of freedom; null for f < 1."""
    if freedom < 1:
        return None
    from scipy.special import betainc

    # The tail of t in its beta form keeps all digits: P(|T| > t) = I_{1−r²}(f/2, 1/2).
    return float(betainc(freedom / 2, 0.5, max(0.0, (1 - r) * (1 + r))))


def fisher_interval(r: float, n: int, kind: Kind = "pearson", confidence: float = 0.95) -> tuple[float, float] | None:
    """Analytic interval on the scale of z = artanh(r).

    Standard errors: Pearson ``1/sqrt(n−3)`` (Fisher 1921, Metron 1:3-32); Spearman ``sqrt((1+ρ²/2)/(n−3))`` (Bonett
    and Wright 2000, Psychometrika 65:23-28); Kendall ``sqrt(0.437/(n−4))`` (Fieller, Hartley and Pearson 1957,
    Biometrika 44:470-481). For partial correlations n is reduced by the number of covariates.

    Returns:
        low and high; null with fewer than ``FEWEST`` points, or where the correlation is perfect, which has no z.
    """
    if n < FEWEST:
        return None
    spare = n - (4 if kind == "kendall" else 3)
    if spare < 1 or abs(r) > 1 - 1e-12:
        return None
    variance = {"pearson": 1.0, "spearman": 1 + r * r / 2, "kendall": 0.437}[kind] / spare
    half = normal_quantile(confidence) * math.sqrt(variance)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def estimate(kind: Kind, x: Floats, y: Floats, confidence: float) -> Estimate:
    """A coefficient with its analytic interval."""
    found = coefficient(kind, x, y)
    if found is None:
        return Estimate()
    low, high = fisher_interval(found[0], len(x), kind, confidence) or (None, None)
    return Estimate(estimate=found[0], low=low, high=high, p=found[1])


class Weighted:
    """The three coefficients when points count as often as given weights say; the core of bootstrap and jackknife."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.y = x - x.mean(), y - y.mean()
        self.below_x, self.below_y = ((v[None, :] < v[:, None]).astype(np.float64) for v in (x, y))
        self.level_x, self.level_y = ((v[None, :] == v[:, None]).astype(np.float64) for v in (x, y))

    def __call__(self, kind: Kind, weights: Floats) -> Floats:
        """Coefficients for (replicates, n) whole-number weights; NaN where one side is constant."""
        if kind == "kendall":
            return self._kendall(weights)
        if kind == "pearson":
            return _weighted_pearson(self.x[None], self.y[None], weights)
        rank_x = weights @ self.below_x.T + weights @ self.level_x.T / 2
        rank_y = weights @ self.below_y.T + weights @ self.level_y.T / 2
        return _weighted_pearson(rank_x, rank_y, weights)

    def _kendall(self, weights: Floats) -> Floats:
        sign_x, sign_y = self.below_x - self.below_x.T, self.below_y - self.below_y.T

        def pairs(matrix: Floats) -> Floats:
            result: Floats = ((weights @ matrix) * weights).sum(1)
            return result

        with np.errstate(divide="ignore", invalid="ignore"):
            tau: Floats = pairs(sign_x * sign_y) / np.sqrt(pairs(np.abs(sign_x)) * pairs(np.abs(sign_y)))
        return tau


def _weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(1, keepdims=True)
    x = x - (weights * x).sum(1, keepdims=True) / total
    y = y - (weights * y).sum(1, keepdims=True) / total
    xx, yy, xy = (weights * x * x).sum(1), (weights * y * y).sum(1), (weights * x * y).sum(1)
    floor = 1e-24 * max(float((x * x).max()), 1e-300), 1e-24 * max(float((y * y).max()), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        r: Floats = np.where((xx > floor[0]) & (yy > floor[1]), xy / np.sqrt(xx * yy), np.nan)
    return r


def bca_estimates(x: Floats, y: Floats, confidence: float, resamples: int, seed: Any) -> dict[str, Estimate]:
    """All three coefficients with BCa intervals of a bootstrap of points, expanded (``resampling.bca_interval``)."""
    n = len(x)
    plain = {kind: coefficient(kind, x, y) for kind in KINDS}
    if n < FEWEST:
        return {kind: Estimate(estimate=found[0], p=found[1]) if found else Estimate() for kind, found in plain.items()}
    weighted, rng = Weighted(x, y), np.random.default_rng(seed)
    draws: dict[str, list[Floats]] = {kind: [] for kind in KINDS}
    for start in range(0, resamples, _CHUNK):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(_CHUNK, resamples - start)).astype(np.float64)
        for kind in KINDS:
            draws[kind].append(weighted(kind, counts))
    without = 1 - np.eye(n)
    result: dict[str, Estimate] = {}
    for kind, found in plain.items():
        if found is None:
            result[kind] = Estimate()
            continue
        jackknife = weighted(kind, without)
        limits = bca_interval(np.concatenate(draws[kind]), found[0], jackknife, confidence, expand=n)
        low, high = limits or (None, None)
        result[kind] = Estimate(estimate=found[0], low=low, high=high, p=found[1])
    return result
