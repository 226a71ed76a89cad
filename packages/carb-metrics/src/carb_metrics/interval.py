"""The one shape of an estimate in rows, JSON, pages and tables."""

from __future__ import annotations

from typing import Self

from carb_data import Frozen

__all__ = ["Interval"]


class Interval(Frozen):
    """One number with its uncertainty; null where it is not defined."""

    estimate: float | None = None
    low: float | None = None
    """Lower confidence limit."""
    high: float | None = None
    """Upper confidence limit."""
    p: float | None = None
    """Two-sided p of the hypothesis that the function states; null where none is tested."""
    n: int | None = None
    """Number of units behind the estimate; null where the function does not count them."""

    def turned(self) -> Self:
        """The same of a difference the other way round."""
        limits = {
            "estimate": self.estimate,
            "low": self.high,
            "high": self.low,
        }
        turned = {name: None if value is None else -value for name, value in limits.items()}
        return self.model_copy(update=turned)
