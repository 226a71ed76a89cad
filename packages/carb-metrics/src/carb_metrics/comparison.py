"""Which scorer is better, and is the difference more than chance?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import TIES, Ints, cluster_of, design, is_clustered, number
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import Errors, set_outcomes
from carb_metrics.outcomes import Ties as TieRule
from carb_metrics.paired import Paired, adjust, minimum_detectable_difference, paired, sets_needed
from carb_metrics.rows import ComparedGroup


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
    """McNemar's exact p, conservative; null where shared ties of too many sizes allow none."""
    design_effect: float | None = None
    """Variance of the difference over that of as many independent sets; above 1 where sets share source items."""
    macro: Estimate = Estimate()
    """Mean of the groups' differences, each group with the same weight; null without ``by``."""
    detectable: float | None = None
    """True difference that this many sets find with 80% power, at the discordance seen."""
    more_sets: int | None = None
    """Further sets after which the difference seen would be found with 80% power; 0 if settled, null if it is 0."""
    by: tuple[str, ...] = ()
    groups: tuple[ComparedGroup, ...] = ()
    """A row per group, in the order of the keys."""

    @property
    def discordance(self) -> float | None:
        """Share of sets in which both differ; null for no sets."""
        return None if self.only_a is None or self.only_b is None else (self.only_a + self.only_b) / self.n


def compare(
    a: ScoreTable,
    b: ScoreTable,
    by: str | Sequence[str] = (),
    ties: TieRule = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
) -> Comparison:
    """The paired difference of two scorers, with interval and p.

    The same sets are harder for both, so only the sets count that one wins and the other does not: McNemar's test
    (``paired.mcnemar``). The interval is a closed form (``paired.difference_interval``) that holds 0 exactly where the
    test does not reject. Where sets share a source item or a family in either table, whole clusters are the units of
    both (``clusters.design``, ``paired.sign_flip``).

    Args:
        a: table of one scorer.
        b: table of another, on the same sets (matched by ``item_id``).
        by: columns that define groups, as for ``bon_accuracy``.
        ties, confidence, errors: as for ``bon_accuracy``; with ``exclude`` a set is left out when either scorer failed
            on it.

    Raises:
        CarbError: a table holds several scorers, both are not about the same sets, or an option is wrong.
    """
    check_confidence(confidence)
    keys = (by,) if isinstance(by, str) else tuple(by)
    both, names, unpaired = _join(a, b, keys, ties, errors)
    pairs = _Pairs(both, keys, confidence)
    return Comparison(
        a=names[0],
        b=names[1],
        n=both.height,
        unpaired=unpaired,
        by=keys,
        groups=pairs.groups(),
        **(pairs.summary() if both.height else {}),
    )


def _join(
    a: ScoreTable, b: ScoreTable, keys: tuple[str, ...], ties: TieRule, errors: Errors
) -> tuple[pl.DataFrame, list[str | None], int]:
    """The sets that both scored, the names of both, and how many sets only one scored."""
    left, right = set_outcomes(a, ties), set_outcomes(b, ties)
    names = [_only_scorer(sets) for sets in (left, right)]
    if "scorer" in keys or any(key not in left.columns for key in keys):
        raise CarbError(f"by={list(keys)}: each key must be a column of the table other than 'scorer'.")
    columns = [c for c in dict.fromkeys(("scorer", "item_id", *keys, *TIES)) if c in left.columns]
    text = pl.col("item_id").cast(pl.String)
    shared = [pl.col(name).cast(pl.String).alias(f"{name}_b") for name in TIES if name in right.columns]
    other = right.select(text, pl.col("credit").alias("credit_b"), pl.col("error").alias("error_b"), *shared)
    both = left.select(*columns, "credit", "error").with_columns(text).join(other, on="item_id", maintain_order="left")
    unpaired = left.height + right.height - 2 * both.height
    if not both.height and left.height and right.height:
        raise CarbError("The two tables have no set in common (by item_id), so there is nothing to compare.")
    if errors == "exclude":
        both = both.filter(~pl.col("error") & ~pl.col("error_b"))
    return both, names, unpaired


