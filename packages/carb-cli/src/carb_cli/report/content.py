"""Gather runs into the content of a report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from carb_cli.options import add_cultures
from carb_cli.output import counts
from carb_cli.report.behaviour import behaviour
from carb_cli.report.model import (
    Cells,
    DatasetPart,
    Downstream,
    ItemsPart,
    Report,
    RunPart,
    ScorerPart,
)
from carb_cli.report.verdict import verdict
from carb_cli.review.findings import line_beside
from carb_cli.runs import dataset_of, only
from carb_cli.selection import chance
from carb_data import CarbError, Dataset, ScoreTable, is_main
from carb_metrics import (
    Breakdown,
    Cell,
    Consistency,
    Grouped,
    Sensitivity,
    bon_accuracy,
    breakdown,
    cross_lingual_consistency,
    family_accuracy,
    item_analysis,
    main_sets,
    perturbation_sensitivity,
    rank,
    surface_floor,
)
from carb_metrics.items import ATTRACTIVE, NEGATIVE
from carb_metrics.rows import ConsistencyRow
from carb_scorers.run import RunRecord, ScorerRecord


@dataclass(frozen=True, slots=True)
class Runs:
    """Several runs on the same data set as one."""

    folders: tuple[Path, ...]
    records: tuple[RunRecord, ...]
    dataset: Dataset
    scores: ScoreTable

    @property
    def scorers(self) -> dict[str, ScorerRecord]:
        """The record of each scorer, by name."""
        return {scorer.spec.name: scorer for record in self.records for scorer in record.scorers}

    def only(self, scorer: str) -> ScoreTable:
        """The scores of one scorer."""
        return only(self.scores, scorer)

    def without(self, names: Collection[str]) -> Runs | None:
        """These runs without some scorers; null if nothing is left."""
        if not set(names) & set(self.scorers):
            return self
        kept = []
        for folder, record in zip(self.folders, self.records, strict=True):
            scorers = tuple(scorer for scorer in record.scorers if scorer.spec.name not in names)
            if scorers:
                kept.append((folder, record.model_copy(update={"scorers": scorers})))
        if not kept:
            return None
        folders, records = zip(*kept, strict=True)
        scores = ScoreTable(self.scores.frame.filter(~pl.col("scorer").cast(pl.String).is_in(sorted(names))))
        return Runs(folders, records, self.dataset, scores)


def merged(several: Sequence[Runs]) -> Runs:
    """Runs on the same sets, with different scorers, as one; the data set is that of the first."""
    folders = tuple(folder for runs in several for folder in runs.folders)
    records = tuple(record for runs in several for record in runs.records)
    return Runs(folders, records, several[0].dataset, ScoreTable.concat([runs.scores for runs in several]))


def read_runs(folders: Sequence[Path]) -> Runs:
    """Read run folders.

    Raises:
        CarbError: a folder is no run, the runs scored different data, or two hold a scorer of the same name.
    """
    records = [RunRecord.read(folder) for folder in folders]
    prints = {record.dataset.fingerprint for record in records}
    if len(prints) > 1:
        listed = ", ".join(f"{f}: {r.dataset.fingerprint[:12]}" for f, r in zip(folders, records, strict=True))
        raise CarbError(f"These runs scored different data sets and cannot be put together ({listed}).")
    names = [scorer.spec.name for record in records for scorer in record.scorers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CarbError(f"Several of these runs hold the scorer {', '.join(twice)}; leave one of them out.")
    tables = [ScoreTable.load(folder / "scores.parquet") for folder in folders]
    return Runs(tuple(folders), tuple(records), dataset_of(folders[0]), ScoreTable.concat(tables))


def read_main(folders: Sequence[Path], culture_files: tuple[Path, ...], command: str) -> tuple[Runs, ScoreTable]:
    """Runs for a command that shows statistics of them, and the scores of the sets that count for a culture.

    Args:
        folders: the folders that the user named.
        culture_files: the user's own cultures.
        command: the command's name, for the message where no folder was named.

    Raises:
        CarbError: no folder, or as ``read_runs``.
    """
    if not folders:
        raise CarbError(f"Name at least one run folder, for example: carb {command} runs/first")
    add_cultures(culture_files)
    runs = read_runs(folders)
    return runs, main_sets(runs.scores.with_items(runs.dataset))


def content(runs: Runs, *, confidence: float = 0.95, validity: Downstream | None = None) -> Report:
    """What the runs found.

    Raises:
        CarbError: a culture is not registered, or the table is malformed.
    """
    scores = runs.scores.with_items(runs.dataset)
    parts = breakdown(scores, confidence=confidence)
    main = main_sets(scores)
    shared = bon_accuracy(main, by=("scorer",), ties="shared", confidence=confidence)
    ranking = rank(main, confidence=confidence)
    sensitivity = perturbation_sensitivity(scores, confidence)
    consistency = cross_lingual_consistency(scores, confidence=confidence)
    several = len(runs.scorers) > 1
    found = {
        name: ScorerPart(
            spec=record.spec,
            usage=record.usage,
            cost=record.cost,
            shared=shared.cell(name),
            rank=ranking.of(name).place,
            **_accuracies(parts.of(name) if several else parts),
            **_robustness(sensitivity, name),
            consistency=_consistency(consistency, name),
        )
        for name, record in runs.scorers.items()
    }
    ordered = dict(sorted(found.items(), key=lambda pair: (-(pair[1].overall.accuracy or 0), pair[0])))
    report = Report(
        confidence=confidence,
        dataset=_dataset(runs),
        scorers=ordered,
        pairs=ranking.pairs,
        floor=surface_floor(main, runs.dataset, confidence=confidence),
        families=family_accuracy(runs.scores, runs.dataset, "domain", confidence),
        items=_items(main, confidence) if several else None,
        behaviour=behaviour(runs.folders, runs.dataset, main, confidence),
        validity=validity,
        runs=tuple(
            RunPart(folder=folder.resolve().name, **{n: getattr(record, n) for n in _RECORDED})
            for folder, record in zip(runs.folders, runs.records, strict=True)
        ),
    )
    return report.model_copy(update={"verdict": verdict(report)})


def best_of(report: Report) -> str:
    """The best of the models, or of the baselines where there is no model."""
    return next(
        (name for name, part in report.scorers.items() if part.spec.kind != "baseline"), next(iter(report.scorers))
    )


_RECORDED = ("created", "command", "seed", "window", "python", "versions", "machine")


def _human(runs: Runs) -> dict[str, Any]:
    """The human line of a reviewed data set, which ``carb run`` keeps in the run's folder.

    A part of a data set (``--limit``) has the line of the whole. A line of the part would be higher than people earn,
    since retired sets, on which people disagreed, are not among those scored.
    """
    for folder in runs.folders:
        beside = line_beside(folder / "dataset.parquet")
        if beside is not None:
            lines = beside.lines
            return {
                "human": lines.overall,
                "human_groups": {
                    **{f"{culture}/": line for culture, line in lines.by_culture.items()},
                    **{f"/{domain}": line for domain, line in lines.by_domain.items()},
                    **lines.by_culture_and_domain,
                },
                "human_whole": beside.fingerprint != runs.records[0].dataset.fingerprint,
            }
    return {}


def _dataset(runs: Runs) -> DatasetPart:
    first, items = runs.records[0].dataset, runs.dataset
    return DatasetPart(
        names=first.names,
        fingerprint=first.fingerprint,
        sets=first.sets,
        mirrors=sum(item.family is not None and not is_main(item.culture, item.language) for item in items),
        responses=first.responses,
        chance=chance(items),
        **_human(runs),
        cultures=counts(item.culture for item in items),
        domains=counts(str(item.domain) for item in items),
        languages=counts(item.language for item in items),
        sources=counts(item.provenance.source for item in items),
        licenses=counts(item.provenance.license for item in items),
        methods=counts(item.provenance.method for item in items),
    )


_MOST_ITEMS = 40
"""Items that a report names; `--json` has all."""


def _items(scores: ScoreTable, confidence: float) -> ItemsPart | None:
    found = item_analysis(scores, confidence)
    if not found.items:
        return None
    steps = [0] * 10
    for item in found.items:
        steps[min(9, int(10 * item.difficulty))] += 1
    rows = [item for item in found.items if {NEGATIVE, ATTRACTIVE} & set(item.flags)]
    rows.sort(key=lambda item: (-len(item.flags), item.discrimination or 0.0, item.difficulty, item.item_id))
    return ItemsPart(
        difficulty=tuple(steps),
        flags=counts(flag for item in found.items for flag in item.flags),
        suspects=len(rows),
        suspicious=tuple(rows[:_MOST_ITEMS]),
    )


_GROUPINGS = (
    "by_culture",
    "by_variety",
    "by_domain",
    "by_culture_domain",
    "by_topic",
    "by_resource_class",
    "by_family",
    "by_script",
)


def _accuracies(parts: Breakdown) -> dict[str, Any]:
    groups: dict[str, Grouped | None] = {key: getattr(parts, key) for key in _GROUPINGS}
    return {
        "overall": parts.overall,
        "macro": parts.by_culture_domain.macro,
        **{key: {} if group is None else _cells(group) for key, group in groups.items()},
    }


def _cells(group: Grouped) -> Cells:
    keys = [pl.col(key).cast(pl.String).fill_null("none") for key in group.by]
    rows = group.groups.with_columns(pl.concat_str(keys, separator="/").alias("_key"))
    return {row["_key"]: Cell(**{n: row[n] for n in Cell.model_fields}) for row in rows.iter_rows(named=True)}


def _robustness(found: Sensitivity, name: str) -> dict[str, Any]:
    kinds = {row.perturbation: row for row in found.kinds if row.scorer == name}
    return {"perturbation": kinds, "causal_to_surface": found.ratio(name)}


def _consistency(found: Consistency, name: str) -> ConsistencyRow | None:
    row = found.of(name)
    return row if row.n or row.k is not None else None
