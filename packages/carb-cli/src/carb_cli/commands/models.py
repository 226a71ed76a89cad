"""``carb models``: the published reward models that are known, the forms of judges, and published figures tested."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from carb_cli import display
from carb_cli.display import percent
from carb_cli.main import FAILED, INTERRUPTED, OK
from carb_cli.options import Json
from carb_cli.output import print_json
from carb_cli.runs import scores_of
from carb_cli.scoring import score
from carb_data import BonSet, CarbError, Dataset, Domain, Kind, Provenance, Response, Role
from carb_data.models import Frozen
from carb_data.options import closest
from carb_metrics import bon_accuracy
from carb_scorers.judge import form_names, form_text, read_form
from carb_scorers.known import KnownModel, find, known_models

ROUNDING = 0.0005
"""Published figures have one digit behind the point of a percentage."""


class CheckedFigure(Frozen):
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


def models(
    name: str | None = None,
    /,
    *,
    check: Path | None = None,
    scorer: str | None = None,
    out: Path | None = None,
    json: Json = False,
) -> int:
    """List published reward models and the forms in which judges are asked; show one; test published figures.

    With --check it scores RewardBench 2 with the model, and exits with 1 where a published figure lies outside of our
    95% interval. Five of the six subsets are compared; Ties has a score of its own kind. The same command goes on
    after an interruption.

    For example:

        carb models

        carb models prometheus

        carb models skywork-reward-llama-3.1-8b --check rewardbench2.parquet

    Parameters
    ----------
    name
        A model's short name or hub id, to show what is known of it, or a judge's form, to print its file.
    check
        File (.parquet, .jsonl) or folder with the rows of RewardBench 2 (allenai/reward-bench-2).
    scorer
        Spec with which --check asks the model, [NAME=]KIND:TARGET?key=value&..., for weights in a folder or other
        options. Without this option, as the list says.
    out
        Folder of the run of --check. Without this option it is runs/check- with the model's name.
    """
    if name is None:
        if check is not None:
            raise CarbError("Name the model that --check tests: carb models NAME --check FILE")
        _list(json=json)
        return OK
    model = find(name)
    if model is None and name in form_names():
        sys.stdout.write(form_text(name))
        return OK
    if model is None:
        names = [model.name for model in known_models().models]
        near = closest(name.lower(), [*names, *form_names()])
        raise CarbError(f"'{name}' is no known model or form.{near} `carb models` lists all.")
    if check is None:
        print_json(_facts(model)) if json else _show(model)
        return OK
    return _check(model, check, scorer or model.spec(), out or Path("runs") / f"check-{model.name}", json)


def _facts(model: KnownModel) -> dict[str, Any]:
    """What is known of a model, with what follows from that."""
    return {
        "name": model.name,
        "kind": model.kind,
        **model.model_dump(mode="json"),
        "bfloat16_bytes": model.memory,
    }


def _list(*, json: bool) -> None:
    registry = known_models()
    facts = [_facts(model) for model in registry.models]
    forms = {form: read_form(form) for form in form_names()}
    if json:
        print_json(
            {
                "models": facts,
                "forms": {form: read.model_dump(mode="json") for form, read in forms.items()},
                "benchmarks": {key: found.model_dump(mode="json") for key, found in registry.benchmarks.items()},
            }
        )
        return
    lines = [
        (
            row["name"],
            row["kind"] + (" (own code)" if row["remote_code"] else ""),
            _billions(row["parameters"], 1),
            _billions(row["bfloat16_bytes"], 0),
            _licence(row),
            *(display.number(row["scores"].get(name, {}).get("average"), 1) for name in ("rewardbench2", "carb")),
        )
        for row in facts
    ]
    numbers = ["billion parameters", "GB in bfloat16", "RewardBench 2", "CARB"]
    columns = ["model", "kind", *numbers[:2], "licence", *numbers[2:]]
    display.table("Published reward models", columns, lines, right=numbers)
    rows = [(form, ", ".join(read.modes), read.title) for form, read in forms.items()]
    display.table("Forms of judges", ["form", "modes", "what"], rows)
    display.say("Memory: 2 bytes for each parameter; a run needs some more. A licence with '?' has no source.")
    display.say("Show one, or print a form's file: carb models NAME. Ask one: carb eval NAME.")


def _show(model: KnownModel) -> None:
    row = _facts(model)
    shown = {
        "spec": model.spec(),
        "architecture": f"{model.architecture or 'not known'}, {_billions(row['parameters'], 1)} billion parameters",
        "memory": f"{_billions(row['bfloat16_bytes'], 0)} GB in bfloat16; a run needs some more",
        "licence": f"{_licence(row)} {model.licence_source or ''}",
        "note": model.note,
    }
    display.pairs(model.id, {name: value for name, value in shown.items() if value})
    for name, figures in model.scores.items():
        benchmark = known_models().benchmarks[name]
        display.table(f"{benchmark.title} ({benchmark.source})", ["subset", "%"], list(figures.items()), right=["%"])
    display.say(f"Ask it: carb eval {model.name}")


def _billions(value: int | None, digits: int) -> str:
    return display.number(None if value is None else value / 1e9, digits)


def _licence(row: Mapping[str, Any]) -> str:
    return "not found" if row["licence"] is None else f"{row['licence']}{'' if row['licence_source'] else '?'}"


def _check(model: KnownModel, place: Path, spec: str, out: Path, json: bool) -> int:
    published = {k: v for k, v in model.scores.get("rewardbench2", {}).items() if k not in ("average", "ties")}
    if not published:
        raise CarbError(f"No RewardBench 2 figures of '{model.id}' are known. `carb models` shows who has some.")
    dataset = _rewardbench2(place)
    if score([str(place)], dataset, [spec], out) is None:
        return INTERRUPTED
    figures = _figures(dataset, out, published)
    agree = sum(figure.agrees for figure in figures)
    if json:
        print_json({"model": model.id, "spec": spec, "figures": [figure.model_dump() for figure in figures]})
    else:
        lines = [
            (f.subset, f.n, percent(f.ours), display.interval(f.low, f.high), percent(f.published),
             "yes" if f.agrees else "no")
            for f in figures
        ]  # fmt: skip
        columns = ["subset", "rows", "ours %", "95%", "published %", "agrees"]
        display.table(f"{model.id} on RewardBench 2", columns, lines, right=columns[1:5])
        benchmark = known_models().benchmarks["rewardbench2"]
        display.say(f"Published: {benchmark.source}, {benchmark.table}.")
        display.say(f"{agree} of {len(figures)} published figures lie within our 95% intervals.")
    return OK if agree == len(figures) else FAILED


def _rewardbench2(place: Path) -> Dataset:
    """RewardBench 2's rows as sets about general preference.

    Rows with several right answers (Ties) or with an answer that stands twice are left out.
    """
    files = [place] if place.is_file() else sorted(f for f in place.rglob("*") if f.suffix in (".jsonl", ".parquet"))
    found: list[BonSet] = []
    for file in files:
        try:
            frame = pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_ndjson(file)
            rows = [row for row in frame.iter_rows(named=True) if len(row["chosen"]) == 1]
            found += [_best_of_n(row) for row in rows if len({*row["chosen"], *row["rejected"]}) > len(row["rejected"])]
        except (OSError, KeyError, pl.exceptions.PolarsError, ValidationError) as error:
            raise CarbError(f"{file} is not a file of RewardBench 2: {type(error).__name__} {error}.") from None
    if not found:
        raise CarbError(f"{place} holds no rows of RewardBench 2 (fields prompt, chosen, rejected, subset).")
    return Dataset(found)


def _best_of_n(row: Mapping[str, Any]) -> BonSet:
    texts = [(Role.CHOSEN, row["chosen"][0]), *((Role.REJECTED, text) for text in row["rejected"])]
    return BonSet(
        id=f"rewardbench2/{row['id']}",
        culture="english",
        domain=Domain.COMMONSENSE,
        topic=row["subset"],
        language="en",
        prompt=row["prompt"],
        responses=tuple(
            Response(id=f"{n}", text=text, role=role, language="en") for n, (role, text) in enumerate(texts)
        ),
        provenance=Provenance(source="rewardbench2", license="ODC-BY-1.0", method="generated"),
        kind=Kind.CONTROL,
    )


def _figures(dataset: Dataset, run: Path, published: Mapping[str, float]) -> tuple[CheckedFigure, ...]:
    scores = scores_of(run).with_items(dataset)
    cells = bon_accuracy(scores, by=("topic",), ties="strict", mirrors=True)
    names = {topic.lower().replace(" ", "-"): topic for topic in scores.frame["topic"].unique().to_list()}
    if missing := sorted(published.keys() - names.keys()):
        raise CarbError(f"The rows lack the subsets {', '.join(missing)}; they have {', '.join(sorted(names))}.")
    found = []
    for subset, value in published.items():
        cell, share = cells.cell(names[subset]), value / 100
        held = cell.low is not None and cell.high is not None
        agrees = held and (cell.low or 0) - ROUNDING <= share <= (cell.high or 0) + ROUNDING
        found.append(
            CheckedFigure(
                subset=subset,
                n=cell.n,
                ours=cell.accuracy,
                low=cell.low,
                high=cell.high,
                published=round(share, 6),
                agrees=agrees,
            )
        )
    return tuple(found)
