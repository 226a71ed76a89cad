"""Correlation coefficients, their tests and their intervals."""

import math
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from carb_metrics.intervals import Floats, normal_quantile

Kind = Literal["pearson", "spearman", "kendall"]

FEWEST = 5
"""Points that a test and an interval need; fewer are described by the coefficient alone."""

EXACT_RANKS = 9
"""Spearman's p is exact, over all orders of the ranks, up to this number of points."""


def is_constant(values: Floats) -> bool:
    """Are all values the same, up to rounding?"""
    if not len(values):
        return True
    largest = float(np.abs(values).max())
    return float(np.ptp(values)) <= 1e-13 * max(1.0, largest)


def coefficient(
    kind: Kind,
    x: Floats,
    y: Floats,
) -> tuple[float, float | None] | None:
    """A coefficient and its two-sided p.

    Pearson's r has the t test of n−2 degrees of freedom. Kendall's τ-b has the exact distribution
    for few points without ties, else the normal one (as in ``scipy.stats``). Spearman's ρ is tested
    over all orders of the ranks for up to ``EXACT_RANKS`` points, and with the same t test for
    more. Its p is never below 2/n!, the share of the two extreme orders (Kendall and Gibbons 1990,
    Rank Correlation Methods, 5th ed., chapter 4).

    Returns:
        null with fewer than two points, or where x or y is constant; p is null with fewer than
        ``FEWEST`` points.
    """
    n = len(x)
    if n < 2 or is_constant(x) or is_constant(y):
        return None
    from scipy import stats

    if kind == "kendall":
        tau, p = stats.kendalltau(x, y)
        if n < FEWEST:
            return float(tau), None
        return float(tau), float(p)
    if kind == "spearman":
        x = stats.rankdata(x)
        y = stats.rankdata(y)
    r = _pearson(x, y)
    if n < FEWEST:
        return r, None
    if kind == "pearson":
        return r, t_test(r, n - 2)
    if n <= EXACT_RANKS:
        return r, _exact_rank_p(x, y)
    extreme_orders = 2 / math.factorial(min(n, 100))
    return r, max(t_test(r, n - 2) or 0.0, extreme_orders)


def _exact_rank_p(x: Floats, y: Floats) -> float:
    """Two-sided p: the share of all orders of y whose rank correlation is at least as far from 0 as
    the given one."""
    x = x - x.mean()
    y = y - y.mean()
    sums = y[_orders(len(y))] @ x
    as_far = np.abs(sums) >= abs(float(x @ y)) - 1e-9
    return float(as_far.mean())


@lru_cache(maxsize=2)
def _orders(n: int) -> npt.NDArray[np.int8]:
    """(n!, n) all orders of n places."""
    orders = list(permutations(range(n)))
    return np.array(orders, dtype=np.int8)


def _pearson(x: Floats, y: Floats) -> float:
    x = x - x.mean()
    y = y - y.mean()
    x = x / np.abs(x).max()
    y = y / np.abs(y).max()
    square_x = x @ x
    square_y = y @ y
    r = float(x @ y / math.sqrt(square_x * square_y))
    return max(-1.0, min(1.0, r))


def t_test(r: float, freedom: int) -> float | None:
    """Two-sided p of a correlation: t = r·sqrt(f / (1−r²)) with f degrees of freedom; null for f <
    1."""
    if freedom < 1:
        return None
    from scipy.special import betainc

    # The tail of t in its beta form keeps all digits: P(|T| > t) = I_{1−r²}(f/2, 1/2).
    return float(betainc(freedom / 2, 0.5, max(0.0, (1 - r) * (1 + r))))


def fisher_interval(
    r: float,
    n: int,
    kind: Kind = "pearson",
    confidence: float = 0.95,
) -> tuple[float, float] | None:
    """Analytic interval on the scale of z = artanh(r).

    Standard errors: Pearson ``1/sqrt(n−3)`` (Fisher 1921, Metron 1:3-32); Spearman
    ``sqrt((1+ρ²/2)/(n−3))`` (Bonett and Wright 2000, Psychometrika 65:23-28); Kendall
    ``sqrt(0.437/(n−4))`` (Fieller, Hartley and Pearson 1957, Biometrika 44:470-481). For partial
    correlations n is reduced by the number of covariates.

    Returns:
        low and high; null with fewer than ``FEWEST`` points, or where the correlation is perfect,
        which has no z.
    """
    if n < FEWEST:
        return None
    spare = n - 3
    square = 1.0
    if kind == "spearman":
        square = 1 + r * r / 2
    elif kind == "kendall":
        spare = n - 4
        square = 0.437
    if abs(r) > 1 - 1e-12:
        return None
    return fisher_limits(r, square / spare, confidence)


def fisher_limits(
    r: float,
    variance: float,
    confidence: float,
) -> tuple[float, float]:
    """Low and high from the variance of artanh r."""
    half = normal_quantile(confidence) * math.sqrt(variance)
    z = math.atanh(r)
    return math.tanh(z - half), math.tanh(z + half)
