"""A static site: leaderboards of many runs and entries, a report for each data set, and a page for each scorer."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from io import StringIO
from pathlib import Path

from markupsafe import Markup

from carb_cli.labels import labels
from carb_cli.output import write
from carb_cli.report.content import Runs, content, merged, read_runs
from carb_cli.report.model import Report
from carb_cli.report.page import asset, csp_hash, render, template
from carb_cli.report.rationales import rationales
from carb_cli.results import entry as entries
from carb_cli.results.references import with_references
from carb_data import CarbError, content_hash
from carb_scorers.run import RunRecord


@dataclass(frozen=True, slots=True)
class _Result:
    """A scorer on a data set at a time, for the scorer's own page."""

    name: str
    data: str
    created: datetime
    accuracy: float | None
    low: float | None
    high: float | None
    sets: int
    record: RunRecord
    state: str
    """``shown`` in a leaderboard, ``earlier`` than another of the same scorer, or of data that have ``changed``."""


def write_site(
    sources: Sequence[Path], site: Path, candidates: entries.Candidates, *, confidence: float, budget: int
) -> int:
    """Write ``index.html`` with a leaderboard for each data set, and beside it their reports, CSV files and scorers.

    Args:
        sources: folders that ``carb run`` wrote, and folders of entries.
        site: the folder to write.
        candidates: data sets among which those of the entries must be.
        confidence: level of the intervals, between 0 and 1.
        budget: bytes of a report that the texts of its sets may take.

    Returns:
        The number of reports.

    Raises:
        CarbError: a folder holds neither a run nor entries, or an entry does not follow from its rows.
    """
    groups, results = _gather(sources, candidates)
    pages = []
    for key, runs in groups.items():
        report = with_references(content(runs, confidence=confidence), runs)
        stem = f"{_slug(_data_name(report.dataset.names))}-{key[:8]}"
        write(site / f"{stem}.html", render(report, runs, rationales(runs.folders), budget=budget))
        write(site / f"{stem}.csv", _csv(report))
        pages.append((stem, report, _shipped(runs)))
    by_name: dict[str, list[_Result]] = {}
    for one in sorted(results, key=lambda one: one.created, reverse=True):
        by_name.setdefault(one.name, []).append(one)
    own = {name: f"scorer-{_slug(name)}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.html" for name in by_name}
    write(site / "index.html", _page("index.html.jinja", pages=pages, labels=labels, own=own))
    for name, found in by_name.items():
        write(
            site / own[name], _page("scorer.html.jinja", name=name, results=found, spec=found[0].record.scorers[0].spec)
        )
    return len(pages)


def _shipped(runs: Runs) -> set[str]:
    """The scorers whose results come with this package."""
    each = zip(runs.folders, runs.records, strict=True)
    own = entries.shipped()
    return {scorer.spec.name for folder, record in each if folder.is_relative_to(own) for scorer in record.scorers}


def _gather(sources: Sequence[Path], candidates: entries.Candidates) -> tuple[dict[str, Runs], list[_Result]]:
    """What was scored on the same sets as one, the newest of each scorer; and every result."""
    found: list[Runs] = []
    results = []
    for source in sources:
        if (source / "run.json").is_file():
            found.append(read_runs([source]))
            continue
        folders = entries.found_in(source)
        for folder in folders:
            runs, result = _of_entry(folder, candidates)
            if runs is None:
                results.append(result)
            else:
                found.append(runs)
    groups: dict[str, list[Runs]] = {}
    for runs in sorted(found, key=lambda runs: runs.records[0].created, reverse=True):
        same = groups.setdefault(_sets_of(runs), [])
        taken = {name for other in same for name in other.scorers}
        kept = runs.without(taken)
        results += [_result(runs, name, "earlier" if name in taken else "shown") for name in runs.scorers]
        if kept is not None:
            same.append(kept)
    return {key: merged(same) for key, same in groups.items()}, results


def _of_entry(folder: Path, candidates: entries.Candidates) -> tuple[Runs | None, _Result]:
    entry, rows = entries.read(folder)
    dataset = candidates.holding(rows)
    if dataset is None:
        cell, record = entry.numbers.accuracy, entry.run
        return None, _Result(
            entry.name, _data_name(record.dataset.names), record.created, cell.accuracy, cell.low, cell.high,
            cell.n, record, "changed",
        )  # fmt: skip
    if problems := entries.check(folder, candidates):
        raise CarbError(f"{folder}: {problems[0]}. See `carb results check`.")
    runs = Runs((folder,), (entry.run,), dataset, entries.table_of(entry, rows, dataset))
    return runs, _result(runs, entry.name, "shown")


def _result(runs: Runs, name: str, state: str) -> _Result:
    index = next(i for i, r in enumerate(runs.records) if any(s.spec.name == name for s in r.scorers))
    record = runs.records[index]
    record = record.model_copy(update={"scorers": tuple(s for s in record.scorers if s.spec.name == name)})
    cell = entries.numbers(runs.only(name), runs.dataset).accuracy
    return _Result(
        name, _data_name(record.dataset.names), record.created, cell.accuracy, cell.low, cell.high,
        cell.n, record, state,
    )  # fmt: skip


def _sets_of(runs: Runs) -> str:
    hashes = sorted(content_hash(item) for item in runs.dataset)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _csv(report: Report) -> str:
    """The leaderboard as CSV; a text that a spreadsheet program would take for a formula begins with a quote."""
    domains = list(report.dataset.domains)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["rank", "scorer", "kind", "accuracy", "low", "high", "sets", "errors", *domains])
    for name, part in report.scorers.items():
        cell = part.overall
        shares = [part.by_domain[d].accuracy if d in part.by_domain else None for d in domains]
        safe_name = f"'{name}" if name[:1] in "=+-@\t\r" else name
        writer.writerow(
            [
                part.rank.rank,
                safe_name,
                part.spec.kind,
                cell.accuracy,
                cell.low,
                cell.high,
                cell.n,
                cell.errors,
                *shares,
            ]
        )
    return out.getvalue()


def _page(name: str, /, **fields: object) -> str:
    style, script = asset("style.css"), asset("sort.js") + asset("pick.js")
    return template(name).render(
        **fields,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        style_hash=csp_hash(style),
        script_hash=csp_hash(script),
        version=version("carb-cli"),
    )


def _data_name(names: Sequence[str]) -> str:
    return " + ".join(Path(name).stem for name in names) or "data"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", text).strip("-")[:60] or "x"
