"""Which scorer is better, and is the difference more than chance?"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from polars import col

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import OfSets
from carb_metrics.clusters import TIES, Bools, Ints, cluster_of, number
from carb_metrics.families import PlaceComparison, compare_families
from carb_metrics.frames import text
from carb_metrics.interval import Difference, Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.means import means
from carb_metrics.outcome import RESPONSES, counted_sets
from carb_metrics.paired import (
    Paired,
    adjust,
    minimum_detectable_difference,
    paired_rows,
    sets_needed,
    won_alone,
)

ALIKE = ("culture", "domain")
"""Columns that both tables of a set must agree in, beside its responses."""

VALUES = ("credit", "tied", "error", RESPONSES)


class ComparedGroup(Difference):
    """The paired difference of two scorers in one group."""

    key: str
    """The values of the grouping columns, joined by ``/``."""
    only_a: int
    only_b: int
    accuracy_a: float
    accuracy_b: float
    p_adjusted: float
    """Holm's, over the groups."""


class Margin(Difference):
    """Two one-sided tests of a difference, a minus b, at 1 − confidence each.

    Its limits have a confidence of 1 − 2α: within ± margin exactly where both are equivalent.
    """

    margin: float
    p_not_worse: float
    """p of the hypothesis that a is worse than b by the margin or more."""
    p_not_better: float
    """p of the hypothesis that a is better than b by the margin or more."""
    not_worse: bool
    equivalent: bool


class Comparison(Difference, OfSets):
    """Two scorers on the same sets. Differences are those of accuracies, ``a`` minus ``b``."""

    a: str | None
    b: str | None
    unpaired: int
    """Sets that only one of both scored, left out."""
    ties_a: int | None = None
    """Sets in which the right answer of a shares the highest score."""
    ties_b: int | None = None
    errors_a: int | None = None
    """Sets on which a failed; they count as wrong."""
    errors_b: int | None = None
    accuracy_a: float | None = None
    accuracy_b: float | None = None
    strict_a: float | None = None
    """Accuracy of a where a tie earns nothing."""
    strict_b: float | None = None
    only_a: int | None = None
    """Sets in which a earns more than b."""
    only_b: int | None = None
    test: str | None = None
    """The name of the test that gives ``p`` and the interval."""
    better: Literal["a", "b"] | None = None
    """By ``place_win`` where there are families enough for its interval, else by accuracy; null
    where the interval holds 0."""
    design_effect: float | None = None
    """Variance of the difference over that of as many independent sets; above 1 where sets share
    source items."""
    detectable: float | None = None
    """True difference that this many sets detect with 80% power, at the observed discordance."""
    more_sets: int | None = None
    """Further sets that would detect the observed difference with 80% power; 0 if settled, null if
    it is 0."""
    margin: Margin | None = None
    """Null where no margin was given."""
    place_win: PlaceComparison | None = None
    """The place win rates of both over the families that both scored; null without families."""
    by: tuple[str, ...] = ()
    groups: tuple[ComparedGroup, ...] = ()
    """A row per group, in the order of the keys."""

    @property
    def discordance(self) -> float | None:
        """Share of sets in which both differ; null for no sets."""
        if self.only_a is None or self.only_b is None:
            return None
        return (self.only_a + self.only_b) / self.n


