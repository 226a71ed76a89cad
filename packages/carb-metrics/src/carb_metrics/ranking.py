"""Many scorers in order, with what the data can tell of that order."""

from __future__ import annotations

import math
from collections import Counter
from itertools import repeat

import numpy as np
import polars as pl

from carb_data import ScoreTable
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Cell, Result, ScorerRow, Scorers
from carb_metrics.clusters import cluster_of, with_clusters
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import counted_sets, credit_matrix, set_outcomes
from carb_metrics.paired import Paired, adjust, paired_rows


class RankRow(Result):
    """Place among the scorers of the report, 1 is best, with simultaneous confidence limits; null
    for a scorer that could be judged on no set."""

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
    ties_a: int | None
    """Those in which the right answer of a shares the highest score."""
    ties_b: int | None
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

    Each pair is compared as ``compare`` does, on the sets that both scored. A scorer's rank is 1 +
    the number of scorers that are better on the sets in common; where all scored the same sets,
    that is its place by accuracy, and where they did not, accuracies are not comparable and only
    pairs are. It lies between 1 + the number of scorers significantly better and the number of
    scorers − those significantly worse, which holds for all scorers at once with the given
    confidence because the p values behind it are Holm's (Mogstad, Romano, Shaikh and Wilhelm 2024,
    "Inference for ranks", Review of Economic Studies 91:476-518). Ranks are whole numbers, so this
    covers at least, not exactly, ``confidence``.

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
    credit, cluster = credit[[order.index(name) for name in names]], cluster_of(items)
    shared, order, _ = credit_matrix(
        sets.with_columns(credit=(pl.col("tied") > 0).cast(pl.Float64))
    )
    tied = dict(zip(order, shared, strict=True))
    tests: list[tuple[str, str, Floats, Paired]] = []
    for i, a in enumerate(names):
        d = credit[i] - credit[i + 1 :]
        tests += zip(
            repeat(a), names[i + 1 :], d, paired_rows(d, cluster, confidence), strict=False
        )
    adjusted = adjust([math.nan if found.p is None else found.p for *_, found in tests])
    pairs = [
        _pair(tied, *one, None if math.isnan(p) else float(p))
        for one, p in zip(tests, adjusted, strict=True)
    ]
    better = [pair for pair in pairs if (pair.difference or 0.0) > 0]
    settled = [
        pair for pair in better if pair.p_adjusted is not None and pair.p_adjusted < 1 - confidence
    ]
    beaten, clearly = Counter(pair.b for pair in better), Counter(pair.b for pair in settled)
    beats = Counter(pair.a for pair in settled)
    ranked = [
        RankedRow(
            scorer=name,
            cell=cells[name],
            place=RankRow(
                rank=1 + beaten[name], low=1 + clearly[name], high=len(names) - beats[name]
            ),
        )
        for name in names
    ]
    ranked.sort(key=lambda row: (row.place.rank, -(row.cell.accuracy or 0.0), row.scorer))
    ranked += [
        RankedRow(scorer=name, cell=cells[name], place=RankRow(rank=None, low=None, high=None))
        for name in silent
    ]
    return Ranking(scorers=tuple(ranked), pairs=tuple(pairs), counted=counted)


def _pair(
    tied: dict[str, Floats], a: str, b: str, d: Floats, found: Paired, p_adjusted: float | None
) -> PairRow:
    """The row of two scorers, the better one first, from what is tied, their differences and the
    test of these."""
    low, high, estimate = found.low, found.high, found.estimate
    if estimate is not None and low is not None and high is not None and estimate < 0:
        a, b, d, estimate, low, high = b, a, -d, -estimate, -high, -low
    return PairRow(
        a=a,
        b=b,
        n=found.n,
        ties_a=int(tied[a][~np.isnan(d)].sum()) if found.n else None,
        ties_b=int(tied[b][~np.isnan(d)].sum()) if found.n else None,
        only_a=int((d > 0).sum()) if found.n else None,  # false for NaN
        only_b=int((d < 0).sum()) if found.n else None,
        difference=estimate,
        low=low,
        high=high,
        p=found.p,
        p_adjusted=p_adjusted,
    )
