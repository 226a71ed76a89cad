"""``carb train``: train a Think-as-Locals judge."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.display import number, percent
from carb_cli.options import Json, Quiet, Several
from carb_cli.output import Output
from carb_data import CarbError
from carb_metrics import sensitivity_change
from tal_rlvr import TrainResult, ablate, ablation_table, load_config, presets, read_perturbed, run
from tal_rlvr.seeds import SeedRow, seed_table, train_seeds

Flag = Parameter(negative=(), show_default=False)


class Trained(Output, TrainResult):
    """Output of ``carb train --json``."""

    schema_: Literal["carb.train/1"] = Field(default="carb.train/1", alias="schema")
    sensitivity: tuple[dict[str, Any], ...] = ()
    """One for each perturbation of ``evaluation.perturbed``: ``carb_metrics.SensitivityChange.kinds``."""


class Ablated(Output):
    """Output of ``carb train --ablate --json``."""

    schema_: Literal["carb.train.ablate/1"] = Field(default="carb.train.ablate/1", alias="schema")
    rows: tuple[dict[str, Any], ...]
    """One for each ablation and decoding: accuracy before and after with intervals, p, format rate, entropy."""
    sensitivity: tuple[dict[str, Any], ...] = ()
    """One for each ablation and perturbation, see ``Trained.sensitivity``."""


class Seeded(Output):
    """Output of ``carb train --seeds N --json``."""

    schema_: Literal["carb.train.seeds/1"] = Field(default="carb.train.seeds/1", alias="schema")
    rows: tuple[SeedRow, ...]
    """One for each decoding and measure: the change by training with its interval over seeds and held-out items."""


def train(
    *,
    config: str | None = None,
    model: str | None = None,
    data: Annotated[tuple[str, ...], Several] = (),
    out: Path | None = None,
    resume: Annotated[bool, Flag] = False,
    ablate_: Annotated[bool, Parameter(name="--ablate", negative=(), show_default=False)] = False,
    seeds: int = 1,
    print_config: Annotated[bool, Flag] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a judge that names a local's criteria before it judges, by reinforcement learning from verdicts.

    For example:

        carb train

        carb train --config demo-cpu --model path/to/model --data carb-seed --out runs/judge --print-config

    Parameters
    ----------
    config
        A TOML file, or a preset; without it, the presets are listed.
    model
        Folder or hub id of the model to train; it replaces that of the configuration.
    data
        Data sets to train on; they replace those of the configuration. May be repeated.
    out
        Output folder; it replaces that of the configuration.
    resume
        Go on from the last checkpoint in the output folder.
    ablate_
        Train with each part left out in turn, and print a table of the results.
    seeds
        How many runs to make, with the seeds 0, 1 and so on, each in a folder seed-N of the output folder. With more
        than one, the table has the change by training with its interval over seeds and held-out items. Default: one
        run with the configuration's own seed.
    print_config
        Print the whole configuration as JSON, and do nothing else.
    """
    if config is None:
        _list_presets(others=any((model, data, out, resume, ablate_, seeds != 1, print_config)))
        return
    overrides: dict[str, Any] = {name: value for name, value in (("model", model), ("out", out)) if value is not None}
    if data:
        overrides["mix"] = {"sources": [{"form": "carb", "path": path} for path in data]}
    wanted = load_config(config, overrides)
    if print_config:
        display.console.file.write(wanted.model_dump_json(indent=2) + "\n")
        return
    if seeds != 1 and ablate_:
        raise CarbError("--seeds and --ablate do not go together: give --seeds to one ablation at a time.")
    if seeds != 1:
        several = train_seeds(
            wanted,
            seeds,
            resume=resume,
            on_note=None if quiet else display.note,
            progress=lambda seed: _note(quiet, f"seed {seed}"),
        )
        table = seed_table(several)
        if json:
            Seeded(rows=tuple(table)).print()
        else:
            _show_seeds(table)
        return
    if ablate_:
        results = ablate(wanted, resume=resume, progress=lambda name: _note(quiet, f"ablation {name}"))
        rows = ablation_table(results)
        moved = [{"ablation": name, **row} for name, result in results.items() for row in _sensitivity(result)]
        if json:
            Ablated(rows=tuple(rows), sensitivity=tuple(moved)).print()
            return
        _show_ablations(rows)
        _show_sensitivity(moved)
        return
    result = run(wanted, resume=resume, on_log=None if quiet else _log, on_note=None if quiet else display.note)
    moved = _sensitivity(result)
    if json:
        Trained.model_validate({**result.model_dump(), "sensitivity": moved}).print()
        return
    _show(result)
    _show_sensitivity(moved)
    display.say(f"Model: {result.model}")
    display.say(
        "Next: "
        + shlex.join(["carb", "run", "--data", "carb-seed", "--scorer", f"think:{result.model}", "--out", "runs/think"])
    )


