"""What ties do to the accuracy of a judge whose scores are few and round, stated exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.intervals import check_confidence
from carb_metrics.outcomes import Ints, set_outcomes
from carb_metrics.pairs import frame_of
from carb_metrics.rows import TieRow, row_of


class TieReport(Result):
    """Accuracy under every way to settle ties."""

    confidence: float
    groups: tuple[TieRow, ...]
    """A row per scorer and group. The range from ``shared_low`` to ``shared_high`` is that of random breakings."""

    def statements(self) -> list[str]:
        """One sentence or two per row of ``groups``, with the exact counts."""
        return [_statement(row, self.confidence) for row in self.groups]


def tie_report(scores: ScoreTable, by: str | Sequence[str] = (), confidence: float = 0.95) -> TieReport:
    """Strict, shared and lenient accuracy side by side, with the counts behind them.

    A set in which ``chosen`` shares the highest score with k ``rejected`` is won with probability 1/(k+1) when ties
    are broken at random, independently. The number won is then a sum of binomials whose distribution is computed, not
    simulated; its mean is the shared accuracy (``bon_accuracy(..., ties="shared")``). This is uncertainty of the
    breaking alone; that of the choice of sets is in the intervals of ``bon_accuracy``. Errors count as lost.

    Args:
        scores: table of one or several scorers.
        by: further columns that define groups, as for ``bon_accuracy``.
        confidence: The level of the range of random breakings, a share such as 0.95.

    Raises:
        CarbError: an unknown column, or malformed sets.
    """
    check_confidence(confidence)
    keys = ("scorer", *((by,) if isinstance(by, str) else by))
    sets = set_outcomes(scores)
    if any(key not in sets.columns[: sets.columns.index("credit")] for key in keys) or len(set(keys)) < len(keys):
        raise CarbError(f"by={list(keys[1:])}: each key must be a column of the table other than 'scorer', once.")
    sets = sets.with_columns(pl.col(key).cast(pl.String) for key in keys)
    scored = frame_of(scores).filter(pl.col("perturbation").is_null() & pl.col("score").is_not_null())
    values = scored.select(pl.col("scorer", "item_id").cast(pl.String), "score")
    names = sets.select(*keys, pl.col("item_id").cast(pl.String))
    distinct = (
        values.join(names, on=["scorer", "item_id"]).group_by(keys).agg(pl.col("score").n_unique().alias("levels"))
    )
    levels = {row[:-1]: row[-1] for row in distinct.select(*keys, "levels").rows()}
    rows = []
    for key, part in sorted(sets.group_by(keys), key=lambda pair: [(v is None, v or "") for v in pair[0]]):
        n, tied = part.height, np.bincount(part["tied"].to_numpy())[1:]
        won, errors = int(part["credit"].sum()), int(part["error"].sum())
        low, high = _random_breaking(tied, confidence)
        share = float((tied / np.arange(2, len(tied) + 2)).sum())
        counts = (n, won, int(tied.sum()), n - won - errors - int(tied.sum()), errors, tied.tolist())
        accuracies = (won, won + share, won + low, won + high, won + int(tied.sum()))
        group = "/".join(value or "none" for value in key[1:]) or None
        rows.append(row_of(TieRow, (key[0], group, *counts, *(value / n for value in accuracies), levels.get(key, 0))))
    return TieReport(confidence=confidence, groups=tuple(rows))


def _random_breaking(tied: Ints, confidence: float) -> tuple[int, int]:
    """Least range, cut at equal tails, of the number won by random breaking that holds ``confidence``."""
    from scipy.special import bdtr

    mass = np.ones(1)
    for others, count in enumerate(tied, start=1):
        if count:
            below = bdtr(np.arange(count + 1.0), int(count), 1 / (others + 1))
            mass = np.convolve(mass, np.diff(below, prepend=0.0))
    total, tail = np.cumsum(mass), (1 - confidence) / 2
    return int(np.searchsorted(total, tail)), int(np.searchsorted(total, 1 - tail))


def _statement(row: TieRow, confidence: float) -> str:
    details = ", ".join(f"{count} with {k} rejected" for k, count in enumerate(row.tied_with, start=1) if count)
    name = row.scorer if row.group is None else f"{row.scorer}, {row.group}"
    head = (
        f"{name}: of {row.n} sets {row.won} were won outright, {row.tied} tied at the top"
        f"{f' ({details})' if details else ''}, {row.lost} lost, {row.errors} not judged; "
        f"scores take {row.levels} distinct values."
    )
    if not row.tied:
        return f"{head} Accuracy is {row.strict:.4f} however ties are settled."
    return (
        f"{head} Accuracy is {row.strict:.4f} if ties lose, {row.shared:.4f} on average if they are broken at "
        f"random ({row.shared_low:.4f} to {row.shared_high:.4f} in {confidence:.0%} of breakings), "
        f"{row.lenient:.4f} if they win."
    )
