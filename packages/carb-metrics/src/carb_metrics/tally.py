"""Counts per group, and the cells and averages made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Cell, Totals
from carb_metrics.clusters import Design, Ints, Units, cluster_of, design, is_clustered, number
from carb_metrics.intervals import Floats, effective_n, normal_quantile, wilson
from carb_metrics.jackknife import sum_by
from carb_metrics.outcome import Errors

Weights = Mapping[Any, float]
"""Group key (a value, or a tuple of values in the order of ``by``, without the scorer) to weight."""

COUNTS = ("n", "ties", "errors")

PRIOR = 2.0
"""Weight, in sets, of what all groups together show in the variance of one group."""


class Tally:
    """Counts per group; every array has a place per row of ``rows``."""

    def __init__(self, sets: pl.DataFrame, keys: tuple[str, ...], errors: Errors, confidence: float) -> None:
        self.keys, self.confidence = keys, confidence
        self.group, self.rows = number(sets, keys)
        self.sets = sets
        self.scorer = self.rows["scorer"].cast(pl.String).to_numpy() if "scorer" in keys else None
        groups = int(self.group.max(initial=-1)) + 1
        credit, error = sets["credit"].to_numpy(), sets["error"].to_numpy()
        self.counted = np.ones(len(error), dtype=bool) if errors == "wrong" else ~error
        self.values: Floats = sets["credit"].unique().sort().to_numpy()
        kind = self.group * len(self.values) + np.searchsorted(self.values, credit)
        cells = sum_by(kind[self.counted], size=groups * len(self.values))
        self.counts: Ints = cells.astype(np.int64).reshape(groups, len(self.values))
        self.n: Ints = self.counts.sum(1)
        tied = sets["tied"].to_numpy() > 0
        self.ties: Ints = sum_by(self.group[tied], size=groups).astype(np.int64)
        self.errors: Ints = sum_by(self.group[error], size=groups).astype(np.int64)
        with np.errstate(invalid="ignore"):
            self.accuracy: Floats = self.counts @ self.values / self.n
            self.strict: Floats = self.counts @ (self.values == 1) / self.n
        self.apart = errors == "exclude"
        self.units: Units | None = None
        self.effective_n = self.effective(self.counts, self.n, self.accuracy)
        if is_clustered(sets):
            self.units = self.make_units()
            found = self.design(self.units, np.arange(groups), groups)
            self.effective_n = found.effective_n(self.accuracy, self.effective_n, confidence)

    def make_units(self) -> Units:
        """The counted sets with their clusters."""
        cluster = cluster_of(self.sets)[self.counted]
        return Units(self.group[self.counted], cluster, self.sets["credit"].to_numpy()[self.counted])

    def weights(self, wanted: Weights | None) -> Floats | None:
        """A weight for each group, or ``CarbError`` where one is missing or not a weight."""
        if wanted is None:
            return None
        named = [key[0] if len(key) == 1 else key for key in self.names]
        missing = sorted({str(name) for name in named if name not in wanted})
        if missing:
            raise CarbError(f"weights has no entry for {', '.join(missing)}; each group of {self.keys} needs one.")
        unknown = sorted(str(name) for name in wanted if name not in named)
        if unknown and named:
            raise CarbError(f"weights names {', '.join(unknown)}, which is no group of {self.keys} here.")
        weight = np.array([float(wanted[name]) for name in named])
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise CarbError("weights must be finite and not negative.")
        return weight

    def design(self, units: Units, mean: Ints, means: int, weight: Floats | None = None) -> Design:
        """The design effects of averages over groups.

        Args:
            units: the sets with their clusters.
            mean: (groups,) the average that a group belongs to.
            means: number of averages.
            weight: (groups,) weight of a group in its average; left out, every set weighs the same.
        """
        if weight is None:
            n = np.bincount(mean, self.n, means)
            with np.errstate(invalid="ignore"):
                centre = np.bincount(mean, self.counts @ self.values, means) / n
            of = mean[units.group]
            return design(units.cluster, units.credit - centre[of], mean=of, means=means)
        weight = np.where(self.n > 0, weight, 0.0)
        whole = np.bincount(mean, weight, means)[mean]
        scale = np.divide(weight, whole * self.n, out=np.zeros(len(weight)), where=weight > 0)
        there = scale[units.group] > 0
        group = units.group[there]
        residual = units.credit[there] - self.accuracy[group]
        return design(units.cluster[there], residual, scale[group], mean[group], means)

    @cached_property
    def names(self) -> list[tuple[Any, ...]]:
        """The key of each group, without the scorer."""
        keys = [key for key in self.keys if key != "scorer"]
        return self.rows.select(keys).rows() if keys else [()] * len(self.n)

    def frame(self) -> pl.DataFrame:
        """Key columns, then the fields of ``Cell``."""
        low, high = wilson(self.accuracy * self.effective_n, self.effective_n, self.confidence)
        numbers = {"accuracy": self.accuracy, "low": low, "high": high}
        counts = {"n": self.n, "ties": self.ties, "errors": self.errors}
        return pl.DataFrame(
            [
                *(column.cast(pl.String) if column.dtype != pl.Int64 else column for column in self.rows),
                *(pl.Series(name, array, dtype=pl.Float64).fill_nan(None) for name, array in numbers.items()),
                *(pl.Series(name, array, dtype=pl.Int64) for name, array in counts.items()),
                pl.Series("strict", self.strict, dtype=pl.Float64).fill_nan(None),
            ]
        )

    def effective(self, counts: Ints, n: Any, accuracy: Any) -> Floats:
        """Effective sample size of mean credits of independent sets; exactly ``n`` where credits are 0 and 1."""
        if set(self.values.tolist()) <= {0.0, 1.0}:
            return np.asarray(n, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (counts @ self.values**2 / n - accuracy**2) / (n - 1)
        return effective_n(n, accuracy, variance)

    def cell(self, rows: Ints, accuracy: float, strict: float, effective: float) -> Cell:
        """The cell of these groups together, with Wilson's interval at an effective sample size."""
        low, high = wilson(accuracy * effective, effective, self.confidence)
        return self.cell_within(rows, accuracy, strict, float(low), float(high))

    def cell_within(self, rows: Ints, accuracy: float, strict: float, low: float, high: float) -> Cell:
        """The cell of these groups together, with a given interval."""
        counts = {name: int(getattr(self, name)[rows].sum()) for name in COUNTS}
        cell = Cell(accuracy=accuracy, strict=strict, low=min(low, accuracy), high=max(high, accuracy), **counts)
        return cell.with_errors_apart() if self.apart else cell

    def totals(self, names: list[str], weight: Floats | None) -> dict[str, Totals]:
        """For each scorer, averages over its groups, which hold no set twice."""
        of = np.zeros(len(self.n), dtype=np.int64)
        if self.scorer is not None:
            place = {name: number for number, name in enumerate(names)}
            of = np.array([place[name] for name in self.scorer], dtype=np.int64)
        given: dict[str, Floats | None] = {"overall": None}
        if len(self.n) > len(names):  # the averages over a single group are that group
            given |= {"macro": np.ones(len(self.n))} | ({} if weight is None else {"weighted": weight})
        units, effects = self.units, {}
        if units is not None:  # of all scorers at once
            effects = {key: self.design(units, of, len(names), value) for key, value in given.items()}
        return {
            name: self.totals_of(np.flatnonzero(of == i), weight, {key: one.of(i) for key, one in effects.items()})
            for i, name in enumerate(names)
        }

    def totals_of(self, rows: Ints, weight: Floats | None, effects: dict[str, Design]) -> Totals:
        """``totals`` of the scorer that these groups belong to."""
        overall = self.overall(rows, effects.get("overall"))
        lacking, comparable = self.lacking(rows)
        rows = rows[self.n[rows] > 0]
        # An order that the content alone decides, so that names of groups change no digit.
        rows = rows[np.lexsort((*self.counts[rows].T, np.zeros(len(rows)) if weight is None else weight[rows]))]

        def average(key: str, given: Floats) -> Cell:
            if not comparable:
                return Cell()
            return overall if len(rows) < 2 else self.average(rows, given, effects.get(key))

        return Totals(
            overall=overall,
            macro=average("macro", np.ones(len(rows))),
            weighted=None if weight is None else average("weighted", weight[rows]),
            lacking=lacking,
        )

    def lacking(self, rows: Ints) -> tuple[tuple[tuple[Any, ...], ...], bool]:
        """Groups of the table in which this scorer has no set that counts, and whether no other scorer has one."""
        there = {self.names[row] for row in rows if self.n[row]}
        return tuple(name for name in self._counted if name not in there), all(
            name in there for name, counts in self._counted.items() if counts
        )

    @cached_property
    def _counted(self) -> dict[tuple[Any, ...], bool]:
        """Every group, and whether any scorer has a set in it that counts."""
        found: dict[tuple[Any, ...], bool] = {}
        for name, n in zip(self.names, self.n, strict=True):
            found[name] = found.get(name, False) or bool(n)
        return found

    def overall(self, rows: Ints, effects: Design | None) -> Cell:
        """Every set weighs the same."""
        n = self.n[rows].sum()
        if not n:
            errors = int(self.errors[rows].sum())
            return Cell(errors=errors).with_errors_apart() if errors and self.apart else Cell()
        counts = self.counts[rows].sum(0)
        accuracy = float(counts @ self.values / n)
        effective = float(self.effective(counts, n, accuracy))
        if effects is not None:
            found = effects.effective_n(np.array([accuracy]), np.array([effective]), self.confidence)
            effective = float(found[0])
        return self.cell(rows, accuracy, float(counts @ (self.values == 1) / n), effective)

    def variances(self, rows: Ints) -> Floats:
        """(rows,) variance of each group's accuracy, drawn towards that of all these groups.

        A small group in which all is won or lost shows no variance of its own. ``PRIOR`` sets as all groups together
        have them, to which one set won and one lost are added, keep it from looking certain. These are the posterior
        mean's moments under a beta prior of that weight (Agresti and Coull 1998, The American Statistician 52:119-126,
        with the common accuracy in the place of 1/2).
        """
        counts = self.counts[rows]
        n, total, square = self.n[rows], counts @ self.values, counts @ self.values**2
        mean_of_all = (total.sum() + 1) / (n.sum() + 2)
        square_of_all = (square.sum() + 1) / (n.sum() + 2)
        mean = (total + PRIOR * mean_of_all) / (n + PRIOR)
        result: Floats = ((square + PRIOR * square_of_all) / (n + PRIOR) - mean**2) / n
        return result

    def average(self, rows: Ints, weight: Floats, effects: Design | None) -> Cell:
        """``Σ w·p`` over the groups, with Wilson's interval at an effective sample size.

        Its variance is ``Σ w²·v`` of the groups' (``variances``), times the design effect of clusters; degrees of
        freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110-114).

        Args:
            rows: the groups; weight: (groups,) theirs, of any sum.
            effects: the design effect of this average, or null where sets are independent.
        """
        rows, weight = rows[weight > 0], weight[weight > 0]
        if not len(rows):
            return Cell()
        from scipy.special import stdtrit

        weight = weight / weight.sum()
        accuracy, n = float(self.accuracy[rows] @ weight), float(self.n[rows].sum())
        parts = weight**2 * self.variances(rows)
        variance = parts.sum()
        freedom = variance**2 / (parts**2 / (self.n[rows] + PRIOR)).sum()
        if effects is not None:
            variance, freedom = variance * effects.effect[0], min(freedom, effects.freedom[0])
        centre = (accuracy * n + 1) / (n + 2)
        t = float(stdtrit(max(freedom, 1.0), 0.5 + self.confidence / 2))
        effective = centre * (1 - centre) / variance * (normal_quantile(self.confidence) / t) ** 2
        # Near 0 and 1 the variance is mostly unseen, and these sets are worth no more than if all groups were alike.
        most = 1 / ((weight**2 / self.n[rows]).sum() * (1.0 if effects is None else effects.effect[0]))
        return self.cell(rows, accuracy, float(self.strict[rows] @ weight), min(effective, most))
