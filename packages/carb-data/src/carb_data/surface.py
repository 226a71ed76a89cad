"""Surface features of answers, which need no knowledge of any culture. Only this module defines
them.

The baselines score with them, the surface floor combines them, and ``carb data check`` attacks data
sets with them. One of them is whether a text names a culture, which other measurements need as
well.
"""

from __future__ import annotations

import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from operator import mul

from carb_data.language import same_language
from carb_data.models import BonSet
from carb_data.packaged import resource
from carb_data.registry import cultures

__all__ = [
    "form_features",
    "is_known",
    "names_culture",
    "overlap",
    "surface_features",
]

Values = tuple[float, ...]
"""A number for each answer of a set, in the order of the file."""
_KEPT = 16_384
"""Results kept: the sets of a family have the same answers."""

_NEGATIONS: dict[str, list[str]] = resource("negations")
_NO = re.compile(
    rf"\b(?:{'|'.join(_NEGATIONS['words'])})\b|{'|'.join(_NEGATIONS['parts'])}", re.IGNORECASE
)
"""Words of negation; parts of words where a script writes no spaces or a language adds endings."""


def surface_features(item: BonSet) -> dict[str, Values]:
    """Each surface feature of each answer of a set, by the feature's name.

    No feature reads which answer is right, nor what an answer says; ``overlap`` compares it with
    the question, and ``names the culture`` looks for the names of the set's culture.

    Args:
        item: a set; its perturbed answers are left out.
    """
    texts = tuple(response.text for response in item.responses)
    same = tuple(
        float(same_language(response.language, item.language)) for response in item.responses
    )
    known = item.culture in cultures
    return {
        **_of_answers(texts),
        "overlap": overlap(item.prompt_text, texts),
        "language of the question": same,
        "names the culture": tuple(
            float(known and names_culture(text, item.culture)) for text in texts
        ),
    }


@lru_cache(maxsize=_KEPT)
def overlap(prompt: str, texts: tuple[str, ...]) -> Values:
    """The share of each text's character 3-grams that the prompt has as well."""
    asked = _grams(prompt).keys()
    grams = [_grams(text).keys() for text in texts]
    return tuple(len(held & asked) / len(held) for held in grams)


@lru_cache(maxsize=_KEPT)
def _of_answers(texts: tuple[str, ...]) -> dict[str, Values]:
    sizes = [max(len(text), 1) for text in texts]
    words = [len(text.split()) for text in texts]
    ends = [text[-1:] in ".!?。！？؟" for text in texts]
    alike = _to_others(_cosines(texts))
    held = [_held(text) for text in texts]
    return {
        "length": tuple(map(math.log, sizes)),
        "words": tuple(map(float, words)),
        "digits": tuple(of["digit"] / size for of, size in zip(held, sizes, strict=True)),
        "punctuation": tuple(float(of["punctuation"]) for of in held),
        "capitals": tuple(of["capital"] / size for of, size in zip(held, sizes, strict=True)),
        "final mark": tuple(map(float, ends)),
        "likeness (3-grams)": alike,
    }


def _held(text: str) -> Counter[str]:
    """How many characters of each trait a text has."""
    held = Counter[str]()
    for character in set(text):
        if trait := _trait(character):
            held[trait] += text.count(character)
    return held


