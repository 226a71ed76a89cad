"""``carb report``: show what runs found, with intervals."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from carb_cli import display
from carb_cli.csvs import Points
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import Confidence, CultureFile, RunFolder, add_cultures, bytes_of
from carb_cli.output import print_json, write
from carb_cli.report.content import Runs, best_of, content, read_runs
from carb_cli.report.model import Downstream, Report
from carb_cli.report.tables import human
from carb_cli.results.references import with_references
from carb_data import CarbError
from carb_metrics import FamilyReport, correlate

PathOption = Annotated[Path | None, Parameter(show_default=False)]


def report(
    *runs: RunFolder,
    json: Annotated[Path | None, Parameter(name="--json", allow_leading_hyphen=True, show_default=False)] = None,
    html: PathOption = None,
    figures: PathOption = None,
    md: Annotated[Path | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    latex: Annotated[Path | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    card: Annotated[Path | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    validity: PathOption = None,
    texts: float = 2.2,
    confidence: Confidence = 0.95,
    references: bool = True,
    culture_file: CultureFile = (),
) -> None:
    """Show what runs found: a table here, --json for programs, --html for people.

    For example:

        carb report runs/first --json report.json --html report.html

        carb report runs/first --figures figures --md - --latex table.tex

    Parameters
    ----------
    json
        Write the content as JSON to this file; - for stdout, and then nothing else is printed.
    html
        Write one self-contained HTML file.
    figures
        Write every chart as SVG and PNG into this folder.
    md
        Write the leaderboard as a Markdown table to this file; - for stdout.
    latex
        Write the leaderboard as a LaTeX table to this file; - for stdout.
    card
        Write evaluation results for Hugging Face model cards, as YAML, to this file; - for stdout.
    validity
        CSV with the columns scorer and downstream: do these accuracies predict downstream results?
    texts
        Megabytes of the HTML file that the texts of the sets may take; 2.2 by default.
    references
        Show the results that come with carb, in grey, on the sets that they share with these runs; this is the default.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb report runs/first")
    add_cultures(culture_file)
    read = read_runs(runs)
    found = content(read, confidence=confidence)
    if references:
        found = with_references(found, read)
    if validity is not None:
        found = found.model_copy(update={"validity": _validity(validity, found)})
    written = _files(found, read, html=html, figures=figures, texts=texts)
    if json is not None and str(json) != "-":
        written.append(write(json, json_module.dumps(found.plain(), ensure_ascii=False, indent=1) + "\n"))
    if _to_stdout(found, json=json, md=md, latex=latex, card=card, written=written):
        return
    leaderboard(found)
    for path in written:
        display.say(f"Written: {path.resolve()}")


def _files(found: Report, read: Runs, *, html: Path | None, figures: Path | None, texts: float) -> list[Path]:
    written = []
    if html is not None:
        from carb_cli.report.page import render
        from carb_cli.report.rationales import rationales

        page = render(found, read, rationales(read.folders), budget=bytes_of(texts))
        written.append(write(html, page))
    if figures is not None:
        from carb_cli.report.figures import save

        save(found, figures)
        written.append(figures)
    return written


def _to_stdout(
    found: Report, *, json: Path | None, md: Path | None, latex: Path | None, card: Path | None, written: list[Path]
) -> bool:
    """Write the forms of text; whether one of them went to stdout, which then holds nothing else."""
    from carb_cli.report.tables import latex_table, markdown_table, model_card

    printed = False
    if json is not None and str(json) == "-":
        print_json(found.plain())
        printed = True
    for path, form in ((md, markdown_table), (latex, latex_table), (card, model_card)):
        if path is None:
            continue
        if str(path) == "-":
            display.console.file.write(form(found))
            printed = True
        else:
            written.append(write(path, form(found)))
    return printed


