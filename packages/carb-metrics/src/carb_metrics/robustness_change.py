"""Is a scorer moved by the right things more than another one, or than before its training?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.pairs import as_text, perturbed_pairs, within_item
from carb_metrics.resampling import Statistic, jackknife_interval, sum_by
from carb_metrics.robustness import CAUSAL, SURFACE, causal_to_surface, mean_in_spread
from carb_metrics.rows import ChangeRow, row_of

RATIO = "CC/surface"


class SensitivityChange(Result):
    """How one scorer's sensitivity to perturbations differs from another's."""

    kinds: tuple[ChangeRow, ...]
    """A row per perturbation; then, where there are CC and others, a row for the causal-to-surface ratio."""


def sensitivity_change(scores: ScoreTable, before: str, after: str, confidence: float = 0.95) -> SensitivityChange:
    """How much more, or less, a scorer is moved by each perturbation than another, such as itself before training.

    Training on criteria should raise the factor of CC above 1 and take those of RC, CL and RP below it (Zhang et al.,
    arXiv 2509.21798, section 5). Both sides are computed on the pairs and sets that both scorers scored, with the
    measures of ``perturbation_sensitivity``; intervals are jackknife t intervals on the logarithm of the factor
    over the source items that the two share (``resampling.jackknife_interval``).

    Args:
        scores: table with perturbed rows of both scorers.
        before: name of the scorer that is compared with.
        after: name of the scorer that is compared.
        confidence: The level of all intervals, a share such as 0.95.

    Raises:
        CarbError: a scorer is not in the table, or a perturbed row has no original in it.
    """
    check_confidence(confidence)
    frame = as_text(scores)
    names = frame["scorer"].unique().sort().to_list()
    if missing := [name for name in (before, after) if name not in names]:
        raise CarbError(f"There is no scorer '{missing[0]}' here; there are: {', '.join(names) or 'none'}.")
    moved = perturbed_pairs(frame).with_columns(moved=(pl.col("after") - pl.col("before")).abs())
    pairs = _beside(moved, before, after, ["item_id", "response_id"], ["moved"])
    spreads = _beside(within_item(frame), before, after, ["item_id"], ["squares", "freedom"])
    units = pl.DataFrame({"cluster": pl.concat([pairs["cluster"], spreads["cluster"]]).unique().sort()})
    units = units.with_row_index("unit")

    def sums(of: pl.DataFrame, *columns: str) -> list[Floats]:
        """(units,) sums of each column, and the number of rows."""
        unit = of.join(units, on="cluster", maintain_order="left")["unit"].to_numpy()
        return [*(sum_by(unit, of[name].to_numpy(), units.height) for name in columns), sum_by(unit, size=units.height)]

    kinds = [kind for kind in (CAUSAL, *SURFACE) if kind in pairs["perturbation"]]
    changes = {kind: sums(pairs.filter(pl.col("perturbation") == kind), "moved", "moved_late") for kind in kinds}
    squares, freedom, squares_late, freedom_late, _ = sums(
        spreads, "squares", "freedom", "squares_late", "freedom_late"
    )
    rows: list[tuple[object, ...]] = []
    for kind, (early, late, count) in changes.items():
        sides = [early, count, squares, freedom], [late, count, squares_late, freedom_late]
        rows.append((kind, int(count.sum()), *_compared(*sides, mean_in_spread, confidence)))
    if CAUSAL in kinds and len(kinds) > 1:
        first, second = ([column for of in changes.values() for column in (of[side], of[2])] for side in (0, 1))
        rows.append((RATIO, pairs.height, *_compared(first, second, causal_to_surface, confidence)))
    return SensitivityChange(kinds=tuple(row_of(ChangeRow, row) for row in rows))


def _beside(frame: pl.DataFrame, before: str, after: str, keys: list[str], values: list[str]) -> pl.DataFrame:
    """The rows of one scorer with the values of the other as ``VALUE_late``; only where both have them."""
    early, late = (frame.filter(pl.col("scorer") == name).drop_nulls(values) for name in (before, after))
    others = late.select(*keys, *(pl.col(name).alias(f"{name}_late") for name in values))
    return early.join(others, on=keys, maintain_order="left")


def _compared(
    early: Sequence[Floats], late: Sequence[Floats], statistic: Statistic, confidence: float
) -> tuple[float | None, ...]:
    """before, after, factor, factor_low, factor_high of a statistic of sums over units."""
    width = len(early)

    def factor(sums: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            value: Floats = statistic(sums[..., width:]) / statistic(sums[..., :width])
        return value

    units = np.column_stack([*early, *late])
    values = [float(statistic(units[:, side].sum(0))) for side in (slice(width), slice(width, None))]
    known = [value if np.isfinite(value) else None for value in values]
    return *known, *jackknife_interval(units[units.any(1)], factor, confidence, log=True)
