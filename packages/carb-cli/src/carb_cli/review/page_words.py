"""The words of the page in the ten languages of the benchmark."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from carb_data import cultures

__all__ = ["LANGUAGES", "language_of", "texts"]

LANGUAGES = ("ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh")


@cache
def texts(language: str) -> dict[str, str]:
    """The catalogue of a language, by key."""
    file = resources.files("carb_cli.review") / "texts" / f"{language}.json"
    found: dict[str, str] = json.loads(file.read_text("utf-8"))
    return found


def language_of(culture: str) -> str:
    """The language of the page for a culture: the culture's own, or English where there is no catalogue of it."""
    found = cultures[culture].language.partition("-")[0]
    return found if found in LANGUAGES else "en"
