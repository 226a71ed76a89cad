"""Panels of people who answer the same sets: the human line, and where regions differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Result
from carb_metrics.intervals import Floats, check_confidence, normal_quantile, wilson

__all__ = ["HumanLine", "RegionGap", "human_line", "region_gap"]

PERMUTATIONS = 2000


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


class RegionGap(Result):
    """Do people of one region agree more with one another than with people of other regions?"""

    within: float | None = None
    """Share of equal picks over pairs of people of the same region that answered the same set."""
    between: float | None = None
    """The same over pairs of different regions."""
    p: float | None = None
    """Share of random divisions of the people into regions of these sizes with a gap at least as large; null where
    there are not two regions, one of them with two people, that answered the same sets."""
    regions: tuple[str, ...] = ()


def region_gap(picks: Sequence[Sequence[str | None]], regions: Sequence[str | None], seed: int = 0) -> RegionGap:
    """Compare agreement within and between regions by a permutation test over people.

    The regions of whole people are exchanged, since the answers of a person hang together (Good 2005, Permutation,
    Parametric and Bootstrap Tests of Hypotheses, 3rd ed., chapter 3).

    Args:
        picks: (sets, people) what each person picked; None where not answered.
        regions: (people,) region of each person; None where not known, which leaves the person out.
        seed: The seed of the permutations.

    Raises:
        CarbError: a row of picks has more or fewer entries than there are people.
    """
    for place, row in enumerate(picks):
        if len(row) != len(regions):
            raise CarbError(f"picks[{place}] has {len(row)} entries for the {len(regions)} people of regions.")
    kept = [place for place, region in enumerate(regions) if region]
    names = np.array([regions[place] for place in kept])
    equal, both = _pairs([[row[place] for place in kept] for row in picks], len(kept))
    listed = tuple(sorted(set(names.tolist())))

    def split(assigned: npt.NDArray[np.str_]) -> tuple[float | None, float | None]:
        same = assigned[:, None] == assigned[None, :]
        upper = np.triu(np.ones_like(same), 1).astype(bool)
        shares = []
        for part in (same & upper, ~same & upper):
            total = both[part].sum()
            shares.append(float(equal[part].sum() / total) if total else None)
        return shares[0], shares[1]

    within, between = split(names) if len(kept) else (None, None)
    if within is None or between is None:
        return RegionGap(within=within, between=between, regions=listed)
    gap = within - between
    rng = np.random.default_rng(seed)
    draws = [split(rng.permutation(names)) for _ in range(PERMUTATIONS)]
    as_large = sum(a is not None and b is not None and a - b >= gap - 1e-12 for a, b in draws)
    return RegionGap(within=within, between=between, p=(1 + as_large) / (1 + PERMUTATIONS), regions=listed)


def _pairs(picks: Sequence[Sequence[str | None]], people: int) -> tuple[Floats, Floats]:
    """(people, people) over sets: equal picks, and sets that both answered."""
    equal, both = np.zeros((people, people)), np.zeros((people, people))
    for row in picks:
        for a, b in combinations([place for place in range(people) if row[place] is not None], 2):
            both[a, b] += 1
            equal[a, b] += row[a] == row[b]
    return equal, both
