"""Strengths from verdicts over pairs.

Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs: I", Biometrika 39: candidate i beats j with
probability σ(s_i - s_j). A weak normal prior on the strengths keeps them finite where somebody always wins; it is
the ridge of penalised logistic regression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

PRIOR_PRECISION = 0.1
"""Precision (1/variance) of the prior: a strength of 3 (odds 20 to 1) is one standard deviation from 0."""

TOLERANCE = 1e-12
MOST_STEPS = 100

SAME = 1e-11
"""Values that are no further apart are the same; what rounding does to values around 1 is 1e-16 to 1e-12."""


def strengths(wins: Sequence[Sequence[float]], precision: float = PRIOR_PRECISION) -> list[float]:
    """Maximum a posteriori strengths, natural log-odds.

    Maximises Σ_ij w_ij log σ(s_i - s_j) - (precision / 2) Σ_i s_i², which is strictly concave, by Newton's method
    with step halving.

    Args:
        wins: ``wins[i][j]`` is how often i beat j; fractions (probabilities of a win) are as good as counts.
        precision: precision of the normal prior of each strength; above 0.

    Returns:
        A strength for each candidate; they sum to 0 within rounding.
    """
    n = len(wins)
    played = [[wins[i][j] + wins[j][i] for j in range(n)] for i in range(n)]

    def objective(s: Sequence[float]) -> float:
        fit = sum(wins[i][j] * _log_sigmoid(s[i] - s[j]) for i in range(n) for j in range(n) if wins[i][j])
        return fit - precision / 2 * sum(x * x for x in s)

    s = [0.0] * n
    value = objective(s)
    for _ in range(MOST_STEPS):
        p = [[math.exp(_log_sigmoid(s[i] - s[j])) for j in range(n)] for i in range(n)]
        gradient = [sum(wins[i][j] - played[i][j] * p[i][j] for j in range(n)) - precision * s[i] for i in range(n)]
        curvature = [[-played[i][j] * p[i][j] * p[j][i] for j in range(n)] for i in range(n)]
        for i in range(n):
            curvature[i][i] = precision - sum(curvature[i][j] for j in range(n) if j != i)
        step = _solve(curvature, gradient)
        if max(map(abs, step), default=0.0) < TOLERANCE:
            break
        size = 1.0
        tried = [a + b for a, b in zip(s, step, strict=True)]
        slack = TOLERANCE * max(1.0, abs(value))  # near the optimum only rounding tells the values apart
        while (new := objective(tried)) < value - slack and size > TOLERANCE:
            size /= 2
            tried = [a + size * b for a, b in zip(s, step, strict=True)]
        s, value = tried, new
    return equal_made_equal(s)


def _log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x >= 0 else x - math.log1p(math.exp(x))


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x with ``matrix x = right``; the matrix is positive definite, so elimination needs no pivoting."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    x = [0.0] * n
    for k in reversed(range(n)):
        x[k] = (rows[k][n] - sum(rows[k][j] * x[j] for j in range(k + 1, n))) / rows[k][k]
    return x


def equal_made_equal(values: Sequence[float]) -> list[float]:
    """Values that differ by rounding alone made the same, so that no order of the candidates decides between them."""
    out = list(values)
    group: list[int] = []
    for i in sorted(range(len(values)), key=lambda i: values[i]):
        if group and values[i] - values[group[-1]] > SAME:
            group = []
        group.append(i)
        for member in group:
            out[member] = values[group[0]]
    return out
