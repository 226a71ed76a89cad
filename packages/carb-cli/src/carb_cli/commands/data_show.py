"""``carb data show``: the counts of a data set, its home line, and families as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from carb_cli import display
from carb_cli.family_table import FamilyTable, examples, families_of, table_of
from carb_cli.json_output import counts, print_json
from carb_cli.options import DataName, Json
from carb_cli.selection import loaded
from carb_data import (
    UNSPECIFIED,
    CarbError,
    Dataset,
    HomeLine,
    closest,
    home_line,
    home_lines,
)

SHOWN_FAMILIES = 2


def show(data: DataName, *, family: str | None = None, json: Json = False) -> None:
    """Describe a data set: size, cultures, domains, languages, kinds, licences, and two families.

    For example:

        carb data show my-sets.jsonl

    Parameters
    ----------
    family
        Show this family alone: its places, its answers, and which is right where.
    """
    dataset = loaded(data)
    families = families_of(dataset)
    if family is not None:
        if family not in families:
            raise CarbError(f"{data} has no family '{family}'.{closest(family, families)}")
        table = table_of(family, families[family])
        print_json(asdict(table)) if json else _show_family(table)
        return
    home = home_line(dataset)
    by_language = home_lines(dataset)
    facts = _facts(data, dataset)
    facts["home_line"] = home.model_dump()
    facts["home_by_language"] = {name: line.model_dump() for name, line in by_language.items()}
    if json:
        print_json(facts)
        return
    _show_facts(facts)
    show_home(home, by_language)
    for name in examples(families, SHOWN_FAMILIES):
        _show_family(table_of(name, families[name]))


def _facts(name: str, dataset: Dataset) -> dict[str, Any]:
    return {
        "name": name,
        "sets": len(dataset),
        "fingerprint": dataset.fingerprint,
        "perturbed": sum(bool(item.perturbed) for item in dataset),
        "families": len({item.family for item in dataset if item.family}),
        "origins": len(set(dataset.origins.values())),
        "copies": len(dataset.origins.copies),
        "cultures": counts(item.culture for item in dataset),
        "domains": counts(str(item.domain) for item in dataset),
        "languages": counts(item.language for item in dataset),
        "kinds": counts(str(item.kind or UNSPECIFIED) for item in dataset),
        "licenses": counts(item.provenance.license for item in dataset),
        "methods": counts(item.provenance.method for item in dataset),
        "sources": counts(item.provenance.source for item in dataset),
        "tiers": counts(str(item.provenance.tier or UNSPECIFIED) for item in dataset),
    }


def _show_facts(facts: Mapping[str, Any]) -> None:
    rows = [
        (key, ", ".join(f"{a} {b}" for a, b in value.items()) if isinstance(value, dict) else value)
        for key, value in facts.items()
        if key != "name" and not key.startswith("home")
    ]
    display.table(facts["name"], ["what", "value"], rows)


def show_home(whole: HomeLine, by_language: Mapping[str, HomeLine]) -> None:
    """Print the home line and that of each language; nothing where answers do not say where."""
    if whole.accuracy is None:
        return
    rows = [("all", display.percent(whole.accuracy), whole.n)]
    rows += [(name, display.percent(line.accuracy), line.n) for name, line in by_language.items()]
    display.table(
        "Always the home's answer",
        ["language", "right %", "sets"],
        rows,
        ["right %", "sets"],
    )


def _show_family(table: FamilyTable) -> None:
    letters = [chr(ord("A") + n) for n in range(len(table.answers))]
    rows = [
        (place, *("right" if is_right else "·" for is_right in row))
        for place, row in zip(table.places, table.right, strict=True)
    ]
    display.sentences(f"{table.family}: {table.question}")
    display.table("", ["place", *letters], rows)
    for letter, answer in zip(letters, table.answers, strict=True):
        display.sentences(f"  {letter}  {answer}")
