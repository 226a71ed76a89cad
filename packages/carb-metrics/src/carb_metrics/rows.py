"""Rows that results hold and give to whoever prints them, such as the report and ``--json``, as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from carb_data import CarbError
from carb_metrics.cells import Cell, Result

__all__ = [
    "BiasRow",
    "ComparedGroup",
    "ConsistencyRow",
    "KindRow",
    "LanguagePairRow",
    "PairRow",
    "PositionRow",
    "RankRow",
    "RankedRow",
    "SpreadRow",
    "of_scorer",
    "row_of",
]


class _OfScorer(Protocol):
    @property
    def scorer(self) -> str: ...


R = TypeVar("R", bound=_OfScorer)
K = TypeVar("K", bound=Result)


def of_scorer(rows: Iterable[R], scorer: str) -> R:
    """The row of one scorer.

    Raises:
        CarbError: no row is of this scorer.
    """
    known = list(rows)
    for row in known:
        if row.scorer == scorer:
            return row
    raise CarbError(f"There is no scorer '{scorer}' here; there are: {', '.join(_names(known)) or 'none'}.")


def _names(rows: Iterable[_OfScorer]) -> Iterator[str]:
    return (row.scorer for row in rows)


def row_of(kind: type[K], values: Iterable[object]) -> K:
    """A row from its values, in the order of its fields."""
    return kind.model_validate(dict(zip(kind.model_fields, values, strict=True)))


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


class RankedRow(Result):
    """A scorer and its place."""

    scorer: str
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
    """Sets in which a earns more than b: under strict ties, that a won and b lost."""
    only_b: int | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    """McNemar's mid-p; over the signs of whole clusters where sets share source items."""
    p_adjusted: float | None
    """``p`` corrected over all pairs."""


class ComparedGroup(Result):
    """The paired difference of two scorers in one group."""

    key: str
    """The values of the grouping columns, joined by ``/``."""
    n: int
    only_a: int
    only_b: int
    accuracy_a: float
    accuracy_b: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    """Holm's, over the groups."""


class KindRow(Result):
    """How one kind of perturbation moves a scorer's scores. Null where it is not defined."""

    scorer: str
    perturbation: str
    n: int
    """Pairs of a text and its perturbed version that both have a score."""
    errors: int
    """Pairs that lack a score."""
    relative: float | None
    """Mean of abs(change)/abs(score), the paper's measure."""
    relative_low: float | None
    relative_high: float | None
    undefined: int
    """Pairs whose original scores 0; ``relative`` leaves them out."""
    spread: float | None
    """Mean abs(change) in standard deviations of the scorer's scores within sets."""
    spread_low: float | None
    spread_high: float | None
    signed: float | None
    """Mean change in the same unit."""
    flips: float | None
    """Share of perturbations that change which response is on top."""
    flips_low: float | None
    flips_high: float | None
    judged: int
    """Pairs in sets without errors, on which ``flips`` rests."""
    lost: int | None
    """Judged sets that were won before the perturbation and are not after it."""
    gained: int | None
    """Judged sets that were not won before the perturbation and are after it."""


class SpreadRow(Result):
    """What the perturbations of one scorer say together."""

    scorer: str
    spread: float | None
    """Standard deviation of its scores within sets, in units of its scores."""
    ratio: float | None
    """Causal-to-surface ratio."""
    ratio_low: float | None
    ratio_high: float | None


class LanguagePairRow(Result):
    """Consistency between two languages."""

    a: str
    b: str
    """``a`` comes before ``b`` in the alphabet."""
    consistency: float | None
    low: float | None
    high: float | None
    n: int


class ConsistencyRow(Result):
    """Mean of exp(−k·abs(difference)) over pairs of languages of the same content; 1 where language does not matter."""

    scorer: str
    consistency: float | None
    low: float | None
    high: float | None
    n: int
    """Pairs of languages of one content."""
    k: float | None
    """Steepness, per unit of the difference; null where it cannot be calibrated."""
    spread: float | None
    """Standard deviation of the scorer's scores within sets, in units of its scores."""
    pairs: tuple[LanguagePairRow, ...]


class BiasRow(Result):
    """How one judge behaves apart from being right. Null where the input does not tell."""

    scorer: str
    presentations: int | None = None
    """Presentations of a set that were judged without error."""
    undecided: int | None = None
    """Presentations with a tie at the top, among those judged."""
    errors: int | None = None
    """Presentations that could not be judged."""
    position_p: float | None = None
    """p of the test that every position is picked alike often: chi-squared, or Hotelling's over source items."""
    swap_consistency: float | None = None
    """Share of pairs of presentations of one set in different orders that have the same pick."""
    swap_consistency_low: float | None = None
    swap_consistency_high: float | None = None
    swap_pairs: int | None = None
    self_agreement: float | None = None
    """The same share for pairs in the same order, that is, for a question asked twice."""
    self_agreement_low: float | None = None
    self_agreement_high: float | None = None
    self_pairs: int | None = None
    length_r: float | None = None
    """Partial correlation of score and length within sets, given the role."""
    length_r_low: float | None = None
    length_r_high: float | None = None
    length_p: float | None = None


class PositionRow(Result):
    """How often one position is picked."""

    scorer: str
    position: int
    """0 is first."""
    picks: int
    share: float
    low: float
    """Lower limit of Wilson's interval."""
    high: float
    expected: float
    """The share if position did not matter."""
