"""Detects the language of a text. A thin layer over Lingua, a maintained detector (extra
``checks``)."""

import difflib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from carb_data.errors import CarbError, MissingExtraError, require
from carb_data.packaged import resource

__all__ = ["detect_all"]

UNDETERMINED = "und"
"""The tag of a text in an unknown language (BCP 47)."""
_LANGUAGES: dict[str, Any] = resource("languages")
"""ISO 639-1: each code with its usual script (ISO 15924), its three-letter codes and its names.
Codes of a language's forms, common mistakes for a code, and codes that may be mistakes, with what
they stand for. Languages that their script identifies, or with tags that keep it."""

_BY_CODE: dict[str, list[str]] = _LANGUAGES["codes"]
_CODES: dict[str, str] = {
    **{code: code for code in _BY_CODE},
    **{name: code for code, (_, *names) in _BY_CODE.items() for name in names},
    **_LANGUAGES["forms"],
    **_LANGUAGES["mistaken"],
}
"""Code, name or common mistake to the two-letter code."""
_SCRIPTS: dict[str, list[str]] = _LANGUAGES["scripts"]
"""Languages that their script identifies."""

_LONGEST_WITHOUT_KANA = 8
"""Names and headings may do without kana; a Japanese sentence does not."""

_SHORTEST_DETECTED = 24
"""Letters that a text must have before the statistical detector overrules the language that a set
declares."""

DETECTED: tuple[str, ...] = tuple(_LANGUAGES["detected"])
"""Languages that the detector chooses among. It supports more, but each costs memory and makes
short texts ambiguous; it has no Hausa, and Norwegian by its written forms."""

_FUNCTION_WORDS: dict[str, str] = resource("function_words")
"""Frequent words of each language, also of languages that the detector lacks."""
_CERTAIN = 2
"""A language is certain with so many more words than any other, and twice as many at least. A word
of several languages counts its share."""
_SCRIPT_OF: dict[str, re.Pattern[str]] = {
    language: re.compile(f"[{letters}]") for language, letters in _LANGUAGES["letters"].items()
}
"""Languages that alone write a script, among those that are detected."""
_FOREIGN: dict[str, re.Pattern[str]] = {
    language: re.compile(rf"[^{letters}\W\d_]")
    for language, letters in _LANGUAGES["alphabets"].items()
}
"""Letters outside a language's alphabet."""
_MANY = 1_000
_NEARLY_ALL = 0.99
"""So many texts, and such a share, tell the language of a short one without other one's words."""
_FEW = 5
"""Words of a sentence that may do without words of grammar."""
_CARRIED = 0.15
"""Share of a text's words that are frequent ones of its language, or of those with foreign
letters in it."""
_PROBABLE = 0.5
_POSSIBLE = 0.05
"""Confidence of a detector of all languages that it supports, of one whose words carry a text, and
of one whose words do not."""
_ADDRESS = re.compile(r"\w+://\S+")
_LETTER = re.compile("[A-Za-z]")
_WORD = re.compile(r"[^\s\d!-/:-@\[-`{-~«»¿¡“”„‘’…،؟؛]+")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_OWN_LETTER = re.compile(rf"[{''.join(_LANGUAGES['letters'].values())}\u3040-\u30ff\u3400-\u9fff]")
_QUOTED = re.compile(r"[「『“\"(（][^」』”\")）]*[」』”\")）]")
"""Quotations, which may be in another language."""

_ENOUGH = 500
"""Characters of a text that the detector reads."""
_LONG = 150
"""Characters from which the detector reads groups of three letters alone, so that the models of
other groups need not be loaded, which takes seconds; Lingua does so from 120."""


@cache
def language_tag(name: str) -> str:
    """The BCP 47 tag of a language: ``English``, ``Deutsch``, ``kor``, ``EN`` and ``arb_Arab`` are
    ``en``, ``de``, ``ko``, ``en`` and ``ar``; what names no language stays as it is."""
    text = re.sub(r"(?<=_[A-Z]{2})\.[\w-]+\Z", "", name.strip())  # the encoding of a locale
    if code := _CODES.get(text.casefold()):
        return code
    language, *parts = re.split("[-_]", text)
    if not parts or len(language) > 3:
        return text
    small = language.casefold()
    code = _CODES.get(small, small)
    usual, *_ = _BY_CODE.get(code, [""])
    if code not in _LANGUAGES["several_scripts"]:
        parts = [part for part in parts if part.title() != usual]
    cased = [part.title() if len(part) > 2 else part.upper() for part in parts]
    return "-".join([code, *cased])


@cache
def language_defect(tag: str) -> str | None:
    """Why a tag of a table is no sure name of a language; null where it is one.

    Codes of three letters are taken as they are: ISO 639-3 has some 7,900 of them.
    """
    language = tag.partition("-")[0]
    if reason := _LANGUAGES["doubtful"].get(language):
        return f"'{language}' {reason}"
    if language in _BY_CODE or re.fullmatch(r"[a-z]{3}", language):
        return None
    near = difflib.get_close_matches(
        language.casefold(),
        _CODES,
        n=1,
        cutoff=0.8,
    )
    hint = ""
    if near:
        hint = f" Did you mean '{_CODES[near[0]]}'?"
    return f"'{tag}' is no language of ISO 639, such as en, ja or zh-Hant.{hint}"


