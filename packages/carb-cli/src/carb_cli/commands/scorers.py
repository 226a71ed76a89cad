"""``carb scorers``: the published reward models that are known, their forms, and their figures put to the test."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import display
from carb_cli.commands.run import score
from carb_cli.config import RunConfig
from carb_cli.display import percent
from carb_cli.main import FAILED, INTERRUPTED, OK
from carb_cli.options import Json, Quiet
from carb_cli.output import Output, OutputPart
from carb_cli.runs import scores_of
from carb_data import BonSet, CarbError, Dataset, Kind
from carb_data.sources import rows
from carb_metrics import bon_accuracy
from carb_scorers.judge import form_names, form_text, read_form
from carb_scorers.known import KnownModel, known, known_models

PLACES = ("rewardbench2", "reward-bench-2", "RewardBench2")
"""Folders below ``CARB_DATA_DIR`` in which RewardBench 2 is looked for."""
ROUNDING = 0.0005
"""Published figures have one digit behind the point of a percentage."""


class ModelRow(OutputPart):
    """A published reward model."""

    id: str
    """Hub id, or a server's name for the model."""
    name: str
    """Short name, which carb eval, carb scorers check, classifier: and judge: take."""
    kind: Literal["classifier", "judge"]
    ask: str
    """Scorer spec."""
    architecture: str | None
    """The architecture as config.json names it; null where it is not known."""
    base: str | None
    """Base model whose configuration it has; null behind a provider's API."""
    config: dict[str, Any] | None
    """Fields of config.json that fix the computation, as published."""
    config_source: str | None
    """Where those fields were published."""
    head: str | None
    """How a classifier's score is read."""
    remote_code: bool
    """Whether it needs code of its own (trust_remote_code=true)."""
    licence: str | None
    """The licence that the model's page states; null where it was not found."""
    licence_source: str | None
    """URL where the licence was read; null where nobody has confirmed it."""
    unconfirmed: tuple[str, ...]
    """What was not found at a source: architecture, or names of fields of config."""
    note: str | None
    parameters: int | None
    """The number of parameters, computed from the configuration."""
    bfloat16: int | None
    """Bytes of the weights in bfloat16: 2 for each parameter. A run needs some more."""
    scores: dict[str, dict[str, float]]
    """Benchmark to published figures, in percent."""


class JudgeFormRow(OutputPart):
    """A form of asking a judge."""

    name: str
    title: str
    modes: tuple[str, ...]
    source: str | None
    licence: str | None
    """The licence of the publication."""
    note: str | None


class BenchmarkRow(OutputPart):
    """Where figures were published."""

    title: str
    source: str
    table: str


class ScorersListed(Output):
    """Output of ``carb scorers list --json``."""

    schema_: Literal["carb.scorers.list/1"] = Field(default="carb.scorers.list/1", alias="schema")
    models: tuple[ModelRow, ...]
    forms: tuple[JudgeFormRow, ...]
    benchmarks: dict[str, BenchmarkRow]


class CheckedFigure(OutputPart):
    """One figure, ours and as it was published. Shares, 0 to 1."""

    subset: str
    n: int
    """Rows scored."""
    ours: float | None
    low: float | None
    high: float | None
    published: float
    agrees: bool
    """Whether the published figure, within its rounding, lies in our interval."""


class ScorersChecked(Output):
    """Output of ``carb scorers check --json``."""

    schema_: Literal["carb.scorers.check/1"] = Field(default="carb.scorers.check/1", alias="schema")
    model: str
    spec: str
    rows: str
    """The file or folder with RewardBench 2."""
    figures: tuple[CheckedFigure, ...]
    agrees: bool
    """Whether all figures agree."""


