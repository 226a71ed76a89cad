"""``carb eval``: one command from a model to a verdict and a report."""

import re
import shlex
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from carb_cli.commands.report import show
from carb_cli.display import counted, note, say
from carb_cli.gate import FailBelow, judged, read_gate
from carb_cli.json_output import print_json
from carb_cli.labels import labels
from carb_cli.main import FAILED, OK, invoked
from carb_cli.options import Flag, Json, OutFolder, refuse
from carb_cli.planning import RunPlan, plan_run
from carb_cli.probing import WAYS, Mode, probe, probe_plan, why
from carb_cli.recognise import Recognised, recognise
from carb_cli.report.content import content, read_runs
from carb_cli.report.page import render
from carb_cli.report.report_json import Report
from carb_cli.report.shown import written
from carb_cli.scoring import RunOptions, exit_code, score
from carb_cli.selection import EVERY_SET, SetOptions, select
from carb_data import UNSPECIFIED, CarbError, Dataset, write_whole
from carb_scorers import parse_spec

DATA = "carb-seed"
"""The seed with mirrored families, in which only a model that reads the place gets beyond
chance."""
BASELINES = ("baseline:random", "baseline:length", "baseline:language", "baseline:label")
QUICK = ("baseline:random", "baseline:length", "baseline:label")
"""Those that answer the whole seed in seconds."""


