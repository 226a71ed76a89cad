"""Which scorer is better, and is the difference more than chance?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Frame, Result
from carb_metrics.clusters import Ints, Units, cluster_bootstrap, cluster_of, is_clustered, number
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import Errors, Ties, set_outcomes
from carb_metrics.paired import (
    adjust,
    difference_interval,
    minimum_detectable_difference,
    sets_needed,
    sign_flip,
)
from carb_metrics.resampling import (
    RESAMPLES,
    bootstrap_means,
    bootstrap_statistic,
    kinds_of,
    percentile_interval,
    stretch,
)


class Comparison(Result):
    """Two scorers on the same sets. Differences are those of accuracies, ``a`` minus ``b``."""

    a: str | None
    b: str | None
    n: int
    """Sets that both scored."""
    unpaired: int
    """Sets that only one of both scored, left out."""
    only_a: int | None = None
    """Sets in which a earns more than b: under strict ties, that a won and b lost."""
    only_b: int | None = None
    accuracy_a: float | None = None
    accuracy_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """McNemar's mid-p; over the signs of whole clusters where sets share source items."""
    p_exact: float | None = None
    """McNemar's exact p, conservative."""
    macro: Estimate = Estimate()
    """Mean of the groups' differences, each group with the same weight; null without ``by``."""
    detectable: float | None = None
    """True difference that this many sets find with 80% power, at the discordance seen."""
    more_sets: int | None = None
    """Further sets after which the difference seen would be found with 80% power; 0 if settled, null if it is 0."""
    by: tuple[str, ...] = ()
    groups: Frame
    """A row per group: keys, ``n``, ``only_a``, ``only_b``, ``accuracy_a``, ``accuracy_b``, ``difference``, ``low``,
    ``high``, ``p``, ``p_adjusted`` (Holm)."""

    @property
    def discordance(self) -> float | None:
        """Share of sets in which both differ; null for no sets."""
        return None if self.only_a is None or self.only_b is None else (self.only_a + self.only_b) / self.n


