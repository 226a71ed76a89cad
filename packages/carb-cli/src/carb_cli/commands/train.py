"""``carb train``: train a Think-as-Locals judge."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from carb_cli import display
from carb_cli.display import number, percent, say, table
from carb_cli.json_output import print_json
from carb_cli.main import invoked
from carb_cli.options import Flag, Json, Names, OutFolder, refuse
from carb_data import CarbError
from tal_rlvr import TrainResult, load_config, preset_needs, presets
from tal_rlvr import train as train_judge
from tal_rlvr.curve import progress_to


def train(
    *,
    config: str | None = None,
    model: str | None = None,
    data: Names = (),
    out: Annotated[Path | None, OutFolder] = None,
    resume: Flag = False,
    print_config: Flag = False,
    json: Json = False,
) -> None:
    """Train a judge that names a local's criteria before it judges, by reinforcement learning from
    verdicts.

    For example:

        carb train

        carb train --config demo-cpu --model M --data carb-seed --out runs/judge --print-config

    Parameters
    ----------
    config
        A TOML file, or a preset; without it, the presets are listed.
    model
        Folder or hub id of the model to train; it replaces the configuration's.
    data
        Data sets to train on; they replace those of the configuration. May be repeated.
    out
        Output folder; it replaces the configuration's.
    resume
        Go on from the last checkpoint in the output folder.
    print_config
        Print the whole configuration as JSON, and do nothing else.
    """
    refuse(print_config and resume, "--resume", "with --print-config")
    if config is None:
        if any((model, data, out, resume, print_config)):
            raise CarbError(
                f"Give a TOML file or a preset with --config. Presets: {', '.join(presets())}."
            )
        if json:
            needs = preset_needs()
            print_json({"presets": list(needs), "needs": needs})
            return
        _list_presets()
        return
    given = {"model": model, "out": out}
    overrides: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
    if data:
        overrides["mix"] = {"sources": [{"form": "carb", "path": path} for path in data]}
    wanted = load_config(config, overrides)
    if print_config:
        display.console.file.write(wanted.model_dump_json(indent=2) + "\n")
        return
    log, note = (None, None) if invoked.quiet else (progress_to(display.note), display.note)
    result = train_judge(wanted, resume=resume, on_log=log, on_note=note)
    if json:
        print_json(result)
        return
    _show(result)
    scorer = shlex.quote(f"think:{result.model}")
    say(f"Model: {result.model}")
    sets = shlex.quote(result.held_out_sets or "SETS")
    say(f"Next: carb run --data {sets} --scorer {scorer} --out runs/think")


def _list_presets() -> None:
    rows = [
        (
            name,
            str(one.gpus or "none"),
            f"{one.memory_gb:.0f}",
            f"{one.minutes:.0f}" if one.minutes else "not measured",
        )
        for name, one in preset_needs().items()
    ]
    columns = ["carb train --config ...", "GPUs", "GB of each, or of the machine", "minutes"]
    table("Presets", columns, rows, right=columns[1:])


def _show(result: TrainResult) -> None:
    rows = [
        (
            s.name,
            s.decoding,
            s.pairs,
            percent(s.accuracy.estimate),
            display.interval(s.accuracy.low, s.accuracy.high),
            percent(s.format_rate.estimate),
            percent(s.consistency.estimate),
            number(s.entropy.estimate, 3),
        )
        for s in result.stages
    ]
    columns = [
        "model",
        "decoding",
        "pairs",
        "accuracy %",
        "95%",
        "format %",
        "same in both orders %",
        "entropy, nats",
    ]
    table("Held-out pairs", columns, rows, right=columns[2:])
    for decoding, change in result.changes.items():
        say(
            f"Change by training, {decoding}: {display.signed(change.estimate)} points, "
            f"{display.p_clause(change.p)}"
        )
