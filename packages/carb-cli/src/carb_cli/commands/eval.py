"""``carb eval``: one command from a model to a verdict and a report."""

from __future__ import annotations

import re
import shlex
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.commands.report import leaderboard
from carb_cli.commands.run import Flag, score
from carb_cli.config import RunConfig
from carb_cli.labels import labels
from carb_cli.main import INTERRUPTED, OK
from carb_cli.options import CultureFile, Json, Quiet, Several, add_cultures
from carb_cli.output import Output, write
from carb_cli.recognise import Kind, Recognised, recognise
from carb_cli.report.content import content, read_runs
from carb_cli.report.model import Report
from carb_cli.report.page import render
from carb_cli.report.rationales import rationales
from carb_cli.results.references import with_references
from carb_cli.selection import select
from carb_scorers.spec import parse_spec

DATA = "carb-seed@2"
"""The seed with mirrored families, in which only a model that reads the place gets beyond chance."""
BASELINES = ("baseline:random", "baseline:length", "baseline:language", "baseline:label")
QUICK = ("baseline:random", "baseline:length", "baseline:label")
"""Those that answer the whole seed in seconds."""
TEXTS = 2_200_000
"""Bytes of the HTML file that the texts of the sets may take."""


class EvalOutput(Output):
    """Output of ``carb eval --json``."""

    schema_: Literal["carb.eval/1"] = Field(default="carb.eval/1", alias="schema")
    verdict: str
    """What was found, in a sentence or two."""
    scorer: str | None
    """Name of the model's scorer in the report; null where only the baselines ran."""
    why: str | None
    """What in the model says how it is asked."""
    run: str
    """Folder of the run."""
    html: str
    """The report."""
    report: Report


def eval_(
    model: str | None = None,
    data: str = DATA,
    /,
    *,
    kind: Kind | None = None,
    out: Path | None = None,
    limit: int | None = None,
    cultures: Annotated[tuple[str, ...], Several] = (),
    domains: Annotated[tuple[str, ...], Several] = (),
    perturbed: Annotated[bool, Flag] = False,
    fresh: Annotated[bool, Flag] = False,
    open_report: Annotated[bool | None, Parameter(name="--open", negative="--no-open", show_default=False)] = None,
    references: bool = True,
    culture_file: CultureFile = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Say with one command whether a model understands cultures.

    It finds out what the model is, scores the data with it and with the surface baselines, prints a verdict, and
    writes a report. The same command goes on after any interruption. Without a model it runs the baselines alone,
    in seconds, and shows what the output looks like.

    For example:

        carb eval

        carb eval baseline:length carb-seed@2 --cultures thai --no-open

    Parameters
    ----------
    model
        A model's folder, a hub id owner/name, the address of an OpenAI-compatible server, or a scorer's spec.
    data
        The data set: carb-seed@2, a file, or hf://owner/name.
    kind
        The kind of the model. Without this option it is read from the model's configuration.
    out
        Folder of the run and its report. Without this option it is runs/eval- with the names of model and data, and
        what limits the sets.
    limit
        Score only this many sets, spread evenly over cultures and domains. Without this option, all.
    cultures
        Score only these cultures; may be repeated. Without this option, all.
    domains
        Score only these domains; may be repeated. Without this option, all.
    perturbed
        Score the perturbed texts too: more calls, and a section on robustness in the report.
    fresh
        Discard what the folder holds. By default the run goes on from it.
    open_report
        Open the report in the browser. By default it is opened where the output is a terminal.
    references
        Show the results that come with carb, in grey, on the sets that they share with this run; this is the default.
    """
    add_cultures(culture_file)
    asked = None if model is None else recognise(model, kind)
    dataset = select([data], limit=limit, cultures=cultures, domains=domains, perturbed=perturbed)
    scorers = QUICK if asked is None else (asked.spec, *(b for b in BASELINES if b != asked.spec))
    some = [part for part in (limit, *cultures, *domains, "perturbed" if perturbed else None) if part is not None]
    name = "-".join(_slug(str(part)) for part in ("eval", model or "baselines", data, *some))
    folder = out or Path("runs") / name
    if not json:
        given: dict[str, tuple[object, ...]] = {"--limit": () if limit is None else (limit,)}
        given |= {"--cultures": cultures, "--domains": domains, "--culture-file": culture_file}
        same = [str(part) for option, values in given.items() if values for part in (option, *values)]
        same += [] if perturbed else ["--no-perturbed"]
        _say_what_will_be_done(asked, scorers, data, len(dataset), same)
    wanted = RunConfig(data=(data,), scorer=scorers, out=folder)
    if score(wanted, dataset, fresh=fresh, quiet=quiet) is None:
        return INTERRUPTED
    read = read_runs([folder])
    found = with_references(content(read), read) if references else content(read)
    page = write(folder / "report.html", render(found, read, rationales(read.folders), budget=TEXTS))
    if json:
        EvalOutput(
            verdict=found.verdict,
            scorer=None if asked is None else parse_spec(asked.spec).name,
            why=None if asked is None else asked.why,
            run=str(folder),
            html=str(page),
            report=found,
        ).print()
        return OK
    display.say("")
    display.say(found.verdict)
    leaderboard(found)
    display.say(f"Report: {page.resolve()}")
    if asked is None:
        display.say("Next: carb eval MODEL, with a model's folder, a hub id, or a server's address.")
    if open_report or (open_report is None and sys.stdout.isatty()):
        webbrowser.open(page.resolve().as_uri())
    return OK


def _say_what_will_be_done(
    asked: Recognised | None, scorers: Sequence[str], data: str, sets: int, same: Sequence[str]
) -> None:
    if asked is None:
        display.say(f"No model was named, so the surface baselines answer the {sets:,} sets of {data}.")
        return
    name = labels([parse_spec(asked.spec).name])
    display.say(f"{next(iter(name.values()))}: {asked.why}")
    display.say(f"It and the surface baselines answer the {sets:,} sets of {data}. The same with other options:")
    again = ["carb", "run", "--data", data, "--scorer", *scorers, "--out", "runs/mine", *same]
    display.say(f"  {shlex.join(again)}")


def _slug(text: str) -> str:
    """The last parts of a path or an address, as a folder's name."""
    parts = re.sub(r"^[a-z]+://", "", text).rstrip("/").split("/")[-2:]
    return re.sub(r"[^\w.@-]+", "-", "-".join(parts)).strip("-.")[:80] or "model"