def list_(*, json: Json = False) -> None:
    """List published reward models and the forms in which judges are asked.

    For example:

        carb scorers list
    """
    found = ScorersListed(
        models=tuple(_row(model) for model in known_models().models),
        forms=tuple(_form(name) for name in form_names()),
        benchmarks={
            name: BenchmarkRow.model_validate(benchmark.model_dump())
            for name, benchmark in known_models().benchmarks.items()
        },
    )
    if json:
        found.print()
        return
    lines = [
        (
            row.name,
            row.kind + (" (own code)" if row.remote_code else ""),
            "–" if row.parameters is None else f"{row.parameters / 1e9:.1f}",
            "–" if row.bfloat16 is None else f"{row.bfloat16 / 1e9:.0f}",
            _licence(row),
            *(_average(row, name) for name in ("rewardbench2", "carb")),
        )
        for row in found.models
    ]
    numbers = ["billion parameters", "GB in bfloat16", "RewardBench 2", "CARB"]
    columns = ["model", "kind", *numbers[:2], "licence", *numbers[2:]]
    display.table("Published reward models", columns, lines, right=numbers)
    display.table(
        "Forms of judges", ["form", "modes", "what"], [(f.name, ", ".join(f.modes), f.title) for f in found.forms]
    )
    display.say(
        "Memory: 2 bytes for each parameter; a run needs some more. Sources of the figures, and all else: --json."
    )
    doubtful = [f"{row.name}: {', '.join(row.unconfirmed)}" for row in found.models if row.unconfirmed]
    display.say(f"Not confirmed at a source: licences with a question mark; and of {'; '.join(doubtful)}.")
    display.say("Ask one: carb eval NAME. Print a form's file, to change it: carb scorers form NAME.")


def form(name: str) -> None:
    """Print a form's file, from which you can write your own.

    For example:

        carb scorers form prometheus

    Parameters
    ----------
    name
        The form; `carb scorers list` shows them.
    """
    sys.stdout.write(form_text(name))


