"""Attacks from the surface: for each answer of a set a number, without a look at the question or the culture."""

from __future__ import annotations

import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from carb_data.labels import names_culture
from carb_data.models import BonSet
from carb_data.registry import cultures

__all__ = ["SURFACE", "Values"]

Values = list[float]
"""A number for each answer of a set, in file order: the attack takes the largest."""
_KEPT = 16_384
"""Results kept: several attacks look at one thing, and the sets of a family have the same answers."""

_NO = re.compile(
    r"\b(?:no|not|nor|never|none|nothing|nobody|without|cannot|\w+n't|nicht|kein\w*|nein|nie|niemals|nichts|ohne|nunca|"
    r"jamás|ningun\w*|ningún|nadie|nada|tampoco|ni|sin|не|нет|ни|нельзя|никогда|никто|без|لا|ليس\w*|لم|لن|غير|بدون|ممنوع|"
    r"không|chưa|đừng|chẳng)\b|不|没|沒|无|無|別|别|禁|ない|なく|ません|ず、|禁止|않|없|못|아니|금지|ไม่|อย่า|ห้าม",
    re.IGNORECASE,
)


def _texts(item: BonSet) -> tuple[str, ...]:
    return tuple(response.text for response in item.responses)


@lru_cache(maxsize=64)  # the sets of a family follow one another
def _grams(text: str, n: int) -> Counter[str]:
    plain = " ".join(text.casefold().split())
    return Counter(plain[start : start + n] for start in range(max(1, len(plain) - n + 1)))


def _words(text: str) -> Counter[str]:
    """Words; pairs of characters where the script does not space words."""
    found = Counter(re.findall(r"\w+", text.casefold()))
    return found if len(found) > 1 else _grams(text, 2)


def _jaccard(one: Counter[str], other: Counter[str]) -> float:
    whole = len(one.keys() | other.keys())
    return len(one.keys() & other.keys()) / whole if whole else 0.0


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    dot = sum(count * other[gram] for gram, count in one.items())
    sizes = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return dot / sizes if sizes else 0.0


def _likeness(
    split: Callable[[str], Counter[str]], alike: Callable[[Counter[str], Counter[str]], float]
) -> Callable[[BonSet], list[list[float]]]:
    @lru_cache(maxsize=_KEPT)
    def table(texts: tuple[str, ...]) -> list[list[float]]:
        parts = [split(text) for text in texts]
        return [[alike(one, other) for other in parts] for one in parts]

    return lambda item: table(_texts(item))


_LIKENESS = {
    "words": _likeness(_words, _jaccard),
    "3-grams": _likeness(lambda text: _grams(text, 3), _cosine),
    "4-grams": _likeness(lambda text: _grams(text, 4), _jaccard),
}


def _to_others(table: Sequence[Sequence[float]]) -> Values:
    """How alike each answer is to the others, on average."""
    size = len(table)
    return [sum(row[other] for other in range(size) if other != place) / (size - 1) for place, row in enumerate(table)]


def _rest(table: Sequence[Sequence[float]]) -> Values:
    """How alike the others are among themselves without each answer: the odd one leaves the most alike."""
    size = len(table)
    if size < 3:
        return [0.0] * size
    return [
        statistics.fmean(table[one][other] for one in range(size) for other in range(one) if gap not in (one, other))
        for gap in range(size)
    ]


@lru_cache(maxsize=_KEPT)
def _marks(text: str) -> float:
    return float(sum(unicodedata.category(char)[0] == "P" for char in text))


def _form(text: str) -> tuple[object, ...]:
    """What an answer looks like: how it begins and ends, whether it has numbers, brackets, a line break, a negation."""
    category = unicodedata.category(text.strip()[:1] or " ")
    return (
        text.split(maxsplit=1)[0].casefold() if text.strip() else "",
        text.rstrip()[-1:],
        category,
        any(char.isdigit() for char in text),
        "(" in text or "（" in text,
        "\n" in text,
        _negates(text),
    )


@lru_cache(maxsize=_KEPT)
def _oddness(texts: tuple[str, ...]) -> Values:
    """In how many traits of its form an answer is alone."""
    forms = [_form(text) for text in texts]
    return [
        float(sum(sum(other[trait] == form[trait] for other in forms) == 1 for trait in range(len(form))))
        for form in forms
    ]


def _lonely(flags: Sequence[bool]) -> Values:
    return [float(flags.count(flag) == 1) for flag in flags]


@lru_cache(maxsize=_KEPT)
def _negates(text: str) -> bool:
    return _NO.search(text) is not None


def _negated(item: BonSet) -> list[bool]:
    return [_negates(text) for text in _texts(item)]


@lru_cache(maxsize=_KEPT)
def _names(text: str, ids: tuple[str, ...]) -> float:
    """How many cultures a text names."""
    return float(sum(names_culture(text, culture) for culture in ids))


def _named(item: BonSet) -> Values:
    ids = tuple(culture.id for culture in cultures)  # a user may add some
    return [_names(text, ids) for text in _texts(item)]


@lru_cache(maxsize=_KEPT)
def _shared(prompt: str, texts: tuple[str, ...]) -> Values:
    asked = _grams(prompt, 3).keys()
    return [len(own & asked) / len(own) for own in (_grams(text, 3).keys() for text in texts)]


def _overlap(item: BonSet) -> Values:
    return _shared(item.prompt_text, _texts(item))


def _negative(values: Sequence[float]) -> Values:
    return [-value for value in values]


def _surface() -> Mapping[str, Callable[[BonSet], Values]]:
    found: dict[str, Callable[[BonSet], Values]] = {
        "longest": lambda item: [float(len(text)) for text in _texts(item)],
        "shortest": lambda item: [-float(len(text)) for text in _texts(item)],
        "middle length": lambda item: _negative(
            [abs(len(text) - statistics.median(map(len, _texts(item)))) for text in _texts(item)]
        ),
        "odd length": lambda item: [
            abs(len(text) - statistics.median(map(len, _texts(item)))) for text in _texts(item)
        ],
    }
    for name, table in _LIKENESS.items():
        found[f"most alike ({name})"] = lambda item, table=table: _to_others(table(item))  # type: ignore[misc]  # bound
        found[f"least alike ({name})"] = lambda item, table=table: _negative(_to_others(table(item)))  # type: ignore[misc]
        found[f"odd one out ({name})"] = lambda item, table=table: _rest(table(item))  # type: ignore[misc]
    found |= {
        "odd form": lambda item: _oddness(_texts(item)),
        "lonely polarity": lambda item: _lonely(_negated(item)),
        "negated": lambda item: [float(flag) for flag in _negated(item)],
        "not negated": lambda item: [-float(flag) for flag in _negated(item)],
        "overlap": _overlap,
        "least overlap": lambda item: _negative(_overlap(item)),
        "punctuation": lambda item: [_marks(text) for text in _texts(item)],
        "least punctuation": lambda item: [-_marks(text) for text in _texts(item)],
        "names a culture": _named,
        "names no culture": lambda item: _negative(_named(item)),
        "first": lambda item: [-float(place) for place in range(len(item.responses))],
        "last": lambda item: [float(place) for place in range(len(item.responses))],
    }
    return found


SURFACE: Mapping[str, Callable[[BonSet], Values]] = _surface()
"""Attacks by name. Similarities are of words (Jaccard), character 3-grams (cosine) and 4-grams (Jaccard). All look at
the answers alone, but ``overlap``, which compares them with the question."""
