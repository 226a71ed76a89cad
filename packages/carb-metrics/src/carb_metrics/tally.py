"""Counts per group, and the cells and averages made of them."""

from typing import Any

import numpy as np
import polars as pl

from carb_metrics.cells import CELL, Cell, Totals
from carb_metrics.clusters import CLUSTER, Ints, number
from carb_metrics.intervals import Floats, few_degrees, nan_where_undefined, wilson
from carb_metrics.means import Design, design

COUNTS = ("n", "ties", "errors")

PRIOR = 2.0
"""Weight, in sets, of what all groups together show in the variance of one group."""


class Tally:
    """Counts per group; every array has a value per row of ``rows``."""

    def __init__(
        self,
        sets: pl.DataFrame,
        keys: tuple[str, ...],
        confidence: float,
    ) -> None:
        self.keys = keys
        self.confidence = confidence
        self.group, self.rows = number(sets, keys)
        self.credit: Floats = sets["credit"].to_numpy()
        self.cluster: Ints = sets[CLUSTER].to_numpy()
        self.values = np.unique(self.credit)
        self.counts = self._count_values()
        self.n: Ints = self.counts.sum(1)
        self.ties = self._count(sets["tied"] > 0)
        self.errors = self._count(sets["error"])
        won = self.counts @ self.values
        won_outright = self.counts @ (self.values == 1)
        self.accuracy: Floats = won / self.n
        self.strict: Floats = won_outright / self.n
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
        cell = self.group * width + value
        counts = np.bincount(cell, minlength=self.groups * width)
        return counts.reshape(self.groups, width)

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
        earned = self.counts @ self.values
        total = np.bincount(mean, earned, means)
        sets = np.bincount(mean, self.n, means)
        with nan_where_undefined():
            centre = total / sets
        of = mean[self.group]
        residual = self.credit - centre[of]
        return design(self.cluster, residual, mean=of, means=means)

    def macro_design(self, mean: Ints, means: int) -> Design:
        """The same of averages in which groups weigh the same."""
        group = self.group
        weight = 1 / (np.bincount(mean, minlength=means)[mean] * self.n)
        residual = self.credit - self.accuracy[group]
        return design(
            self.cluster,
            residual,
            weight[group],
            mean[group],
            means,
        )

    def frame(self) -> pl.DataFrame:
        """Key columns, then the fields of ``Cell``."""
        won = self.accuracy * self.effective_n
        low, high = wilson(won, self.effective_n, self.confidence)
        shares = {
            "accuracy": self.accuracy,
            "low": low,
            "high": high,
            "strict": self.strict,
        }
        unknown = self.errors == self.n
        texts = pl.exclude(pl.Int64).cast(pl.String)
        columns = self.rows.with_columns(texts).get_columns()
        for name, values in shares.items():
            known = np.where(unknown, np.nan, values)
            columns.append(pl.Series(name, known, dtype=pl.Float64).fill_nan(None))
        for name in COUNTS:
            columns.append(pl.Series(name, getattr(self, name), dtype=pl.Int64))
        return pl.DataFrame(columns).select(*self.rows.columns, *CELL)

    def effective(
        self,
        counts: Ints,
        n: Any,
        accuracy: Any,
    ) -> Floats:
        """Effective sample size of mean credits of independent sets (Korn and Graubard 1998, Survey
        Methodology 24:193-201): ``p(1−p) / variance``, exactly ``n`` where its own credits are 0
        and 1 or all alike."""
        above_0 = self.values > 0
        below_1 = self.values < 1
        fractions = above_0 & below_1
        between = counts[..., fractions].sum(-1)
        with nan_where_undefined():
            square = counts @ self.values**2 / n
            variance = (square - accuracy**2) / (n - 1)
            varies = variance > 1e-15
            mixed = (between > 0) & varies
            binomial = accuracy * (1 - accuracy)
            size: Floats = np.where(mixed, binomial / variance, n)
        return size

    def cell(
        self,
        rows: Ints,
        accuracy: float,
        strict: float,
        effective: float,
    ) -> Cell:
        """The cell of these groups together, with Wilson's interval at an effective sample size."""
        counts = {}
        for name in COUNTS:
            counts[name] = int(getattr(self, name)[rows].sum())
        if counts["errors"] == counts["n"]:
            return Cell(**counts)
        won = accuracy * effective
        low, high = wilson(won, effective, self.confidence)
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
        numbers = range(len(names))
        rows_of = [np.flatnonzero(of == number) for number in numbers]
        overall = self._overall(of, rows_of)
        by_group = self.macro_design(of, len(names))
        other_keys = [key for key in self.keys if key != "scorer"]
        complete = self.rows.select(pl.lit(0), *other_keys).n_unique()
        totals = {}
        for index, name in enumerate(names):
            rows = rows_of[index]
            macro = overall[index]
            if len(rows) > 1:
                effect = float(by_group.effect[index])
                macro = self.macro(rows, effect, float(by_group.freedom[index]))
            if len(rows) != complete:
                macro = Cell()
            totals[name] = Totals(overall=overall[index], macro=macro)
        return totals

    def _scorer_of_group(self, names: list[str]) -> Ints:
        """(groups,) the index of each group's scorer in ``names``."""
        if "scorer" not in self.keys:
            return np.zeros(len(self.n), dtype=np.int64)
        scorers = self.rows["scorer"].cast(pl.String)
        indices = [names.index(name) for name in scorers]
        return np.array(indices, dtype=np.int64)

    def _overall(
        self,
        of: Ints,
        rows_of: list[Ints],
    ) -> list[Cell]:
        """The cell of each scorer over all its sets."""
        if not rows_of:
            return []
        sums = [self.counts[rows].sum(0) for rows in rows_of]
        counts = np.stack(sums)
        sizes = counts.sum(1)
        accuracy = counts @ self.values / sizes
        strict = counts @ (self.values == 1) / sizes
        independent = self.effective(counts, sizes, accuracy)
        by_set = self.design(of, len(rows_of))
        effective = by_set.effective_n(accuracy, independent, self.confidence)
        cells = []
        for index, rows in enumerate(rows_of):
            share = float(accuracy[index])
            of_strict = float(strict[index])
            cells.append(self.cell(rows, share, of_strict, float(effective[index])))
        return cells

    def macro(
        self,
        rows: Ints,
        effect: float,
        freedom: float,
    ) -> Cell:
        """The mean over the groups, with Wilson's interval at an effective sample size.

        Its variance is that of a mean of the groups', times the design effect of clusters; degrees
        of freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110-114), and not more than
        clusters leave. A small group in which all is won or lost shows no variance of its own. So
        each group's variance is drawn towards that of all groups: it is a posterior variance under
        a beta prior of the common accuracy, which weighs ``PRIOR`` sets. One set won and one lost
        are added (Agresti and Coull 1998, The American Statistician 52:119-126, with the common
        accuracy instead of 1/2).
        """
        # The names of groups do not decide this order, so they change no digit.
        rows = rows[np.lexsort(self.counts[rows].T)]
        counts = self.counts[rows]
        accuracy = float(self.accuracy[rows].mean())
        sets = self.n[rows]
        n = float(sets.sum())
        won = counts @ self.values
        square = counts @ self.values**2

        def drawn(sums: Floats) -> Floats:
            common = (sums.sum() + 1) / (n + 2)
            known = sums + PRIOR * common
            mean: Floats = known / (sets + PRIOR)
            return mean

        spread = drawn(square) - drawn(won) ** 2
        parts = spread / sets / len(rows) ** 2
        variance = parts.sum()
        unsure = parts**2 / (sets + PRIOR)
        satterthwaite = variance**2 / unsure.sum()
        freedom = max(min(satterthwaite, freedom), 1.0)
        variance *= effect
        centre = (accuracy * n + 1) / (n + 2)
        widened = float(few_degrees(freedom, self.confidence))
        binomial = centre * (1 - centre)
        effective = binomial / variance * widened
        # Near 0 and 1 the variance is mostly unseen, and these sets are worth no more than if all
        # groups were alike.
        most = len(rows) ** 2 / ((1 / sets).sum() * effect)
        strict = float(self.strict[rows].mean())
        effective = min(effective, most)
        return self.cell(rows, accuracy, strict, effective)
