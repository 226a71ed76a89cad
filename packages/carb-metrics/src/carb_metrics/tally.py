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
    """Counts per group; every array has a place per row of ``rows``."""

    def __init__(self, sets: pl.DataFrame, keys: tuple[str, ...], confidence: float) -> None:
        self.keys, self.confidence = keys, confidence
        self.group, self.rows = number(sets, keys)
        self.scorer = self.rows["scorer"].cast(pl.String).to_numpy() if "scorer" in keys else None
        groups = int(self.group.max(initial=-1)) + 1
        self.credit, self.cluster = sets["credit"].to_numpy(), cluster_of(sets)
        self.values: Floats = sets["credit"].unique().sort().to_numpy()
        kind = self.group * len(self.values) + np.searchsorted(self.values, self.credit)
        cells = np.bincount(kind, minlength=groups * len(self.values))
        self.counts: Ints = cells.reshape(groups, len(self.values))
        self.n: Ints = self.counts.sum(1)
        tied, error = sets["tied"].to_numpy() > 0, sets["error"].to_numpy()
        self.ties: Ints = np.bincount(self.group[tied], minlength=groups)
        self.errors: Ints = np.bincount(self.group[error], minlength=groups)
        self.accuracy: Floats = self.counts @ self.values / self.n
        self.strict: Floats = self.counts @ (self.values == 1) / self.n
        effects = self.design(np.arange(groups), groups)
        independent = self.effective(self.counts, self.n, self.accuracy)
        self.effective_n = effects.effective_n(self.accuracy, independent, confidence)

    def design(self, mean: Ints, means: int, *, macro: bool = False) -> Design:
        """The design effects of averages over groups.

        Args:
            mean: (groups,) the average that a group belongs to.
            means: number of averages.
            macro: whether groups weigh the same in an average, and not sets.
        """
        of = mean[self.group]
        if macro:
            groups = np.bincount(mean, minlength=means)[mean]
            weight = 1 / (groups * self.n)
            return design(
                self.cluster, self.credit - self.accuracy[self.group], weight[self.group], of, means
            )
        with np.errstate(invalid="ignore"):
            centre = np.bincount(mean, self.counts @ self.values, means) / np.bincount(
                mean, self.n, means
            )
        return design(self.cluster, self.credit - centre[of], mean=of, means=means)

    def frame(self) -> pl.DataFrame:
        """Key columns, then the fields of ``Cell``."""
        low, high = wilson(self.accuracy * self.effective_n, self.effective_n, self.confidence)
        shares = {"accuracy": self.accuracy, "low": low, "high": high, "strict": self.strict}
        numbers = {
            name: np.where(self.errors == self.n, np.nan, array) for name, array in shares.items()
        }
        counts = {"n": self.n, "ties": self.ties, "errors": self.errors}
        found = pl.DataFrame(
            [
                *(
                    column.cast(pl.String) if column.dtype != pl.Int64 else column
                    for column in self.rows
                ),
                *(
                    pl.Series(name, array, dtype=pl.Float64).fill_nan(None)
                    for name, array in numbers.items()
                ),
                *(pl.Series(name, array, dtype=pl.Int64) for name, array in counts.items()),
            ]
        )
        return found.select(*self.rows.columns, *Cell.model_fields)

    def effective(self, counts: Ints, n: Any, accuracy: Any) -> Floats:
        """Effective sample size of mean credits of independent sets (Korn and Graubard 1998, Survey
        Methodology 24:193-201): ``p(1−p) / variance``, exactly ``n`` where its own credits are 0
        and 1 or all alike."""
        between = counts[..., (self.values > 0) & (self.values < 1)].sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (counts @ self.values**2 / n - accuracy**2) / (n - 1)
            found: Floats = np.where(
                (between > 0) & (variance > 1e-15), accuracy * (1 - accuracy) / variance, n
            )
        return found

    def cell(self, rows: Ints, accuracy: float, strict: float, effective: float) -> Cell:
        """The cell of these groups together, with Wilson's interval at an effective sample size."""
        low, high = (
            float(limit) for limit in wilson(accuracy * effective, effective, self.confidence)
        )
        counts = {name: int(getattr(self, name)[rows].sum()) for name in COUNTS}
        if counts["errors"] == counts["n"]:
            return Cell(**counts)
        return Cell(
            accuracy=accuracy,
            strict=strict,
            low=min(low, accuracy),
            high=max(high, accuracy),
            **counts,
        )

    def totals(self, names: list[str]) -> dict[str, Totals]:
        """For each scorer, averages over its groups, which hold no set twice.

        A scorer that lacks a group which another one has gets no macro average: an average over
        fewer groups must not stand beside that of all groups.
        """
        of = np.zeros(len(self.n), dtype=np.int64)
        if self.scorer is not None:
            place = {name: number for number, name in enumerate(names)}
            of = np.array([place[name] for name in self.scorer], dtype=np.int64)
        by_set, by_group = self.design(of, len(names)), self.design(of, len(names), macro=True)
        groups = self.rows.select(
            pl.lit(0), *(key for key in self.keys if key != "scorer")
        ).n_unique()
        rows_of = [np.flatnonzero(of == i) for i in range(len(names))]
        counts = [self.counts[rows].sum(0) for rows in rows_of]
        accuracy = np.array([float(own @ self.values / own.sum()) for own in counts])
        independent = [
            float(self.effective(own, own.sum(), p))
            for own, p in zip(counts, accuracy, strict=True)
        ]
        effective = by_set.effective_n(accuracy, np.array(independent), self.confidence)
        found = {}
        for i, name in enumerate(names):
            strict = float(counts[i] @ (self.values == 1) / counts[i].sum())
            overall = macro = self.cell(rows_of[i], float(accuracy[i]), strict, float(effective[i]))
            if len(rows_of[i]) > 1:
                macro = self.macro(
                    rows_of[i], float(by_group.effect[i]), float(by_group.freedom[i])
                )
            found[name] = Totals(
                overall=overall, macro=macro if len(rows_of[i]) == groups else Cell()
            )
        return found

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
        accuracy, n = float(self.accuracy[rows].mean()), float(self.n[rows].sum())
        sets, won, square = (
            self.n[rows],
            self.counts[rows] @ self.values,
            self.counts[rows] @ self.values**2,
        )
        mean = (won + PRIOR * (won.sum() + 1) / (n + 2)) / (sets + PRIOR)
        of_squares = (square + PRIOR * (square.sum() + 1) / (n + 2)) / (sets + PRIOR)
        parts = (of_squares - mean**2) / sets / len(rows) ** 2
        variance = parts.sum()
        freedom = min(variance**2 / (parts**2 / (sets + PRIOR)).sum(), freedom)
        variance *= effect
        centre = (accuracy * n + 1) / (n + 2)
        t = float(stdtrit(max(freedom, 1.0), 0.5 + self.confidence / 2))
        effective = centre * (1 - centre) / variance * (normal_quantile(self.confidence) / t) ** 2
        # Near 0 and 1 the variance is mostly unseen, and these sets are worth no more than if all
        # groups were alike.
        most = len(rows) ** 2 / ((1 / sets).sum() * effect)
        return self.cell(rows, accuracy, float(self.strict[rows].mean()), min(effective, most))
