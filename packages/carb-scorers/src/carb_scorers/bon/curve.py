"""Best-of-n from one pool of N samples: exact, over all subsets, without drawing any.

With samples ordered by score, a sample is the pick of a random subset of n exactly when it is in it and none of those
above it is. Of the C(N, n) subsets, C(N−b, n) hold none of the b samples above a group of g equal scores, and
C(N−b−g, n) hold none of the group either; the difference is the number in which the group wins, and each of its
members is picked in an equal share of them. The mean over subsets is an unbiased estimate of the worth of the pick of
n fresh samples. Without ties it is the weighting of Nakano et al. 2021 (WebGPT, arXiv:2112.09332, appendix I),
and for the best of n the pass@k estimator of Chen et al. 2021 (arXiv:2107.03374, section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, isnan

from carb_data import CarbError


def pick_weights(scores: Sequence[float], n: int) -> list[float]:
    """How often each sample is the pick of a random subset of n of the pool.

    Args:
        scores: (N,) the scores; higher is better; equal scores share their win.
        n: number of samples from which the best is picked, from 1 to the pool's size.

    Returns:
        (N,) shares that sum to 1.

    Raises:
        CarbError: n is not within 1 to N, or a score is NaN.
    """
    total = len(scores)
    if any(isnan(score) for score in scores):
        raise CarbError("A score is NaN, so no sample is the best; score the pool again, or leave that sample out.")
    if not 1 <= n <= total:
        raise CarbError(f"Best-of-{n} needs a pool of at least {max(n, 1)} samples; this one has {total}.")
    weights = [0.0] * total
    order = sorted(range(total), key=lambda i: -scores[i])
    above = 0
    while above < total:
        group = [i for i in order[above:] if scores[i] == scores[order[above]]]
        wins = comb(total - above, n) - comb(total - above - len(group), n)
        for i in group:
            weights[i] = wins / (len(group) * comb(total, n))
        above += len(group)
    return weights


def expected_pick(scores: Sequence[float], qualities: Sequence[float], n: int) -> float:
    """Mean quality of the pick over all subsets of n of the pool.

    Args:
        scores: (N,) the scores by which the pick is made.
        qualities: (N,) what each sample is worth.
        n: number of samples from which the best is picked, from 1 to the pool's size.
    """
    return sum(w * q for w, q in zip(pick_weights(scores, n), qualities, strict=True))


def sizes_up_to(n: int) -> tuple[int, ...]:
    """1, 2, 4, 8, … up to n, and n itself."""
    found = [1]
    while found[-1] * 2 <= n:
        found.append(found[-1] * 2)
    return (*found, n) if found[-1] != n else tuple(found)
