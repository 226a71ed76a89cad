"""A static site: a leaderboard for each data set, with its report, from runs and entries."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from polars import col

from carb_cli.report.content import Runs, content, merged, read_runs
from carb_cli.report.page import chart_of, page, render
from carb_cli.report.sections import leaderboard
from carb_cli.report.shown import written
from carb_cli.results import entry as entries
from carb_data import CarbError, ScoreTable, content_hash, write_whole


def write_site(sources: Sequence[Path], site: Path, known: Sequence[entries.Hashed]) -> int:
    """Write ``index.html`` with a leaderboard for each data set, and beside it their reports as
    HTML and JSON.

    Args:
        sources: folders that ``carb run`` wrote, and folders of entries.
        site: the folder to write.
        known: data sets among which those of the entries must be.

    Returns:
        The number of reports.

    Raises:
        CarbError: a folder holds neither a run nor entries, or an entry does not follow from its
            rows.
    """
    gathered, gone = _gather(sources, known)
    boards = []
    for key, runs in gathered.items():
        report = content(runs)
        name = _data_name(report.dataset.names)
        stem = f"{entries.slug(name)}-{key[:8]}"
        whole = report.model_dump(mode="json")
        text = json.dumps(whole, ensure_ascii=False, indent=1)
        write_whole(site / f"{stem}.html", render(report, runs, written(runs.folders)))
        write_whole(site / f"{stem}.json", f"{text}\n")
        boards.append((stem, report, leaderboard(report), chart_of(report)))
    write_whole(site / "index.html", page("index.html.jinja", (), boards=boards, gone=gone))
    return len(boards)


def _gather(
    sources: Sequence[Path], known: Sequence[entries.Hashed]
) -> tuple[dict[str, Runs], list[str]]:
    """The newest entry of each scorer on the same sets as one; and the entries without their
    data."""
    gathered: list[Runs] = []
    gone: list[str] = []
    for source in sources:
        if (source / "run.json").is_file():
            gathered.append(read_runs([source]))
        else:
            gathered += _of_entries(source, known, gone)
    gathered.sort(key=lambda runs: runs.records[0].created, reverse=True)
    groups: dict[str, list[Runs]] = {}
    for runs in gathered:
        key = ",".join(sorted(map(content_hash, runs.dataset)))
        same = groups.setdefault(key, [])
        newer = {name for other in same for name in other.scorers}
        kept = [name for name in runs.scorers if name not in newer]
        if kept:
            same.append(_with_scorers(runs, kept))
    return {key: merged(same) for key, same in groups.items()}, gone


def _with_scorers(runs: Runs, names: Sequence[str]) -> Runs:
    """The part of some scorers."""
    scorers = tuple(runs.scorers[name] for name in names)
    record = runs.records[0].changed(scorers=scorers)
    rows = col.scorer.cast(pl.String).is_in(names)
    scores = ScoreTable(runs.scores.frame.filter(rows))
    return replace(runs, records=(record,), scores=scores)


def _of_entries(source: Path, known: Sequence[entries.Hashed], gone: list[str]) -> Iterator[Runs]:
    for folder in entries.found_in(source):
        entry, rows = entries.read(folder)
        run = entry.run
        dataset = entries.holding(rows, known)
        if dataset is None:
            data = _data_name(run.dataset.names)
            gone.append(f"{entry.name} on {data}, {run.created.date()}")
            continue
        problems = entries.check(folder, known).problems
        if problems:
            raise CarbError(f"{folder}: {problems[0]}. See `carb results check`.")
        scores = entries.table_of(rows, dataset, entry.name)
        yield Runs((folder,), (run,), dataset, scores)


def _data_name(names: Sequence[str]) -> str:
    stems = [Path(name).stem for name in names]
    return " + ".join(stems) or "data"
