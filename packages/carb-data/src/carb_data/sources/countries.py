"""Which registered culture does a country of a source belong to?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from carb_data.registry import cultures

__all__ = ["culture_of_country", "find_country"]


@dataclass(frozen=True, slots=True)
class Country:
    """A country by its ISO 3166-1 codes and its English name."""

    alpha2: str
    alpha3: str
    name: str


@cache
def _table() -> dict[str, Country]:
    table: dict[str, Country] = {}
    for row in json.loads((resources.files("carb_data") / "resources" / "countries.json").read_text(encoding="utf-8")):
        country = Country(row["alpha2"], row["alpha3"], row["names"][0])
        for key in (row["alpha2"], row["alpha3"], *row["names"]):
            table[_key(key)] = country
    return table


def _key(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def find_country(text: str) -> Country | None:
    """The country of a name ("Hong Kong SAR", "hong_kong") or of a two- or three-letter code."""
    return _table().get(_key(text))


def culture_of_country(text: str) -> str | None:
    """The id of the most specific culture that names the country among its regions; ``None`` if there is none.

    Most specific is the one with the fewest regions: ``spanish-mx`` before ``spanish`` for Mexico. A culture that a
    user adds with the region of a country therefore gets that country's items from every source.

    Args:
        text: the country, as ``find_country`` reads it.
    """
    country = find_country(text)
    if country is None:
        return None
    known = [culture for listed in cultures for culture in (listed, *cultures.varieties(listed.id))]
    found = [culture for culture in known if country.alpha2 in culture.regions]
    return min(((len(culture.regions), culture.id) for culture in found), default=(0, None))[1]
