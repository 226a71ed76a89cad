"""Counts per group, and the cells, averages and gaps made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Cell, Gap, Totals
from carb_metrics.clusters import Design, Ints, Units, cluster_of, design, is_clustered, number
from carb_metrics.intervals import Floats, effective_n, normal_quantile, wilson
from carb_metrics.outcomes import Errors
from carb_metrics.resampling import percentile_interval, sum_by

Weights = Mapping[Any, float]
"""Group key (a value, or a tuple of values in the order of ``by``, without the scorer) to weight."""

CONTENDER = 2.0
"""A group this many standard errors from the best (worst) may be the best (worst) in truth."""

GAP_DRAWS = 2_000
"""Draws behind the interval of the gap between the best and the worst group."""

COUNTS = ("n", "ties", "errors")

PRIOR = 2.0
"""Weight, in sets, of what all groups together show in the variance of one group."""


@lru_cache(maxsize=8)
def _normals(draws: int, count: int, seed: int) -> Floats:
    """(draws, count) standard normal draws: the scorers of a report share them."""
    return np.random.default_rng(seed).standard_normal((draws, count))


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
        self.apart = errors == "exclude"
        self.units: Units | None = None
        self.effect: Floats = np.ones(groups)
        self.effective_n = self.effective(self.counts, self.n, self.accuracy)
        if "count" not in sets.columns and is_clustered(sets):
            self.units = self.make_units()
            found = self.design(self.units, np.arange(groups), groups)
            self.effective_n = found.effective_n(self.accuracy, self.effective_n, confidence)
            self.effect = found.effect

    def make_units(self) -> Units:
        """The counted sets with their clusters."""
        cluster = cluster_of(self.sets)[self.counted]
        return Units.ordered(self.group[self.counted], cluster, self.sets["credit"].to_numpy()[self.counted])

    def weights(self, wanted: Weights | None) -> Floats | None:
        """A weight for each group, or ``CarbError`` where one is missing or not a weight."""
        if wanted is None:
            return None
        named = [key[0] if len(key) == 1 else key for key in self.names]
        missing = sorted({str(name) for name in named if name not in wanted})
        if missing:
            raise CarbError(f"weights has no entry for {', '.join(missing)}; each group of {self.keys} needs one.")
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
        counts = {name: int(getattr(self, name)[rows].sum()) for name in COUNTS}
        cell = Cell(accuracy=accuracy, low=min(low, accuracy), high=max(high, accuracy), **counts)
        return cell.with_errors_apart() if self.apart else cell

    def totals(self, names: list[str], weight: Floats | None, resamples: int, seed: int) -> dict[str, Totals]:
        """For each scorer, averages over its groups, which hold no set twice, and the gap between them."""
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
            name: self.totals_of(
                np.flatnonzero(of == i), weight, {key: found.of(i) for key, found in effects.items()}, resamples, seed
            )
            for i, name in enumerate(names)
        }

    def totals_of(
        self, rows: Ints, weight: Floats | None, effects: dict[str, Design], resamples: int, seed: int
    ) -> Totals:
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
            gap=self.gap(rows, resamples, seed) if len(rows) > 1 else None,
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
        return self.cell(rows, accuracy, effective)

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
        return self.cell(rows, accuracy, centre * (1 - centre) / variance * (normal_quantile(self.confidence) / t) ** 2)

    def covariance(self, rows: Ints) -> Floats:
        """(groups, groups) covariance of the groups' accuracies, which shared clusters correlate."""
        deviation = np.sqrt(self.variances(rows) * self.effect[rows])
        if self.units is None:
            return np.diag(deviation) ** 2
        count = len(rows)
        units = self.units.of(rows)
        place = np.zeros(len(self.n), dtype=np.int64)
        place[rows] = np.arange(count)
        residual = units.credit - self.accuracy[units.group]
        pair = units.cluster * count + place[units.group]
        sums = sum_by(pair, residual, (int(units.cluster.max()) + 1) * count).reshape(-1, count)
        together: Floats = sums.T @ sums
        spread = np.sqrt(np.diag(together))
        scale = np.divide(1.0, spread, out=np.zeros(count), where=spread > 1e-9)
        correlation = together * scale * scale[:, None]
        np.fill_diagonal(correlation, 1.0)
        covariance: Floats = correlation * deviation * deviation[:, None]
        return covariance

    def gap(self, rows: Ints, draws: int, seed: int) -> Gap:
        """Best minus worst group, with an interval that allows for having picked them by looking.

        The upper limit is that of the two groups picked. Picking makes the gap too large, so the lower limit lets
        every group within ``CONTENDER`` standard errors of the best (worst) compete in each draw; moment selection
        after Andrews and Soares (2010), Econometrica 78:119-157. Where best and worst are clear it is the plain
        normal interval; near ties it is conservative.
        """
        covariance = self.covariance(rows)
        variance = np.diag(covariance)
        accuracy = self.accuracy[rows]
        best, worst = (rows[accuracy == pick].min() for pick in (accuracy.max(), accuracy.min()))
        top, bottom = int(np.flatnonzero(rows == best)[0]), int(np.flatnonzero(rows == worst)[0])
        # Standard errors of the difference between each group and the best, and the worst.
        to_top, to_bottom = (np.sqrt(np.maximum(variance + variance[i] - 2 * covariance[i], 0)) for i in (top, bottom))
        may_be_top = accuracy[top] - accuracy <= CONTENDER * to_top
        may_be_bottom = accuracy - accuracy[bottom] <= CONTENDER * to_bottom
        difference = float(accuracy[top] - accuracy[bottom])
        above = below = normal_quantile(self.confidence) * float(to_top[bottom])
        if may_be_top.sum() > 1 or may_be_bottom.sum() > 1:
            # A little more than the covariance: groups that hold the same clusters leave it without a root.
            noise = _normals(draws, len(rows), seed) @ np.linalg.cholesky(covariance + 1e-9 * np.diag(variance)).T
            wide = noise[:, may_be_top].max(1) - noise[:, may_be_bottom].min(1)
            above = float(percentile_interval(wide, self.confidence)[1])
        low, high = difference - above, difference + below
        if not 0 < difference < 1:  # Newcombe (1998), Statistics in Medicine 17:873-890, method 10
            low, high = self.newcombe(best, worst)
        return Gap(
            best=self.names[best],
            worst=self.names[worst],
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
        every = np.arange(len(self.n))
        rows, one = np.flatnonzero(self.n > 0), np.zeros(len(self.n), dtype=np.int64)

        def average(given: Floats) -> Cell:
            return self.average(rows, given[rows], self.design(units, one, 1, given))

        return Totals(
            overall=self.overall(every, self.design(units, one, 1)),
            macro=average(np.ones(len(self.n))),
            weighted=None if weight is None else average(weight),
        )

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
