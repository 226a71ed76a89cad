"""Many scorers in order, with the evidence for that order."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from carb_data import Dataset, ScoreTable
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Cell, Result, ScorerRow, Scorers
from carb_metrics.clusters import CLUSTER
from carb_metrics.families import PlaceComparison, compared
from carb_metrics.frames import text
from carb_metrics.interval import Difference
from carb_metrics.intervals import check_confidence
from carb_metrics.outcome import counted_sets, credit_matrix
from carb_metrics.paired import adjust, paired_rows
from carb_metrics.readings import Reading
from carb_metrics.scored import Scored

EQUAL = 1e-12
"""Differences of means up to this are rounding: both scorers share a rank."""


class RankRow(Result):
    """Rank among the scorers of the report, 1 is best, with simultaneous confidence limits. Null
    for a scorer without a judged set, and for a control."""

    rank: int | None = None
    low: int | None = None
    high: int | None = None

    @property
    def text(self) -> str:
        """``2 [1–3]``; a dash without a rank."""
        if self.rank is None:
            return "–"
        return f"{self.rank} [{self.low}–{self.high}]"


class RankedRow(ScorerRow):
    """A scorer and its rank."""

    cell: Cell
    """Its accuracy over all its sets."""
    standing: RankRow


class PairRow(Difference):
    """Two scorers on the same sets, the better one first: by place win rate where ``Ranking`` goes
    by it."""

    a: str
    b: str
    p_adjusted: float | None
    """``p`` corrected over all pairs."""
    place_win: PlaceComparison | None = None
    """The same of place win rates, as ``compare`` gives it; null without families."""
    place_p_adjusted: float | None = None
    """``p`` of the place win rates, corrected over all pairs."""


class Ranking(Scorers[RankedRow]):
    """Scorers in order, the best first; equals share a rank.

    A scorer that could be judged on no set was not measured: it has no rank and stands last.
    """

    by_place: bool
    """Whether the order is that of place win rates; else it is that of accuracies."""
    pairs: tuple[PairRow, ...]
    """A row per pair of ranked scorers."""


def rank(
    scores: ScoreTable,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
    dataset: Dataset | None = None,
) -> Ranking:
    """Order scorers, compare every pair, and bound every rank.

    Scorers are ordered by the place win rate where the data set has families enough for its
    interval, else by accuracy. Each pair is compared as ``compare`` does, on the sets that both
    scored. A scorer's rank is 1 + the number of scorers that are better on the sets in common.
    Failures count as lost in both measures, so that no failing improves a rank.

    The lower limit of a rank is 1 + the number of scorers that are significantly better. The upper
    limit is the number of scorers − those that are significantly worse. The limits hold for all
    scorers at once with the given confidence, because the p values behind them are Holm's
    (``adjust``; Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for ranks", Review of Economic
    Studies 91:476-518). Ranks are whole numbers, so this covers at least, not exactly,
    ``confidence``.

    Args:
        scores: table of any number of scorers.
        confidence: as for ``compare``.
        mirrors: as for ``compare``.
        dataset: the sets that were scored, for their families.

    Returns:
        ``.scorers``: a row per scorer, the best first, with its accuracy and its rank (1 is best).
        ``.pairs``: a row per pair of scorers. A scorer that failed in all sets has no rank.

    Raises:
        CarbError: malformed sets, or ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    read = {}
    if dataset is not None:
        read = Scored.of(scores, dataset).readings
    table, counted = counted_sets(scores, mirrors=mirrors)
    sets = table.sets
    totals = grouped_accuracy(sets, "scorer", confidence).scorers
    cells = {name: of_scorer.overall for name, of_scorer in sorted(totals.items())}
    judged = [name for name, cell in cells.items() if cell.errors != cell.n]
    pairs = _pairs(sets, judged, read, confidence)
    by_place = any(_place_p(pair) is not None for pair in pairs)
    if len(judged) == 1 and read:
        by_place = bool(read[judged[0]].counted.any())
    ordered = [_better_first(pair, by_place) for pair in pairs]
    ranks = _ranks(ordered, by_place, judged, confidence)
    rows = []
    for name, cell in cells.items():
        rank_row = ranks.get(name, RankRow())
        rows.append(RankedRow(scorer=name, cell=cell, standing=rank_row))
    rows.sort(key=_best_first)
    return Ranking(
        scorers=tuple(rows),
        by_place=by_place,
        pairs=tuple(ordered),
        counted=counted,
    )


