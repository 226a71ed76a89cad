"""``carb report``: show what runs found, with intervals."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from carb_cli import display
from carb_cli.display import percent
from carb_cli.options import CultureFile, add_cultures
from carb_cli.output import print_json, write
from carb_cli.report.content import content, read_runs
from carb_cli.report.page import render
from carb_data import CarbError


def report(
    *runs: Path,
    json: Annotated[Path | None, Parameter(name="--json", allow_leading_hyphen=True)] = None,
    html: Path | None = None,
    confidence: float = 0.95,
    culture_file: CultureFile = (),
) -> None:
    """Show what runs found: a table here, --json for programs, --html for people.

    For example:

        carb report runs/first --json report.json --html report.html

    Parameters
    ----------
    runs
        Folders that `carb run` wrote, all on the same data set.
    json
        Write the content as JSON to this file; - for stdout, and then nothing else is printed.
    html
        Write one self-contained HTML file.
    confidence
        Of the intervals.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb report runs/first")
    add_cultures(culture_file)
    found = content(read_runs(runs), confidence=confidence)
    if html is not None:
        write(html, render(found))
    if json is not None and str(json) == "-":
        print_json(found)
        return
    if json is not None:
        write(json, json_module.dumps(found, ensure_ascii=False, indent=1) + "\n")
    leaderboard(found)
    for path in (json, html):
        if path is not None:
            display.say(f"Written: {path.resolve()}")


def leaderboard(found: dict[str, Any]) -> None:
    """Print the leaderboard."""
    data = found["dataset"]
    level = f"{100 * found['confidence']:.0f}%"
    rows = []
    for name, scorer in found["scorers"].items():
        cell = scorer["overall"]
        interval = display.interval(cell["low"], cell["high"])
        shared = percent(scorer["shared"]["accuracy"])
        row = (display.short(name), percent(cell["accuracy"]), interval, shared, cell["n"], cell["ties"])
        rows.append((*row, cell["errors"]))
    columns = ["scorer", "accuracy %", level, "shared %", "sets", "ties", "errors"]
    title = f"{', '.join(data['names'])}: {data['sets']} sets, chance {percent(data['chance'])}%"
    display.table(title, columns, rows, right=columns[1:])
    display.say("A tie with the right answer is a loss; 'shared' gives 1/k of it to each of k tied answers.")
