"""``carb data show``: the counts of a data set, its home line, and families as tables."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from carb_cli import display
from carb_cli.display import sentences
from carb_cli.family_table import FamilyTable, examples, families_of, table_of
from carb_cli.json_output import counts, print_json
from carb_cli.options import DataName, Json
from carb_cli.selection import loaded
from carb_data import (
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
        Show this family alone: its places, its answers, and where each is right.
    """
    dataset = loaded(data)
    families = families_of(dataset)
    if family is not None:
        if family not in families:
            raise CarbError(f"{data} has no family '{family}'.{closest(family, families)}")
        table = table_of(family, families[family])
        print_json(table) if json else _show_family(table)
        return
    home = home_line(dataset)
    by_language = home_lines(dataset)
    facts = _facts(data, dataset)
    facts["home_line"] = home
    facts["home_by_language"] = by_language
    if json:
        print_json(facts)
        return
    _show_facts(facts)
    show_home(home, by_language)
    for name in examples(families, SHOWN_FAMILIES):
        _show_family(table_of(name, families[name]))


def _facts(name: str, dataset: Dataset) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": name,
        "sets": len(dataset),
        "fingerprint": dataset.fingerprint,
        "perturbed": sum(bool(item.perturbed) for item in dataset),
        "families": len({item.family for item in dataset if item.family}),
        "origins": len(set(dataset.origins.values())),
        "copies": len(dataset.origins.copies),
    }
    traits = {
        "cultures": "culture",
        "domains": "domain",
        "languages": "language",
        "kinds": "kind",
        "licenses": "provenance.license",
        "methods": "provenance.method",
        "sources": "provenance.source",
        "tiers": "provenance.tier",
    }
    for fact, field in traits.items():
        facts[fact] = counts(map(attrgetter(field), dataset))
    return facts


def _show_facts(facts: Mapping[str, Any]) -> None:
    rows = []
    for key, value in facts.items():
        if key == "name" or key.startswith("home"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{name} {count}" for name, count in value.items())
        rows.append((key, value))
    display.table(facts["name"], ["what", "value"], rows)


def show_home(whole: HomeLine, by_language: Mapping[str, HomeLine]) -> None:
    """Print the home line and that of each language; nothing where answers do not say where."""
    if whole.accuracy is None:
        return
    rows = []
    for name, line in {"all": whole, **by_language}.items():
        rows.append((name, display.percent(line.accuracy), line.n))
    numbers = ["right %", "sets"]
    display.table("Always the home's answer", ["language", *numbers], rows, numbers)


def _show_family(table: FamilyTable) -> None:
    letters = [chr(ord("A") + n) for n in range(len(table.answers))]
    rows = []
    for place, right in zip(table.places, table.right, strict=True):
        marks = ["right" if is_right else "·" for is_right in right]
        rows.append((place, *marks))
    sentences(f"{table.family}: {table.question}")
    display.table("", ["place", *letters], rows)
    for letter, answer in zip(letters, table.answers, strict=True):
        sentences(f"  {letter}  {answer}")