@lru_cache(maxsize=_KEPT)
def _trait(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.isupper():
        return "capital"
    return "punctuation" if unicodedata.category(character)[0] == "P" else ""


@lru_cache(maxsize=_KEPT)
def form_features(texts: tuple[str, ...], known: tuple[str, ...]) -> dict[str, Values]:
    """Further features, with which ``carb data check`` attacks: marks of the odd one out.

    Args:
        texts: the answers of a set.
        known: ids of the cultures whose names are counted.
    """
    lengths = [len(text) for text in texts]
    middle = statistics.median(lengths)
    negated = [_NO.search(text) is not None for text in texts]
    alone = [negated.count(flag) == 1 for flag in negated]
    named = [sum(names_culture(text, culture) for culture in known) for text in texts]
    distances = tuple(abs(length - middle) for length in lengths)
    positions = range(len(texts))
    words = [_words(text) for text in texts]
    by_words = _table(words, _jaccard)
    return {
        "distance from the middle length": distances,
        "likeness (words)": _to_others(by_words),
        "likeness of the others (words)": _among_others(by_words),
        "likeness of the others (3-grams)": _among_others(_cosines(texts)),
        "odd form": _oddness(texts, negated),
        "negation": tuple(map(float, negated)),
        "negation alone": tuple(map(float, alone)),
        "names of cultures": tuple(map(float, named)),
        "position": tuple(map(float, positions)),
    }


@lru_cache(maxsize=64)  # the sets of a family follow one another
def _grams(text: str, size: int = 3) -> Counter[str]:
    plain = " ".join(text.casefold().split())
    starts = range(len(plain) - size + 1)
    return Counter([plain[start : start + size] for start in starts]) or Counter([plain])


def _words(text: str) -> Counter[str]:
    """Words; pairs of characters where the script does not space words."""
    counts = Counter(re.findall(r"\w+", text.casefold()))
    if len(counts) > 1:
        return counts
    return _grams(text, 2)


def _table(
    parts: Sequence[Counter[str]], likeness: Callable[[Counter[str], Counter[str]], float]
) -> list[list[float]]:
    """The likeness of every two answers, 0 on the diagonal. Each pair is compared once."""
    table = [[0.0] * len(parts) for _ in parts]
    for one, other in combinations(range(len(parts)), 2):
        alike = likeness(parts[one], parts[other])
        table[one][other] = alike
        table[other][one] = alike
    return table


def _jaccard(one: Counter[str], other: Counter[str]) -> float:
    shared = one.keys() & other.keys()
    whole = one.keys() | other.keys()
    if whole:
        return len(shared) / len(whole)
    return 0.0


def _cosines(texts: Sequence[str]) -> list[list[float]]:
    """The cosine of the 3-grams of every two answers."""
    parts = [_grams(text) for text in texts]
    squares: dict[int, int] = {}
    for part in parts:
        counts = part.values()
        squares[id(part)] = sum([count * count for count in counts])

    def cosine(one: Counter[str], other: Counter[str]) -> float:
        size = math.sqrt(squares[id(one)] * squares[id(other)])
        return _dot(one, other) / size if size else 0.0

    return _table(parts, cosine)


def _dot(one: Counter[str], other: Counter[str]) -> int:
    shared = one.keys() & other.keys()
    return sum(map(mul, map(one.__getitem__, shared), map(other.__getitem__, shared)))


def _to_others(table: Sequence[Sequence[float]]) -> Values:
    """How alike each answer is to the others, on average."""
    size = len(table)
    return tuple(
        sum(row[other] for other in range(size) if other != index) / max(size - 1, 1)
        for index, row in enumerate(table)
    )


def _among_others(table: Sequence[Sequence[float]]) -> Values:
    """How alike the others are among themselves without each answer: the odd one leaves the most
    alike."""
    size = len(table)
    if size < 3:
        return (0.0,) * size
    return tuple(
        statistics.fmean(
            table[one][other]
            for one in range(size)
            for other in range(one)
            if gap not in (one, other)
        )
        for gap in range(size)
    )


def _oddness(texts: Sequence[str], negated: Sequence[bool]) -> Values:
    """The number of traits that no other answer shares: beginning, end, digits, brackets, a line
    break, a negation."""
    forms = [
        (
            text.split(maxsplit=1)[0].casefold() if text.strip() else "",
            text.rstrip()[-1:],
            unicodedata.category(text.strip()[:1] or " "),
            any(map(str.isdigit, text)),
            "(" in text or "（" in text,
            "\n" in text,
            negates,
        )
        for text, negates in zip(texts, negated, strict=True)
    ]
    having = [Counter(values) for values in zip(*forms, strict=True)]
    return tuple(
        float(sum(has[value] == 1 for has, value in zip(having, form, strict=True)))
        for form in forms
    )


# does a text name a culture?

LANGUAGES = frozenset({"ar", "de", "en", "es", "ja", "ko", "ru", "th", "vi", "zh"})
"""Languages in which the shipped patterns know the names of cultures."""

_LABELS: dict[str, list[str]] = resource("labels")
"""Patterns of the names of each shipped culture."""
_ARABIC = "\u0620-\u064a"
_MARKS = "[\u064b-\u0652]*"
_WORD = r"\b"
_ARABIC_NAME = re.compile(rf"(ال)?([{_ARABIC} ]+)")


def _one_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches what one of the patterns matches, Arabic names as whole words.

    Arabic writes conjunctions, prepositions and the article before the name without a space, and
    the ending of an adjective after it. So ``\\b`` does not do: Qatar is in ``بقطر`` and
    ``القطرية``, but not in ``قطرة`` (a drop). What several alternatives begin with is tested once,
    since each place of a text would test it for each of them.
    """
    arabic = []
    for pattern in patterns:
        if match := _ARABIC_NAME.fullmatch(pattern):
            # an article or prepositions before it, endings after it
            article, stem = match.groups()
            before = "(?:[بك]?ال|لل)" if article else "(?:[بكل]?(?:ال)?|لل)"
            ending = f"(?:{_MARKS}(?:ة|ون|ين|ات|ا))?"
            arabic.append(before + stem + (ending if stem.endswith("ي") else f"(?:ي{ending})?"))
    words = [pattern for pattern in patterns if pattern.startswith(_WORD)]
    parts = [
        pattern
        for pattern in patterns
        if not _ARABIC_NAME.fullmatch(pattern) and pattern not in words
    ]
    if words:
        parts.append(rf"{_WORD}(?:{'|'.join(pattern.removeprefix(_WORD) for pattern in words)})")
    if arabic:
        parts.append(
            f"(?<![{_ARABIC}])(?=[{_ARABIC}])[وف]?(?:{'|'.join(arabic)}){_MARKS}(?![{_ARABIC}])"
        )
    return re.compile("|".join(parts))


def is_known(culture_id: str, language: str) -> bool:
    """Whether the shipped patterns would find the culture's name in a text of this language."""
    return (
        cultures.root(culture_id).id in _LABELS and language.partition("-")[0].lower() in LANGUAGES
    )


@cache
def _pattern(culture_id: str) -> re.Pattern[str]:
    """A pattern that matches the names of a culture, its countries and its people, without those of
    its parent.

    The shipped patterns cover the ten cultures and their varieties, in the ten languages; any other
    culture is matched by its name.
    """
    unknown = rf"\b{re.escape(cultures[culture_id].name)}\b"
    return _one_of(_LABELS.get(culture_id, [unknown]))


@lru_cache(maxsize=_KEPT)
def names_culture(text: str, culture_id: str) -> bool:
    """Whether ``text`` names the culture explicitly, or its parent.

    Raises:
        UnknownCultureError: no such culture is registered.
    """
    if _pattern(culture_id).search(text):
        return True
    parent = cultures[culture_id].parent
    return parent is not None and names_culture(text, parent)
