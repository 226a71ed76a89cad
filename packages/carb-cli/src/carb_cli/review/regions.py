"""The regions of sets, and the people who know them."""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from importlib import resources

from carb_data import BonSet

SAME = {
    "DE-koblenz": "DE-RP-koblenz",
    "DE-koeln": "DE-NW-koeln",
    "DE-mainz": "DE-RP-mainz",
    "DE-rottweil": "DE-BW-rottweil",
    "TH-surin": "TH-32",
    "VN-hue": "VN-26",
    "VN-thai-binh": "VN-20",
}
"""Codes of the seed without their province, or with its name, to those of the same places in other
sets: nobody is asked to choose between two."""


@cache
def _names() -> dict[str, str]:
    text = (resources.files("carb_cli.review") / "regions.json").read_text("utf-8")
    names: dict[str, str] = json.loads(text)
    return names


def region_of(item: BonSet) -> str:
    """The code of the province or town that a set is about; empty where it is about a country."""
    if item.region is not None and "-" in item.region:
        return SAME.get(item.region, item.region)
    return ""


def region_name(code: str) -> str:
    """A region's name in the language of its country; without one, made from its code."""
    return _names().get(code) or code.split("-", 1)[1].replace("-", " ").title()


def covered(places: Iterable[str]) -> set[str]:
    """The regions about which somebody from these places can be asked: theirs, and those around
    them. Everybody can be asked about a country, whose code is empty here."""
    regions = {""}
    for place in places:
        parts = place.split("-")
        for end in range(2, len(parts) + 1):
            regions.add("-".join(parts[:end]))
    return regions


def choices(codes: Collection[str]) -> list[dict[str, str]]:
    """The regions in which a reviewer may live: those of the sets, and the provinces around them.
    Each has its code and name, towns behind their province."""
    listed = {*codes, *(set(map(_province, codes)) & _names().keys())}
    listed.discard("")
    made = []
    for code in listed:
        province = _province(code)
        name = region_name(code)
        if province != code and province in listed:
            name = f"{region_name(province)}: {name}"
        made.append({"code": code, "name": name})
    return sorted(made, key=lambda one: (one["name"], one["code"]))


def _province(code: str) -> str:
    return "-".join(code.split("-")[:2])


def counted(codes: Iterable[str]) -> str:
    """How many sets each region has, in words; empty where none is about a region."""
    counts = Counter(filter(None, codes))
    ordered = sorted(counts, key=lambda code: (-counts[code], code))
    listed = [f"{counts[code]} about {region_name(code)} ({code})" for code in ordered]
    return ", ".join(listed)
