"""Best-of-N accuracy with ties, errors, weights and uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Cell, Grouped, Totals
from carb_metrics.clusters import (
    Ints,
    Units,
    average_effective_n,
    cluster_bootstrap,
    group_effective_n,
    is_clustered,
    tally_units,
)
from carb_metrics.intervals import (
    RESAMPLES,
    Floats,
    bootstrap_means,
    check_confidence,
    effective_n,
    mover,
    percentile_interval,
    wilson,
)
from carb_metrics.outcomes import Errors, Ties, set_outcomes

Weights = Mapping[Any, float]
"""Group key (a value, or a tuple of values in the order of ``by``, without the scorer) to weight."""


def bon_accuracy(
    scores: ScoreTable,
    by: str | Sequence[str] = (),
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    weights: Weights | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Grouped:
    """Did ``chosen`` outscore every ``rejected``? Per group and overall, with intervals.

    Accuracy is the mean credit of sets (Zhang et al., arXiv 2509.21798, section 3): 1 where ``chosen`` scores
    above all ``rejected``, else 0; see ``ties`` for shared first places. Perturbed rows never count.

    Single cells carry Wilson's interval, on an effective sample size where credits are fractions or where several
    sets stem from one source item (``ScoreTable.with_items``). Averages over groups carry the percentile interval
    of a bootstrap stratified by group, or clustered by source item.

    Args:
        scores: the table. With several scorers in it, ``by`` must hold ``scorer``.
        by: columns that define the groups, out of ``scorer``, ``culture``, ``domain``, ``language`` (of
            ``chosen``), ``topic``, ``source_item``.
        ties: ``strict``: sharing the highest score with a ``rejected`` is a loss; ``shared``: it earns
            1 / (number of responses at the top).
        confidence: of all intervals.
        errors: ``wrong``: a set that could not be judged is a loss; ``exclude``: it is left out of ``n``. Either
            way ``errors`` counts it.
        weights: for a third average, ``.weighted``: group key (without the scorer) to weight; they need not sum
            to 1, and every group needs one.
        resamples: bootstrap replicates.
        seed: of the bootstrap. Results do not depend on the order of rows, nor on the names of groups.

    Returns:
        ``.overall`` (micro: sets weigh the same, the paper's headline), ``.macro`` (groups weigh the same),
        ``.groups`` (a row per group), ``.of(scorer)`` for one scorer's part. Averages of a table with several
        scorers are means over all its rows, clustered by item. Empty input gives null.

    Raises:
        CarbError: unknown column or option, several scorers without ``scorer`` in ``by``, or malformed sets.
    """
    sets = set_outcomes(scores, ties)
    return grouped_accuracy(sets, by, confidence, errors=errors, weights=weights, resamples=resamples, seed=seed)


def grouped_accuracy(
    sets: pl.DataFrame,
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    weights: Weights | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Grouped:
    """``bon_accuracy`` on a row per set, as ``set_outcomes`` gives it, possibly with further columns to group by."""
    keys = (by,) if isinstance(by, str) else tuple(by)
    check_confidence(confidence)
    if errors not in ("wrong", "exclude"):
        raise CarbError(f"errors must be 'wrong' or 'exclude'; got '{errors}'.")
    names = sorted(sets["scorer"].unique().cast(pl.String).to_list())
    _check_keys(sets, keys, names)
    tally = _Tally(sets.with_columns(counted=(~pl.col("error")) | (errors == "wrong")), keys, confidence)
    weight = tally.weights(weights)
    options = (weight, resamples, seed)
    totals = {name: tally.totals(tally.rows_of(name), *options) for name in names}
    if len(names) == 1:
        whole = totals[names[0]]
    else:
        whole = tally.pooled(weight) if names else Totals(weighted=None if weights is None else Cell())
    return Grouped(by=keys, groups=tally.frame(), scorers=totals, **dict(whole))


def _check_keys(sets: pl.DataFrame, keys: tuple[str, ...], names: list[str]) -> None:
    known = [c for c in sets.columns if c not in ("credit", "tied", "error")]
    unknown = [key for key in keys if key not in known]
    if unknown or len(set(keys)) < len(keys):
        extra = " Columns 'topic' and 'source_item' come from ScoreTable.with_items(dataset)."
        hint = extra if {"topic", "source_item"} & set(unknown) else ""
        raise CarbError(f"by={list(keys)}: each key must be one of {known}, once.{hint}")
    if len(names) > 1 and "scorer" not in keys:
        raise CarbError(
            f"The table holds {len(names)} scorers ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''}); "
            "put 'scorer' into 'by', or filter the table to one."
        )


class _Tally:
    """Counts per group, and the cells made of them."""

    def __init__(self, sets: pl.DataFrame, keys: tuple[str, ...], confidence: float) -> None:
        self.sets, self.keys, self.confidence = sets, keys, confidence
        self.values: Floats = np.sort(sets["credit"].unique().to_numpy())
        counts = [
            pl.col("counted").sum().cast(pl.Int64).alias("n"),
            (pl.col("tied") > 0).sum().cast(pl.Int64).alias("ties"),
            pl.col("error").sum().cast(pl.Int64).alias("errors"),
            *(
                ((pl.col("credit") == value) & pl.col("counted")).sum().cast(pl.Int64).alias(f"#{i}")
                for i, value in enumerate(self.values)
            ),
        ]
        rows = sets.group_by(keys).agg(counts) if keys else sets.select(counts).head(min(sets.height, 1))
        self.rows = rows.sort(pl.col(keys).cast(pl.String)) if keys else rows
        self.counts: Ints = self.rows.select(f"#{i}" for i in range(len(self.values))).to_numpy()
        self.n: Ints = self.rows["n"].to_numpy()
        self.ties, self.errors = self.rows["ties"].to_numpy(), self.rows["errors"].to_numpy()
        with np.errstate(invalid="ignore"):
            self.accuracy: Floats = self.counts @ self.values / self.n
        self.units = self._units() if is_clustered(sets) else None

    def _units(self) -> Units:
        numbered = self.rows.select(self.keys).with_row_index("_group")
        if not self.keys:
            return tally_units(self.sets, np.zeros(self.sets.height, dtype=np.int64))
        joined = self.sets.join(numbered, on=self.keys, nulls_equal=True, maintain_order="left")
        return tally_units(self.sets, joined["_group"].cast(pl.Int64).to_numpy())

    def weights(self, wanted: Weights | None) -> Floats | None:
        """A weight for each group, in the order of the rows."""
        if wanted is None:
            return None
        keys = [key for key in self.keys if key != "scorer"]
        rows = self.rows.select(pl.col(key) for key in keys).rows() if keys else [()] * self.rows.height
        named = [row[0] if len(row) == 1 else row for row in rows]
        missing = sorted({str(name) for name in named if name not in wanted})
        if missing:
            raise CarbError(f"weights has no entry for {', '.join(missing)}; each group of {keys} needs one.")
        weight = np.array([float(wanted[name]) for name in named])
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise CarbError("weights must be finite and not negative.")
        return weight

    def rows_of(self, scorer: str) -> Ints:
        """Numbers of the groups of one scorer."""
        if "scorer" not in self.keys:
            return np.arange(self.rows.height)
        return (self.rows["scorer"].cast(pl.String) == scorer).arg_true().to_numpy().astype(np.int64)

    def frame(self) -> pl.DataFrame:
        """Key columns, then the fields of ``Cell``."""
        if self.units is None:
            effective = _effective(self.counts, self.values, self.n, self.accuracy)
        else:
            effective = group_effective_n(self.units, self.n, self.accuracy, self.confidence)
        low, high = wilson(self.accuracy * effective, effective, self.confidence)
        numbers = {"accuracy": self.accuracy, "low": low, "high": high}
        return self.rows.select(
            *self.keys,
            *(pl.Series(name, values, dtype=pl.Float64).fill_nan(None) for name, values in numbers.items()),
            "n",
            "ties",
            "errors",
        )

    def cell(self, rows: Ints, accuracy: float, low: float, high: float) -> Cell:
        return Cell(
            accuracy=accuracy,
            low=low,
            high=high,
            n=int(self.n[rows].sum()),
            ties=int(self.ties[rows].sum()),
            errors=int(self.errors[rows].sum()),
        )

    def totals(self, rows: Ints, weight: Floats | None, resamples: int, seed: int) -> Totals:
        """Micro, macro and weighted average of groups that hold no set twice."""
        overall = self.overall(rows, self.units)
        macro = self.average(rows, np.ones(len(rows)), resamples, seed)
        weighted = None if weight is None else self.average(rows, weight[rows], resamples, seed)
        return Totals(overall=overall, macro=macro, weighted=weighted)

    def overall(self, rows: Ints, units: Units | None) -> Cell:
        n = self.n[rows].sum()
        if not n:
            return Cell()
        counts = self.counts[rows].sum(0)
        accuracy = counts @ self.values / n
        if units is None:
            effective = float(_effective(counts, self.values, n, accuracy))
        else:
            share = np.zeros(len(self.n))
            share[rows] = self.n[rows] / n
            centre = np.full(len(self.n), accuracy)
            effective = average_effective_n(units.of(rows), self.n, centre, share, self.confidence)
        low, high = wilson(accuracy * effective, effective, self.confidence)
        return self.cell(rows, float(accuracy), float(low), float(high))

    def average(self, rows: Ints, weight: Floats, resamples: int, seed: int) -> Cell:
        """``Σ w·p`` over the groups, with its bootstrap interval."""
        keep = (self.n[rows] > 0) & (weight > 0)
        rows, weight = rows[keep], weight[keep]
        if not len(rows):
            return Cell()
        if len(rows) == 1:
            return self.overall(rows, self.units)
        weight = weight / weight.sum()
        # An order that the content alone decides, so that names of groups cannot change the draws.
        order = np.lexsort((*self.counts[rows].T, weight))
        rows, weight = rows[order], weight[order]
        accuracy = self.accuracy[rows]
        if self.units is None:
            draws = bootstrap_means(self.counts[rows], self.values, resamples, seed) @ weight
        else:
            draws = cluster_bootstrap(self.units.of(rows), rows, weight, resamples, seed)
        low, high = (float(limit) for limit in percentile_interval(draws, self.confidence))
        if low == high:
            low, high = mover(accuracy, *wilson(accuracy * self.n[rows], self.n[rows], self.confidence), weight)
        return self.cell(rows, float(accuracy @ weight), low, high)

    def pooled(self, weight: Floats | None) -> Totals:
        """Averages over the groups of several scorers, which judged the same items: linearised, clustered by item."""
        units = self._units()
        rows = np.arange(len(self.n))
        macro = self.pooled_average(units, np.ones(len(rows)))
        weighted = None if weight is None else self.pooled_average(units, weight)
        return Totals(overall=self.overall(rows, units), macro=macro, weighted=weighted)

    def pooled_average(self, units: Units, weight: Floats) -> Cell:
        weight = np.where(self.n > 0, weight, 0)
        if not weight.sum():
            return Cell()
        weight = weight / weight.sum()
        rows = np.flatnonzero(weight)
        accuracy = float(self.accuracy[rows] @ weight[rows])
        effective = average_effective_n(units.of(rows), self.n, self.accuracy, weight, self.confidence)
        low, high = wilson(accuracy * effective, effective, self.confidence)
        return self.cell(rows, accuracy, float(low), float(high))


def _effective(counts: Ints, values: Floats, n: Any, accuracy: Any) -> Floats:
    """Effective sample size of mean credits; exactly ``n`` where credits are 0 and 1."""
    if set(values.tolist()) <= {0.0, 1.0}:
        return np.asarray(n, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (counts @ values**2 / n - accuracy**2) / (n - 1)
    return effective_n(n, accuracy, variance)