def _list_presets(*, others: bool) -> None:
    if others:
        raise CarbError(f"Give a TOML file or a preset with --config. Presets: {', '.join(presets())}.")
    display.table("Presets", ["carb train --config ..."], [(name,) for name in presets()])


def _sensitivity(result: TrainResult) -> list[dict[str, Any]]:
    """How training changed what perturbations move; empty where the run has no perturbed sets."""
    scores = read_perturbed(result.out)
    return [] if scores is None else [row.model_dump() for row in sensitivity_change(scores, "before", "after").kinds]


def _note(quiet: bool, text: str) -> None:
    if not quiet:
        display.note(text)


def _log(stage: str, step: int, values: Mapping[str, float]) -> None:
    names = ("loss", "reward", "verdict_accuracy")
    shown = ", ".join(f"{name} {values[name]:.3f}" for name in names if name in values)
    display.note(f"{stage} step {step}: {shown}")


def _show(result: TrainResult) -> None:
    rows = [
        (s.name, s.decoding, s.pairs, percent(s.accuracy.mean), display.interval(s.accuracy.low, s.accuracy.high),
         percent(s.accuracy_parsed.mean), percent(s.format_rate.mean), percent(s.consistency.mean))
        for s in result.stages
    ]  # fmt: skip
    columns = [
        "model",
        "decoding",
        "pairs",
        "accuracy %",
        "interval",
        "of parsed %",
        "format %",
        "same in both orders %",
    ]
    display.table("Held-out pairs", columns, rows, right=columns[2:])
    for decoding, change in result.changes.items():
        points = f"{100 * (change.mean or 0):+.1f} points"
        display.say(f"Change by training, {decoding}: {points}, {display.p_clause(change.p)}")


def _show_ablations(rows: list[dict[str, Any]]) -> None:
    columns = ["ablation", "decoding", "before %", "after %", "interval", "p"]
    shown = [
        (r["ablation"], r["decoding"], percent(r["before"]), percent(r["after"]),
         display.interval(r["after_low"], r["after_high"]), r["p"])
        for r in rows
    ]  # fmt: skip
    display.table("Ablations", columns, shown, right=columns[2:])


def _show_seeds(rows: list[SeedRow]) -> None:
    columns = ["measure", "decoding", "seeds", "items", "before", "after", "change", "interval", "p"]
    shown = [
        (r.measure, r.decoding, r.seeds, r.items, *(number(value) for value in (r.before, r.after, r.change)),
         "–" if r.low is None else f"[{number(r.low)}, {number(r.high)}]", number(r.p))
        for r in rows
    ]  # fmt: skip
    display.table("Change by training over seeds and held-out items", columns, shown, right=columns[2:])


def _show_sensitivity(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    first = ["ablation"] if "ablation" in rows[0] else []
    columns = [*first, "perturbation", "pairs", "before", "after", "after / before", "interval"]
    shown = [
        (*(r[name] for name in first), r["perturbation"], r["n"],
         *(number(r[name]) for name in ("before", "after", "factor")),
         f"[{number(r['factor_low'])}, {number(r['factor_high'])}]")
        for r in rows
    ]  # fmt: skip
    display.table("Change of scores under perturbation, in within-item spreads", columns, shown, right=columns[-5:])
