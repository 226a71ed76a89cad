"""When may two short answers of BLEnD mean the same? Answers of a few words, in English.

The rules lean to one side: two answers are kept apart only when nothing hints that one could pass
for the other. A *rejected* answer that people would also accept makes a set wrong; a lost set is
only lost.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from carb_data.packaged import resource

_ARTICLES = frozenset({"a", "an", "the"})
_NO_PLURAL = ("ss", "us", "is")
_PLURAL_IN_ES = ("ches", "shes", "xes", "sses", "oes")
_STEM = 5


def normalise(text: str) -> str:
    """Lower case without accents, articles, plurals and punctuation: the form in which answers are
    compared."""
    plain = text.casefold()
    plain = plain.replace("&", " and ")
    plain = plain.replace("’", "'")
    decomposed = unicodedata.normalize("NFKD", plain)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    plain = plain.replace("'s ", " ")
    plain = plain.replace("'", "")
    words = re.findall(r"[^\W_]+", plain)
    singular = [_singular(word) for word in words if word not in _ARTICLES]
    return " ".join(singular)


def _singular(word: str) -> str:
    if len(word) <= 3 or word.endswith(_NO_PLURAL):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(_PLURAL_IN_ES):
        return word[:-2]
    return word.removesuffix("s")


def is_number_or_date(text: str) -> bool:
    """Whether an answer is a number, a time, a date, a month or a weekday.

    No set has one: whether a number is wrong depends on ranges, units, currencies and calendars.
    """
    if any(char.isdigit() for char in text):
        return True
    first_word = re.search(r"\w+", text.casefold())
    return first_word is not None and first_word[0] in _vocabulary().numbers_and_dates


@dataclass(frozen=True)
class Meaning:
    """Meanings of the variants of one answer."""

    forms: frozenset[str]
    """Normalised variants."""
    stems: frozenset[str]
    """The first letters of its content words."""
    same: frozenset[int]
    """Groups of words of like meaning that occur in a variant."""
    general: frozenset[int]
    special: frozenset[int]
    """Kinds whose name is a whole variant (``meat``), or of which a member occurs in one (``beef
    stew``)."""


@dataclass(frozen=True)
class _Vocabulary:
    same: dict[str, frozenset[int]]
    general: dict[str, frozenset[int]]
    special: dict[str, frozenset[int]]
    not_answers: frozenset[str]
    empty: frozenset[str]
    """Words without content."""
    numbers_and_dates: frozenset[str]
    longest: int


@cache
def _vocabulary() -> _Vocabulary:
    content = resource("answers_en")
    kinds = content["kinds"]
    same = _index(content["same"])
    general = _index([name] for name in kinds)
    special = _index(kinds.values())
    sizes = [phrase.count(" ") + 1 for phrase in (*same, *general, *special)]
    return _Vocabulary(
        same=same,
        general=general,
        special=special,
        not_answers=frozenset(map(normalise, content["not_answers"])),
        empty=frozenset(content["empty_words"]),
        numbers_and_dates=frozenset(content["numbers_and_dates"]),
        longest=max(sizes),
    )


def _index(groups: Iterable[Iterable[str]]) -> dict[str, frozenset[int]]:
    """Phrase to the numbers of the groups that hold it."""
    table: defaultdict[str, set[int]] = defaultdict(set)
    for number, phrases in enumerate(groups):
        for phrase in phrases:
            table[normalise(phrase)].add(number)
    return dict(zip(table, map(frozenset, table.values()), strict=True))


def is_answer(text: str) -> bool:
    """False for remarks that stand where an answer should: "it depends", "why?", "none"."""
    form = normalise(text)
    return bool(form) and form not in _vocabulary().not_answers


def says_nothing(text: str, question: str) -> bool:
    """Whether an answer only repeats words of the question ("card game")."""
    asked = set(normalise(question).split())
    words = set(normalise(text).split())
    telling = words - _vocabulary().empty
    return bool(telling) and telling <= asked


def meaning(variants: Sequence[str]) -> Meaning:
    """The meaning of an answer, from all wordings of it."""
    vocabulary = _vocabulary()
    forms = frozenset(filter(None, map(normalise, variants)))
    phrases: set[str] = set()
    words = set()
    for form in forms:
        phrases.update(_phrases(form.split(), vocabulary.longest))
        words.update(form.split())
    words -= vocabulary.empty
    return Meaning(
        forms=forms,
        stems=frozenset(word[:_STEM] for word in words if not word[0].isdigit()),
        same=_labels(vocabulary.same, phrases),
        general=_labels(vocabulary.general, forms),
        special=_labels(vocabulary.special, phrases),
    )


def _phrases(words: list[str], longest: int) -> Iterable[str]:
    for size in range(1, longest + 1):
        for start in range(len(words) - size + 1):
            yield " ".join(words[start : start + size])


def _labels(table: Mapping[str, frozenset[int]], phrases: Iterable[str]) -> frozenset[int]:
    return frozenset(label for phrase in phrases for label in table.get(phrase, ()))


def may_agree(a: Meaning, b: Meaning, also: Mapping[str, set[str]]) -> bool:
    """Could one answer pass for the other? Symmetric.

    True when they share a wording, or one of each was given for the same answer elsewhere. Also
    when they share a content word, two that begin alike ("visit", "visiting"), or a group of words
    of like meaning. Also when one names the kind of the other.

    Args:
        a: the meaning of one answer.
        b: the meaning of the other.
        also: form to the forms that the source gives for one and the same answer.
    """
    near = {other for form in a.forms for other in also.get(form, {form})}
    return (
        not a.stems.isdisjoint(b.stems)
        or not a.same.isdisjoint(b.same)
        or not a.general.isdisjoint(b.special)
        or not a.special.isdisjoint(b.general)
        or not near.isdisjoint(b.forms)
    )
