"""``carb models``: the published reward models that are known, the forms of judges."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from carb_cli import display
from carb_cli.json_output import print_json
from carb_cli.options import Flag, Json
from carb_data import CarbError
from carb_data.validation import closest
from carb_scorers.judge import form_names, form_text, read_form
from carb_scorers.known import KnownModel, find, known_models

LARGEST = 20 * 10**9
"""Bytes of the weights of a model that a suite does not hold any more: 10 billion parameters in bfloat16."""


def models(
    name: str | None = None,
    /,
    *,
    suite: Flag = False,
    json: Json = False,
) -> None:
    """List published reward models and the forms in which judges are asked, or show one.

    For example:

        carb models

        carb models --suite

    Parameters
    ----------
    name
        A model's short name or hub id, to show what is known of it, or a judge's form, to print its file.
    suite
        Print a suite for carb run --suite: the classifiers with less than 10 billion parameters.
    """
    if suite:
        sys.stdout.write("\n".join(_tables()))
        return
    if name is None:
        _list(json=json)
        return
    model = find(name)
    if model is None and name in form_names():
        sys.stdout.write(form_text(name))
        return
    if model is None:
        names = [model.name for model in known_models().models]
        near = closest(name.lower(), [*names, *form_names()])
        raise CarbError(f"'{name}' is no known model or form.{near} `carb models` lists all.")
    print_json(_facts(model)) if json else _show(model)


def _tables() -> Iterator[str]:
    """The tables of a suite. A fifth is added to the weights' size, for activations."""
    for model in known_models().models:
        if model.kind != "classifier" or model.memory is None or model.memory >= LARGEST:
            continue
        yield f'[[model]]\nname = "{model.name}"\nspec = "{model.spec()}"\nmemory_gb = {1.2 * model.memory / 1e9:.1f}\n'


def _facts(model: KnownModel) -> dict[str, Any]:
    """What is known of a model, with what follows from that."""
    found = model.model_dump(mode="json")
    return {"name": model.name, "kind": model.kind, **found, "bfloat16_bytes": model.memory}


def _list(*, json: bool) -> None:
    registry = known_models()
    forms = {form: read_form(form) for form in form_names()}
    if json:
        written = {form: read.model_dump(mode="json") for form, read in forms.items()}
        benchmarks = {key: found.model_dump(mode="json") for key, found in registry.benchmarks.items()}
        print_json({"models": list(map(_facts, registry.models)), "forms": written, "benchmarks": benchmarks})
        return
    lines = [
        (
            model.name,
            model.kind + (" (own code)" if model.remote_code else ""),
            _billions(model.parameters, 1),
            _billions(model.memory, 0),
            _licence(model),
            *(display.number(model.scores.get(name, {}).get("average"), 1) for name in ("rewardbench2", "carb")),
        )
        for model in registry.models
    ]
    numbers = ["billion parameters", "GB in bfloat16", "RewardBench 2", "CARB"]
    columns = ["model", "kind", *numbers[:2], "licence", *numbers[2:]]
    display.table("Published reward models", columns, lines, right=numbers)
    rows = [(form, ", ".join(read.modes), read.title) for form, read in forms.items()]
    display.table("Forms of judges", ["form", "modes", "what"], rows)
    display.say("Memory: 2 bytes for each parameter; a run needs some more. A licence with '?' has no source.")
    display.say("Show one, or print a form's file: carb models NAME. Ask one: carb eval NAME.")


def _show(model: KnownModel) -> None:
    shown = {
        "spec": model.spec(),
        "architecture": f"{model.architecture or 'not known'}, {_billions(model.parameters, 1)} billion parameters",
        "memory": f"{_billions(model.memory, 0)} GB in bfloat16; a run needs some more",
        "licence": f"{_licence(model)} {model.licence_source or ''}",
        "note": model.note,
    }
    display.table(model.id, ["what", "value"], [(name, value) for name, value in shown.items() if value])
    for name, figures in model.scores.items():
        benchmark = known_models().benchmarks[name]
        display.table(f"{benchmark.title} ({benchmark.source})", ["subset", "%"], list(figures.items()), right=["%"])
    display.say(f"Ask it: carb eval {model.name}")


def _billions(value: int | None, digits: int) -> str:
    return display.number(None if value is None else value / 1e9, digits)


def _licence(model: KnownModel) -> str:
    return "not found" if model.licence is None else f"{model.licence}{'' if model.licence_source else '?'}"
