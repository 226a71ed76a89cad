"""Which language is a text in? A thin layer over Lingua, a maintained detector (extra
``checks``)."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from carb_data.errors import MissingExtraError, require

__all__ = ["detect", "in_language", "language_tag", "same_language"]

UNDETERMINED = "und"
"""The tag of a text whose language nobody said (BCP 47)."""
_LANGUAGES: dict[str, Any] = json.loads(
    (resources.files("carb_data") / "resources" / "languages.json").read_text("utf-8")
)
"""ISO 639-1: of each code its usual script (ISO 15924), its three-letter codes and names; codes of
a language's forms; what people write in place of a code."""

_CODES: dict[str, str] = {
    **{code: code for code in _LANGUAGES["codes"]},
    **{name: code for code, (_, *names) in _LANGUAGES["codes"].items() for name in names},
    **_LANGUAGES["forms"],
    **_LANGUAGES["mistaken"],
}
for _mistaken in _LANGUAGES["doubtful"]:
    del _CODES[_LANGUAGES["codes"][_mistaken][1]]  # the code that is not mistaken for another one's
"""Code, name or common mistake to the two-letter code."""
_SEVERAL_SCRIPTS = frozenset({"az", "bs", "kk", "ms", "pa", "sr", "uz", "zh"})
"""Languages whose tags keep their script."""

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

_DETECTED = frozenset(_LANGUAGES["detected"])
"""Languages that the detector chooses among. It supports more, but each costs memory and makes
short texts ambiguous; it has no Hausa, and Norwegian by its written forms."""


@cache
def language_tag(name: str) -> str:
    """The BCP 47 tag of a language: ``English``, ``Deutsch``, ``kor``, ``EN`` and ``arb_Arab`` are
    ``en``, ``de``, ``ko``, ``en`` and ``ar``; what names no language stays as it is."""
    text = name.strip()
    if (code := _CODES.get(text.casefold())) is not None:
        return code
    language, *parts = re.split("[-_]", text)
    if not parts or len(language) > 3:
        return text
    code = _CODES.get(language.casefold(), language.casefold())
    usual = _LANGUAGES["codes"].get(code, [""])[0]
    several = code in _SEVERAL_SCRIPTS
    return "-".join([code, *(part for part in parts if several or part.title() != usual)])


@cache
def language_defect(tag: str) -> str | None:
    """Why a tag of a table is no sure name of a language; null where it is one.

    Codes of three letters are taken as they are: ISO 639-3 has some 7,900 of them.
    """
    language = tag.partition("-")[0]
    if meant := _LANGUAGES["doubtful"].get(language):
        english: list[str] = _LANGUAGES["codes"][language]
        return f"'{language}' is {english[2].title()} (write {english[1]}); did you mean '{meant}'?"
    if language in _LANGUAGES["codes"] or language == UNDETERMINED:
        return None
    if re.fullmatch(r"[a-z]{3}", language):
        return None
    near = difflib.get_close_matches(language.casefold(), _CODES, n=1, cutoff=0.8)
    hint = f" Did you mean '{_CODES[near[0]]}'?" if near else ""
    return f"'{tag}' is no language of ISO 639, such as en, ja or zh-Hant.{hint}"


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


def detect_all(texts: Sequence[str]) -> list[str | None]:
    """``detect`` for many texts at once, on all cores; null for all without the detector."""
    found = [_own_script(text) for text in texts]
    asked = [place for place, language in enumerate(found) if language is None]
    if asked:
        try:
            detector = _detector()
        except MissingExtraError:
            return found
        lines = [re.sub(r"\s+", " ", texts[place]) for place in asked]
        languages = detector.detect_languages_in_parallel_of(lines)
        for place, language in zip(asked, languages, strict=True):
            found[place] = _code(language)
    return found


def _own_script(text: str) -> str | None:
    """The language of a text whose script writes no other one."""
    letters = sum(map(str.isalpha, text))
    for language, script in (("ko", r"[\uac00-\ud7a3]"), ("th", r"[\u0e00-\u0e7f]")):
        if 2 * len(re.findall(script, text)) > letters:
            return language
    return None


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
