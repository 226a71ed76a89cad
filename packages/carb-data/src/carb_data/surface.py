"""Surface features of answers, which need no knowledge of any culture. Only this module defines
them.

The baselines score with them, the surface floor combines them, and ``carb data check`` attacks data
sets with them. One of them is whether a text names a culture, which other measurements need as
well.
"""

import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from operator import mul

from carb_data.language import primary, same_language
from carb_data.models import BonSet
from carb_data.packaged import resource
from carb_data.registry import cultures

__all__ = ["is_known", "overlap", "surface_features"]

Pieces = Counter[str]
"""Words, n-grams or traits of a text, and how often it has them."""
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

    No feature reads the key, nor the meaning of an answer; ``overlap`` compares it with the
    question, and ``names the culture`` looks for the names of the set's culture.

    Args:
        item: a set; its perturbed answers are left out.
    """
    texts = item.texts
    known = item.culture in cultures
    languages = [response.language for response in item.responses]
    same = [same_language(language, item.language) for language in languages]
    named = [known and names_culture(text, item.culture) for text in texts]
    return {
        **_of_answers(texts),
        "overlap": overlap(item.prompt_text, texts),
        "language of the question": tuple(map(float, same)),
        "names the culture": tuple(map(float, named)),
    }


@lru_cache(maxsize=_KEPT)
def overlap(prompt: str, texts: tuple[str, ...]) -> Values:
    """The share of each text's character 3-grams that the prompt has as well."""
    asked = _grams(prompt).keys()
    shares = []
    for text in texts:
        grams = _grams(text).keys()
        shares.append(len(grams & asked) / len(grams))
    return tuple(shares)


@lru_cache(maxsize=_KEPT)
def _of_answers(texts: tuple[str, ...]) -> dict[str, Values]:
    each = [*map(_of_answer, texts)]
    features = {name: tuple(answer[name] for answer in each) for name in each[0]}
    features["likeness (3-grams)"] = _to_others(_cosines(texts))
    return features


def _of_answer(text: str) -> dict[str, float]:
    """The features of an answer that do not depend on the others."""
    size = max(len(text), 1)
    traits = text.translate(_TRAITS)
    return {
        "length": math.log(size),
        "words": float(len(text.split())),
        "digits": traits.count("d") / size,
        "punctuation": float(traits.count("p")),
        "capitals": traits.count("c") / size,
        "final mark": float(text[-1:] in ".!?。！？؟"),
    }


