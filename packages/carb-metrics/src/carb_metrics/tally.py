"""Counts per group, and the cells and averages made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from carb_metrics.cells import Cell, Totals
from carb_metrics.clusters import Ints, cluster_of, number
from carb_metrics.intervals import Floats, normal_quantile, wilson
from carb_metrics.means import Design, design

COUNTS = ("n", "ties", "errors")

PRIOR = 2.0
"""Weight, in sets, of what all groups together show in the variance of one group."""


class Tally:
    """Counts per group; every array has a value per row of ``rows``."""

    def __init__(self, sets: pl.DataFrame, keys: tuple[str, ...], confidence: float) -> None:
        self.keys = keys
        self.confidence = confidence
        self.group, self.rows = number(sets, keys)
        self.credit: Floats = sets["credit"].to_numpy()
        self.cluster = cluster_of(sets)
        self.values: Floats = sets["credit"].unique().sort().to_numpy()
        self.counts = self._count_values()
        self.n: Ints = self.counts.sum(1)
        self.ties = self._count(sets["tied"] > 0)
        self.errors = self._count(sets["error"])
        self.accuracy: Floats = self.counts @ self.values / self.n
        self.strict: Floats = self.counts @ (self.values == 1) / self.n
        self.effective_n = self._effective_n()

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group.max(initial=-1)) + 1

    def _count(self, which: pl.Series) -> Ints:
        """(groups,) the number of sets for which something holds."""
        return np.bincount(self.group[which.to_numpy()], minlength=self.groups)

    def _count_values(self) -> Ints:
        """(groups, values) the number of sets with each credit."""
        width = len(self.values)
        value = np.searchsorted(self.values, self.credit)
        cells = np.bincount(self.group * width + value, minlength=self.groups * width)
        return cells.reshape(self.groups, width)

    def _effective_n(self) -> Floats:
        """(groups,) the effective sample size of each accuracy."""
        effects = self.design(np.arange(self.groups), self.groups)
        independent = self.effective(self.counts, self.n, self.accuracy)
        return effects.effective_n(self.accuracy, independent, self.confidence)

    def design(self, mean: Ints, means: int) -> Design:
        """The design effects of averages over groups, in which sets weigh the same.

        Args:
            mean: (groups,) the average that a group belongs to.
            means: number of averages.
        """
        total = np.bincount(mean, self.counts @ self.values, means)
        sets = np.bincount(mean, self.n, means)
        with np.errstate(invalid="ignore"):
            centre = total / sets
        of = mean[self.group]
        return design(self.cluster, self.credit - centre[of], mean=of, means=means)

    def macro_design(self, mean: Ints, means: int) -> Design:
        """The same of averages in which groups weigh the same."""
        groups = np.bincount(mean, minlength=means)[mean]
        weight = 1 / (groups * self.n)
        residual = self.credit - self.accuracy[self.group]
        return design(self.cluster, residual, weight[self.group], mean[self.group], means)

    def frame(self) -> pl.DataFrame:
        """Key columns, then the fields of ``Cell``."""
        low, high = wilson(self.accuracy * self.effective_n, self.effective_n, self.confidence)
        shares = {
            "accuracy": self.accuracy,
            "low": low,
            "high": high,
            "strict": self.strict,
        }
        unknown = self.errors == self.n
        columns = [
            column if column.dtype == pl.Int64 else column.cast(pl.String) for column in self.rows
        ]
        for name, values in shares.items():
            column = pl.Series(name, np.where(unknown, np.nan, values), dtype=pl.Float64)
            columns.append(column.fill_nan(None))
        counts = [pl.Series(name, getattr(self, name), dtype=pl.Int64) for name in COUNTS]
        return pl.DataFrame([*columns, *counts]).select(*self.rows.columns, *Cell.model_fields)

    def effective(self, counts: Ints, n: Any, accuracy: Any) -> Floats:
        """Effective sample size of mean credits of independent sets (Korn and Graubard 1998, Survey
        Methodology 24:193-201): ``p(1−p) / variance``, exactly ``n`` where its own credits are 0
        and 1 or all alike."""
        fractions = (self.values > 0) & (self.values < 1)
        between = counts[..., fractions].sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (counts @ self.values**2 / n - accuracy**2) / (n - 1)
            mixed = (between > 0) & (variance > 1e-15)
            size: Floats = np.where(mixed, accuracy * (1 - accuracy) / variance, n)
        return size

    def cell(self, rows: Ints, accuracy: float, strict: float, effective: float) -> Cell:
        """The cell of these groups together, with Wilson's interval at an effective sample size."""
        counts = {name: int(getattr(self, name)[rows].sum()) for name in COUNTS}
        if counts["errors"] == counts["n"]:
            return Cell(**counts)
        low, high = wilson(accuracy * effective, effective, self.confidence)
        return Cell(
            accuracy=accuracy,
            strict=strict,
            low=min(float(low), accuracy),
            high=max(float(high), accuracy),
            **counts,
        )

    def totals(self, names: list[str]) -> dict[str, Totals]:
        """For each scorer, averages over its groups, which hold no set twice.

        A scorer that lacks a group which another one has gets no macro average: an average over
        fewer groups must not stand beside that of all groups.
        """
        of = self._scorer_of_group(names)
        rows_of = [np.flatnonzero(of == index) for index in range(len(names))]
        overall = self._overall(of, rows_of)
        by_group = self.macro_design(of, len(names))
        other_keys = [key for key in self.keys if key != "scorer"]
        complete = self.rows.select(pl.lit(0), *other_keys).n_unique()
        totals = {}
        for index, name in enumerate(names):
            rows = rows_of[index]
            macro = overall[index]
            if len(rows) > 1:
                effect = by_group.effect[index]
                freedom = by_group.freedom[index]
                macro = self.macro(rows, float(effect), float(freedom))
            if len(rows) != complete:
                macro = Cell()
            totals[name] = Totals(overall=overall[index], macro=macro)
        return totals

    def _scorer_of_group(self, names: list[str]) -> Ints:
        """(groups,) the index of each group's scorer in ``names``."""
        if "scorer" not in self.keys:
            return np.zeros(len(self.n), dtype=np.int64)
        index = {name: i for i, name in enumerate(names)}
        scorers = self.rows["scorer"].cast(pl.String)
        return np.array([index[name] for name in scorers], dtype=np.int64)

    def _overall(self, of: Ints, rows_of: list[Ints]) -> list[Cell]:
        """The cell of each scorer over all its sets."""
        counts = [self.counts[rows].sum(0) for rows in rows_of]
        sizes = [row.sum() for row in counts]
        parts = list(zip(counts, sizes, strict=True))
        accuracy = np.array([float(row @ self.values / n) for row, n in parts])
        independent = [
            float(self.effective(row, n, p)) for (row, n), p in zip(parts, accuracy, strict=True)
        ]
        by_set = self.design(of, len(rows_of))
        effective = by_set.effective_n(accuracy, np.array(independent), self.confidence)
        cells = []
        for index, rows in enumerate(rows_of):
            strict = counts[index] @ (self.values == 1) / sizes[index]
            size = float(effective[index])
            cells.append(self.cell(rows, float(accuracy[index]), float(strict), size))
        return cells

    def macro(self, rows: Ints, effect: float, freedom: float) -> Cell:
        """The mean over the groups, with Wilson's interval at an effective sample size.

        Its variance is that of a mean of the groups', times the design effect of clusters; degrees
        of freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110-114), and not more than
        clusters leave. A small group in which all is won or lost shows no variance of its own. So
        each group's variance is drawn towards that of all groups: it is a posterior variance under
        a beta prior with the weight of ``PRIOR`` sets and the common accuracy, to which one set won
        and one lost are added (Agresti and Coull 1998, The American Statistician 52:119-126, with
        the common accuracy in the place of 1/2).
        """
        from scipy.special import stdtrit

        # The names of groups do not decide this order, so they change no digit.
        rows = rows[np.lexsort(self.counts[rows].T)]
        accuracy = float(self.accuracy[rows].mean())
        sets = self.n[rows]
        n = float(sets.sum())
        won = self.counts[rows] @ self.values
        square = self.counts[rows] @ self.values**2

        def drawn(sums: Floats) -> Floats:
            mean: Floats = (sums + PRIOR * (sums.sum() + 1) / (n + 2)) / (sets + PRIOR)
            return mean

        parts = (drawn(square) - drawn(won) ** 2) / sets / len(rows) ** 2
        variance = parts.sum()
        satterthwaite = variance**2 / (parts**2 / (sets + PRIOR)).sum()
        freedom = max(min(satterthwaite, freedom), 1.0)
        variance *= effect
        t = float(stdtrit(freedom, 0.5 + self.confidence / 2))
        centre = (accuracy * n + 1) / (n + 2)
        widened = (normal_quantile(self.confidence) / t) ** 2
        effective = centre * (1 - centre) / variance * widened
        # Near 0 and 1 the variance is mostly unseen, and these sets are worth no more than if all
        # groups were alike.
        most = len(rows) ** 2 / ((1 / sets).sum() * effect)
        return self.cell(rows, accuracy, float(self.strict[rows].mean()), min(effective, most))
