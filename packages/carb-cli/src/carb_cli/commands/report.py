"""``carb report``: show what runs found, with intervals."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from carb_cli import display
from carb_cli.options import Confidence, RunFolder
from carb_cli.output import write
from carb_cli.report.content import content, read_runs
from carb_cli.report.model import Report
from carb_cli.report.sections import SECTIONS, leaderboard, sections
from carb_data import CarbError

PathOption = Annotated[Path | None, Parameter(show_default=False)]
TextOption = Annotated[Path | None, Parameter(allow_leading_hyphen=True, show_default=False)]


def report(
    *runs: RunFolder,
    only: str | None = None,
    json: Annotated[Path | None, Parameter(name="--json", allow_leading_hyphen=True, show_default=False)] = None,
    html: PathOption = None,
    md: TextOption = None,
    latex: TextOption = None,
    confidence: Confidence = 0.95,
) -> None:
    """Show what runs found: a table here, --json for programs, --html for people.

    For example:

        carb report runs/first --json report.json --html report.html

        carb report runs/first --only failures

    Parameters
    ----------
    only
        Show one section: families, pairs, floor, groups, perturbations, judges, people, items or failures.
    json
        Write the content as JSON to this file; - for stdout, and then nothing else is printed.
    html
        Write one self-contained HTML file.
    md
        Write the leaderboard as a Markdown table to this file; - for stdout.
    latex
        Write the leaderboard as a LaTeX table to this file; - for stdout.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb report runs/first")
    if only is not None and only not in SECTIONS:
        raise CarbError(f"There is no section '{only}'. There are {', '.join(SECTIONS)}.")
    read = read_runs(runs)
    found = content(read, confidence=confidence)
    files = []
    if html is not None:
        from carb_cli.report.page import render
        from carb_cli.report.shown import written

        files.append(write(html, render(found, read, written(read.folders), only=only)))
    printed = False
    for path, text in _texts(found, only, json=json, md=md, latex=latex):
        if str(path) != "-":
            files.append(write(path, text))
            continue
        display.console.file.write(text)
        printed = True
    if printed:
        return
    if only is None:
        show(found)
    for section in sections(found, only) if only else ():
        section.show()
    for path in files:
        display.say(f"Written: {path.resolve()}")


def _texts(
    found: Report, only: str | None, *, json: Path | None, md: Path | None, latex: Path | None
) -> Iterator[tuple[Path, str]]:
    """The text of each file that was asked for."""
    from carb_cli.report.exports import latex_table, markdown_table

    if json is not None:
        yield json, json_module.dumps(_part(found, only), ensure_ascii=str(json) == "-", indent=1) + "\n"
    if md is not None:
        yield md, markdown_table(found)
    if latex is not None:
        yield latex, latex_table(found)


def _part(found: Report, only: str | None) -> dict[str, Any]:
    """The JSON of a report, or of the part that holds one section."""
    whole = found.plain()
    if only is None:
        return whole
    return {key: whole[key] for key in ("schema", "confidence", only if only in whole else "scorers")}


def show(found: Report) -> None:
    """Print the first screen: verdict and leaderboard."""
    display.sentences(found.verdict)
    leaderboard(found).show()
    names = ", ".join(section.name for section in sections(found))
    display.sentences(f"More: carb report … --only SECTION, with one of {names}; or --html FILE.")