def compare(
    a: ScoreTable,
    b: ScoreTable,
    by: str | Sequence[str] = (),
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """The paired difference of two scorers, with interval and p.

    The same sets are harder for both, so only the sets count that one wins and the other does not: McNemar's test
    (``paired.mcnemar``). The interval of the difference is the percentile interval of a bootstrap of sets, stratified
    by ``by`` and stretched as in ``resampling.stretch``; where several sets stem from one source item, whole source
    items are resampled and the test flips the signs of whole source items (``paired.sign_flip``).

    Args:
        a: table of one scorer.
        b: table of another, on the same sets (matched by ``item_id``).
        by: columns that define groups and strata, as for ``bon_accuracy``.
        ties, confidence, errors, resamples, seed: as for ``bon_accuracy``; with ``exclude`` a set is left out when
            either scorer failed on it.

    Raises:
        CarbError: a table holds several scorers, both are not about the same sets, or an option is wrong.
    """
    check_confidence(confidence)
    keys = (by,) if isinstance(by, str) else tuple(by)
    left, right = set_outcomes(a, ties), set_outcomes(b, ties)
    names = [_only_scorer(sets) for sets in (left, right)]
    if "scorer" in keys or any(key not in left.columns for key in keys):
        raise CarbError(f"by={list(keys)}: each key must be a column of the table other than 'scorer'.")
    columns = [c for c in dict.fromkeys(("scorer", "item_id", *keys, "source_item")) if c in left.columns]
    text = pl.col("item_id").cast(pl.String)
    other = right.select(text, pl.col("credit").alias("credit_b"), pl.col("error").alias("error_b"))
    both = left.select(*columns, "credit", "error").with_columns(text).join(other, on="item_id", maintain_order="left")
    unpaired = left.height + right.height - 2 * both.height
    if not both.height and left.height and right.height:
        raise CarbError("The two tables have no set in common (by item_id), so there is nothing to compare.")
    if errors == "exclude":
        both = both.filter(~pl.col("error") & ~pl.col("error_b"))
    pairs = _Pairs(both, keys, confidence)
    return Comparison(
        a=names[0],
        b=names[1],
        n=both.height,
        unpaired=unpaired,
        by=keys,
        groups=pairs.groups(),
        **(pairs.summary(resamples, seed) if both.height else {}),
    )


def _only_scorer(sets: pl.DataFrame) -> str | None:
    names = sets["scorer"].unique().cast(pl.String).sort().to_list()
    if len(names) > 1:
        raise CarbError(
            f"compare takes two tables of one scorer each; one holds {', '.join(names[:5])}. "
            "Filter it, or use rank for all pairs."
        )
    return names[0] if names else None


class _Pairs:
    """Paired credits, their groups and clusters."""

    def __init__(self, both: pl.DataFrame, keys: tuple[str, ...], confidence: float) -> None:
        self.keys, self.confidence = keys, confidence
        self.a, self.b = both["credit"].to_numpy(), both["credit_b"].to_numpy()
        self.d: Floats = self.a - self.b
        self.group, self.rows = number(both, keys)
        self.n: Ints = np.bincount(self.group)
        self.cluster: Ints | None = cluster_of(both) if is_clustered(both) else None

    def p(self, rows: Ints) -> tuple[float, float]:
        """Exact and mid-p of these pairs."""
        if self.cluster is None:
            return sign_flip(self.d[rows])
        return sign_flip(np.bincount(np.unique(self.cluster[rows], return_inverse=True)[1], self.d[rows]))

    def closed_form(self, rows: Ints) -> tuple[float, float]:
        clusters = None if self.cluster is None else self.cluster[rows]
        return difference_interval(self.d[rows], self.confidence, clusters)

    def groups(self) -> pl.DataFrame:
        found = []
        for group in range(len(self.n)):
            rows = np.flatnonzero(self.group == group)
            d, low_high = self.d[rows], self.closed_form(rows)
            wins = (int((d > 0).sum()), int((d < 0).sum()))
            means = (float(self.a[rows].mean()), float(self.b[rows].mean()), float(d.mean()))
            found.append((len(rows), *wins, *means, *low_high, self.p(rows)[1]))
        counts, numbers = ("n", "only_a", "only_b"), ("accuracy_a", "accuracy_b", "difference", "low", "high", "p")
        schema = {**dict.fromkeys(counts, pl.Int64), **dict.fromkeys(numbers, pl.Float64)}
        frame = pl.DataFrame(found, schema=schema, orient="row")
        frame = frame.with_columns(pl.Series("p_adjusted", adjust(frame["p"].to_numpy()), dtype=pl.Float64))
        names = [column.cast(pl.String) for column in self.rows]
        return pl.DataFrame([*names, *frame])

    def noise(self, resamples: int, seed: int) -> Floats:
        """(resamples, groups) replicates of the groups' differences minus those differences."""
        side = -1.0 if self.d.sum() < 0 else 1.0  # the better one's wins are drawn alike, whichever comes first
        values, codes = np.unique(side * self.d, return_inverse=True)
        cells = np.bincount(self.group * len(values) + codes, minlength=len(self.n) * len(values))
        counts = cells.reshape(len(self.n), -1)
        noise = (bootstrap_means(counts, values, resamples, seed) - counts @ values / self.n) * stretch(self.n)
        return side * noise

    def summary(self, resamples: int, seed: int) -> dict[str, Any]:
        everything = np.arange(len(self.d))
        difference = float(self.d.mean())
        only_a, only_b = int((self.d > 0).sum()), int((self.d < 0).sum())
        exact, mid = self.p(everything)
        macro = Estimate()
        if self.cluster is None:
            noise = self.noise(resamples, seed)
            draws = difference + noise @ (self.n / self.n.sum())
        else:
            units = np.column_stack([np.bincount(self.cluster, self.d), np.bincount(self.cluster)])
            draws = bootstrap_statistic(*kinds_of(units), lambda sums: sums[..., 0] / sums[..., 1], resamples, seed)
        low, high = (float(limit) for limit in percentile_interval(draws, self.confidence))
        if high - low <= 1e-12:
            low, high = self.closed_form(everything)
        if self.keys:
            differences = np.bincount(self.group, self.d) / self.n
            if self.cluster is not None:
                units_of = Units(self.group, self.cluster, self.d)
                noise = cluster_bootstrap(units_of, np.arange(len(self.n)), resamples, seed) - differences
            macro = _macro(float(differences.mean()), noise, self.confidence)
        return {
            "only_a": only_a,
            "only_b": only_b,
            "accuracy_a": float(self.a.mean()),
            "accuracy_b": float(self.b.mean()),
            "difference": difference,
            "low": max(-1.0, min(low, difference)),
            "high": min(1.0, max(high, difference)),
            "p": mid,
            "p_exact": exact,
            "macro": macro,
            **_planning(difference, only_a + only_b, len(self.d), mid, self.confidence),
        }


def _macro(difference: float, noise: Floats, confidence: float) -> Estimate:
    away = np.nanmean(noise, axis=1)
    error = float(away.std())
    if error < 1e-12:
        return Estimate(estimate=difference)
    low, high = (float(limit) for limit in percentile_interval(difference + away, confidence))
    return Estimate(estimate=difference, low=low, high=high, p=math.erfc(abs(difference) / error / math.sqrt(2)))


def _planning(difference: float, discordant: int, n: int, p: float, confidence: float) -> dict[str, float | int | None]:
    """What these sets can find, and how many would find the difference seen."""
    if not discordant:
        return {"detectable": None, "more_sets": None}
    alpha, discordance = 1 - confidence, discordant / n
    needed = sets_needed(difference, max(discordance, abs(difference)), alpha=alpha)
    more = 0 if p < alpha else None if needed is None else max(0, needed - n)
    return {"detectable": minimum_detectable_difference(n, discordance, alpha=alpha), "more_sets": more}