def check(
    name: str,
    *,
    weights: Path | None = None,
    rewardbench2: Path | None = None,
    out: Path | None = None,
    option: Annotated[tuple[str, ...], Parameter(name=["--option", "-o"], negative=())] = (),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Score RewardBench 2 with a published model, and compare with the published figures.

    Five of its six subsets are compared; Ties has a score of its own kind. Exits with 1 where a published figure lies
    outside of our 95% interval. The same command goes on after an interruption.

    For example:

        carb scorers check skywork-reward-llama-3.1-8b --weights ../models/skywork-8b --rewardbench2 rb2.parquet

    Parameters
    ----------
    name
        The model's short name or hub id; `carb scorers list` shows them.
    weights
        Folder with the model. Without this option its hub id is loaded.
    rewardbench2
        File (.parquet, .jsonl) or folder with RewardBench 2's rows. Without this option it is looked for in
        rewardbench2 or reward-bench-2 below the folder that the variable CARB_DATA_DIR names.
    out
        Folder of the run. Without this option it is runs/check- with the model's name.
    option
        An option of the scorer, as name=value, such as trust_remote_code=true; may be repeated.
    """
    model = known(name)
    published = {k: v for k, v in model.scores.get("rewardbench2", {}).items() if k not in ("average", "ties")}
    if not published:
        raise CarbError(f"No RewardBench 2 figures of '{model.id}' are known. `carb scorers list` shows who has some.")
    place = rewardbench2 or _place()
    spec = model.spec(None if weights is None else str(weights))
    if option:
        spec += ("&" if "?" in spec else "?") + "&".join(option)
    dataset = _rewardbench2(place)
    wanted = RunConfig(data=(str(place),), scorer=(spec,), out=out or Path("runs") / f"check-{model.name}")
    if score(wanted, dataset, quiet=quiet) is None:
        return INTERRUPTED
    figures = _figures(dataset, wanted.out, published)
    found = ScorersChecked(
        model=model.id, spec=spec, rows=str(place), figures=figures, agrees=all(figure.agrees for figure in figures)
    )
    if json:
        found.print()
    else:
        _show(found)
    return OK if found.agrees else FAILED


def _row(model: KnownModel) -> ModelRow:
    registry = known_models()
    given = model.model_dump(
        include={"id", "name", "ask", "architecture", "head", "remote_code", "licence"}
        | {"licence_source", "unconfirmed", "note"}
    )
    return ModelRow.model_validate(
        {
            **given,
            "name": model.name,
            "kind": model.kind,
            "base": model.shape,
            "config": registry.config(model),
            "config_source": None if model.shape is None else registry.shapes[model.shape].source,
            "parameters": registry.parameters(model),
            "bfloat16": registry.memory(model),
            "scores": {name: dict(figures) for name, figures in model.scores.items()},
        }
    )


def _form(name: str) -> JudgeFormRow:
    form = read_form(name)
    given = form.model_dump(include={"title", "source", "licence", "note"})
    return JudgeFormRow.model_validate({"name": name, "modes": form.modes, **given})


def _licence(row: ModelRow) -> str:
    doubt = "" if row.licence_source else "?"
    return "not found" if row.licence is None else f"{row.licence}{doubt}"


def _average(row: ModelRow, benchmark: str) -> str:
    average = row.scores.get(benchmark, {}).get("average")
    return "–" if average is None else f"{average:.1f}"


def _place() -> Path:
    root = os.environ.get("CARB_DATA_DIR")
    places = [] if root is None else [Path(root).expanduser() / name for name in PLACES]
    for place in places:
        if place.exists():
            return place
    looked = f"It is not in {root} ({' or '.join(PLACES)})." if root else "CARB_DATA_DIR is not set."
    raise CarbError(
        f"RewardBench 2 is not here. {looked} Fetch it (hf download allenai/reward-bench-2 --repo-type dataset) and "
        f"name its file or folder with --rewardbench2."
    )


def _rewardbench2(place: Path) -> Dataset:
    """RewardBench 2's rows as sets about general preference, without those that have several right answers (Ties)."""
    said = rows("rewardbench2", place, culture="english", domain="commonsense", origin="rewardbench2")
    found = [row for row in said if isinstance(row, BonSet)]
    kept = [row.model_copy(update={"kind": Kind.CONTROL}) for row in found if row.topic is not None]
    if not kept:
        raise CarbError(f"{place} holds no rows of RewardBench 2 (fields prompt, chosen, rejected, subset).")
    return Dataset(kept)


def _figures(dataset: Dataset, run: Path, published: dict[str, float]) -> tuple[CheckedFigure, ...]:
    scores = scores_of(run).with_items(dataset)
    cells = bon_accuracy(scores, by=("topic",))
    names = {_subset(topic): topic for topic in scores.frame["topic"].unique().to_list()}
    missing = sorted(published.keys() - names.keys())
    if missing:
        raise CarbError(f"The rows lack the subsets {', '.join(missing)}; they have {', '.join(sorted(names))}.")
    out = []
    for subset, value in published.items():
        cell = cells.cell(names[subset])
        agrees = (
            cell.low is not None
            and cell.high is not None
            and cell.low - ROUNDING <= value / 100 <= cell.high + ROUNDING
        )
        out.append(
            CheckedFigure(
                subset=subset,
                n=cell.n,
                ours=cell.accuracy,
                low=cell.low,
                high=cell.high,
                published=round(value / 100, 6),
                agrees=agrees,
            )
        )
    return tuple(out)


def _subset(topic: str) -> str:
    return topic.lower().replace(" ", "-")


def _show(found: ScorersChecked) -> None:
    lines = [
        (
            f.subset,
            f.n,
            percent(f.ours),
            display.interval(f.low, f.high),
            percent(f.published),
            "yes" if f.agrees else "no",
        )
        for f in found.figures
    ]
    columns = ["subset", "rows", "ours %", "95%", "published %", "agrees"]
    display.table(f"{found.model} on RewardBench 2", columns, lines, right=columns[1:5])
    benchmark = known_models().benchmarks["rewardbench2"]
    display.say(f"Published: {benchmark.source}, {benchmark.table}.")
    agree = sum(figure.agrees for figure in found.figures)
    display.say(f"{agree} of {len(found.figures)} published figures lie within our 95% intervals.")
