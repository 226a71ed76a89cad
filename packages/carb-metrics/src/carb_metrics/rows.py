"""Rows that results give to whoever prints them, such as the report and ``--json``, as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Result

if TYPE_CHECKING:
    from collections.abc import Iterable

R = TypeVar("R", bound=Result)

__all__ = ["KindRow", "LanguagePairRow", "PairRow", "RankRow", "rows_of"]


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


class KindRow(Result):
    """How one kind of perturbation moves a scorer's scores. Null where it is not defined."""

    n: int
    """Pairs of a text and its perturbed version that both have a score."""
    errors: int
    relative: float | None
    """Mean of abs(change)/abs(score), the paper's measure."""
    relative_low: float | None
    relative_high: float | None
    spread: float | None
    """Mean abs(change) in standard deviations of the scorer's scores within sets."""
    spread_low: float | None
    spread_high: float | None
    flips: float | None
    """Share of perturbations that change which response is on top."""
    flips_low: float | None
    flips_high: float | None


class LanguagePairRow(Result):
    """Consistency between two languages."""

    a: str
    b: str
    consistency: float | None
    low: float | None
    high: float | None
    n: int


class PairRow(Result):
    """Two scorers on the same sets, the better one first."""

    a: str
    b: str
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    """Holm's, over all pairs of the report."""


def rows_of(kind: type[R], frame: pl.DataFrame) -> tuple[R, ...]:
    """The rows of a result's frame as typed rows; further columns of the frame are left out.

    Raises:
        CarbError: the frame lacks a column of the row.
    """
    missing = [name for name in kind.model_fields if name not in frame.columns]
    if missing:
        raise CarbError(f"A {kind.__name__} needs the columns {missing}; the frame has {frame.columns}.")
    rows: Iterable[dict[str, object]] = frame.select(*kind.model_fields).iter_rows(named=True)
    return tuple(kind.model_validate(row) for row in rows)
