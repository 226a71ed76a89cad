"""Counts per group, and the cells, averages and gaps made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Cell, Gap, Totals
from carb_metrics.clusters import (
    Ints,
    Units,
    average_effective_n,
    cluster_bootstrap,
    cluster_of,
    group_effective_n,
    is_clustered,
    number,
)
from carb_metrics.intervals import Floats, effective_n, wilson
from carb_metrics.outcomes import Errors
from carb_metrics.resampling import bootstrap_means, percentile_interval, stretch, sum_by

Weights = Mapping[Any, float]
"""Group key (a value, or a tuple of values in the order of ``by``, without the scorer) to weight."""

CONTENDER = 2.0
"""A group this many standard errors from the best (worst) may be the best (worst) in truth."""

SELECTION = 1000
"""Replicates that estimate those standard errors."""


class Tally:
    """Counts per group; every array has a place per row of ``rows``.

    ``sets`` has a row per set, or, with a column ``count``, a row per kind of independent sets.
    """

    def __init__(self, sets: pl.DataFrame, keys: tuple[str, ...], errors: Errors, confidence: float) -> None:
        self.keys, self.confidence = keys, confidence
        self.group, self.rows = number(sets, keys)
        self.sets = sets
        self.scorer = self.rows["scorer"].cast(pl.String).to_numpy() if "scorer" in keys else None
        groups = int(self.group.max(initial=-1)) + 1
        credit, error = sets["credit"].to_numpy(), sets["error"].to_numpy()
        times = sets["count"].to_numpy() if "count" in sets.columns else np.ones(len(error))
        self.counted = np.ones(len(error), dtype=bool) if errors == "wrong" else ~error
        self.values: Floats = sets["credit"].unique().sort().to_numpy()
        kind = self.group * len(self.values) + np.searchsorted(self.values, credit)
        cells = sum_by(kind[self.counted], times[self.counted], groups * len(self.values))
        self.counts: Ints = cells.astype(np.int64).reshape(groups, len(self.values))
        self.n: Ints = self.counts.sum(1)
        tied = sets["tied"].to_numpy() > 0
        self.ties: Ints = sum_by(self.group[tied], times[tied], groups).astype(np.int64)
        self.errors: Ints = sum_by(self.group[error], times[error], groups).astype(np.int64)
        with np.errstate(invalid="ignore"):
            self.accuracy: Floats = self.counts @ self.values / self.n
        self.units: Units | None = None
        self.effective_n = self.effective(self.counts, self.n, self.accuracy)
        if "count" not in sets.columns and is_clustered(sets):
            self.units = self.make_units()
            self.effective_n = group_effective_n(self.units, self.n, self.accuracy, confidence)

    def make_units(self) -> Units:
        """The counted sets with their clusters."""
        cluster = cluster_of(self.sets)[self.counted]
        return Units(self.group[self.counted], cluster, self.sets["credit"].to_numpy()[self.counted])

    def weights(self, wanted: Weights | None) -> Floats | None:
        """A weight for each group, or ``CarbError`` where one is missing or not a weight."""
        if wanted is None:
            return None
        named = [key[0] if len(key) == 1 else key for key in self.names()]
        missing = sorted({str(name) for name in named if name not in wanted})
        if missing:
            raise CarbError(f"weights has no entry for {', '.join(missing)}; each group of {self.keys} needs one.")
        weight = np.array([float(wanted[name]) for name in named])
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise CarbError("weights must be finite and not negative.")
        return weight

    def names(self) -> list[tuple[Any, ...]]:
        """The key of each group, without the scorer."""
        keys = [key for key in self.keys if key != "scorer"]
        return self.rows.select(keys).rows() if keys else [()] * len(self.n)

    def rows_of(self, scorer: str) -> Ints:
        """Numbers of the groups of one scorer."""
        return np.arange(len(self.n)) if self.scorer is None else np.flatnonzero(self.scorer == scorer)

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
            ]
        )

    def effective(self, counts: Ints, n: Any, accuracy: Any) -> Floats:
        """Effective sample size of mean credits of independent sets; exactly ``n`` where credits are 0 and 1."""
        if set(self.values.tolist()) <= {0.0, 1.0}:
            return np.asarray(n, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (counts @ self.values**2 / n - accuracy**2) / (n - 1)
        return effective_n(n, accuracy, variance)

    def cell(self, rows: Ints, accuracy: float, effective: float) -> Cell:
        """The cell of these groups together, with Wilson's interval at an effective sample size."""
        low, high = wilson(accuracy * effective, effective, self.confidence)
        return self.cell_within(rows, accuracy, float(low), float(high))

    def cell_within(self, rows: Ints, accuracy: float, low: float, high: float) -> Cell:
        """The cell of these groups together, with a given interval."""
        counts = {name: int(getattr(self, name)[rows].sum()) for name in ("n", "ties", "errors")}
        return Cell(accuracy=accuracy, low=min(low, accuracy), high=max(high, accuracy), **counts)

    def totals(self, rows: Ints, weight: Floats | None, resamples: int, seed: int) -> Totals:
        """Averages over groups of one scorer, which hold no set twice, and the gap between them."""
        overall = self.overall(rows, self.units)
        rows = rows[self.n[rows] > 0]
        if len(rows) < 2:
            return Totals(overall=overall, macro=overall, weighted=None if weight is None else overall)
        # An order that the content alone decides, so that names of groups cannot change the draws.
        rows = rows[np.lexsort((*self.counts[rows].T, np.zeros(len(rows)) if weight is None else weight[rows]))]
        if self.units is None:
            noise = bootstrap_means(self.counts[rows], self.values, resamples, seed) - self.accuracy[rows]
            noise *= stretch(self.n[rows])
        else:
            noise = cluster_bootstrap(self.units.of(rows), rows, resamples, seed) - self.accuracy[rows]
        return Totals(
            overall=overall,
            macro=self.average(rows, np.ones(len(rows)), noise),
            weighted=None if weight is None else self.average(rows, weight[rows], noise),
            gap=self.gap(rows, noise),
        )

    def overall(self, rows: Ints, units: Units | None) -> Cell:
        """Every set weighs the same."""
        n = self.n[rows].sum()
        if not n:
            return Cell()
        counts = self.counts[rows].sum(0)
        accuracy = float(counts @ self.values / n)
        if units is None:
            return self.cell(rows, accuracy, float(self.effective(counts, n, accuracy)))
        share = np.zeros(len(self.n))
        share[rows] = self.n[rows] / n
        centre = np.full(len(self.n), accuracy)
        return self.cell(rows, accuracy, average_effective_n(units, self.n, centre, share, self.confidence))

    def average(self, rows: Ints, weight: Floats, noise: Floats) -> Cell:
        """``Σ w·p`` over the groups, with the interval of its replicates.

        Args:
            rows: the groups; weight: (groups,) theirs, of any sum.
            noise: (resamples, groups) replicates of their accuracies minus those accuracies; NaN for no set.
        """
        if not weight.all():
            rows, noise, weight = rows[weight > 0], noise[:, weight > 0], weight[weight > 0]
        if not len(rows):
            return Cell()
        weight = weight / weight.sum()
        accuracy = float(self.accuracy[rows] @ weight)
        averages = accuracy + noise @ weight
        absent = np.isnan(averages)
        if absent.any():  # a replicate without a set of a group gives that group's weight to the others
            there = ~np.isnan(noise[absent])
            shares = np.where(there, noise[absent] + self.accuracy[rows], 0)
            averages[absent] = shares @ weight / (there @ weight)
        low, high = (float(limit) for limit in percentile_interval(averages, self.confidence))
        if high - low > 1e-12:
            return self.cell_within(rows, accuracy, max(low, 0.0), min(high, 1.0))
        # Replicates that are all alike say nothing: Wilson's interval at Kish's effective sample size.
        return self.cell(rows, accuracy, float(1 / (weight**2 / self.effective_n[rows]).sum()))

    def gap(self, rows: Ints, noise: Floats) -> Gap:
        """Best minus worst group, with an interval that allows for having picked them by looking.

        The upper limit is the bootstrap's for the two groups picked. Picking makes the gap too large, so the lower
        limit lets every group within ``CONTENDER`` standard errors of the best (worst) compete in each replicate;
        moment selection after Andrews and Soares (2010), Econometrica 78:119-157. Where best and worst are clear it
        is the plain basic bootstrap interval (Davison and Hinkley 1997, section 5.2); near ties it is conservative.
        """
        accuracy = self.accuracy[rows]
        best, worst = (rows[accuracy == pick].min() for pick in (accuracy.max(), accuracy.min()))
        top, bottom = int(np.flatnonzero(rows == best)[0]), int(np.flatnonzero(rows == worst)[0])
        noise = noise if self.units is None else np.nan_to_num(noise)
        few = noise[:SELECTION]
        may_be_top = accuracy[top] - accuracy <= CONTENDER * (few - few[:, [top]]).std(0)
        may_be_bottom = accuracy - accuracy[bottom] <= CONTENDER * (few - few[:, [bottom]]).std(0)
        difference = float(accuracy[top] - accuracy[bottom])
        pair = noise[:, top] - noise[:, bottom]
        below, above = percentile_interval(pair, self.confidence)
        if may_be_top.sum() > 1 or may_be_bottom.sum() > 1:
            wide = noise[:, may_be_top].max(1) - noise[:, may_be_bottom].min(1)
            above = percentile_interval(wide, self.confidence)[1]
        low, high = difference - float(above), difference - float(below)
        if high - low <= 1e-12:  # no replicate differs: Newcombe (1998), Statistics in Medicine 17:873-890, method 10
            low, high = self.newcombe(best, worst)
        names = self.names()
        return Gap(
            best=names[best],
            worst=names[worst],
            difference=difference,
            low=min(max(low, 0.0), difference),
            high=max(min(high, 1.0), difference),
        )

    def newcombe(self, best: int, worst: int) -> tuple[float, float]:
        """Limits of a difference of two proportions from their Wilson limits."""
        pair = np.array([best, worst])
        p, n = self.accuracy[pair], self.effective_n[pair]
        low, high = wilson(p * n, n, self.confidence)
        below = np.hypot(p[0] - low[0], high[1] - p[1])
        above = np.hypot(high[0] - p[0], p[1] - low[1])
        return float(p[0] - p[1] - below), float(p[0] - p[1] + above)

    def pooled(self, weight: Floats | None) -> Totals:
        """Averages over the groups of several scorers, which judged the same items: linearised, clustered by item.

        Without the items, that is, from counts, they have no interval.
        """
        if "count" in self.sets.columns:
            return self.without_intervals(weight)
        units = self.make_units() if self.units is None else self.units
        return Totals(
            overall=self.overall(np.arange(len(self.n)), units),
            macro=self.pooled_average(units, np.ones(len(self.n))),
            weighted=None if weight is None else self.pooled_average(units, weight),
        )

    def pooled_average(self, units: Units, weight: Floats) -> Cell:
        """``Σ w·p`` over all groups."""
        weight = np.where(self.n > 0, weight, 0)
        if not weight.sum():
            return Cell()
        weight = weight / weight.sum()
        rows = np.flatnonzero(weight)
        effective = average_effective_n(units, self.n, np.nan_to_num(self.accuracy), weight, self.confidence)
        return self.cell(rows, float(self.accuracy[rows] @ weight[rows]), effective)

    def without_intervals(self, weight: Floats | None) -> Totals:
        """``pooled`` from counts."""

        def cell(weights: Floats) -> Cell:
            rows = np.flatnonzero((weights > 0) & (self.n > 0))
            if not len(rows):
                return Cell()
            accuracy = float(self.accuracy[rows] @ weights[rows] / weights[rows].sum())
            return self.cell_within(rows, accuracy, accuracy, accuracy).model_copy(update={"low": None, "high": None})

        ones = np.ones(len(self.n))
        weighted = None if weight is None else cell(weight)
        return Totals(overall=cell(self.n.astype(np.float64)), macro=cell(ones), weighted=weighted)
