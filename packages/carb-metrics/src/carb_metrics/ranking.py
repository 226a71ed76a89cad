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
from carb_metrics.paired import adjust, paired_rows


class Ranking(Result):
    """Scorers in order of accuracy."""

    scorers: Frame
    """A row per scorer, best first: ``scorer``, the fields of a ``Cell``, ``rank`` (1 is best; equals share a rank),
    ``rank_low``, ``rank_high`` (simultaneous confidence limits). The three are null for a scorer that could be
    judged on no set: it was not measured, so it has no rank and stands last."""
    pairs: Frame
    """A row per pair of ranked scorers, better one first: ``a``, ``b``, ``n`` (sets that both scored), ``only_a``,
    ``only_b``, ``difference``, ``low``, ``high``, ``p`` (mid-p), ``p_adjusted``."""


def rank(
    scores: ScoreTable,
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    correction: str = "holm",
) -> Ranking:
    """Order scorers by accuracy, compare every pair, and bound every rank.

    Each pair is compared as ``compare`` does, on the sets that both scored. A scorer's rank is 1 + the number of
    scorers that are better on the sets in common; where all scored the same sets, that is its place by accuracy, and
    where they did not, accuracies are not comparable and only pairs are. It lies between 1 + the number of scorers
    significantly better and the number of scorers − those significantly worse, which holds for
    all scorers at once with the given confidence because the p values behind it are Holm's (Mogstad, Romano, Shaikh
    and Wilhelm 2024, "Inference for ranks", Review of Economic Studies 91:476-518, with McNemar's test for the
    pairs). Ranks are whole numbers, so this covers at least, not exactly, ``confidence``.

    Args:
        scores: table of any number of scorers.
        ties, confidence, errors: as for ``compare``.
        correction: of ``p_adjusted`` in ``.pairs``: ``holm`` or ``bh``.
    """
    check_confidence(confidence)
    sets = set_outcomes(scores, ties)
    table = grouped_accuracy(sets, "scorer", confidence, errors=errors, resamples=1).groups
    table = table.sort(pl.col("accuracy").fill_null(-1), "scorer", descending=[True, False])
    silent = table["errors"] == table["n"] if errors == "wrong" else table["accuracy"].is_null()
    unranked = table.filter(silent.fill_null(True))
    table = table.filter(~silent.fill_null(True))
    names = table["scorer"].to_list()
    sets = sets.filter(pl.col("scorer").cast(pl.String).is_in(names))
    matrix = _Matrix(sets, names, errors)
    found = [
        _better_first(names[i], names[j], pair)
        for i in range(len(names) - 1)
        for j, pair in enumerate(matrix.pairs(i, confidence), i + 1)
    ]
    kinds = {"a": pl.String, "b": pl.String, **dict.fromkeys(("n", "only_a", "only_b"), pl.Int64)}
    kinds |= dict.fromkeys(("difference", "low", "high", "p"), pl.Float64)
    pairs = pl.DataFrame(found, schema=kinds, orient="row")
    p = pairs["p"].to_numpy()
    pairs = pairs.with_columns(pl.Series("p_adjusted", adjust(p, correction), dtype=pl.Float64).fill_nan(None))
    place = {name: number for number, name in enumerate(names)}
    first = np.array([place[name] for name in pairs["a"]], dtype=np.int64)
    second = np.array([place[name] for name in pairs["b"]], dtype=np.int64)
    better = (pairs["difference"].fill_null(0.0) > 0).to_numpy()
    settled = better & (adjust(p) < 1 - confidence)  # false for NaN: no sets in common settle nothing
    count = len(names)
    ranks = 1 + np.bincount(second[better], minlength=count)
    low = 1 + np.bincount(second[settled], minlength=count)
    high = count - np.bincount(first[settled], minlength=count)
    columns = {"rank": ranks, "rank_low": low, "rank_high": high}
    table = table.with_columns(pl.Series(name, values, dtype=pl.Int64) for name, values in columns.items())
    order = ["rank", pl.col("accuracy").fill_null(-1), "scorer"]
    table = table.sort(order, descending=[False, True, False])
    return Ranking(scorers=pl.concat([table, unranked], how="diagonal"), pairs=pairs)


def _better_first(a: str, b: str, found: tuple[float | int | None, ...]) -> tuple[str | float | int | None, ...]:
    n, only_a, only_b, difference, low, high, p = found
    if difference is None or low is None or high is None or difference >= 0:
        return (a, b, *found)
    return (b, a, n, only_b, only_a, -difference, -high, -low, p)


class _Matrix:
    """Credits of scorers (rows) on sets (columns), NaN where there is none."""

    def __init__(self, sets: pl.DataFrame, names: list[str], errors: Errors) -> None:
        item, _ = number(sets, ("item_id",))
        place = {name: i for i, name in enumerate(names)}
        scorer = sets["scorer"].cast(pl.String).replace_strict(place, return_dtype=pl.Int64).to_numpy().astype(np.int64)
        credit = sets["credit"].to_numpy()
        if errors == "exclude":
            credit = np.where(sets["error"].to_numpy(), np.nan, credit)
        self.credit: Floats = np.full((len(names), item.max(initial=-1) + 1), np.nan)
        self.credit[scorer, item] = credit
        self.cluster: Ints | None = None
        if is_clustered(sets):
            self.cluster = np.zeros(self.credit.shape[1], dtype=np.int64)
            self.cluster[item] = cluster_of(sets)

    def pairs(self, i: int, confidence: float) -> list[tuple[float | int | None, ...]]:
        """n, only_a, only_b, difference, low, high, p of a scorer and each later one."""
        d = self.credit[i] - self.credit[i + 1 :]
        above, below = (d > 0).sum(1), (d < 0).sum(1)  # false for NaN
        return [
            (one.n, int(more), int(less), one.estimate, one.low, one.high, one.p)
            if one.n
            else (0, None, None, None, None, None, None)
            for one, more, less in zip(paired_rows(d, self.cluster, confidence), above, below, strict=True)
        ]
