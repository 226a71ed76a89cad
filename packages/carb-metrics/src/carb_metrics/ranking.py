"""Many scorers in order, with what the data can tell of that order."""

from __future__ import annotations

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Frame, Result
from carb_metrics.clusters import Ints, cluster_of, is_clustered, number
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import Errors, Ties, set_outcomes
from carb_metrics.paired import adjust, difference_interval, mcnemar, sign_flip
from carb_metrics.resampling import (
    RESAMPLES,
    bootstrap_means,
    bootstrap_statistic,
    kinds_of,
    percentile_interval,
    stretch,
)


class Ranking(Result):
    """Scorers in order of accuracy."""

    scorers: Frame
    """A row per scorer, best first: ``scorer``, ``accuracy``, ``low``, ``high``, ``n``, ``ties``, ``errors``, ``rank``
    (1 is best; equal accuracies share a rank), ``rank_low``, ``rank_high`` (simultaneous confidence limits)."""
    pairs: Frame
    """A row per pair, better one first: ``a``, ``b``, ``n`` (sets that both scored), ``only_a``, ``only_b``,
    ``difference``, ``low``, ``high``, ``p`` (mid-p), ``p_adjusted``."""


def rank(
    scores: ScoreTable,
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    correction: str = "holm",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Ranking:
    """Order scorers by accuracy, compare every pair, and bound every rank.

    Each pair is compared as ``compare`` does, on the sets that both scored. A scorer's rank lies between 1 + the
    number of scorers significantly better and the number of scorers − those significantly worse, which holds for
    all scorers at once with the given confidence because the p values behind it are Holm's (Mogstad, Romano, Shaikh
    and Wilhelm 2024, "Inference for ranks", Review of Economic Studies 91:476-518, with McNemar's test for the
    pairs). Ranks are whole numbers, so this covers at least, not exactly, ``confidence``.

    Args:
        scores: table of any number of scorers.
        ties, confidence, errors, resamples, seed: as for ``compare``.
        correction: of ``p_adjusted`` in ``.pairs``: ``holm`` or ``bh``.
    """
    check_confidence(confidence)
    sets = set_outcomes(scores, ties)
    table = grouped_accuracy(sets, "scorer", confidence, errors=errors, resamples=1).groups
    table = table.sort(pl.col("accuracy").fill_null(-1), "scorer", descending=[True, False])
    names = table["scorer"].to_list()
    matrix = _Matrix(sets, names, errors)
    found = [
        (names[i], names[j], *matrix.pair(i, j, confidence, resamples, seed))
        for i in range(len(names))
        for j in range(i + 1, len(names))
    ]
    kinds = {"a": pl.String, "b": pl.String, **dict.fromkeys(("n", "only_a", "only_b"), pl.Int64)}
    kinds |= dict.fromkeys(("difference", "low", "high", "p"), pl.Float64)
    pairs = pl.DataFrame(found, schema=kinds, orient="row")
    p = pairs["p"].to_numpy()
    pairs = pairs.with_columns(pl.Series("p_adjusted", adjust(p, correction), dtype=pl.Float64).fill_nan(None))
    low, high = _rank_limits(len(names), adjust(p), pairs["difference"].to_numpy(), 1 - confidence)
    ranks = pl.col("accuracy").rank("min", descending=True).cast(pl.Int64)
    limits = [pl.Series("rank_low", low, dtype=pl.Int64), pl.Series("rank_high", high, dtype=pl.Int64)]
    return Ranking(scorers=table.with_columns(ranks.alias("rank"), *limits), pairs=pairs)


def _rank_limits(count: int, adjusted: Floats, difference: Floats, alpha: float) -> tuple[Ints, Ints]:
    """Simultaneous limits from the pairs in the order of ``numpy.triu_indices``."""
    first, second = np.triu_indices(count, 1)
    settled = adjusted < alpha  # false for NaN: no sets in common settle nothing
    winner = np.where(difference > 0, first, second)[settled]
    loser = np.where(difference > 0, second, first)[settled]
    return 1 + np.bincount(loser, minlength=count), count - np.bincount(winner, minlength=count)


class _Matrix:
    """Credits of scorers (rows) on sets (columns), NaN where there is none."""

    def __init__(self, sets: pl.DataFrame, names: list[str], errors: Errors) -> None:
        item, _ = number(sets, ("item_id",))
        place = {name: i for i, name in enumerate(names)}
        scorer = np.array([place[name] for name in sets["scorer"].cast(pl.String)], dtype=np.int64)
        credit = sets["credit"].to_numpy()
        if errors == "exclude":
            credit = np.where(sets["error"].to_numpy(), np.nan, credit)
        self.credit: Floats = np.full((len(names), item.max(initial=-1) + 1), np.nan)
        self.credit[scorer, item] = credit
        self.whole = bool(np.isin(credit[~np.isnan(credit)], (0.0, 1.0)).all())
        self.cluster: Ints | None = None
        if is_clustered(sets):
            self.cluster = np.zeros(self.credit.shape[1], dtype=np.int64)
            self.cluster[item] = cluster_of(sets)

    def pair(self, i: int, j: int, confidence: float, resamples: int, seed: int) -> tuple[float | int | None, ...]:
        """n, only_a, only_b, difference, low, high, p."""
        d = self.credit[i] - self.credit[j]
        both = ~np.isnan(d)
        if not both.all():
            d = d[both]
        n = len(d)
        if not n:
            return (0, None, None, None, None, None, None)
        only_a, only_b = int((d > 0).sum()), int((d < 0).sum())
        difference = float(d.mean())
        if self.cluster is None:
            if self.whole:
                values, counts = np.array([-1.0, 0.0, 1.0]), np.array([only_b, n - only_a - only_b, only_a])
                p = float(mcnemar(only_a, only_b)[1])
            else:
                values, counts = np.unique(d, return_counts=True)
                p = sign_flip(d)[1]
            draws = difference + (bootstrap_means(counts[None], values, resamples, seed)[:, 0] - difference) * stretch(
                n
            )
        else:
            cluster = np.unique(self.cluster[both], return_inverse=True)[1]
            units = np.column_stack([np.bincount(cluster, d), np.bincount(cluster)])
            draws = bootstrap_statistic(*kinds_of(units), lambda sums: sums[..., 0] / sums[..., 1], resamples, seed)
            p = sign_flip(units[:, 0])[1]
        low, high = (float(limit) for limit in percentile_interval(draws, confidence))
        if high - low <= 1e-12:
            low, high = difference_interval(d, confidence, None if self.cluster is None else self.cluster[both])
        return n, only_a, only_b, difference, min(low, difference), max(high, difference), p