def check_language(tag: str) -> None:
    """Check that a text is the tag of a language, and refuse others such as ``jp`` or ``Deutsch``.

    Args:
        tag: A user's value: a BCP 47 tag, such as ``en`` or ``zh-Hant``.

    Raises:
        CarbError: it is no such tag; the message names the nearest one.
    """
    usual = language_tag(tag)
    defect = language_defect(usual)
    if defect and usual != UNDETERMINED:
        raise CarbError(f"language: {defect}")
    if primary(usual) != tag.partition("-")[0]:
        raise CarbError(
            f"language: '{tag}' is no language tag (BCP 47), such as en or zh-Hant. Did you mean "
            f"'{usual}'?"
        )


@cache
def _detector(*, long: bool, every: bool = False) -> Any:
    lingua = require("lingua", "carb-data[checks]")
    languages = lingua.Language.all()
    if not every:
        languages = [language for language in languages if _code(language) in DETECTED]
    builder = lingua.LanguageDetectorBuilder.from_languages(*languages)
    if long:
        builder = builder.with_low_accuracy_mode()
    return builder.build()


def _detected(texts: Sequence[str]) -> list[str | None]:
    """The most likely languages as codes of ISO 639-1, on all cores; null for a text without
    letters.

    Raises:
        MissingExtraError: the detector is not installed.
    """
    lines = [re.sub(r"\s+", " ", text[:_ENOUGH]) for text in texts]
    languages: dict[str, str | None] = {}
    for long in (False, True):
        asked = [line for line in lines if (len(line) >= _LONG) == long]
        if asked:
            detector = _detector(long=long)
            detected = detector.detect_languages_in_parallel_of(asked)
            languages.update(zip(asked, map(_code, detected), strict=True))
    return [languages[line] for line in lines]


def detect_all(texts: Sequence[str]) -> list[str | None]:
    """The languages of texts as codes of ISO 639-1, of ``DETECTED``; null where neither script nor
    words carry one of them, or where that takes the detector and it is not installed."""
    texts = [_ADDRESS.sub(" ", text) if "://" in text else text for text in texts]
    languages = {text: _own_script(text) or _by_words(text) for text in texts}
    known = [languages[text] for text in texts]
    if usual := _usual(known):
        for text, language in languages.items():
            if language is None and text.isascii() and _LETTER.search(text):
                languages[text] = _by_words(text, usual)
    unclear = [text for text, language in languages.items() if language is None]
    with suppress(MissingExtraError):
        languages.update(zip(unclear, _carried(unclear), strict=True))
    for text, language in languages.items():
        if language not in DETECTED or _is_foreign(text, language):
            languages[text] = None
    return [languages[text] for text in texts]


def _carried(texts: Sequence[str]) -> list[str | None]:
    """The detector's languages, where words, letters or the other languages that it supports do not
    speak against them: it takes a text of any language for one of its own."""
    detected = _detected(texts)
    lines = [text[:_ENOUGH] for text in texts]
    detector = _detector(long=True, every=True)
    every = detector.compute_language_confidence_values_in_parallel(lines)
    languages: list[str | None] = []
    for text, code, values in zip(texts, detected, every, strict=True):
        language = code or ""
        words = {*_WORD.findall(text.lower())}
        counts = _counts(words)
        best = _most(counts, language)
        usual = counts.get(language, 0)
        if best in DETECTED and counts[best] >= usual + 1:
            language = best
        confidences = (value.value for value in values if _code(value.language) == language)
        sure = next(confidences, 0)
        if _is_carried(language, sure, words, counts):
            languages.append(language)
        else:
            languages.append(None)
    return languages


def _is_carried(language: str, sure: float, words: set[str], counts: Mapping[str, float]) -> bool:
    """Whether a text may count as the language.

    Args:
        sure: the confidence of the detector of all languages in this one.
        words: the words of the text.
        counts: how many of them are frequent words of each language.
    """
    if language not in _FUNCTION_WORDS:
        return True
    ours = counts.get(language, 0)
    others = [counts[tag] for tag in counts if tag not in DETECTED]
    other = max(others, default=0)
    if sure >= _PROBABLE:
        return other <= ours + 1
    known = words.intersection(_FUNCTION_WORDS[language].split())
    is_many = len(known) >= _CARRIED * len(words)
    if is_many and ours > other:
        return True
    return ours >= other and sure >= _POSSIBLE


def _is_foreign(text: str, language: str) -> bool:
    """Whether many words of a text have letters outside a language's alphabet."""
    if text.isascii() or language not in _FOREIGN:
        return False
    words = _WORD.findall(text.lower())
    foreign = filter(_FOREIGN[language].search, words)
    return sum(1 for _ in foreign) > _CARRIED * len(words)


