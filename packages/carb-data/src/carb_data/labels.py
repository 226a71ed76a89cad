"""Does a text name a culture? The explicit label is a surface feature that several measurements need."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from carb_data.registry import cultures

__all__ = ["is_known", "label_pattern", "names_culture"]

LANGUAGES = frozenset({"ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh"})
"""Languages in which the shipped patterns know the names of cultures."""

_ARABIC = "\u0620-\u064a"
_MARKS = "[\u064b-\u0652]*"
_WORD = r"\b"
_ARABIC_NAME = re.compile(rf"(ال)?([{_ARABIC} ]+)")


@cache
def _shipped() -> dict[str, list[str]]:
    path = resources.files("carb_data") / "resources" / "labels.json"
    patterns: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return patterns


def _one_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches what one of the patterns matches, Arabic names as whole words.

    Arabic writes conjunctions, prepositions and the article without a space before the name and the ending of an
    adjective after it, so that ``\\b`` does not do: Qatar is in ``بقطر`` and ``القطرية``, but not in ``قطرة`` (a drop).
    What several alternatives begin with is tested once, since each place of a text would test it for each of them.
    """
    arabic = [found for pattern in patterns if (found := _ARABIC_NAME.fullmatch(pattern))]
    words = [pattern for pattern in patterns if pattern.startswith(_WORD)]
    parts = [pattern for pattern in patterns if not _ARABIC_NAME.fullmatch(pattern) and pattern not in words]
    if words:
        parts.append(rf"{_WORD}(?:{'|'.join(pattern.removeprefix(_WORD) for pattern in words)})")
    if arabic:
        names = "|".join(map(_arabic, arabic))
        parts.append(f"(?<![{_ARABIC}])(?=[{_ARABIC}])[وف]?(?:{names}){_MARKS}(?![{_ARABIC}])")
    return re.compile("|".join(parts))


def _arabic(name: re.Match[str]) -> str:
    """An Arabic name with its prepositions and article before it and its endings after it."""
    article, stem = name.groups()
    before = "(?:[بك]?ال|لل)" if article else "(?:[بكل]?(?:ال)?|لل)"
    ending = f"(?:{_MARKS}(?:ة|ون|ين|ات|ا))?"
    return before + stem + (ending if stem.endswith("ي") else f"(?:ي{ending})?")


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
            return _one_of(patterns)
        culture = cultures[culture.parent]


def names_culture(text: str, culture_id: str) -> bool:
    """Whether ``text`` names the culture explicitly."""
    return label_pattern(culture_id).search(text) is not None
