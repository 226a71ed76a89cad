"""How much of a difference between scorers is the items?"""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import cluster_of, number
from carb_metrics.intervals import check_confidence
from carb_metrics.outcomes import Ties, set_outcomes

__all__ = ["Reliability", "benchmark_reliability"]


class Reliability(Result):
    """Variance of credits between scorers, between items, and of both together (with chance)."""

    scorers: int
    items: int
    """Source items where sets share them: the units that could have been others."""
    between_scorers: float | None = None
    """Variance of the scorers' true accuracies."""
    between_items: float | None = None
    residual: float | None = None
    alpha: Estimate = Estimate()
    """Cronbach's α: share of the variance of observed accuracies that is the scorers'. The share of an observed
    difference's variance that is the items is 1 − α."""
    phi: float | None = None
    """Dependability: the same for accuracies as such, not only their order (Brennan's Φ)."""
    error: float | None = None
    """Standard error of one scorer's accuracy as a measure of its rank: sqrt(residual/items)."""

    def items_for(self, alpha: float) -> int | None:
        """Items that would give this α, by the Spearman–Brown formula; null where scorers do not differ."""
        if self.alpha.estimate is None or not 0 < self.alpha.estimate < 1 or not 0 < alpha < 1:
            return None
        ratio = alpha * (1 - self.alpha.estimate) / (self.alpha.estimate * (1 - alpha))
        return int(np.ceil(ratio * self.items - 1e-9))


def benchmark_reliability(scores: ScoreTable, ties: Ties = "shared", confidence: float = 0.95) -> Reliability:
    """Cronbach's α and the variance components behind it.

    Two-way analysis of variance of scorers and items without replication (Cronbach, Gleser, Nanda and Rajaratnam 1972,
    The Dependability of Behavioral Measurements; Brennan 2001, Generalizability Theory). The interval of α is Feldt's
    (1965, Psychometrika 30:357-370). Only items that all scorers judged count; sets of one source item are averaged.

    Args:
        scores: table of at least two scorers.
        ties: How a tie at the top counts, as in ``bon_accuracy``.
        confidence: The level of the interval, a share such as 0.95.
    """
    from scipy.special import fdtri

    check_confidence(confidence)
    sets = set_outcomes(scores, ties).with_columns(pl.col("scorer").cast(pl.String))
    sets = sets.with_columns(_unit=pl.Series(cluster_of(sets), dtype=pl.Int64))
    means = sets.group_by("scorer", "_unit").agg(
        pl.when(~pl.col("error").any()).then(pl.col("credit").mean()).alias("credit")
    )
    scorer, names = number(means, ("scorer",))
    unit, units = number(means, ("_unit",))
    credit = np.full((names.height, units.height), np.nan)
    credit[scorer, unit] = means["credit"].fill_null(np.nan).to_numpy()
    credit = credit[:, ~np.isnan(credit).any(0)]
    p, i = credit.shape
    if p < 2 or i < 2:
        return Reliability(scorers=p, items=i)
    row, column, mean = credit.mean(1), credit.mean(0), credit.mean()
    ms_scorers = i * ((row - mean) ** 2).sum() / (p - 1)
    ms_items = p * ((column - mean) ** 2).sum() / (i - 1)
    left = credit - row[:, None] - column + mean
    residual = (left**2).sum() / ((p - 1) * (i - 1))
    between, items = max((ms_scorers - residual) / i, 0.0), max((ms_items - residual) / p, 0.0)
    alpha = Estimate()
    if ms_scorers > 1e-15:
        estimate, tail = 1 - residual / ms_scorers, (1 - confidence) / 2
        free = (p - 1, (p - 1) * (i - 1))
        limits = [1 - (1 - estimate) * float(fdtri(*free, q)) for q in (1 - tail, tail)]
        alpha = Estimate(estimate=float(estimate), low=limits[0], high=min(limits[1], 1.0))
    spread = between + (items + residual) / i
    return Reliability(
        scorers=p,
        items=i,
        between_scorers=float(between),
        between_items=float(items),
        residual=float(residual),
        alpha=alpha,
        phi=float(between / spread) if spread > 0 else None,
        error=float(np.sqrt(residual / i)),
    )