@cache
def _shares_of() -> dict[str, dict[str, float]]:
    """The languages of each word of grammar, with its share where several are detected."""
    tags: defaultdict[str, list[str]] = defaultdict(list)
    for tag, text in _FUNCTION_WORDS.items():
        for word in {*text.split()}:
            tags[word].append(tag)
    shares = {}
    for word, languages in tags.items():
        detected = sum(tag in DETECTED for tag in languages)
        shares[word] = dict.fromkeys(languages, 1 / max(1, detected))
    return shares


def _by_words(text: str, usual: str | None = None) -> str | None:
    """The language of a text that has the words of grammar of one alone; the usual language, where
    no other one has more of them. The detector takes a millisecond a text."""
    if not text.isascii() and _HAN_OR_KANA.search(text):
        return None
    small = text.lower()
    if usual is None:
        language = _by_grammar(small.split())
        if language is not None:
            return language
    return _by_grammar(_WORD.findall(small), usual)


def _by_grammar(words: Sequence[str], usual: str | None = None) -> str | None:
    counts = _counts(words)
    if not counts and len(words) < _FEW:
        return usual
    if not counts:
        return None
    best = _most(counts, usual)
    first = counts.pop(best)
    second = max(counts.values(), default=0)
    certain = max(second + _CERTAIN, 2 * second)
    if best == usual or first >= certain:
        return best
    return None


def _most(counts: Mapping[str, float], usual: str | None) -> str:
    """The language with the most words, of several the usual one; empty where there is none."""
    return max(counts, key=lambda tag: (counts[tag], tag == usual), default="")


def _counts(words: Iterable[str]) -> dict[str, float]:
    """How many words of grammar of each language there are; of several detected languages, a word
    counts its share."""
    shares_of = _shares_of()
    counts: defaultdict[str, float] = defaultdict(float)
    for word in sorted(shares_of.keys() & words):  # in one order, for the same sums
        for tag, share in shares_of[word].items():
            counts[tag] += share
    return counts


def _usual(languages: Sequence[str | None]) -> str | None:
    """The language of nearly all of many texts, where it is written in Latin letters."""
    known = Counter(filter(None, languages))
    for language, count in known.most_common(1):
        script, *_ = _BY_CODE.get(language, [""])
        nearly_all = _NEARLY_ALL * known.total()
        enough = max(_MANY, nearly_all, len(languages) / 2)
        if script == "Latn" and language in DETECTED and count >= enough:
            return language
    return None


def _own_script(text: str) -> str | None:
    """The language of a text whose script writes no other one."""
    if text.isascii() or not _OWN_LETTER.search(text):
        return None
    half = sum(map(str.isalpha, text)) / 2
    for language, letters in _SCRIPT_OF.items():
        if len(letters.findall(text)) > half:
            counts = _counts(_WORD.findall(text))
            return _most(counts, language) or language
    han = len(_HAN.findall(text))
    kana = len(_KANA.findall(_QUOTED.sub("", text)))
    if han + kana > half and 2 * kana > han:
        return "ja"
    if kana or han <= max(half, _LONGEST_WITHOUT_KANA):
        return None
    return "zh"


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
    pairs = [(text, primary(tag)) for text, tag in texts]
    answers = {pair: _by_script(*pair) for pair in pairs}
    unclear = [pair for pair, answer in answers.items() if answer is None]
    asked = [text for text, _ in unclear]
    detected = _detected(asked)
    for pair, language in zip(unclear, detected, strict=True):
        _, declared = pair
        answers[pair] = language == declared
    return [answers[pair] is True for pair in pairs]


def shows_another_language(text: str, tag: str) -> bool:
    """Whether to report a text that ``in_language`` does not find in the language of ``tag``.

    It is reported when its script is another one, or when it is long enough for the detector. Most
    answers of the detector about names and single words are wrong.
    """
    if _by_script(text, primary(tag)) is False:
        return True
    return sum(map(str.isalpha, text)) >= _SHORTEST_DETECTED


def same_language(one: str, other: str) -> bool:
    """Whether two tags name one language, in whatever script or country."""
    return primary(one) == primary(other)


@lru_cache(maxsize=2**10)
def primary(tag: str) -> str:
    """The language of a tag alone, in small letters."""
    return tag.partition("-")[0].lower()


def _code(language: Any) -> str | None:
    if language is None:
        return None
    return str(language.iso_code_639_1.name).lower()


def _by_script(text: str, language: str) -> bool | None:
    """Whether the text is in the language, or null where the detector has to decide."""
    letters = [unicodedata.name(c, "") for c in text if c.isalpha()]
    if not letters or language == UNDETERMINED:
        return True
    if language in _SCRIPTS:
        if 2 * _written(letters, _SCRIPTS[language]) <= len(letters):
            return False
        kana = _written(letters, ("HIRAGANA", "KATAKANA")) > 0
        if language == "ja":
            return kana or len(letters) <= _LONGEST_WITHOUT_KANA
        return language != "zh" or not kana
    if _written(letters, ("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "THAI")):
        return False
    if language in DETECTED:
        return None
    return True


def _written(letters: Iterable[str], scripts: Iterable[str]) -> int:
    """How many letters, given by their names in Unicode, are of some scripts."""
    beginnings = tuple(scripts)
    return sum(name.startswith(beginnings) for name in letters)
