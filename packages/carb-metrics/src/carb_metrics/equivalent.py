"""To show that one scorer is no worse."""

from __future__ import annotations

import math

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.comparison import paired_credits
from carb_metrics.intervals import check_alpha
from carb_metrics.outcomes import Ties
from carb_metrics.paired import Paired, paired

__all__ = ["Equivalence", "equivalence"]


class Equivalence(Result):
    """Two one-sided tests of a difference, a minus b."""

    margin: float
    difference: Paired
    """The difference with the interval of confidence 1 − 2α: it lies within ± margin exactly where both are
    equivalent."""
    p_not_worse: float | None = None
    """p of the hypothesis that a is worse than b by the margin or more."""
    p_not_better: float | None = None
    """p of the hypothesis that a is better than b by the margin or more."""
    not_worse: bool = False
    equivalent: bool = False


def equivalence(a: ScoreTable, b: ScoreTable, margin: float, ties: Ties = "strict", alpha: float = 0.05) -> Equivalence:
    """Is a no worse than b, or the same, up to a margin?

    Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15:657-680) on the paired
    difference of ``compare``, with its standard error and clusters. A p above 0.05 in ``compare`` does not show that
    two scorers are alike; this does.

    Args:
        a, b: tables of one scorer each, on the same sets.
        margin: the largest difference of accuracies that does not matter, above 0 and below 1.
        ties: How a tie at the top counts, as in ``bon_accuracy``.
        alpha: level of each test, below 0.5.

    Raises:
        CarbError: as ``compare``, or a margin or level out of range.
    """
    from scipy.special import ndtr, stdtr, stdtrit

    check_alpha(alpha, 0.5)
    if not 0 < margin < 1:
        raise CarbError(f"margin must lie between 0 and 1, for example 0.02; got {margin}.")
    first, second, cluster = paired_credits(a, b, ties)
    found = paired(first - second, cluster, 1 - 2 * alpha)
    if not found.n:
        return Equivalence(margin=margin, difference=found)
    d = first - second
    n, total, square = len(d) + 2, float(d.sum()), float((d**2).sum())
    centre = total / n
    error = math.sqrt(((square + 2) / n - centre**2) / n * found.design_effect)

    def tail(z: float) -> float:
        return float(ndtr(z) if found.freedom is None else stdtr(found.freedom, z))

    t = float(stdtrit(1e9 if found.freedom is None else found.freedom, 1 - alpha))
    p_worse, p_better = tail(-(centre + margin) / error), tail(-(margin - centre) / error)
    limits = {"low": max(-1.0, centre - t * error), "high": min(1.0, centre + t * error)}
    return Equivalence(
        margin=margin,
        difference=found.model_copy(update=limits),
        p_not_worse=p_worse,
        p_not_better=p_better,
        not_worse=p_worse < alpha,
        equivalent=max(p_worse, p_better) < alpha,
    )
