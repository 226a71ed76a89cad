"""Gather runs into the content of a report: plain data, ready for JSON and for templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from carb_data import CarbError, Dataset, ScoreTable, load
from carb_metrics import Cell, Grouped, bon_accuracy, breakdown
from carb_scorers.runs import RunRecord

FORMAT = 1
"""Version of the JSON form; raised when a key changes its meaning or goes."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Runs:
    """Several runs on the same data set as one."""

    folders: tuple[Path, ...]
    records: tuple[RunRecord, ...]
    dataset: Dataset
    scores: ScoreTable


def read_runs(folders: Sequence[Path]) -> Runs:
    """Read run folders.

    Raises:
        CarbError: a folder is no run, the runs scored different data, or two hold a scorer of the same name.
    """
    records = [RunRecord.read(folder) for folder in folders]
    prints = {record.dataset.fingerprint for record in records}
    if len(prints) > 1:
        listed = ", ".join(f"{f}: {r.dataset.fingerprint[:12]}" for f, r in zip(folders, records, strict=True))
        raise CarbError(f"These runs scored different data sets and cannot share a report ({listed}).")
    names = [scorer.spec.name for record in records for scorer in record.scorers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CarbError(f"Several of these runs hold the scorer {', '.join(twice)}; leave one of them out.")
    tables = [ScoreTable.load(folder / "scores.parquet") for folder in folders]
    dataset = load(folders[0] / "dataset.parquet")
    return Runs(tuple(folders), tuple(records), dataset, ScoreTable.concat(tables))


def content(runs: Runs, *, confidence: float = 0.95) -> Json:
    """The content of ``report.json``; see the package README for its form."""
    parts = breakdown(runs.scores, confidence=confidence)
    shared = bon_accuracy(runs.scores, by=("scorer",), ties="shared", confidence=confidence)
    first = runs.records[0]
    specs = {s.spec.name: s for record in runs.records for s in record.scorers}
    scorers: Json = {}
    for name, record in specs.items():
        own = _one_scorer(parts, name, len(specs) > 1)
        scorers[name] = {
            "spec": record.spec.model_dump(mode="json"),
            "usage": record.usage.model_dump(),
            "overall": _cell(own["by_domain"].overall),
            "macro": _cell(own["by_culture_domain"].macro),
            "shared": _cell(shared.cell(name)),
            **{key: _cells(group) for key, group in own.items()},
        }
    return {
        "format": FORMAT,
        "confidence": confidence,
        "dataset": {
            **first.dataset.model_dump(mode="json"),
            "chance": chance(runs.dataset),
            "cultures": sorted({item.culture for item in runs.dataset}),
            "domains": sorted({str(item.domain) for item in runs.dataset}),
        },
        "scorers": dict(sorted(scorers.items(), key=lambda pair: (-(pair[1]["overall"]["accuracy"] or 0), pair[0]))),
        "runs": [
            {"folder": folder.name, **record.model_dump(mode="json", exclude={"scorers", "dataset"})}
            for folder, record in zip(runs.folders, runs.records, strict=True)
        ],
    }


def chance(dataset: Dataset) -> float | None:
    """Accuracy of a random pick without ties: the mean of 1/N; null for an empty data set."""
    sizes = [len(item.responses) for item in dataset]
    return sum(1 / size for size in sizes) / len(sizes) if sizes else None


_GROUPINGS = ("by_culture", "by_domain", "by_culture_domain", "by_resource_class", "by_family", "by_script")


def _one_scorer(parts: Any, name: str, several: bool) -> Mapping[str, Grouped]:
    part = parts.of(name) if several else parts
    return {key: getattr(part, key) for key in _GROUPINGS}


def _cell(cell: Cell) -> Json:
    return cell.model_dump()


def _cells(group: Grouped) -> Json:
    keys = list(group.by)
    rows = group.groups.with_columns(
        pl.concat_str([pl.col(k).cast(pl.String) for k in keys], separator="/").alias("_key")
    )
    return {row["_key"]: {name: row[name] for name in Cell.model_fields} for row in rows.iter_rows(named=True)}