def _validity(file: Path, found: Report) -> Downstream:
    from carb_cli.csvs import read_points
    from carb_cli.report.validity import downstream

    points = read_points(file, ["downstream"])
    accuracy = {name: part.overall.accuracy for name, part in found.scorers.items()}
    unknown = [name for name in points.names if accuracy.get(name) is None]
    if unknown:
        raise CarbError(
            f"{file} names {', '.join(unknown)}, which these runs do not hold. There are {', '.join(accuracy)}."
        )
    benchmark = tuple(accuracy[name] or 0.0 for name in points.names)
    both = Points(points.names, {"benchmark": benchmark, "downstream": points.columns["downstream"]})
    return downstream(file.name, both, correlate(benchmark, points.columns["downstream"], None, found.confidence))


def _families(found: FamilyReport, short: dict[str, str], confidence: float) -> None:
    """Print what happens when only the place changes."""
    columns = ["scorer", "right %", f"{100 * confidence:.0f}%", "p", "column %", "place effect", "p", "families"]
    whole = [row for row in found.rows if row.group is None]
    failed = any(row.errors for row in whole)
    columns += ["errors"] * failed
    rows = []
    for row in whole:
        shown = (percent(row.row.estimate), display.interval(row.row.low, row.row.high))
        p, effect_p = ("–" if one.p is None else f"{one.p:.2g}" for one in (row.row, row.place_effect))
        whole_read = (percent(row.column.estimate), display.number(row.place_effect.estimate), effect_p)
        rows.append((short[row.scorer], *shown, p, *whole_read, row.families, *([row.errors] * failed)))
    title, chance = "Mirrored families: only the place changes", whole[0].chance
    display.table(title + f"; without reading it {percent(chance)}%" * (chance is not None), columns, rows, columns[1:])
    left = max(row.incomplete for row in whole)
    if left:
        display.say(
            f"Left out: {left:,} {'family' if left == 1 else 'families'} without the set of one of the answers, or "
            "with sets that show different answers: chance is not known there. `carb data check` names them."
        )


def _references(found: Report) -> None:
    """Print the results that come with carb, on the sets that they share with these runs."""
    if not found.references:
        return
    columns = [
        "reference",
        "accuracy %",
        f"{100 * found.confidence:.0f}%",
        "families %",
        "sets",
        "errors",
        "yours there %",
    ]
    best = best_of(found)
    rows = []
    for part in found.references:
        cell, yours = part.accuracy, part.yours or found.scorers[best].overall
        families = percent(None if part.families is None else part.families.row.estimate)
        limits = display.interval(cell.low, cell.high)
        rows.append((part.name, percent(cell.accuracy), limits, families, cell.n, cell.errors, percent(yours.accuracy)))
    display.table("Results that come with carb, on the same sets", columns, rows, right=columns[1:])
    display.say(f"'yours there' is {labels(found.scorers)[best]} on these sets.")


def leaderboard(found: Report) -> None:
    """Print the leaderboard; before it, where there are families, what happens when only the place changes."""
    data = found.dataset
    short = labels(found.scorers)
    if found.families is not None:
        _families(found.families, short, found.confidence)
    rows = []
    for name, part in found.scorers.items():
        cell, place = part.overall, part.rank.text
        shared = percent(part.shared.accuracy)
        interval = display.interval(cell.low, cell.high)
        rows.append((place, short[name], percent(cell.accuracy), interval, shared, cell.n, cell.ties, cell.errors))
    columns = ["rank", "scorer", "accuracy %", f"{100 * found.confidence:.0f}%", "shared %", "sets", "ties", "errors"]
    title = f"{', '.join(data.names)}: {data.sets:,} sets, chance {percent(data.chance)}%{human(data)}"
    display.table(title, columns, rows, right=[c for c in columns if c not in ("rank", "scorer")])
    display.say("A tie with the right answer is a loss; 'shared' gives 1/k of it to each of k tied answers.")
    _references(found)
    if found.floor is not None:
        floor = found.floor.overall
        name = short.get(floor.predictor, floor.predictor)
        display.say(
            f"Surface cues alone reach {percent(floor.floor.accuracy)}% with ties shared (best predictor: {name})."
        )
        tested = [test for test in found.floor.tests if not test.group]
        if tested:
            above = [short[test.scorer] for test in tested if test.above]
            display.say(f"Above that, after correction: {', '.join(above) or 'none'}.")
