"""Reference results: entries that come with the package, on the sets that a report shares with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from carb_cli.report.content import Runs
from carb_cli.report.model import ReferencePart, Report
from carb_cli.results.entry import ResultEntry, found_in, read, shipped, table_of
from carb_data import Dataset, ScoreTable, content_hash
from carb_metrics import bon_accuracy, family_accuracy, main_sets
from carb_scorers import ScorerSpec
from carb_scorers.spec import OPERATIONAL

FEWEST = 100
"""Sets that a reference result must share with a report that has sets beside them."""


def with_references(report: Report, runs: Runs, folder: Path | None = None) -> Report:
    """Add the reference results that share sets with the runs, computed again on exactly these sets.

    A set is shared where its id and its content are the same. Families of mirrored sets stay whole. A reference is left
    out where it shares fewer than ``FEWEST`` sets and not all, and where the runs hold the same scorer; of a scorer's
    references the one that shares most sets is shown.

    Args:
        report: the content of the report.
        runs: The runs that the report was made from.
        folder: a folder of entries; by default the one that comes with the package.
    """
    hashes = {item.id: content_hash(item) for item in runs.dataset}
    known = {_same(record.spec) for record in runs.scorers.values()}
    most: dict[str, tuple[frozenset[str], ResultEntry, pl.DataFrame]] = {}
    for place in found_in(folder or shipped()):
        entry, rows = read(place)
        if (name := _same(entry.run.scorers[0].spec)) in known:
            continue
        held = {
            id_ for id_, content in rows.select("item_id", "content").unique().iter_rows() if hashes.get(id_) == content
        }
        ids = _whole_families(runs.dataset, held)
        if len(ids) >= min(FEWEST, len(runs.dataset)) and (name not in most or len(most[name][0]) < len(ids)):
            most[name] = ids, entry, rows
    groups: dict[frozenset[str], list[tuple[ResultEntry, pl.DataFrame]]] = {}
    for ids, entry, rows in most.values():
        groups.setdefault(ids, []).append((entry, rows))
    found = [part for ids, entries in groups.items() for part in _parts(report, runs, ids, entries)]
    found.sort(key=lambda part: (-part.sets, -(part.accuracy.accuracy or 0), part.name))
    return report.model_copy(update={"references": tuple(found)})


def _same(spec: ScorerSpec) -> str:
    """Equal for scorers that give the same scores, wherever the model lies and whatever it is called."""
    kept = {key: value for key, value in spec.parameters.items() if key not in OPERATIONAL}
    where = spec.model if spec.kind == "baseline" or spec.revision is None else None
    return repr((spec.kind, where, spec.revision, sorted(kept.items())))


def _whole_families(dataset: Dataset, held: Collection[str]) -> frozenset[str]:
    """The sets that are held, without those of a family of which one is not."""
    broken = {item.family for item in dataset if item.family is not None and item.id not in held}
    return frozenset(item.id for item in dataset if item.id in held and item.family not in broken)


def _parts(
    report: Report, runs: Runs, ids: frozenset[str], entries: Sequence[tuple[ResultEntry, pl.DataFrame]]
) -> list[ReferencePart]:
    """The results of entries that share the same sets with the runs."""
    sets = Dataset(item for item in runs.dataset if item.id in ids)
    table = ScoreTable.concat(
        [table_of(entry, rows.filter(pl.col("item_id").is_in(sorted(ids))), sets) for entry, rows in entries]
    )
    main = main_sets(table.with_items(sets))
    strict = bon_accuracy(main, by=("scorer",), confidence=report.confidence)
    shared = bon_accuracy(main, by=("scorer",), ties="shared", confidence=report.confidence)
    domains = bon_accuracy(main, by=("scorer", "domain"), confidence=report.confidence)
    families = family_accuracy(table, sets, None, report.confidence)
    yours = None
    if len(sets) < len(runs.dataset):
        best = report.models[0]
        mine = runs.only(best).frame.filter(pl.col("item_id").cast(pl.String).is_in(sorted(ids)))
        part = bon_accuracy(main_sets(ScoreTable(mine).with_items(sets)), by=("scorer",), confidence=report.confidence)
        yours = part.cell(best)
    return [
        ReferencePart(
            name=entry.name,
            spec=entry.run.scorers[0].spec,
            created=entry.run.created,
            command=entry.run.command,
            data=entry.run.dataset.names,
            sets=len(sets),
            accuracy=strict.cell(entry.name),
            shared=shared.cell(entry.name),
            by_domain={domain: domains.cell(entry.name, domain) for domain in report.dataset.domains},
            families=None if families is None else families.of(entry.name),
            yours=yours,
        )
        for entry, _ in entries
    ]
