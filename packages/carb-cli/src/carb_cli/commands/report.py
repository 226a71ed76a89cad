"""``carb report``: show what runs found, with intervals."""

import json as json_module
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from carb_cli import display
from carb_cli.display import sentences
from carb_cli.gate import FailBelow, Gate, judged, read_gate
from carb_cli.main import FAILED, OK
from carb_cli.options import (
    Confidence,
    LatexFile,
    MaybeFile,
    MdFile,
    RunFolder,
    TextFile,
    refuse,
    refuse_files,
    refuse_mixed_output,
)
from carb_cli.report.content import Runs, content, read_runs
from carb_cli.report.report_json import Report
from carb_cli.report.sections import SECTIONS, leaderboard, sections
from carb_cli.report.tables import Shown, Table
from carb_cli.runs import run_folders
from carb_data import CarbError, closest, copies_sentence, write_whole

FIRST = ("rank", "<scorer", "place win %", "accuracy %")
"""Columns of the leaderboard that a narrow terminal shows first."""
WIDE = 150
"""Columns of a terminal that shows the whole leaderboard at once."""


def report(
    *runs: RunFolder,
    only: str | None = None,
    json: Annotated[TextFile, Parameter(name="--json")] = None,
    html: MaybeFile = None,
    figure: MaybeFile = None,
    md: MdFile = None,
    latex: LatexFile = None,
    confidence: Confidence = 0.95,
    fail_below: FailBelow = None,
) -> int:
    """Report runs: a table here, --json for programs, --html for people.

    For example:

        carb report runs/first --json report.json --html report.html

    Parameters
    ----------
    only
        Show one section, and write it with --md and --latex: families, pairs, floor, groups, cells
        (culture by domain), perturbations, judges, people, items or failures.
    json
        Write all content as JSON to this file; - for stdout, without the table.
    html
        Write one self-contained HTML file.
    figure
        Write the first chart as an SVG file; with --only groups, accuracy by group.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb report runs/first")
    if only is not None and only not in SECTIONS:
        near = closest(only, SECTIONS)
        raise CarbError(f"There is no section '{only}'.{near} There are {', '.join(SECTIONS)}.")
    refuse_mixed_output(False, json, md, latex)
    if str(json) == "-":
        partial = html or md or latex or (figure and only == "groups")
        refuse(only and not partial, "--only", "where the whole content goes to stdout")
    refuse_files(json, html, md, latex, figure=figure)
    gate = read_gate(fail_below)
    read = read_runs(_finished(runs))
    made = content(read, confidence=confidence)
    if only is not None and not sections(made, only):
        raise CarbError(f"These runs have nothing for '{only}'.")
    files, printed = save(made, json=json, md=md, latex=latex, only=only)
    files += _save_pages(made, read, html, figure, only)
    say = display.advice
    if not printed:
        say = display.say
        _show(made, only, files)
    return _judge(made, gate, say)


def _show(made: Report, only: str | None, files: Sequence[Path]) -> None:
    if only is None:
        show(made)
    else:
        for section in sections(made, only):
            section.show()
    for path in files:
        display.say(f"Written: {path.resolve()}")


def _judge(made: Report, gate: Gate | None, say: Callable[[str], None]) -> int:
    """Hold each model to a gate; returns the exit code."""
    if gate is None:
        return OK
    code = OK
    for name in made.models:
        passed, sentence = judged(made, name, gate)
        say(f"{name}: {sentence}")
        if not passed:
            code = FAILED
    return code


def _save_pages(
    made: Report, read: Runs, html: Path | None, figure: Path | None, only: str | None
) -> list[Path]:
    """Write the page and the chart; returns the files."""
    from carb_cli.report import page
    from carb_cli.report.shown import written

    if html is not None:
        write_whole(html, page.render(made, read, written(read.folders), only=only))
    if figure is not None:
        by_group = ""
        if only == "groups":
            by_group = page.group_figure(made)
        write_whole(figure, by_group or page.figure(page.chart_of(made)))
    return [path for path in (html, figure) if path is not None]


def _finished(runs: Sequence[Path]) -> list[Path]:
    """The folders of finished runs; the others are named. All where none is finished."""
    folders = [run for folder in runs for run in run_folders(folder)]
    finished = [folder for folder in folders if (folder / "run.json").is_file()]
    if not finished:
        return folders
    for folder in folders:
        if folder not in finished:
            display.note(f"Left out, because it holds no finished run: {folder}.")
    return finished


def save(
    made: Report,
    *,
    json: Path | None = None,
    md: Path | None,
    latex: Path | None,
    only: str | None = None,
) -> tuple[list[Path], bool]:
    """Write the requested files; returns them, and whether one of them was stdout."""
    from carb_cli.report.exports import exported

    texts: dict[Path, str] = {}
    if json is not None:
        whole = made.model_dump(mode="json")
        text = json_module.dumps(whole, ensure_ascii=str(json) == "-", indent=1)
        texts[json] = f"{text}\n"
    if md is not None:
        texts[md] = exported(made, latex=False, only=only)
    if latex is not None:
        texts[latex] = exported(made, latex=True, only=only)
    files = []
    for path, text in texts.items():
        if str(path) == "-":
            display.console.file.write(text)
        else:
            write_whole(path, text)
            files.append(path)
    return files, len(files) < len(texts)


def _show_board(board: Table) -> None:
    """The leaderboard; on a narrow terminal in two tables, of which the first fits 80 columns."""
    if display.console.width >= WIDE:
        board.show()
        return
    first = board.only(FIRST)
    kept = [_brief(first.columns, row) for row in first.rows]
    replace(first, rows=kept).show()
    rest = board.only([column for column in board.columns if column != "rank"])
    replace(rest, title="More of each scorer", note=board.note).show()


def _brief(columns: Sequence[str], row: Sequence[Shown]) -> list[Shown]:
    """A row with the interval of the place win rate, or in a word why it says nothing, accuracy
    alone, and the scorer with the first word of its mark."""
    cells = []
    for column, cell in zip(columns, row, strict=True):
        small = cell.small
        if column == "place win %":
            small = tuple(line.removesuffix(" by construction") for line in small[-1:])
        elif column == "accuracy %":
            small = ()
        elif column == "<scorer":
            small = tuple(re.split(r"\W", mark)[0] for mark in small)
        cells.append(replace(cell, small=small))
    return cells


def show(made: Report) -> None:
    """Print the first screen: verdict and leaderboard."""
    sentences(made.verdict)
    _show_board(leaderboard(made))
    data = made.dataset
    sentences(f"Data: {', '.join(data.names)}, fingerprint {data.fingerprint[:16]}.")
    if data.copies:
        sentences(copies_sentence(data.copies, data.sets))
    names = ", ".join(section.name for section in sections(made))
    sentences(f"More: carb report … --only SECTION, with one of {names}; or --html FILE.")
