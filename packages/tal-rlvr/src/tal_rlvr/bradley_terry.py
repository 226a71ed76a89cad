"""Strengths from pairwise probabilities: the Bradley-Terry model, kept finite by a prior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

PRIOR = 0.1
"""Pseudo-wins of either candidate over the other in every pair, so that unbeaten candidates stay finite."""
TOLERANCE = 1e-12
MAX_ROUNDS = 10_000


def bradley_terry(
    candidates: Sequence[str], wins: Mapping[tuple[str, str], float], *, prior: float = PRIOR
) -> dict[str, float]:
    """Log-strengths under P(i beats j) = s_i / (s_i + s_j), by Hunter's MM algorithm (2004, Annals of Statistics 32).

    Args:
        candidates: at least one.
        wins: ``(i, j)`` to how often i beat j; fractions count as such.
        prior: added to the wins of both sides of every pair.

    Returns:
        Natural log-strengths that sum to 0. The result does not depend on the order of the candidates.
    """
    names = sorted(candidates)
    if len(names) < 2:
        return dict.fromkeys(candidates, 0.0)
    won = {
        (i, j): wins.get((i, j), 0.0) + prior for i in names for j in names if i != j
    }  # every entry is above 0, so the estimate exists and is unique
    total = {i: math.fsum(won[i, j] for j in names if j != i) for i in names}
    strength = dict.fromkeys(names, 1.0)
    for _ in range(MAX_ROUNDS):
        new = {
            i: total[i] / math.fsum((won[i, j] + won[j, i]) / (strength[i] + strength[j]) for j in names if j != i)
            for i in names
        }
        scale = math.exp(math.fsum(math.log(value) for value in new.values()) / len(names))
        new = {i: value / scale for i, value in new.items()}
        moved = max(abs(math.log(new[i] / strength[i])) for i in names)
        strength = new
        if moved < TOLERANCE:
            break
    return {name: math.log(strength[name]) for name in candidates}
