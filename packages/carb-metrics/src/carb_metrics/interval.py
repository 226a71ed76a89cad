"""The one shape of an estimate in rows, JSON, pages and tables."""

from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from carb_data import Frozen


class Interval(Frozen):
    """One number with its uncertainty; null where it is not defined.

    A row that is an estimate of something, with more facts about it, is an interval too. It may
    give fields another name in JSON: ``accuracy`` for the estimate.
    """

    model_config = ConfigDict(populate_by_name=True)

    estimate: float | None = None
    low: float | None = None
    """Lower confidence limit."""
    high: float | None = None
    """Upper confidence limit."""
    p: float | None = None
    """Two-sided p of the hypothesis that the function states; null where none is tested."""
    n: int | None = None
    """Number of units behind the estimate; null where the function does not count them."""

    @classmethod
    def of(cls, interval: "Interval", **facts: Any) -> Self:
        """The same estimate, with more facts about it."""
        known = {name: getattr(interval, name) for name in Interval.model_fields}
        return cls(**known | facts)

    def turned(self) -> Self:
        """The same of a difference the other way round."""

        def minus(value: float | None) -> float | None:
            return None if value is None else -value

        return self.changed(
            estimate=minus(self.estimate),
            low=minus(self.high),
            high=minus(self.low),
        )

    def favours(
        self,
        confidence: float,
    ) -> Literal["a", "b"] | None:
        """Which of two is better, of a minus b; null where the interval holds 0."""
        if self.p is None or self.p >= 1 - confidence:
            return None
        return "a" if (self.estimate or 0.0) > 0 else "b"


class Difference(Interval):
    """A paired difference, the first minus the second, under that name in JSON."""

    estimate: float | None = Field(default=None, alias="difference")
    n: int = 0
    """Pairs."""

    @property
    def difference(self) -> float | None:
        """The estimate."""
        return self.estimate
