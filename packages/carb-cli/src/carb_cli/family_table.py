"""A mirrored family as a table: places down, answers across."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from carb_cli.review.regions import region_name, region_of
from carb_data import BonSet, Dataset, cultures


@dataclass(frozen=True)
class FamilyTable:
    """A family's places and answers. The right answers of a complete family are the diagonal."""

    family: str
    question: str
    """That of the first place."""
    places: tuple[str, ...]
    answers: tuple[str, ...]
    right: tuple[tuple[bool, ...], ...]
    """(places, answers)"""


def families_of(dataset: Dataset) -> dict[str, list[BonSet]]:
    """The sets of each family, those in English first."""
    families: defaultdict[str, list[BonSet]] = defaultdict(list)
    for item in sorted(dataset, key=lambda item: not item.language.startswith("en")):
        if item.family is not None:
            families[item.family].append(item)
    return families


def is_complete(sets: Sequence[BonSet]) -> bool:
    """Whether the sets show the same answers, each right under one place."""
    right = {item.chosen.text for item in sets}
    for item in sets:
        if set(item.texts) != right:
            return False
    return len(right) == len(sets)


def examples(families: Mapping[str, Sequence[BonSet]], most: int) -> list[str]:
    """The first complete family of each domain that names its places."""
    of_domain: dict[str, str] = {}
    for name, sets in families.items():
        if sets[0].wording_of is None and is_complete(sets):
            of_domain.setdefault(sets[0].domain, name)
    return list(of_domain.values())[:most]


def table_of(name: str, sets: Iterable[BonSet]) -> FamilyTable:
    """The table of one family."""
    sets = tuple(sets)
    right = [item.chosen.text for item in sets]
    shown = [text for item in sets for text in item.texts]
    answers = tuple(dict.fromkeys([*right, *shown]))
    return FamilyTable(
        family=name,
        question=sets[0].prompt_text,
        places=tuple(map(place_name, sets)),
        answers=answers,
        right=tuple(tuple(text == answer for answer in answers) for text in right),
    )


def place_name(item: BonSet) -> str:
    """The country, or else the culture, and the province or town that a set is about."""
    name = cultures.name(item.culture, item.region or "")
    region = region_of(item)
    if region:
        return f"{name} · {region_name(region)}"
    return name
