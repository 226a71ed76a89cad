"""A static site: one leaderboard of many runs, and a report for each data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.output import write
from carb_cli.report.content import content, read_runs
from carb_cli.report.model import Report
from carb_cli.report.page import asset, csp_hash, plain, render
from carb_cli.report.rationales import rationales
from carb_scorers.records import RunRecord


def write_site(folders: Sequence[Path], site: Path, *, confidence: float, budget: int) -> int:
    """Write ``index.html``, and a report for each data set among the runs beside it.

    Runs on the same data set share a report. Returns the number of reports.

    Raises:
        CarbError: a folder is no run, or two runs on the same data set hold the same scorer.
    """
    by_data: dict[str, list[Path]] = {}
    for folder in folders:
        by_data.setdefault(RunRecord.read(folder).dataset.fingerprint, []).append(folder)
    pages: list[tuple[str, Report]] = []
    for fingerprint, same in by_data.items():
        runs = read_runs(same)
        report = content(runs, confidence=confidence)
        name = re.sub(r"[^A-Za-z0-9-]+", "-", Path(report.dataset.names[0]).stem if report.dataset.names else "").strip(
            "-"
        )
        file = f"{name or 'data'}-{fingerprint[:8]}.html"
        write(site / file, render(report, runs, rationales(runs.folders), budget=budget))
        pages.append((file, report))
    style, script = asset("style.css"), asset("sort.js")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=plain)
    environment.filters["percent"] = percent
    index = environment.from_string(asset("index.html.jinja")).render(
        pages=pages,
        labels=labels,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        style_hash=csp_hash(style),
        script_hash=csp_hash(script),
        version=version("carb-cli"),
    )
    write(site / "index.html", index)
    return len(pages)
