"""Does a text name a culture? The explicit label is a surface feature that several measurements need."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from carb_data.registry import cultures

__all__ = ["label_pattern", "names_culture"]

LANGUAGES = frozenset({"ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh"})
"""Languages in which the shipped patterns know the names of cultures."""


@cache
def _shipped() -> dict[str, list[str]]:
    path = resources.files("carb_data") / "resources" / "labels.json"
    patterns: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return patterns


def is_known(culture_id: str, language: str) -> bool:
    """Whether the shipped patterns would find the culture's name in a text of this language."""
    return cultures.root(culture_id).id in _shipped() and language.partition("-")[0].lower() in LANGUAGES


@cache
def label_pattern(culture_id: str) -> re.Pattern[str]:
    """A pattern that matches the names of a culture, its countries and its people, in the ten languages.

    The shipped patterns cover the ten cultures and their varieties; any other culture is matched by its name.

    Raises:
        UnknownCultureError: no such culture is registered.
    """
    patterns: list[str] = []
    culture = cultures[culture_id]
    while True:
        patterns += _shipped().get(culture.id, [rf"\b{re.escape(culture.name)}\b"])
        if culture.parent is None:
            return re.compile("|".join(patterns))
        culture = cultures[culture.parent]


def names_culture(text: str, culture_id: str) -> bool:
    """Whether ``text`` names the culture explicitly."""
    return label_pattern(culture_id).search(text) is not None
