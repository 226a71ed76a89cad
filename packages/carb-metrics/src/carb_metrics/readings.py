"""What one scorer does with each mirrored family: pairs of sets, and rows."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from carb_metrics.clusters import Bools, Ints
from carb_metrics.frames import text, unperturbed
from carb_metrics.intervals import Floats, nan_where_undefined
from carb_metrics.matrices import Matrices, complete
from carb_metrics.ties import higher, with_shares


@dataclass(frozen=True)
class Reading:
    """What one scorer does with each pair of sets and each family."""

    matrix: Matrices
    scored: Bools
    """(pairs,) whether the scorer scored both sets."""
    won: Floats
    """(pairs,) share of the two comparisons that are won; NaN where a score is missing."""
    pairs: Ints
    """(families,) pairs of scored sets."""
    lost: Ints
    """(families,) those with a failed score."""
    whole: Bools
    """(families,) whether the scored sets are complete."""
    row: Floats
    """(families,) share of right answers on top; NaN where the family is not complete."""
    sets: Ints
    """(families,) scored sets."""
    errors: Ints
    """(families,) those that could not be judged."""

    @property
    def counted(self) -> Bools:
        """(families,) whether there is a pair."""
        compared: Bools = self.pairs > 0
        return compared

    def values(self, where: Bools) -> Floats:
        """(3, families) the mean over the pairs of ``where``; NaN without one. Failed ones count 0
        in the first row, 1/2 in the second, and 1 in the third."""
        family = self.matrix.of_pair[where]
        count = len(self.matrix.names)
        won = self.won[where]
        totals = []
        for if_failed in (0.0, 0.5, 1.0):
            value = np.nan_to_num(won, nan=if_failed)
            totals.append(np.bincount(family, value, count))
        with nan_where_undefined():
            means: Floats = np.stack(totals) / _count(family, count)
        return means


def readings(
    frame: pl.DataFrame,
    matrix: Matrices,
) -> dict[str, Reading]:
    """What each scorer does with the families, by name; perturbed rows are left out.

    Args:
        frame: the frame of a score table.
        matrix: the families.
    """
    rows = unperturbed(frame)
    keys = ["item_id", "response_id"]
    shares = with_shares(rows.select(text("scorer", *keys), "score"))
    cells = shares.join(matrix.numbers, on=keys, maintain_order="left")
    ordered = cells.sort("scorer")
    parts = ordered.partition_by("scorer", maintain_order=True, as_dict=True)
    return {scorer: _reading(matrix, part) for (scorer,), part in parts.items()}


def _reading(matrix: Matrices, table: pl.DataFrame) -> Reading:
    """What one scorer does, from its rows with ``cell``, ``share`` and ``failed``."""
    count = len(matrix.names)
    number = table["cell"].to_numpy()
    cells = matrix.numbers.height
    there = np.zeros(cells, dtype=bool)
    there[number] = True
    failed = np.zeros(cells, dtype=bool)
    failed[number] = table["failed"].to_numpy()
    score = np.full(cells, np.nan)
    score[number] = table["score"].to_numpy()
    share = np.full(cells, np.nan)
    share[number] = table["share"].fill_null(0.0).to_numpy()
    sets = there[matrix.key]
    failed_sets = sets & failed[matrix.key]
    scored: Bools = there[matrix.compared].all(axis=1)  # type: ignore[assignment]
    won = _won(score[matrix.compared])
    lost = scored & np.isnan(won)
    whole = complete(matrix, sets)
    shares = _row_share(matrix, share, sets)
    return Reading(
        matrix=matrix,
        scored=scored,
        won=won,
        pairs=_count(matrix.of_pair[scored], count),
        lost=_count(matrix.of_pair[lost], count),
        whole=whole,
        row=np.where(whole, shares, np.nan),
        sets=_count(matrix.family[sets], count),
        errors=_count(matrix.family[failed_sets], count),
    )


def _won(scores: Floats) -> Floats:
    """(pairs,) share of the two comparisons won, from the four scores of ``Matrices.compared``."""
    of_a, of_a_elsewhere, of_b, of_b_elsewhere = scores.T
    first = higher(of_a, of_a_elsewhere)
    second = higher(of_b, of_b_elsewhere)
    won: Floats = (first + second) / 2
    return won


def _count(numbers: Ints, count: int) -> Ints:
    return np.bincount(numbers, minlength=count).astype(np.int64)


def _row_share(
    matrix: Matrices,
    share: Floats,
    scored: Bools,
) -> Floats:
    """(families,) the mean share of right answers, each answer with the same weight."""
    columns, column = np.unique(matrix.right[scored], return_inverse=True)
    count = len(columns)
    family = np.zeros(count, dtype=np.int64)
    family[column] = matrix.family[scored]
    total = np.bincount(column, share[matrix.key[scored]], count)
    mean = total / _count(column, count)
    families = len(matrix.names)
    sums = np.bincount(family, mean, families)
    with nan_where_undefined():
        ratios: Floats = sums / _count(family, families)
    return ratios