def paired_credits(a: ScoreTable, b: ScoreTable, ties: TieRule = "strict") -> tuple[Floats, Floats, Ints | None]:
    """Credits of two scorers for the sets that both scored, and the clusters of these sets.

    Returns:
        (sets,) of a, (sets,) of b, in the order of a; clusters by number, or null where all sets are independent.

    Raises:
        CarbError: as ``compare``.
    """
    both, _, _ = _join(a, b, (), ties, "wrong")
    cluster = cluster_of(both) if is_clustered(both) else None
    return both["credit"].to_numpy(), both["credit_b"].to_numpy(), cluster


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

    def of(self, rows: Ints) -> Paired:
        """The paired difference of these pairs."""
        return paired(self.d[rows], None if self.cluster is None else self.cluster[rows], self.confidence)

    def groups(self) -> tuple[ComparedGroup, ...]:
        rows = [np.flatnonzero(self.group == group) for group in range(len(self.n))] if self.keys else []
        found = [self.of(where) for where in rows]
        adjusted = adjust([math.nan if one.p is None else one.p for one in found])
        keys = self.rows.select(pl.col(self.keys).cast(pl.String).fill_null("none")).rows() if self.keys else []
        return tuple(
            ComparedGroup.model_validate(  # a group has a pair at least, so that no value of ``Paired`` is null
                {
                    "key": "/".join(key),
                    "n": len(where),
                    "only_a": int((self.d[where] > 0).sum()),
                    "only_b": int((self.d[where] < 0).sum()),
                    "accuracy_a": float(self.a[where].mean()),
                    "accuracy_b": float(self.b[where].mean()),
                    "difference": one.estimate,
                    "low": one.low,
                    "high": one.high,
                    "p": one.p,
                    "p_adjusted": float(value),
                }
            )
            for key, where, one, value in zip(keys, rows, found, adjusted, strict=True)
        )

    def macro(self) -> Estimate:
        """Mean of the groups' differences.

        Each group's variance is drawn towards that of all groups with the weight of two pairs, as that of accuracies is
        (``Tally.variances``); degrees of freedom are Satterthwaite's, or those that clusters leave.
        """
        from scipy.special import stdtr, stdtrit

        n, groups = self.n, len(self.n)
        total, square = np.bincount(self.group, self.d), np.bincount(self.group, self.d**2)
        mean_of_all = total.sum() / (n.sum() + 2)
        square_of_all = (square.sum() + 2) / (n.sum() + 2)
        mean = (total + 2 * mean_of_all) / (n + 2)
        parts = ((square + 2 * square_of_all) / (n + 2) - mean**2) / n / groups**2
        variance, freedom = parts.sum(), parts.sum() ** 2 / (parts**2 / (n + 2)).sum()
        if self.cluster is not None:
            found = design(self.cluster, self.d - (total / n)[self.group], (1 / n)[self.group])
            variance, freedom = variance * found.effect[0], min(freedom, found.freedom[0])
        difference, error = float((total / n).mean()), math.sqrt(variance)
        half = float(stdtrit(freedom, 0.5 + self.confidence / 2)) * error
        p = 2 * float(stdtr(freedom, -abs(difference) / error))
        return Estimate(estimate=difference, low=max(-1.0, difference - half), high=min(1.0, difference + half), p=p)

    def summary(self) -> dict[str, Any]:
        whole = self.of(np.arange(len(self.d)))
        only_a, only_b = int((self.d > 0).sum()), int((self.d < 0).sum())
        return {
            "only_a": only_a,
            "only_b": only_b,
            "accuracy_a": float(self.a.mean()),
            "accuracy_b": float(self.b.mean()),
            "difference": whole.estimate,
            "low": whole.low,
            "high": whole.high,
            "p": whole.p,
            "p_exact": whole.p_exact,
            "design_effect": whole.design_effect,
            "macro": self.macro() if self.keys else Estimate(),
            **_planning(whole, only_a + only_b, self.confidence),
        }


def _planning(whole: Paired, discordant: int, confidence: float) -> dict[str, float | int | None]:
    """What these sets can find, and how many would find the difference seen."""
    if not discordant or whole.estimate is None or whole.p is None:
        return {"detectable": None, "more_sets": None}
    alpha, discordance, effect = 1 - confidence, discordant / whole.n, whole.design_effect
    needed = sets_needed(whole.estimate, max(discordance, abs(whole.estimate)), alpha=alpha, design_effect=effect)
    more = 0 if whole.p < alpha else None if needed is None else max(0, needed - whole.n)
    found = minimum_detectable_difference(whole.n, discordance, alpha=alpha, design_effect=effect)
    return {"detectable": found, "more_sets": more}
