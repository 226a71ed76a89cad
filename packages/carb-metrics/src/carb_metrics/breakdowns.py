"""Accuracy by everything that a culture and a set are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from carb_data import Culture, Registry, ScoreTable
from carb_data import cultures as default_cultures
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Cell, Grouped, Result
from carb_metrics.clusters import CLUSTER, with_clusters
from carb_metrics.outcomes import Errors, Ties, count_kinds, main_sets, set_outcomes
from carb_metrics.tally import GAP_DRAWS


class Breakdown(Result):
    """Accuracies by group, one ``Grouped`` for each way of grouping.

    ``scorer`` is the first key of every grouping when the table holds several scorers, and absent otherwise. Averages
    over all of several scorers have no interval where sets are independent; ``of`` gives each scorer's own.
    """

    overall: Cell
    """All sets, each with the same weight."""
    by_culture: Grouped
    """Varieties counted with the culture into which they roll up."""
    by_variety: Grouped
    """Keys ``culture`` (rolled up) and ``variety``: each culture id as the sets name it."""
    by_domain: Grouped
    by_culture_domain: Grouped
    """Keys ``culture`` (rolled up) and ``domain``."""
    by_topic: Grouped | None
    """Keys ``domain`` and ``topic``; null where the table has no topics (``ScoreTable.with_items`` adds them)."""
    by_resource_class: Grouped
    """Resource class of the culture's language, 0 to 5 (Joshi et al. 2020)."""
    by_family: Grouped
    """Language family of the culture's language."""
    by_script: Grouped
    """Script of the culture's language."""

    def summary(self) -> str:
        """Accuracy with its interval in a sentence, of each scorer."""
        return self.by_culture.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows: cultures and domains."""
        return self.by_culture._repr_html_() + self.by_domain._repr_html_()

    def of(self, scorer: str) -> Breakdown:
        """The part of one scorer."""
        parts: dict[str, Any] = {name: part.of(scorer) for name, part in self if isinstance(part, Grouped)}
        return Breakdown(overall=self.by_domain.of(scorer).overall, **{"by_topic": None, **parts})


def breakdown(
    scores: ScoreTable,
    cultures: Registry | Iterable[Culture] = default_cultures,
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    resamples: int = GAP_DRAWS,
    seed: int = 0,
) -> Breakdown:
    """Accuracy by culture, variety, domain, culture × domain, topic, resource class, family and script.

    Cells and intervals are those of ``bon_accuracy``. Mirrors, and sets of other kinds than ``culture``, do not count
    (``main_sets``). A set about a variety (``spanish-mx``) counts for the culture
    into which it rolls up (``spanish``), whose language, script, family and resource class it takes; it stays
    visible in ``by_variety``.

    Args:
        scores: the table, of one or several scorers.
        cultures: the registry that describes them; a plain list of cultures must hold all parents too.
        ties, confidence, errors, resamples, seed: as for ``bon_accuracy``.

    Raises:
        CarbError: a culture of the table is not in the registry, or the sets are malformed.
    """
    registry = cultures if isinstance(cultures, Registry) else Registry(cultures)
    sets = set_outcomes(main_sets(scores), ties)
    has_topics = "topic" in sets.columns and sets["topic"].null_count() < sets.height
    sets = with_clusters(sets)
    if CLUSTER not in sets.columns:  # independent sets are all told by their number
        sets = count_kinds(sets, ["scorer", "culture", "domain", *(["topic"] if has_topics else [])])
    sets = describe(sets, registry)
    several = ("scorer",) if sets["scorer"].n_unique() > 1 else ()

    def grouped(*keys: str) -> Grouped:
        return grouped_accuracy(sets, (*several, *keys), confidence, errors=errors, resamples=resamples, seed=seed)

    by_domain = grouped("domain")
    return Breakdown(
        overall=by_domain.overall,
        by_culture=grouped("culture"),
        by_variety=grouped("culture", "variety"),
        by_domain=by_domain,
        by_culture_domain=grouped("culture", "domain"),
        by_topic=grouped("domain", "topic") if has_topics else None,
        by_resource_class=grouped("resource_class"),
        by_family=grouped("family"),
        by_script=grouped("script"),
    )


def describe(sets: pl.DataFrame, registry: Registry) -> pl.DataFrame:
    """Roll ``culture`` up, keep its id as ``variety``, and add ``resource_class``, ``family`` and ``script``.

    Raises:
        CarbError: a culture is not in the registry.
    """
    ids = sets["culture"].unique().cast(pl.String).sort().to_list()
    roots = [registry.root(culture) for culture in ids]
    traits = pl.DataFrame(
        [(i, r.id, r.resource_class, r.family, r.script) for i, r in zip(ids, roots, strict=True)],
        schema={
            "variety": pl.String,
            "culture": pl.String,
            "resource_class": pl.Int64,
            "family": pl.String,
            "script": pl.String,
        },
        orient="row",
    )
    named = sets.rename({"culture": "variety"}).with_columns(pl.col("variety").cast(pl.String))
    return named.join(traits, on="variety", how="left", maintain_order="left")
