"""Writes docs/reference (every command's help, the form of every ``--json`` output) and what pages repeat.

Pages repeat how the packages are installed: the line below ``<!-- install: PACKAGES -->`` is written here, so that it
is changed in one place when the packages are published.

Usage: python docs/make_reference.py
"""

from __future__ import annotations

import json
import os
import re
from contextlib import redirect_stdout
from importlib import import_module, resources
from io import StringIO
from pathlib import Path
from typing import Any

from make_api import pages as api_pages

FOLDER = Path(__file__).parent / "reference"
ROOT = FOLDER.parents[1]
_INSTALL = re.compile(r"^<!-- install: (.+?) -->\n(?:\S.*\n)?", flags=re.MULTILINE)
NOTE = "<!-- Made by `python docs/make_reference.py`; a test holds it to the code. -->"


def commands() -> str:
    """The page of the commands: their help, as they print it at 100 columns."""
    from carb_cli.main import COMMANDS, GROUPS

    names = ["", *COMMANDS]
    names += [part for group, (own, _) in GROUPS.items() for part in (group, *(f"{group} {name}" for name in own))]
    codes = "Exit codes: 0 on success, 1 when a check that was asked for failed, 2 on wrong use, 130 when interrupted."
    parts = [NOTE, "# Commands", "", codes, ""]
    for name in names:
        parts += [f"## carb {name}".rstrip(), "", "```text", help_of(name).rstrip(), "```", ""]
    return "\n".join(parts)


def help_of(name: str) -> str:
    """The help of a command."""
    from rich.console import Console

    from carb_cli.main import application

    arguments = [*name.split(), "--help"]
    stream = StringIO()
    os.environ["COLUMNS"] = "100"  # the terminal for which examples are broken
    console = Console(file=stream, width=100, color_system=None, force_terminal=False)
    with redirect_stdout(stream):
        application(arguments)(arguments, console=console)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def outputs() -> list[type[Any]]:
    """Every output model, by the name of its schema."""
    from carb_cli.main import COMMANDS, GROUPS
    from carb_cli.output import Output

    grouped = [place for own, _ in GROUPS.values() for place in own.values()]
    for place, _ in [*COMMANDS.values(), *grouped]:
        import_module(place.partition(":")[0])
    import_module("carb_cli.report.model")
    found, waiting = {}, [Output]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            if "schema_" in model.model_fields:
                found[model.model_fields["schema_"].default] = model
    return [found[name] for name in sorted(found)]


def schema(model: type[Any]) -> dict[str, Any]:
    """The JSON Schema of an output."""
    made: dict[str, Any] = model.model_json_schema(mode="serialization", by_alias=True)
    return made


def json_page() -> str:
    """The page of the JSON outputs."""
    parts = [
        NOTE,
        "# JSON outputs",
        "",
        "Every command takes `--json` and then prints one JSON object on stdout and nothing else; notes and progress",
        "go to stderr. Its key `schema` names its form with a version, which is raised when a key changes its meaning",
        "or goes; new keys may come without that. Nothing is NaN or infinite: what is not defined is null. The JSON",
        "Schema of each output is in the folder `docs/reference/schemas`.",
        "",
    ]
    for model in outputs():
        made = schema(model)
        name = model.model_fields["schema_"].default
        parts += [f"## {name}", "", first_paragraph(made.get("description", "")), "", *table(made), ""]
        for part, definition in made.get("$defs", {}).items():
            if "properties" in definition:
                text = first_paragraph(definition.get("description", ""))
                parts += [f"### {part} in {name}", "", *([text, ""] if text else []), *table(definition), ""]
    return "\n".join(parts)


def first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def table(definition: dict[str, Any]) -> list[str]:
    """Keys, types and meanings."""
    lines = ["| key | type | meaning |", "|---|---|---|"]
    for key, field in definition["properties"].items():
        meaning = " ".join(field.get("description", "").split()).replace("``", "`").replace("|", "\\|")
        lines.append(f"| `{key}` | {kind(field)} | {meaning} |")
    return lines


def kind(field: dict[str, Any]) -> str:
    """The type of a value in words."""
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(kind(option) for option in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}" if "items" in field else "list"
    if field.get("type") == "object":
        extra = field.get("additionalProperties")
        return f"object of {kind(extra)}" if isinstance(extra, dict) and extra else "object"
    return str(field.get("type", "any"))


