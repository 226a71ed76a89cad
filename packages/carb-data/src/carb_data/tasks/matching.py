"""Does a short answer say what a person said? Words compared in the form that each language needs.

The published scorer of BLEnD (Myung et al. 2024, arXiv:2406.09948, section 4; ``evaluation/exact_match.py``) takes an
answer as right when it contains a person's answer as a string, or all its words after lemmatising with one tool per
language. This module follows it with light rules instead of a dozen lemmatisers, and differs on purpose in one
point: a string must be met at the borders of words, so that "rice" is not found in "price", nor "1" in "10".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from importlib import resources

from pydantic import Field, TypeAdapter

from carb_data.models import Frozen
from carb_data.sources.blend_answers import normalise

MOST_PARTS = 3
"""Alternatives that a short answer may name, divided by commas and the like."""
MOST_WORDS = 15
"""Words of an answer beside the one that is looked for; more are a list, or a text, and no short answer."""
MOST_CHARACTERS = 40
"""The same for languages without spaces."""
_DIVIDER = re.compile(r"[,;/|،؛、，；・·•\n]|\s[-–—]\s")
_SHORT_PART = 4
_LONGEST_ENDING = 3
_SHORTEST_STEM = 4
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Words = tuple[str, ...]
"""The words of a text in the form in which they are compared."""


class LanguageRules(Frozen):
    """How the words of a language are compared: a row of ``answer_forms.json``."""

    spaced: bool = True
    """False for a language without spaces: its texts are compared as strings of characters."""
    marks: bool = False
    """Marks are vowels, not accents."""
    articles: frozenset[str] = frozenset()
    prefix: str = "(?!)"
    """A regular expression that is taken from the beginning of words."""
    letters: dict[str, str] = Field(default_factory=dict)
    """Letters that are written in several ways, and the one that is compared."""
    plurals: bool = False
    """Whether the endings -es, -s and -e are taken from words."""
    endings: bool = False
    """Words take endings: a word that goes on after the answer's word for a few characters says it."""
    particles: frozenset[str] = frozenset()
    """What may follow an answer's word directly."""


@cache
def _all_rules() -> dict[str, LanguageRules]:
    file = resources.files("carb_data") / "resources" / "answer_forms.json"
    return TypeAdapter(dict[str, LanguageRules]).validate_json(file.read_bytes())


def _rules(language: str) -> LanguageRules:
    return _all_rules().get(language, LanguageRules())


@lru_cache(maxsize=4096)
def form(text: str, language: str) -> Words:
    """The words of a text: lower case, digits of all scripts as 0-9, without punctuation, articles and accents.

    Args:
        text: the text to bring into the common form.
        language: the text's language, as an ISO 639-1 code.
    """
    text = "".join(_digit(char) for char in unicodedata.normalize("NFKC", text).replace("\u200b", ""))
    text = re.sub(r"(?<=\d)[,،٬](?=\d{3}(?!\d))", "", text)
    if language == "en":
        plain = normalise(text).split() or re.findall(r"\w+", text.casefold())  # the mark "A" is no article
        return tuple(_number(str(_NUMBER_WORDS.index(word)) if word in _NUMBER_WORDS else word) for word in plain)
    rules = _rules(language)
    letters = str.maketrans(rules.letters)
    text = re.sub(r"['’`´]", "", text.casefold().translate(letters))
    if rules.marks:
        text = unicodedata.normalize("NFC", re.sub("[\u0964\u0965]", " ", text))
        words = re.findall(r"[\w\u0900-\u0fff\u200d]+", text)
    else:
        bare = (char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
        words = re.findall(r"\w+", unicodedata.normalize("NFC", "".join(bare)).translate(letters))
    if not rules.spaced:
        return ("".join(words),) if words else ()
    words = [re.sub(rules.prefix, "", word) for word in words]
    kept = [word for word in words if word not in rules.articles] or words
    return tuple(_number(_singular(word) if rules.plurals else word) for word in kept)


def says(response: Words, answer: Words, language: str) -> bool:
    """Whether a response contains an answer: its words one after the other, or all of them somewhere.

    Answers with digits must be met in one piece, since 8:30 is not 30:8. An empty answer is said by nothing.
    """
    if not answer or not response:
        return False
    if not _rules(language).spaced:
        return _string_said(response[0], answer[0])
    together = any(
        all(_same(response[start + i], word, language) for i, word in enumerate(answer))
        for start in range(len(response) - len(answer) + 1)
    )
    if together or any(char.isdigit() for word in answer for char in word):
        return together
    return all(any(_same(word, wanted, language) for word in response) for wanted in answer)


def is_list(text: str, language: str) -> bool:
    """Whether a text names so many things that containing the answer among them says nothing.

    A line of the commonest answers contains somebody's answer to many questions. Parts count where they are short: a
    sentence with commas is no list.
    """
    parts = [part for part in _DIVIDER.split(text) if part.strip()]
    if not _rules(language).spaced and not re.search(r"[A-Za-z]{3}", text):
        short = [part for part in parts if len(part.strip()) <= _SHORT_PART * 2]
        return len(short) > MOST_PARTS or len(text) > MOST_CHARACTERS
    short = [part for part in parts if len(part.split()) <= _SHORT_PART]
    return len(short) > MOST_PARTS or len(text.split()) > MOST_WORDS


def names_many(said: Words, answers: Collection[str]) -> bool:
    """Whether a text is made of many answers, with or without dividers: a list of the commonest answers, say.

    It is where more than ``MOST_PARTS`` of its words are each an answer to some question, and these are at least two
    thirds of its different words. A sentence is made of other words as well.

    Args:
        said: form of the text.
        answers: words that alone answer some question.
    """
    named = {word for word in said if word in answers}
    return len(named) > MOST_PARTS and 3 * len(named) >= 2 * len(set(said))


def _string_said(there: str, wanted: str) -> bool:
    """In a string without spaces; a number must not be a part of a longer one."""
    digits_before = r"(?<!\d)" if wanted[0].isdigit() else ""
    digits_after = r"(?!\d)" if wanted[-1].isdigit() else ""
    return re.search(digits_before + re.escape(wanted) + digits_after, there) is not None


def _same(there: str, wanted: str, language: str) -> bool:
    rules = _rules(language)
    if there == wanted or not there.startswith(wanted) or wanted[-1].isdigit():
        return there == wanted
    ending = there[len(wanted) :]
    return ending in rules.particles or (
        rules.endings and len(wanted) >= _SHORTEST_STEM and len(ending) <= _LONGEST_ENDING
    )


def _digit(char: str) -> str:
    if char.isdecimal() and not "0" <= char <= "9":
        return str(unicodedata.decimal(char))
    return char


def _number(word: str) -> str:
    """Without leading zeros: 08:30 and 8:30 are one time."""
    return word.lstrip("0") or "0" if word.isdecimal() else word


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("es"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith(("s", "e")) else word


def first_line(text: str) -> str:
    """The first line with anything in it, or an empty string."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def forms(variants: Iterable[str], language: str) -> frozenset[Words]:
    """The forms of all wordings of one answer, empty ones left out."""
    return frozenset(found for variant in variants if (found := form(variant, language)))
