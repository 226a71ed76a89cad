"""Which language is a text in? A thin layer over Lingua, a maintained detector (extra
``checks``)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from carb_data.errors import require

__all__ = ["detect", "in_language", "language_tag", "same_language"]

UNDETERMINED = "und"
"""The tag of a text whose language nobody said (BCP 47)."""
_NAMES: dict[str, str] = json.loads(
    (resources.files("carb_data") / "resources" / "language_names.json").read_text("utf-8")
)
"""English names of languages, which stand in many tables where a tag should."""

_SCRIPTS = {
    "ar": ("ARABIC",),
    "ja": ("HIRAGANA", "KATAKANA", "CJK"),
    "ko": ("HANGUL",),
    "th": ("THAI",),
    "zh": ("CJK",),
}
"""Languages that their script identifies."""

_LONGEST_WITHOUT_KANA = 8
"""Names and headings may do without kana; a Japanese sentence does not."""

_SHORTEST_DETECTED = 24
"""Letters that a text must have before the statistical detector overrules the language that a set
declares."""

_DETECTED = frozenset(_NAMES.values()) - {"ha", "no"} | {"nb"}
"""Languages that the detector chooses among. It supports more, but each costs memory and makes
short texts ambiguous; it has no Hausa, and Norwegian by its written forms."""


def language_tag(name: str) -> str:
    """The BCP 47 tag of a language's English name (``English`` is ``en``); anything else as it
    is."""
    return _NAMES.get(name.strip().casefold(), name)


@cache
def _detector() -> Any:
    lingua = require("lingua", package="carb-data", extra="checks")
    languages = [language for language in lingua.Language.all() if _code(language) in _DETECTED]
    return lingua.LanguageDetectorBuilder.from_languages(*languages).build()


def detect(text: str) -> str | None:
    """The most likely language as an ISO 639-1 code, or null where the text has no letters.

    Raises:
        MissingExtraError: the detector is not installed.
    """
    return _code(_detector().detect_language_of(text))


@lru_cache(
    maxsize=2**14
)  # mirrored sets repeat their answers, and the detector takes a millisecond for each
def in_language(text: str, tag: str) -> bool:
    """Whether ``text`` is in the language of the BCP 47 ``tag``.

    A text without letters (a number) is in every language. A language with a script of its own is
    recognised by the script, because short texts are too short for a statistical detector. Other
    languages are recognised by the detector. Where the detector does not support a language, every
    text counts as being in it.
    """
    return in_languages([(text, tag)])[0]


def in_languages(texts: Sequence[tuple[str, str]]) -> list[bool]:
    """``in_language`` for many pairs of text and tag at once, on all cores."""
    answers = [_by_script(text, _primary(tag)) for text, tag in texts]
    asked = [place for place, answer in enumerate(answers) if answer is None]
    if asked:
        lines = [re.sub(r"\s+", " ", texts[place][0]) for place in asked]
        for place, language in zip(
            asked, _detector().detect_languages_in_parallel_of(lines), strict=True
        ):
            answers[place] = _code(language) == _primary(texts[place][1])
    return [bool(answer) for answer in answers]


def shows_another_language(text: str, tag: str) -> bool:
    """Whether to report a text that ``in_language`` does not find in the language of ``tag``.

    It is reported when its script is another one, or when it is long enough for the detector. Most
    answers of the detector about names and single words are wrong.
    """
    return (
        _by_script(text, _primary(tag)) is False
        or sum(map(str.isalpha, text)) >= _SHORTEST_DETECTED
    )


def same_language(one: str, other: str) -> bool:
    """Whether two tags name one language, in whatever script or country."""
    return _primary(one) == _primary(other)


def _primary(tag: str) -> str:
    return tag.partition("-")[0].lower()


def _code(language: Any) -> str | None:
    return None if language is None else str(language.iso_code_639_1.name).lower()


def _by_script(text: str, language: str) -> bool | None:
    """Whether the text is in the language, or null where the detector has to decide."""
    letters = [unicodedata.name(c, "") for c in text if c.isalpha()]
    if not letters or language == UNDETERMINED:
        return True
    if language in _SCRIPTS:
        own = sum(name.startswith(_SCRIPTS[language]) for name in letters)
        if own * 2 <= len(letters):
            return False
        kana = any(name.startswith(("HIRAGANA", "KATAKANA")) for name in letters)
        if language == "ja":
            return kana or len(letters) <= _LONGEST_WITHOUT_KANA
        return not (language == "zh" and kana)
    if any(name.startswith(("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "THAI")) for name in letters):
        return False
    return None if language in _DETECTED else True