def scorers_page() -> str:
    """The page of the options that a scorer's spec may have, from the fields of their models."""
    from carb_scorers.ensemble import EnsembleOptions
    from carb_scorers.implicit import ImplicitOptions
    from carb_scorers.judge import JudgeOptions
    from carb_scorers.models.openai.options import OpenAIOptions, ServerRewardOptions
    from carb_scorers.models.transformers.loading import HFOptions
    from carb_scorers.models.transformers.rewards import RewardOptions
    from carb_scorers.models.vllm_engine import VLLMOptions
    from carb_scorers.references import ReferenceOptions

    hf, server = set(HFOptions.model_fields), set(OpenAIOptions.model_fields) - {"url", "api"}
    classified = "All of the above but `top_logprobs`, and:"
    parts = [
        ("Every kind", "", ReferenceOptions, set()),
        ("judge:MODEL", "Also takes the options of its backend.", JudgeOptions, set()),
        ("implicit:MODEL", "Also takes the options of its backend.", ImplicitOptions, set()),
        ("classifier:MODEL", "Also takes the options of its backend. On transformers:", RewardOptions, hf),
        ("ensemble:mean and ensemble:majority", "", EnsembleOptions, set()),
        ("backend=hf", "Transformers in this process, which is the default.", HFOptions, set()),
        ("backend=vllm", "vLLM's engine in this process.", VLLMOptions, set()),
        ("backend=openai", "Any OpenAI-compatible server.", OpenAIOptions, set()),
        ("backend=openai for classifiers", classified, ServerRewardOptions, server),
    ]
    text = [
        NOTE,
        "# Options of scorers",
        "",
        "A scorer is written `KIND:TARGET?option=value&option=value`. An unknown option or a bad value is refused with",
        "a hint. `concurrency`, `key_env`, `patience`, `price_in`, `price_out`, `retries`, `rpm`, `timeout` and `tpm`",
        "are no part of a scorer's name: a run goes on with other values of them. How to choose:",
        "[Evaluate a model](../how-to/evaluate.md), [servers](../how-to/servers.md).",
        "",
    ]
    for heading, said, model, known in parts:
        text += [f"## {heading}", "", *([said, ""] if said else []), "| option | values | default | meaning |"]
        text += ["|---|---|---|---|"]
        for name, field in schema(model)["properties"].items():
            if name not in known:
                default = "needed" if "default" not in field else plain(field["default"])
                meaning = " ".join(field.get("description", "").split()).replace("``", "`").replace("|", "\\|")
                text += [f"| `{name}` | {plain_kind(field)} | {default} | {meaning} |"]
        text += [""]
    return "\n".join(text)


def plain_kind(field: dict[str, Any]) -> str:
    """The type of an option's value in words."""
    words = {"string": "text", "boolean": "`true`, `false`", "list of number": "numbers"}
    named = kind(field).replace(" or null", "")
    return words.get(named, named.replace('"', ""))


def plain(value: object) -> str:
    """A default as it is written in a spec."""
    return "none" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def pages() -> dict[Path, str]:
    """Every file that this script writes."""
    from carb_data.describe import set_schema

    made = {FOLDER / "commands.md": commands(), FOLDER / "json.md": json_page()}
    made[FOLDER / "scorers.md"] = scorers_page()
    set_form = json.dumps(set_schema(), indent=1, ensure_ascii=False) + "\n"
    made[FOLDER / "schemas" / "carb-set-2.json"] = set_form
    made[Path(str(resources.files("carb_data"))) / "resources" / "carb-set-2.json"] = set_form
    for model in outputs():
        name = str(model.model_fields["schema_"].default).replace("/", "-")
        made[FOLDER / "schemas" / f"{name}.json"] = json.dumps(schema(model), indent=1, ensure_ascii=False) + "\n"
    return made | api_pages()


def install_lines() -> dict[Path, str]:
    """Every page that says how to install, with its line as it should be."""
    made = {}
    for path in [ROOT / "README.md", *FOLDER.parent.rglob("*.md"), *ROOT.glob("packages/*/README.md")]:
        text = path.read_text(encoding="utf-8")
        more = os.path.relpath(FOLDER.parent / "install.md", path.parent)

        def line(match: re.Match[str], more: str = more) -> str:
            parts = [f"./packages/{name}" for name in match[1].split()]
            quoted = " ".join(f"'{part}'" if "[" in part else part for part in parts)
            said = f"Not on the package index yet. From a clone: `pip install {quoted}` ([more]({more}))."
            return f"<!-- install: {match[1]} -->\n{said}\n"

        if _INSTALL.search(text):
            made[path] = _INSTALL.sub(line, text)
    return made


def main() -> None:
    for path, text in (pages() | install_lines()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else os.fspath(path))


if __name__ == "__main__":
    main()