class _Traits(dict[int, str | None]):
    """Code point to ``d`` for a digit, ``c`` for a capital, ``p`` for punctuation; others go."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        trait = None
        if character.isdigit():
            trait = "d"
        elif character.isupper():
            trait = "c"
        elif unicodedata.category(character).startswith("P"):
            trait = "p"
        self[code] = trait
        return trait


_TRAITS = _Traits()


@lru_cache(maxsize=_KEPT)
def form_features(texts: tuple[str, ...], known: tuple[str, ...]) -> dict[str, Values]:
    """Further features, with which ``carb data check`` attacks: marks of the odd one out.

    Args:
        texts: the answers of a set.
        known: ids of the cultures whose names are counted.
    """
    lengths = [len(text) for text in texts]
    middle = statistics.median(lengths)
    distances = [abs(length - middle) for length in lengths]
    negated = [_NO.search(text) is not None for text in texts]
    alone = [negated.count(flag) == 1 for flag in negated]
    named = [float(sum(names_culture(text, culture) for culture in known)) for text in texts]
    words = [*map(_words, texts)]
    by_words = _table(words, _jaccard)
    by_grams = _cosines(texts)
    positions = range(len(texts))
    return {
        "distance from the middle length": tuple(distances),
        "likeness (words)": _to_others(by_words),
        "likeness of the others (words)": _among_others(by_words),
        "likeness of the others (3-grams)": _among_others(by_grams),
        "odd form": _oddness(texts, negated),
        "negation": tuple(map(float, negated)),
        "negation alone": tuple(map(float, alone)),
        "names of cultures": tuple(named),
        "position": tuple(map(float, positions)),
    }


@lru_cache(maxsize=64)  # the sets of a family follow one another
def _grams(text: str, size: int = 3) -> Pieces:
    plain = " ".join(text.casefold().split())
    shifted = [plain[start:] for start in range(size)]
    grams = map("".join, zip(*shifted, strict=False))
    return Counter(grams) or Counter([plain])


def _words(text: str) -> Pieces:
    """Words; pairs of characters where the script does not space words."""
    counts = Counter(re.findall(r"\w+", text.casefold()))
    if len(counts) > 1:
        return counts
    return _grams(text, 2)


def _table(
    parts: Sequence[Pieces], likeness: Callable[[Pieces, Pieces], float]
) -> list[list[float]]:
    """The likeness of every two answers, 0 on the diagonal. Each pair is compared once."""
    size = len(parts)
    table = [[0.0] * size for _ in parts]
    for one, other in combinations(range(size), 2):
        alike = likeness(parts[one], parts[other])
        table[one][other] = alike
        table[other][one] = alike
    return table


def _jaccard(one: Pieces, other: Pieces) -> float:
    shared = one.keys() & other.keys()
    whole = one.keys() | other.keys()
    if whole:
        return len(shared) / len(whole)
    return 0.0


def _cosines(texts: Sequence[str]) -> list[list[float]]:
    """The cosine of the 3-grams of every two answers."""
    parts = [*map(_grams, texts)]
    squares = {}
    for part in parts:
        counts = part.values()
        squares[id(part)] = sum(map(mul, counts, counts))

    def cosine(one: Pieces, other: Pieces) -> float:
        square = squares[id(one)] * squares[id(other)]
        size = math.sqrt(square)
        if size:
            return _dot(one, other) / size
        return 0.0

    return _table(parts, cosine)


def _dot(one: Pieces, other: Pieces) -> int:
    shared = one.keys() & other.keys()
    ours = map(one.__getitem__, shared)
    return sum(map(mul, ours, map(other.__getitem__, shared)))


def _to_others(table: Sequence[Sequence[float]]) -> Values:
    """How alike each answer is to the others, on average."""
    others = max(len(table) - 1, 1)
    return tuple(sum(row) / others for row in table)  # the diagonal is 0


def _among_others(table: Sequence[Sequence[float]]) -> Values:
    """How alike the others are among themselves without each answer: the odd one leaves the most
    alike."""
    size = len(table)
    if size < 3:
        return (0.0,) * size
    means = []
    for gap in range(size):
        others = [number for number in range(size) if number != gap]
        pairs = combinations(others, 2)
        mean = statistics.fmean(table[one][other] for one, other in pairs)
        means.append(mean)
    return tuple(means)


def _oddness(texts: Sequence[str], negated: Sequence[bool]) -> Values:
    """The number of traits that no other answer shares: beginning, end, digits, brackets, a line
    break, a negation."""
    traits = [_traits(text) for text in texts]
    columns = [negated, *zip(*traits, strict=True)]
    odd = [0.0] * len(texts)
    for column in columns:
        times = Counter(column)
        for index, trait in enumerate(column):
            odd[index] += times[trait] == 1
    return tuple(odd)


def _traits(text: str) -> tuple[object, ...]:
    whole = text.strip()
    words = whole.split(maxsplit=1)
    return (
        "".join(words[:1]).casefold(),
        whole[-1:],
        unicodedata.category(whole[:1] or " "),
        any(map(str.isdigit, text)),
        "(" in text or "（" in text,
        "\n" in text,
    )


# does a text name a culture?

_TAGS = "ar de en es ja ko ru th vi zh"
LANGUAGES = frozenset(_TAGS.split())
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
    ``القطرية``, but not in ``قطرة`` (a drop). A common beginning of several alternatives is tested
    once, and not for each of them at each position.
    """
    arabic = []
    words = []
    parts = []
    for pattern in patterns:
        if match := _ARABIC_NAME.fullmatch(pattern):
            # an article or prepositions before it, endings after it
            article, stem = match.groups()
            before = "(?:[بكل]?(?:ال)?|لل)"
            if article:
                before = "(?:[بك]?ال|لل)"
            ending = f"(?:{_MARKS}(?:ة|ون|ين|ات|ا))?"
            if not stem.endswith("ي"):
                ending = f"(?:ي{ending})?"
            arabic.append(f"{before}{stem}{ending}")
        elif pattern.startswith(_WORD):
            words.append(pattern.removeprefix(_WORD))
        else:
            parts.append(pattern)
    if words:
        parts.append(rf"{_WORD}(?:{'|'.join(words)})")
    if arabic:
        parts.append(
            f"(?<![{_ARABIC}])(?=[{_ARABIC}])[وف]?(?:{'|'.join(arabic)}){_MARKS}(?![{_ARABIC}])"
        )
    return re.compile("|".join(parts))


def is_known(culture_id: str, language: str) -> bool:
    """Whether the shipped patterns would find the culture's name in a text of this language."""
    root = cultures.root(culture_id)

    return root.id in _LABELS and primary(language) in LANGUAGES


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
