"""The small frozen results that every metric returns."""

from collections.abc import Iterable
from typing import Annotated, Any, Generic, Literal, TypeVar

import polars as pl
from polars import col
from pydantic import ConfigDict, Field, PlainSerializer

from carb_data import CarbError, Frozen
from carb_metrics.frames import text
from carb_metrics.interval import Interval

Frame = Annotated[
    pl.DataFrame, PlainSerializer(lambda frame: frame.to_dicts(), return_type=list[dict[str, Any]])
]
"""A polars frame as a field; ``model_dump`` gives it as a list of rows."""


class Result(Frozen):
    """Base of all results: frozen, comparable (frames by content), and dumpable to JSON."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # frames are not hashable


Counted = Literal["main", "all"]


class OfSets(Result):
    """The figures over some sets."""

    counted: Counted = "all"
    """The counted sets."""


class ScorerRow(Result):
    """What was found of one scorer."""

    scorer: str


R = TypeVar("R", bound=ScorerRow)


class Scorers(OfSets, Generic[R]):
    """What was found of each scorer."""

    scorers: tuple[R, ...]

    def of(self, scorer: str) -> R:
        """The row of one scorer.

        Raises:
            CarbError: there is no such scorer.
        """
        for row in self.scorers:
            if row.scorer == scorer:
                return row
        raise no_scorer(scorer, (row.scorer for row in self.scorers))


def no_scorer(wanted: str, known: Iterable[str]) -> CarbError:
    """The error for a scorer that is not there; it names those that are."""
    names = ", ".join(known) or "none"
    return CarbError(f"There is no scorer '{wanted}' here; there are: {names}.")


CELL = ("accuracy", "low", "high", "n", "ties", "errors", "strict")
"""The fields of a cell, as columns of frames and in JSON."""


class Cell(Interval):
    """One accuracy with its uncertainty.

    All shares lie between 0 and 1. Where every set failed they are null. Without any set,
    everything but ``n`` is null.
    """

    estimate: float | None = Field(default=None, alias="accuracy")
    """Mean credit of the sets, 0 to 1: ties share, unless the caller asked otherwise."""
    p: float | None = Field(default=None, exclude=True)
    n: int = 0
    """Sets counted."""
    ties: int | None = None
    """Sets in which ``chosen`` shares the highest score with at least one ``rejected``."""
    errors: int | None = None
    """Sets that could not be judged, because a score is missing."""
    strict: float | None = None
    """Share of sets won outright: the accuracy where a tie earns nothing."""

    @property
    def accuracy(self) -> float | None:
        """The estimate."""
        return self.estimate


class Totals(Result):
    """The averages over the groups of one scorer."""

    overall: Cell = Cell()
    """Micro average: every set weighs the same. The paper's headline."""
    macro: Cell = Cell()
    """Every group weighs the same. Null for a scorer without sets in a group of another one. It is
    about these groups: as a mean over languages, its interval covers a new one in .63 to .78."""


class Grouped(Totals, OfSets):
    """Accuracies of groups, and their averages."""

    by: tuple[str, ...] = ()
    """The columns that define the groups."""
    groups: Frame
    """A row per group: the columns of ``by``, then the fields of ``Cell``."""
    scorers: dict[str, Totals] = Field(default={})
    """The averages of each scorer alone."""

    def of(self, scorer: str) -> "Grouped":
        """The part of one scorer: its groups (without the column ``scorer``) and its own averages.

        Raises:
            CarbError: no scorer of that name is in the table.
        """
        if scorer not in self.scorers:
            raise no_scorer(scorer, self.scorers)
        groups = self.groups
        if "scorer" in self.by:
            groups = groups.filter(col.scorer == scorer).drop("scorer")
        totals = self.scorers[scorer]
        return Grouped(
            by=tuple(key for key in self.by if key != "scorer"),
            groups=groups,
            overall=totals.overall,
            macro=totals.macro,
            scorers={scorer: totals},
            counted=self.counted,
        )

    @property
    def cells(self) -> dict[str, Cell]:
        """The cell of each group by its key, of which ``/`` joins the values."""
        keys = text(*self.by).fill_null("none")
        joined = pl.concat_str(keys, separator="/")
        names = self.groups.select(joined).to_series()
        rows = self.groups.select(CELL).iter_rows(named=True)
        return {name: Cell(**row) for name, row in zip(names, rows, strict=True)}

    def cell(self, *key: object) -> Cell:
        """The cell of one group, its key given in the order of ``by``; an empty cell where there is
        no such group."""
        if len(key) != len(self.by):
            raise CarbError(f"A group here is named by {self.by}; got {key}.")
        rows = self.groups
        for name, value in zip(self.by, key, strict=True):
            rows = rows.filter(col(name).eq_missing(value))
        if not rows.height:
            return Cell()
        return Cell(**rows.select(*CELL).row(0, named=True))
