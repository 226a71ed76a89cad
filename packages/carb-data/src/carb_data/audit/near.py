"""Which places are near each other: they share a language, or they are neighbours."""

from __future__ import annotations

from collections.abc import Mapping

from carb_data.facts import Fact
from carb_data.family import Family
from carb_data.registry import Registry, cultures, is_main

__all__ = ["near", "near_wrong"]

_NEIGHBOURS = {
    "arabic": "iranian israeli turkish",
    "chinese": "burmese japanese korean lao mongolian russian singaporean vietnamese",
    "english": "singaporean",
    "german": "belgian czech danish dutch french hungarian italian liechtensteiner luxembourgish polish slovak "
    "slovenian",
    "japanese": "chinese korean russian",
    "korean": "chinese japanese",
    "russian": "armenian azerbaijani belarusian estonian finnish georgian kazakh kyrgyz latvian lithuanian mongolian "
    "norwegian polish ukrainian uzbek",
    "spanish": "brazilian french portuguese",
    "thai": "burmese cambodian lao malaysian vietnamese",
    "vietnamese": "cambodian chinese lao thai",
}
"""Neighbours of the ten cultures; for Russian, the former Soviet republics as well."""


def near(culture: str, other: str, registry: Registry = cultures) -> bool:
    """Whether ``other`` shares the language of ``culture``, which is one of the ten or in it, or borders on it."""
    home, there = (registry.root(one).id for one in (culture, other))
    return home == there or there in _NEIGHBOURS.get(home, "").split()


def near_wrong(family: Family, facts: Mapping[str, Fact], registry: Registry = cultures) -> dict[str, int]:
    """For the family's main sets, by id, how many of the three wrong answers hold in a near place."""
    lenders = [facts[answer.fact].culture for answer in family.answers]
    return {
        f"{family.id}/{answer.fact.partition('.')[2].lower()}": sum(
            near(place.culture, lender, registry) for other, lender in enumerate(lenders) if other != own
        )
        for own, (place, answer) in enumerate(zip(family.places, family.answers, strict=False))
        if is_main(place.culture, family.language, registry)
    }
