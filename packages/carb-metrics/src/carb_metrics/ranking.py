"""Many scorers in order, with what the data can tell of that order."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl

from carb_data import ScoreTable
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Cell, Result, ScorerRow, Scorers
from carb_metrics.clusters import Ints, cluster_of, with_clusters
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import counted_sets, credit_matrix, set_outcomes
from carb_metrics.paired import adjust, paired_rows


class RankRow(Result):
    """Place among the scorers of the report, 1 is best, with simultaneous confidence limits; null for a scorer that
    could be judged on no set."""

    rank: int | None
    low: int | None
    high: int | None

    @property
    def text(self) -> str:
        """``2 [1–3]``; a dash without a rank."""
        return "–" if self.rank is None else f"{self.rank} [{self.low}–{self.high}]"


class RankedRow(ScorerRow):
    """A scorer and its place."""

    cell: Cell
    """Its accuracy over all its sets."""
    place: RankRow


class PairRow(Result):
    """Two scorers on the same sets, the better one first."""

    a: str
    b: str
    n: int
    """Sets that both scored."""
    only_a: int | None
    """Sets in which a earns more than b."""
    only_b: int | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    """That of ``compare``."""
    p_adjusted: float | None
    """``p`` corrected over all pairs."""


class Ranking(Scorers[RankedRow]):
    """Scorers in order of accuracy, the best first; equals share a rank.

    A scorer that could be judged on no set was not measured: it has no rank and stands last.
    """

    pairs: tuple[PairRow, ...]
    """A row per pair of ranked scorers."""


def rank(scores: ScoreTable, confidence: float = 0.95, *, mirrors: bool = False) -> Ranking:
    """Order scorers by accuracy, compare every pair, and bound every rank.

    Each pair is compared as ``compare`` does, on the sets that both scored. A scorer's rank is 1 + the number of
    scorers that are better on the sets in common; where all scored the same sets, that is its place by accuracy, and
    where they did not, accuracies are not comparable and only pairs are. It lies between 1 + the number of scorers
    significantly better and the number of scorers − those significantly worse, which holds for all scorers at once with
    the given confidence because the p values behind it are Holm's (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference
    for ranks", Review of Economic Studies 91:476-518). Ranks are whole numbers, so this covers at least, not exactly,
    ``confidence``.

    Args:
        scores: table of any number of scorers.
        confidence, mirrors: as for ``compare``.
    """
    check_confidence(confidence)
    scores, counted = counted_sets(scores, mirrors=mirrors)
    sets = with_clusters(set_outcomes(scores))
    found = grouped_accuracy(sets, "scorer", confidence)
    cells = {name: found.of(name).overall for name in found.scorers}
    silent = [name for name, cell in cells.items() if cell.errors == cell.n]
    names = sorted(cells.keys() - silent, key=lambda name: (-(cells[name].accuracy or 0.0), name))
    credit, order, items = credit_matrix(sets.filter(pl.col("scorer").cast(pl.String).is_in(names)))
    credit = credit[[order.index(name) for name in names]]
    pairs = [
        _better_first(names[i], names[j], pair)
        for i in range(len(names) - 1)
        for j, pair in enumerate(_pairs(credit, cluster_of(items), i, confidence), i + 1)
    ]
    p = [math.nan if pair.p is None else pair.p for pair in pairs]
    pairs = [
        pair.model_copy(update={"p_adjusted": None if math.isnan(value) else float(value)})
        for pair, value in zip(pairs, adjust(p), strict=True)
    ]
    better = [pair for pair in pairs if (pair.difference or 0.0) > 0]
    settled = [
        pair
        for pair, value in zip(pairs, adjust(p), strict=True)
        if (pair.difference or 0.0) > 0 and value < 1 - confidence  # false for NaN: no sets in common settle nothing
    ]
    beaten, clearly = Counter(pair.b for pair in better), Counter(pair.b for pair in settled)
    beats = Counter(pair.a for pair in settled)
    ranked = [
        RankedRow(
            scorer=name,
            cell=cells[name],
            place=RankRow(rank=1 + beaten[name], low=1 + clearly[name], high=len(names) - beats[name]),
        )
        for name in names
    ]
    ranked.sort(key=lambda row: (row.place.rank, -(row.cell.accuracy or 0.0), row.scorer))
    ranked += [
        RankedRow(scorer=name, cell=cells[name], place=RankRow(rank=None, low=None, high=None)) for name in silent
    ]
    return Ranking(scorers=tuple(ranked), pairs=tuple(pairs), counted=counted)


def _better_first(a: str, b: str, found: PairRow) -> PairRow:
    """The row of these two, turned around where the second is better."""
    if found.difference is None or found.low is None or found.high is None or found.difference >= 0:
        return found.model_copy(update={"a": a, "b": b})
    turned = {"only_a": found.only_b, "only_b": found.only_a, "difference": -found.difference}
    return found.model_copy(update={"a": b, "b": a, **turned, "low": -found.high, "high": -found.low})


def _pairs(credit: Floats, cluster: Ints, i: int, confidence: float) -> list[PairRow]:
    """A scorer and each later one, without names."""
    d = credit[i] - credit[i + 1 :]
    above, below = (d > 0).sum(1), (d < 0).sum(1)  # false for NaN
    return [
        PairRow(
            a="",
            b="",
            n=one.n,
            only_a=int(more) if one.n else None,
            only_b=int(less) if one.n else None,
            difference=one.estimate,
            low=one.low,
            high=one.high,
            p=one.p,
            p_adjusted=None,
        )
        for one, more, less in zip(paired_rows(d, cluster, confidence), above, below, strict=True)
    ]