def _best_first(row: RankedRow) -> tuple[float, float, str]:
    """The order of rows: by rank, those without one last."""
    rank = row.standing.rank or math.inf
    accuracy = row.cell.accuracy or 0.0
    return rank, -accuracy, row.scorer


def _lead(
    pair: PairRow,
    by_place: bool,
) -> tuple[float, float | None]:
    """By how much the first of two scorers is better, and the corrected p of that."""
    if not by_place:
        return pair.estimate or 0.0, pair.p_adjusted
    win = pair.place_win
    lead = 0.0
    if win is not None:
        lead = win.lead
    return lead, pair.place_p_adjusted


def _ranks(
    pairs: Sequence[PairRow],
    by_place: bool,
    names: Sequence[str],
    confidence: float,
) -> dict[str, RankRow]:
    """The rank of each scorer and its limits, from pairs with the better one first."""
    beaten = Counter[str]()
    clearly = Counter[str]()
    beats = Counter[str]()
    for pair in pairs:
        lead, p = _lead(pair, by_place)
        if lead <= EQUAL:
            continue
        beaten[pair.b] += 1
        if p is not None and p < 1 - confidence:
            clearly[pair.b] += 1
            beats[pair.a] += 1
    ranks = {}
    for name in names:
        high = len(names) - beats[name]
        ranks[name] = RankRow(
            rank=1 + beaten[name],
            low=1 + clearly[name],
            high=high,
        )
    return ranks


def _pairs(
    sets: pl.DataFrame,
    names: Sequence[str],
    read: Mapping[str, Reading],
    confidence: float,
) -> list[PairRow]:
    """A row per pair of scorers, in the order of their names."""
    known = sets.filter(text("scorer").is_in(names))
    credit, order, items = credit_matrix(known)
    index = {name: row for row, name in enumerate(order)}
    cluster = items[CLUSTER].to_numpy()
    pairs: list[PairRow] = []
    for number, a in enumerate(names):
        others = names[number + 1 :]
        rows = [index[b] for b in others]
        d = credit[index[a]] - credit[rows]
        tests = paired_rows(d, cluster, confidence)
        for b, test in zip(others, tests, strict=True):
            place_win = None
            if a in read and b in read:
                place_win = compared(read[a], read[b], confidence)
            pair = PairRow.of(
                test,
                a=a,
                b=b,
                p_adjusted=None,
                place_win=place_win,
            )
            pairs.append(pair)
    adjusted = _adjusted([pair.p for pair in pairs])
    of_place = _adjusted([_place_p(pair) for pair in pairs])
    return [
        pair.changed(p_adjusted=p, place_p_adjusted=place_p)
        for pair, p, place_p in zip(pairs, adjusted, of_place, strict=True)
    ]


def _adjusted(p: Sequence[float | None]) -> list[float | None]:
    values = adjust(p).tolist()
    return [None if math.isnan(value) else value for value in values]


def _place_p(pair: PairRow) -> float | None:
    if pair.place_win is None:
        return None
    return pair.place_win.difference.p


def _better_first(pair: PairRow, by_place: bool) -> PairRow:
    """The row with the better scorer first."""
    lead, _ = _lead(pair, by_place)
    if lead >= 0:
        return pair
    win = pair.place_win
    if win is not None:
        win = win.turned()
    return pair.turned().changed(
        a=pair.b,
        b=pair.a,
        place_win=win,
    )
