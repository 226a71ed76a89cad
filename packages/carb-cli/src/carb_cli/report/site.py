"""A static site: a leaderboard for each data set, with its report, from runs and entries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from carb_cli.report.content import Runs, content, merged, read_runs
from carb_cli.report.page import chart_of, page, render
from carb_cli.report.sections import leaderboard
from carb_cli.report.shown import written
from carb_cli.results import entry as entries
from carb_data import CarbError, ScoreTable, content_hash, write_whole


def write_site(
    sources: Sequence[Path], site: Path, known: Sequence[entries.Hashed], *, confidence: float
) -> int:
    """Write ``index.html`` with a leaderboard for each data set, and beside it their reports as
    HTML and JSON.

    Args:
        sources: folders that ``carb run`` wrote, and folders of entries.
        site: the folder to write.
        known: data sets among which those of the entries must be.
        confidence: level of the intervals, between 0 and 1.

    Returns:
        The number of reports.

    Raises:
        CarbError: a folder holds neither a run nor entries, or an entry does not follow from its
            rows.
    """
    gathered, gone = _gather(sources, known)
    boards = []
    for key, runs in gathered.items():
        report = content(runs, confidence=confidence)
        stem = f"{entries.slug(_data_name(report.dataset.names))}-{key[:8]}"
        write_whole(site / f"{stem}.html", render(report, runs, written(runs.folders)))
        write_whole(
            site / f"{stem}.json",
            json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n",
        )
        boards.append((stem, report, leaderboard(report), chart_of(report)))
    write_whole(site / "index.html", page("index.html.jinja", (), boards=boards, gone=gone))
    return len(boards)


def _gather(
    sources: Sequence[Path], known: Sequence[entries.Hashed]
) -> tuple[dict[str, Runs], list[str]]:
    """What was scored on the same sets as one, the newest of each scorer; and the entries whose
    data are not here."""
    gathered: list[Runs] = []
    gone: list[str] = []
    for source in sources:
        if (source / "run.json").is_file():
            gathered.append(read_runs([source]))
        else:
            gathered += _of_entries(source, known, gone)
    groups: dict[str, list[Runs]] = {}
    for runs in sorted(gathered, key=lambda runs: runs.records[0].created, reverse=True):
        same = groups.setdefault(",".join(sorted(map(content_hash, runs.dataset))), [])
        newer = {name for other in same for name in other.scorers}
        kept = tuple(scorer for name, scorer in runs.scorers.items() if name not in newer)
        if kept:
            record = runs.records[0].model_copy(update={"scorers": kept})
            rows = pl.col("scorer").cast(pl.String).is_in([scorer.spec.name for scorer in kept])
            same.append(
                replace(runs, records=(record,), scores=ScoreTable(runs.scores.frame.filter(rows)))
            )
    return {key: merged(same) for key, same in groups.items()}, gone


def _of_entries(source: Path, known: Sequence[entries.Hashed], gone: list[str]) -> Iterator[Runs]:
    for folder in entries.found_in(source):
        entry, rows = entries.read(folder)
        dataset = entries.holding(rows, known)
        if dataset is None:
            gone.append(
                f"{entry.name} on {_data_name(entry.run.dataset.names)}, {entry.run.created.date()}"
            )
            continue
        if problems := entries.check(folder, known).problems:
            raise CarbError(f"{folder}: {problems[0]}. See `carb results check`.")
        yield Runs((folder,), (entry.run,), dataset, entries.table_of(rows, dataset, entry.name))


def _data_name(names: Sequence[str]) -> str:
    return " + ".join(Path(name).stem for name in names) or "data"
