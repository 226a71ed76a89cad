"""Best-of-N accuracy with ties, errors, weights and uncertainty, and by everything that a culture
and a set are."""

from collections.abc import Sequence

import polars as pl

from carb_data import CarbError, ScoreTable, cultures
from carb_metrics.cells import Cell, Grouped, OfSets, Totals
from carb_metrics.clusters import CLUSTER
from carb_metrics.frames import beside, text
from carb_metrics.intervals import check_confidence
from carb_metrics.outcome import RESPONSES, counted_sets
from carb_metrics.tally import Tally


def bon_accuracy(
    scores: ScoreTable,
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> Grouped:
    """Did ``chosen`` outscore every ``rejected``? Per group and overall, with intervals.

    Accuracy is the mean credit of sets (Zhang et al., arXiv 2509.21798). Credit is 1 where
    ``chosen`` scores above all ``rejected``. It is 1 / (number of responses at the top) where
    ``chosen`` shares the highest score, else 0. ``Cell.strict`` is the share of sets won outright.
    Perturbed rows never count.

    Single cells carry Wilson's interval (1927, JASA 22:209-212). Where credits are fractions, it
    takes an effective sample size (Korn and Graubard 1998, Survey Methodology 24:193-201). So it
    does where several sets stem from one source item or one family (``ScoreTable.with_items``); see
    ``means.design``. Averages over groups carry it, too. Their effective sample size also counts
    small groups without any variance (``Tally.macro``).

    Args:
        scores: the table. With several scorers in it, ``by`` must hold ``scorer``.
        by: columns that define the groups, out of ``scorer``, ``culture``, ``domain``, ``language``
            (of ``chosen``), ``topic``, ``source_item``.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones (``Scored.main``) count too. A table without
            ``ScoreTable.with_items`` tells no mirrors, and all its sets count.

    Returns:
        ``.overall`` (micro: sets weigh the same, the paper's headline), ``.macro`` (groups weigh
        the same), ``.groups`` (a row per group), ``.of(scorer)`` for one scorer's part. A table
        with several scorers has no averages of its own. Empty input gives null, and so does the
        macro average of a scorer that lacks a group which another one has.

    Raises:
        CarbError: unknown column, several scorers without ``scorer`` in ``by``, or malformed sets.
            Or ``confidence`` is not between 0 and 1.
    """
    scores, counted = counted_sets(scores, mirrors=mirrors)
    grouped = grouped_accuracy(scores.sets, by, confidence)
    return grouped.changed(counted=counted)


def grouped_accuracy(
    sets: pl.DataFrame,
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
) -> Grouped:
    """``bon_accuracy`` on a row per set, as ``Scored.sets`` gives it, possibly with further
    columns to group by."""
    keys = (by,) if isinstance(by, str) else tuple(by)
    check_confidence(confidence)
    names = sorted({*sets["scorer"].unique().cast(pl.String)})
    values = {"credit", "tied", "error", CLUSTER, RESPONSES}
    known = [name for name in sets.columns if name not in values]
    unknown = [key for key in keys if key not in known]
    if unknown or len(set(keys)) < len(keys):
        extra = " Columns 'topic' and 'source_item' come from ScoreTable.with_items(dataset)."
        hint = ""
        if {"topic", "source_item"} & set(unknown):
            hint = extra
        raise CarbError(f"by={list(keys)}: each key must be one of {known}, once.{hint}")
    if len(names) > 1 and "scorer" not in keys:
        listed = ", ".join(names[:5])
        if len(names) > 5:
            listed += ", ..."
        raise CarbError(
            f"The table holds {len(names)} scorers ({listed}); put 'scorer' into 'by', or filter "
            "the table to one."
        )
    tally = Tally(sets, keys, confidence)
    scorers = tally.totals(names)
    whole = Totals()  # there is none for several scorers together
    if len(names) == 1:
        whole = scorers[names[0]]
    return Grouped(
        by=keys,
        groups=tally.frame(),
        scorers=scorers,
        **dict(whole),
    )


class Breakdown(OfSets):
    """Accuracies by group, one ``Grouped`` for each way of grouping.

    ``scorer`` is the first key of every grouping when the table holds several scorers, and absent
    otherwise. Averages over all of several scorers have no interval where sets are independent;
    ``of`` gives each scorer's own.
    """

    overall: Cell
    """All counted sets, each with the same weight."""
    by_culture: Grouped
    """Varieties counted with the culture into which they roll up."""
    by_domain: Grouped
    by_culture_domain: Grouped
    """Keys ``culture`` (rolled up) and ``domain``."""
    by_resource_class: Grouped
    """Resource class of the culture's language, 0 to 5 (Joshi et al. 2020)."""
    by_family: Grouped
    """Language family of the culture's language."""
    by_script: Grouped
    """Script of the culture's language."""

    def of(self, scorer: str) -> "Breakdown":
        """The part of one scorer."""
        parts = {name: part.of(scorer) for name, part in self if isinstance(part, Grouped)}
        return self.changed(overall=parts["by_domain"].overall, **parts)


def breakdown(
    scores: ScoreTable,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> Breakdown:
    """Accuracy by culture, domain, culture × domain, resource class, family and script.

    Cells and intervals are those of ``bon_accuracy``. A set about a variety (``spanish-mx``) counts
    for the culture into which it rolls up (``spanish``), whose language, script, family and
    resource class it takes. ``bon_accuracy(by="culture")`` counts varieties apart. Resource classes
    go from 0 to 5 (Joshi et al. 2020, ACL).

    Args:
        scores: the table, of one or several scorers.
        confidence: as for ``bon_accuracy``.
        mirrors: as for ``bon_accuracy``.

    Returns:
        ``.overall``, one cell, and a table for each grouping: ``.by_culture``, ``.by_domain``,
        ``.by_culture_domain``, ``.by_resource_class``, ``.by_family``, ``.by_script``. Accuracies
        are shares from 0 to 1. Each table has a row per group; with several scorers, per scorer
        and group.

    Raises:
        CarbError: a culture of the table is not in the registry, the sets are malformed, or
            ``confidence`` is not between 0 and 1.
    """
    scores, counted = counted_sets(scores, mirrors=mirrors)
    sets = describe(scores.sets)
    several = ("scorer",) if sets["scorer"].n_unique() > 1 else ()
    tables = {}
    for keys in (
        ("culture",),
        ("domain",),
        ("culture", "domain"),
        ("resource_class",),
        ("family",),
        ("script",),
    ):
        part = grouped_accuracy(sets, (*several, *keys), confidence)
        tables["_".join(("by", *keys))] = part.changed(counted=counted)
    return Breakdown(
        counted=counted,
        overall=tables["by_domain"].overall,
        **tables,
    )


def describe(sets: pl.DataFrame) -> pl.DataFrame:
    """Roll ``culture`` up, keep its id as ``variety``, and add ``resource_class``, ``family`` and
    ``script``.

    Raises:
        CarbError: a culture is not in the registry.
    """
    rows = []
    varieties = sets["culture"].unique().cast(pl.String)
    for variety in varieties.sort():
        root = cultures.root(variety)
        row = (variety, root.id, root.resource_class, root.family, root.script)
        rows.append(row)
    traits = pl.DataFrame(
        rows,
        schema={
            "variety": pl.String,
            "culture": pl.String,
            "resource_class": pl.Int64,
            "family": pl.String,
            "script": pl.String,
        },
        orient="row",
    )
    renamed = sets.rename({"culture": "variety"})
    return beside(renamed.with_columns(text("variety")), traits, "variety")