def compare(
    a: ScoreTable,
    b: ScoreTable,
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
    margin: float | None = None,
    dataset: Dataset | None = None,
) -> Comparison:
    """Is scorer a more accurate than scorer b? The paired difference, with its interval and p.

    Some sets are harder for both, so differences are taken set by set. Where sets share a source
    item or a family in either table, whole clusters are the units. Interval and p come from one t
    test (``means.means``), as in ``paired_difference``. ``rank`` and the report use the same test.

    Args:
        a: table of one scorer.
        b: table of another, on the same sets (matched by ``item_id``).
        by: columns that define groups, as for ``bon_accuracy``.
        confidence: as for ``bon_accuracy``.
        mirrors: as for ``bon_accuracy``.
        margin: the largest difference of accuracies that does not matter, above 0 and below 1. With
            it two one-sided tests show whether a is no worse than b, or both are the same
            (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15:657-680): a large
            p alone does not show that.
        dataset: the sets that were scored; with it the place win rates of both are compared over
            mirrored families, and decide which is better.

    Returns:
        The accuracy of a minus that of b over all sets, from -1 to 1; null without common sets.
        ``.groups`` has it for each group. ``.margin`` is the test of ``margin``.

    Raises:
        CarbError: a table holds several scorers, both are not about the same sets, or an option is
            wrong.
    """
    check_confidence(confidence)
    if margin is not None:
        _check_margin(margin, confidence)
    keys = (by,) if isinstance(by, str) else tuple(by)
    first, counted = counted_sets(a, mirrors=mirrors)
    second, _ = counted_sets(b, mirrors=mirrors)
    both, names, unpaired = _join(first.sets, second.sets, keys)
    pairs = _Pairs(both, keys, confidence)
    whole, summary = pairs.summary()
    within = None
    if margin is not None and pairs.judged:
        within = pairs.within(margin)
    place_win = None
    if dataset is not None:
        place_win = compare_families(a, b, dataset, confidence)
    if place_win is not None and place_win.difference.p is not None:
        summary["better"] = place_win.better
    return Comparison.of(
        whole,
        a=names[0],
        b=names[1],
        counted=counted,
        unpaired=unpaired,
        by=keys,
        groups=pairs.groups(),
        margin=within,
        place_win=place_win,
        n=both.height,
        **summary,
    )


def _check_margin(margin: float, confidence: float) -> None:
    if not 0 < margin < 1:
        raise CarbError(f"margin must lie between 0 and 1, for example 0.02; got {margin}.")
    if confidence <= 0.5:
        raise CarbError(f"confidence must be above 0.5 where a margin is given; got {confidence}.")


def _join(
    left: pl.DataFrame,
    right: pl.DataFrame,
    keys: tuple[str, ...],
) -> tuple[pl.DataFrame, list[str | None], int]:
    """The sets that both scored, the names of both, and how many sets only one scored."""
    names = [_only_scorer(left), _only_scorer(right)]
    groupings = {*left.columns} - {"scorer"}
    if not groupings.issuperset(keys):
        raise CarbError(
            f"by={list(keys)}: each key must be a column of the table other than 'scorer'."
        )
    wanted = ("scorer", "item_id", *keys, *TIES, *ALIKE)
    columns = dict.fromkeys(wanted)
    known = [name for name in columns if name in left.columns]
    item = text("item_id")
    first = left.select(*known, *VALUES).with_columns(item)
    traits = [name for name in (*TIES, *ALIKE) if name in right.columns]
    of_second = (text(*traits), col(VALUES))
    renamed = [columns.name.suffix("_b") for columns in of_second]
    second = right.select(item, *renamed)
    both = first.join(second, on="item_id", maintain_order="left")
    unpaired = left.height + right.height - 2 * both.height
    if not both.height and left.height and right.height:
        raise CarbError(
            "The two tables have no set in common (by item_id), so there is nothing to compare."
        )
    _check_same_sets(both)
    return both, names, unpaired


def _check_same_sets(both: pl.DataFrame) -> None:
    """Raise ``CarbError`` where sets of one id differ in culture, domain or responses."""
    for name in (*ALIKE, RESPONSES):
        first = col(name)
        if name in ALIKE:
            first = first.cast(pl.String)
        differ = both.filter(first != col(f"{name}_b"))
        if differ.height:
            what = "other responses" if name == RESPONSES else f"another {name}"
            raise CarbError(
                f"The two tables are not about the same sets: {differ.height} items have "
                f"{what} in the second table, the first is '{differ['item_id'][0]}'."
            )


def _only_scorer(sets: pl.DataFrame) -> str | None:
    names = sets["scorer"].unique().cast(pl.String).sort().to_list()
    if len(names) > 1:
        raise CarbError(
            f"compare takes two tables of one scorer each; one holds {', '.join(names[:5])}. "
            "Filter it, or use rank for all pairs."
        )
    return next(iter(names), None)


