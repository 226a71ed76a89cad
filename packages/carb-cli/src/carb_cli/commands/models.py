"""``carb models``: the published reward models that are known, the forms of judges."""

import sys
from collections.abc import Iterator
from typing import Any

from carb_cli.display import note, number, say, table
from carb_cli.json_output import print_json
from carb_cli.options import Flag, Json, refuse
from carb_cli.weights import of_hub
from carb_data import CarbError, closest
from carb_scorers import KnownModel, known_model, known_models
from carb_scorers.judge import form_names, form_text, read_form


def models(
    name: str | None = None,
    /,
    *,
    suite: Flag = False,
    json: Json = False,
) -> None:
    """List published reward models and the forms of judges, or show one.

    For example:

        carb models

        carb models --suite

    Parameters
    ----------
    name
        A model's short name or hub id, to print its facts, or a judge's form, to print its file.
        With --suite, a benchmark such as carb: the suite holds its models.
    suite
        Print a suite for carb run --suite: the classifiers with less than 10 billion parameters.
    """
    refuse(suite and json, "--json", "with --suite, which prints TOML")
    if suite:
        sys.stdout.write("".join(_tables(name)))
        return
    if name is None:
        _list(json=json)
        return
    model = known_model(name)
    if model is None and name in form_names():
        if json:
            print_json(read_form(name))
        else:
            sys.stdout.write(form_text(name))
        return
    if model is None:
        near = closest(
            name.lower(), [*(known.name for known in known_models().models), *form_names()]
        )
        raise CarbError(f"'{name}' is no known model or form.{near} `carb models` lists all.")
    if json:
        print_json(_facts(model))
    else:
        _show(model)


def _tables(benchmark: str | None) -> Iterator[str]:
    """The tables of a suite. A fifth is added to the weights' size, for activations."""
    known = known_models()
    if benchmark is not None and benchmark not in known.benchmarks:
        raise CarbError(
            f"'{benchmark}' is no benchmark.{closest(benchmark, known.benchmarks)} "
            f"Figures are known of {', '.join(known.benchmarks)}."
        )
    if benchmark is None:
        classifiers = [model for model in known.models if model.kind == "classifier"]
        chosen = [model for model in classifiers if 0 < (model.parameters or 0) < 10**10]
    else:
        chosen = [model for model in known.models if benchmark in model.scores]
    sized = [model for model in chosen if model.memory is not None]
    unnamed = [(model.id, None) for model in sized if model.revision is None]
    newest = {name: str(info.sha) for name, _, info in of_hub(unnamed)}
    unpinned = 0
    for model in chosen:
        yield f'\n[[model]]\nname = "{model.name}"\nspec = "{model.spec()}"\n'
        if model.remote_code and "trust_remote_code" not in model.spec():
            yield "# needs code of its own: read it, then add trust_remote_code=true to the spec\n"
        if model.memory is not None:
            yield f"memory_gb = {1.2 * model.memory / 1e9:.1f}\n"
            revision = model.revision or newest.get(model.id)
            yield "# revision = not known\n" if revision is None else f'revision = "{revision}"\n'
            unpinned += revision is None
    if newest:
        note(f"{len(newest)} have the newest commit, as the model hub names it now.")
    if unpinned:
        note(
            f"{unpinned} have no revision: none is in the registry, and the model hub did not name "
            "the newest. run.json names the commit that a run took."
        )


def _facts(model: KnownModel) -> dict[str, Any]:
    """The known facts about a model, and their consequences."""
    return {
        "name": model.name,
        "kind": model.kind,
        **model.model_dump(mode="json"),
        "bfloat16_bytes": model.memory,
    }


def _list(*, json: bool) -> None:
    registry = known_models()
    forms = {form: read_form(form) for form in form_names()}
    if json:
        models = list(map(_facts, registry.models))
        print_json({"models": models, "forms": forms, "benchmarks": registry.benchmarks})
        return
    lines = [
        (
            model.name,
            model.kind + (" (own code)" if model.remote_code else ""),
            _billions(model.parameters, 1),
            _billions(model.memory, 0),
            _licence(model),
            *(
                number(model.scores.get(name, {}).get("average"), 1)
                for name in ("rewardbench2", "carb")
            ),
        )
        for model in registry.models
    ]
    numbers = ["billion parameters", "GB in bfloat16", "RewardBench 2", "CARB"]
    columns = ["model", "kind", *numbers[:2], "licence", *numbers[2:]]
    table("Published reward models", columns, lines, right=numbers)
    rows = [(form, ", ".join(read.modes), read.title) for form, read in forms.items()]
    table("Forms of judges", ["form", "modes", "what"], rows)
    say(
        "Memory: 2 bytes for each parameter; a run needs some more. A licence with '?' has "
        "no source."
    )
    say("Show one, or print a form's file: carb models NAME. Evaluate one: carb eval NAME.")


def _show(model: KnownModel) -> None:
    shown = {
        "spec": model.spec(),
        "architecture": (
            f"{model.architecture or 'not known'}, {_billions(model.parameters, 1)} billion "
            "parameters"
        ),
        "memory": f"{_billions(model.memory, 0)} GB in bfloat16; a run needs some more",
        "revision": model.revision or "not found",
        "licence": f"{_licence(model)} {model.licence_source or ''}",
        "run here": "yes" if model.tried else "no: its weights were not at hand",
        "note": model.note,
    }
    table(model.id, ["what", "value"], [(name, value) for name, value in shown.items() if value])
    for name, figures in model.scores.items():
        benchmark = known_models().benchmarks[name]
        table(
            f"{benchmark.title} ({benchmark.source})",
            ["subset", "%"],
            list(figures.items()),
            right=["%"],
        )
    say(f"Evaluate it: carb eval {model.name}")


def _billions(value: int | None, digits: int) -> str:
    return number(None if value is None else value / 1e9, digits)


def _licence(model: KnownModel) -> str:
    if model.licence is None:
        return "not found"
    if model.licence_source:
        return model.licence
    return f"{model.licence}?"
