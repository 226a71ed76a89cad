"""Uncertainty of a rate and of a difference over pairs, as results of training keep them."""

from __future__ import annotations

from collections.abc import Sequence

from carb_data.models import Frozen
from carb_metrics import mean_interval, paired_difference


class Mean(Frozen):
    """A mean with its 95% interval over source items (``carb_metrics.mean_interval``); null where it is not defined."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class Difference(Mean):
    """After minus before, with the two-sided p of ``carb_metrics.paired_difference`` over source items."""

    p: float | None


def estimate(values: Sequence[float]) -> Mean:
    """Mean and 95% interval of independent values; shares of 0 to 1 are told by their values."""
    found = mean_interval(values, bounded=_are_shares(values))
    return Mean(mean=found.estimate, low=found.low, high=found.high, n=len(values))


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Paired difference of means, ``after - before``.

    Raises:
        ValueError: the two differ in length.
    """
    if len(before) != len(after):
        raise ValueError(f"before has {len(before)} values and after has {len(after)}; they must be pairs")
    found = paired_difference(after, before, bounded=_are_shares([*before, *after]))
    return Difference(mean=found.estimate, low=found.low, high=found.high, n=found.n, p=found.p)


def _are_shares(values: Sequence[float]) -> bool:
    return all(0 <= value <= 1 for value in values)
