"""The one shape of an estimate in rows, JSON, pages and tables."""

from __future__ import annotations

from carb_data.models import Frozen

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