class _Pairs:
    """Paired credits, their groups and clusters."""

    def __init__(
        self,
        both: pl.DataFrame,
        keys: tuple[str, ...],
        confidence: float,
    ) -> None:
        self.both = both
        self.keys = keys
        self.confidence = confidence
        self.a = both["credit"].to_numpy()
        self.b = both["credit_b"].to_numpy()
        self.d: Floats = self.a - self.b
        self.cluster = cluster_of(both)
        failed = both["error"].all() or both["error_b"].all()
        self.judged = not failed
        """A scorer that failed on every set, or none, has no verdict."""

    def sides(self, where: Bools | slice) -> dict[str, float]:
        """The accuracies on some sets, and the numbers of sets that only one side wins."""
        return {
            "accuracy_a": float(self.a[where].mean()),
            "accuracy_b": float(self.b[where].mean()),
            **won_alone(self.d[where]),
        }

    def groups(self) -> tuple[ComparedGroup, ...]:
        if not self.keys or not self.judged:
            return ()
        group, rows = number(self.both, self.keys)
        is_in = group == np.arange(rows.height)[:, None]
        apart = np.where(is_in, self.d, np.nan)
        tests = paired_rows(apart, self.cluster, self.confidence)
        adjusted = adjust([test.p for test in tests])
        names = rows.select(text(*self.keys).fill_null("none")).rows()
        groups = []
        for where, name, test, p in zip(is_in, names, tests, adjusted, strict=True):
            row = ComparedGroup.of(
                test,
                key="/".join(name),
                p_adjusted=float(p),
                **self.sides(where),
            )
            groups.append(row)
        return tuple(groups)

    def summary(self) -> tuple[Interval, dict[str, Any]]:
        """The difference, and what else is known of it."""
        both = self.both
        if not self.judged:
            return Interval(), {}
        (whole,) = paired_rows(self.d[None], self.cluster, self.confidence)
        units = "sets"
        clusters = np.unique(self.cluster)
        if len(clusters) < len(self.d):
            units = "source items"
        discordance = float((self.d**2).mean())
        facts = {
            **self.sides(slice(None)),
            "strict_a": float((self.a == 1).mean()),
            "strict_b": float((self.b == 1).mean()),
            "ties_a": int((both["tied"] > 0).sum()),
            "ties_b": int((both["tied_b"] > 0).sum()),
            "errors_a": int(both["error"].sum()),
            "errors_b": int(both["error_b"].sum()),
            "test": f"t test of paired differences over {units}",
            "better": whole.favours(self.confidence),
            "design_effect": whole.design_effect,
            **_planning(whole, discordance, self.confidence),
        }
        return whole, facts

    def within(self, margin: float) -> Margin:
        """Is the difference within the margin? Each side with the same t as the interval."""
        level = 2 * self.confidence - 1
        d = self.d[None]
        (narrow,) = paired_rows(d, self.cluster, level)
        p_worse = _one_sided(d, self.cluster, margin)
        p_better = 1 - _one_sided(d, self.cluster, -margin)
        alpha = 1 - self.confidence
        return Margin.of(
            narrow,
            margin=margin,
            p_not_worse=p_worse,
            p_not_better=p_better,
            not_worse=p_worse < alpha,
            equivalent=max(p_worse, p_better) < alpha,
        )


def _one_sided(d: Floats, cluster: Ints, shift: float) -> float:
    """p of the hypothesis that the mean of ``d`` is ``−shift`` or less."""
    from scipy.special import stdtr

    interval = means(d, cluster, 0.5, (-1.0, 1.0))
    away = interval.centre + shift
    return float(stdtr(interval.freedom, -away / interval.error)[0])


def _planning(
    whole: Paired,
    discordance: float,
    confidence: float,
) -> dict[str, float | int | None]:
    """The difference that these sets can detect, and the number of sets that would detect the
    observed one."""
    if not discordance or whole.estimate is None or whole.p is None:
        return {}
    alpha = 1 - confidence
    effect = whole.design_effect
    difference = whole.estimate
    most = max(discordance, abs(difference))
    needed = sets_needed(difference, most, alpha=alpha, design_effect=effect)
    more = None
    if needed is not None:
        more = max(0, needed - whole.n)
    if whole.p < alpha:
        more = 0
    smallest = minimum_detectable_difference(
        whole.n, discordance, alpha=alpha, design_effect=effect
    )
    return {"detectable": smallest, "more_sets": more}