def eval_(
    model: str | None = None,
    data: str = DATA,
    /,
    *,
    out: Annotated[Path | None, OutFolder] = None,
    sets: SetOptions = EVERY_SET,
    mode: Mode | None = None,
    fresh: Flag = False,
    dry_run: Flag = False,
    fail_below: FailBelow = None,
    open_report: Annotated[
        bool | None, Parameter(name="--open", negative="--no-open", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """Test with one command whether a model understands cultures.

    It detects the model's kind, scores the data with the model and surface baselines, prints a
    verdict, and writes a report. The same command resumes after an interruption. Without a model it
    runs the baselines alone, in seconds.

    For example:

        carb eval mine=baseline:length carb-seed --cultures thai --no-open

    Parameters
    ----------
    model
        [NAME=] and a model's folder, a hub id owner/name, the address of an OpenAI-compatible
        server, or a scorer's spec, KIND:TARGET?key=value&...
    data
        The data set: carb-seed, a file, or hf://owner/name.
    out
        Folder of the run and its report. Default: runs/eval-MODEL-DATA, with the limits of the
        sets.
    mode
        Prompt format of a chat model. By default each format is tried on a few families, and the
        one with the highest place win rate is used.
    fresh
        Discard the folder's results. By default the run resumes from them.
    dry_run
        Print the calls, tokens, cost and gigabytes to fetch, without scoring. The cost needs
        price_in and price_out (per million tokens) in a spec.
    open_report
        Open the report in the browser. By default only on a terminal.
    """
    refuse(mode and model is None, "--mode", "without a model")
    refuse(fail_below and model is None, "--fail-below", "without a model")
    refuse(dry_run and fail_below, "--fail-below", "with --dry-run")
    refuse(dry_run and open_report, "--open", "with --dry-run")
    gate = read_gate(fail_below)
    folder = out or _folder(model, data, sets)
    asked = None if model is None else _asked(model, mode, folder, fresh=fresh, dry_run=dry_run)
    dataset = select([data], sets)
    scorers = _scorers(asked, dataset)
    plan = plan_run([data], dataset, scorers)
    if dry_run:
        _show_plan(plan, asked, json=json)
        return OK
    if not json:
        _say_what_will_be_done(asked, scorers, plan, sets)
    record = score([data], dataset, scorers, folder, RunOptions(fresh=fresh))
    report, page = _write_report(folder)
    passed, verdict = (True, None)
    if gate and asked:
        passed, verdict = judged(report, parse_spec(asked.spec).name, gate)
    if open_report or (open_report is None and sys.stdout.isatty() and not json):
        webbrowser.open(page.resolve().as_uri())
    _show_verdict(report, page, asked, verdict, json=json)
    return exit_code(record) if passed else FAILED


def _folder(model: str | None, data: str, sets: SetOptions) -> Path:
    """The folder of the run where none is given."""
    names = ("--limit", "--cultures", "--domains")
    some = [part.removeprefix("--") for part in sets.arguments() if part not in names]
    parts = ["eval", model or "baselines", data, *some]
    return Path("runs") / "-".join(map(_slug, parts))


def _show_plan(plan: RunPlan, asked: Recognised | None, *, json: bool) -> None:
    """Print what the run takes, that of the probe of a chat model first."""
    if asked is not None and asked.chat is not None:
        both = (*probe_plan(asked.chat).scorers, *plan.scorers)
        plan = plan.changed(scorers=both)
    plan.show(json=json)


def _write_report(folder: Path) -> tuple[Report, Path]:
    """The report of a run, and its page."""
    note("Computing the report.")
    read = read_runs([folder])
    report = content(read)
    page = folder / "report.html"
    write_whole(page, render(report, read, written(read.folders)))
    return report, page


def _show_verdict(
    report: Report, page: Path, asked: Recognised | None, gate: str | None, *, json: bool
) -> None:
    if json:
        name = asked and parse_spec(asked.spec).name
        head = {"verdict": report.verdict, "scorer": name, "why": asked and asked.why}
        files = {"run": str(page.parent), "html": str(page), "gate": gate}
        print_json(head | files | {"report": report})
        return
    say("")
    show(report)
    say(f"Report: {page.resolve()}")
    if asked is None:
        say("Next: carb eval MODEL, with a model's folder, a hub id, or a server's address.")
    if gate is not None:
        say(gate)


def _asked(
    model: str, mode: Mode | None, folder: Path, *, fresh: bool, dry_run: bool
) -> Recognised:
    """A model with its spec.

    Raises:
        CarbError: a way is given, but the model is no chat model of this process.
    """
    known = recognise(model)
    if known.chat is None:
        if mode is not None:
            raise CarbError(
                f"--mode {mode} needs a chat model that runs in this process; this one runs as "
                f"{known.spec}. Leave --mode out."
            )
        return known
    if mode is not None:
        return known.asked(
            WAYS[mode].format(model=known.chat), f"It is a chat model; its prompt format is {mode}."
        )
    if dry_run:
        return known
    asked = probe(known.chat, folder / "probe", fresh=fresh)
    return known.asked(asked[0].spec, why(asked))


def _scorers(asked: Recognised | None, dataset: Dataset) -> tuple[str, ...]:
    """The model's spec, where there is one, and the baselines that can read the sets."""
    scorers = list(QUICK)
    if asked is not None:
        scorers = list(dict.fromkeys((asked.spec, *BASELINES)))
    unsaid = any(item.culture == UNSPECIFIED for item in dataset)
    if unsaid and scorers[0] != "baseline:label":
        scorers.remove("baseline:label")
    return tuple(scorers)


def _say_what_will_be_done(
    asked: Recognised | None, scorers: Sequence[str], plan: RunPlan, sets: SetOptions
) -> None:
    data = plan.data[0]
    count = counted(plan.sets, "set")
    if asked is None:
        say(f"No model was given, so the surface baselines answer the {count} of {data}.")
        return
    (name,) = labels([parse_spec(asked.spec).name]).values()
    say(f"{name}: {asked.why}")
    say(f"It and the surface baselines answer the {count} of {data}.")
    if (price := plan.sentence()) is not None:
        say(price)
    again = [
        "carb",
        "run",
        "--data",
        data,
        "--scorer",
        *scorers,
        "--out",
        "runs/mine",
        *sets.arguments(),
        *invoked.loading(),
    ]
    say("The same with other options:")
    say(f"  {shlex.join(again)}")


def _slug(text: str) -> str:
    """The last parts of a path or an address, as a folder's name."""
    path = re.sub(r"^[a-z]+://", "", text).rstrip("/")
    name = re.sub(r"[^\w.@-]+", "-", "-".join(path.split("/")[-2:]))
    return name.strip("-.")[:80] or "model"
