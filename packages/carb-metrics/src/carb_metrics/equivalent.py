"""To show that one scorer is no worse, and to look again without paying for it."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.comparison import paired_credits
from carb_metrics.intervals import Floats, check_alpha
from carb_metrics.outcomes import Ties
from carb_metrics.paired import Paired, paired

__all__ = ["Equivalence", "Sequential", "equivalence", "sequential"]


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


class Sequential(Result):
    """Evidence that may be looked at after every set."""

    n: int
    """Pairs seen."""
    discordant: int
    """Clusters (or sets) in which one of both is ahead."""
    e_value: float
    """Evidence against "neither is better": under that hypothesis it exceeds 1/α, ever, with probability at most α."""
    p: float
    """Anytime-valid p: 1 over the largest e-value so far."""
    better: str | None
    """The scorer that is ahead, where p is below the level."""


def sequential(a: ScoreTable, b: ScoreTable, ties: Ties = "strict", alpha: float = 0.05) -> Sequential:
    """Compare two scorers with evidence that stays valid however often one looks, and whenever one stops.

    The e-value is the likelihood ratio, on the sets (or clusters) in which one of both is ahead, of a share that is
    uniform a priori against one half: ``2^n·B(1+x, 1+n−x)`` (Ville 1939; Robbins 1970, Annals of Mathematical
    Statistics 41:1397-1409; Ramdas et al. 2023, Statistical Science 38:576-601). Sets are taken in the order of a.

    Args:
        a, b: tables of one scorer each, on the same sets.
        ties: How a tie at the top counts, as in ``bon_accuracy``.
        alpha: level at which ``better`` is named.

    Raises:
        CarbError: as ``compare``.
    """
    check_alpha(alpha)
    first, second, cluster = paired_credits(a, b, ties)
    d: Floats = first - second
    n = len(d)
    if cluster is not None:
        order = pl.Series(cluster).unique(maintain_order=True).to_numpy()
        d = np.bincount(cluster, d)[order]
    won = (d[np.abs(d) > 1e-12] > 0).astype(np.float64)
    log = _log_evidence(np.cumsum(won), np.arange(1.0, len(won) + 1))
    most = float(log.max(initial=0.0))
    p = min(1.0, math.exp(-most))
    names = [table.frame["scorer"][0] if len(table) else None for table in (a, b)]
    ahead = names[0] if 2 * won.sum() > len(won) else names[1]
    return Sequential(
        n=n,
        discordant=len(won),
        e_value=math.exp(float(log[-1])) if len(log) else 1.0,
        p=p,
        better=None if ahead is None or p >= alpha else str(ahead),
    )


def _log_evidence(won: Floats, n: Floats) -> Floats:
    from scipy.special import betaln

    found: Floats = n * math.log(2) + betaln(1 + won, 1 + n - won)
    return found
