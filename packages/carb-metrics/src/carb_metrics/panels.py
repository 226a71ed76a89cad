"""Panels of people who answer the same sets: the human line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Result
from carb_metrics.intervals import Floats, check_confidence, normal_quantile, wilson

__all__ = ["HumanLine", "human_line"]


class HumanLine(Result):
    """How often people pick the key; null without answers."""

    share: float | None = None
    low: float | None = None
    """Lower confidence limit."""
    high: float | None = None
    """Upper confidence limit."""
    answers: int = 0
    people: int = 0
    sets: int = 0


def human_line(
    agrees: npt.ArrayLike, sets: Sequence[str], people: Sequence[str], confidence: float = 0.95
) -> HumanLine:
    """Share of answers that are the key, with an interval over other people and other sets.

    Answers of one person are alike, and so are answers to one set, so the variance is clustered both ways: that by set
    plus that by person minus that by their pair (Cameron, Gelbach and Miller 2011, Journal of Business & Economic
    Statistics 29:238-249), at least the larger of the first two. The interval is Wilson's at the sample size that has
    this variance, with t at the degrees of freedom of the smaller number of clusters (Korn and Graubard 1998, Survey
    Methodology 24:193-201). Where all answers are alike, each set counts once. With one person the interval is over
    sets alone and says nothing of other people.

    Args:
        agrees: (answers,) 1 where the pick is the key, else 0.
        sets: (answers,) the source item of each answer's set.
        people: (answers,) who gave it.
        confidence: The level of the interval, a share such as 0.95.

    Raises:
        CarbError: lengths differ, or a value is neither 0 nor 1.
    """
    check_confidence(confidence)
    credit = np.asarray(agrees, dtype=np.float64)
    if not len(credit) == len(sets) == len(people):
        raise CarbError("agrees, sets and people must have the same length.")
    if not np.isin(credit, (0, 1)).all():
        raise CarbError("agrees must be 0 or 1.")
    if not len(credit):
        return HumanLine()
    of_set, of_person = _numbered(sets), _numbered(people)
    n, share = len(credit), float(credit.mean())
    residual = credit - share
    pair = of_set * (of_person.max() + 1) + of_person
    by_set, by_person, by_pair = (
        _variance(residual, c) for c in (of_set, of_person, np.unique(pair, return_inverse=True)[1])
    )
    counts = [int(c.max()) + 1 for c in (of_set, of_person)]
    usable = [(v, c) for v, c in zip((by_set, by_person), counts, strict=True) if c > 1]
    if not usable:
        return HumanLine(share=share, low=0.0, high=1.0, answers=n, people=counts[1], sets=counts[0])
    variance = max(*(v for v, _ in usable), by_set + by_person - by_pair if len(usable) == 2 else 0.0)
    clusters = min(c for _, c in usable) if variance > 1e-15 else counts[0]
    effective = _effective_n(n, share, variance, clusters, confidence)
    low, high = wilson(share * effective, effective, confidence)
    return HumanLine(share=share, low=float(low), high=float(high), answers=n, people=counts[1], sets=counts[0])


def _effective_n(n: int, share: float, variance: float, clusters: int, confidence: float) -> float:
    """``p(1−p)/variance``, at most ``n``, times (z/t)² for few clusters; the number of clusters without a variance."""
    from scipy.special import stdtrit

    if variance <= 1e-15:
        return float(clusters)
    shrink = normal_quantile(confidence) / float(stdtrit(clusters - 1, 0.5 + confidence / 2))
    return float(min(share * (1 - share) / variance, n) * shrink**2)


def _numbered(names: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.unique(np.asarray(names, dtype=str), return_inverse=True)[1].astype(np.int64)


def _variance(residual: Floats, cluster: npt.NDArray[np.int64]) -> float:
    """Variance of the mean with independent clusters (Cochran 1977, Sampling Techniques, 3rd ed., chapter 9A)."""
    sums = np.bincount(cluster, residual)
    count = len(sums)
    return float((sums**2).sum() / len(residual) ** 2 * count / (count - 1)) if count > 1 else 0.0
