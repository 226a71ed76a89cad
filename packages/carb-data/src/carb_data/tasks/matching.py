"""Does a short English answer say what a person said?

The published scorer of BLEnD (Myung et al. 2024, arXiv:2406.09948, section 4; ``evaluation/exact_match.py``) takes an
answer as right when it contains a person's answer as a string, or all its words after lemmatising. This module follows
it with light rules instead of a lemmatiser, and differs on purpose in one point: a string must be met at the borders
of words, so that "rice" is not found in "price", nor "1" in "10".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from carb_data.sources.blend_answers import normalise

MOST_PARTS = 3
"""Alternatives that a short answer may name, divided by commas and the like."""
MOST_WORDS = 15
"""Words of an answer beside the one that is looked for; more are a list, or a text, and no short answer."""
_DIVIDER = re.compile(r"[,;/|،؛、，；・·•\n]|\s[-–—]\s")
_SHORT_PART = 4
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Words = tuple[str, ...]
"""The words of a text in the form in which they are compared."""


@lru_cache(maxsize=4096)
def form(text: str) -> Words:
    """The words of a text: lower case, digits of all scripts as 0-9, without punctuation, articles and accents."""
    text = "".join(_digit(char) for char in unicodedata.normalize("NFKC", text).replace("\u200b", ""))
    text = re.sub(r"(?<=\d)[,،٬](?=\d{3}(?!\d))", "", text)
    plain = normalise(text).split() or re.findall(r"\w+", text.casefold())  # the mark "A" is no article
    return tuple(_number(str(_NUMBER_WORDS.index(word)) if word in _NUMBER_WORDS else word) for word in plain)


def says(response: Words, answer: Words) -> bool:
    """Whether a response contains an answer: its words one after the other, or all of them somewhere.

    Answers with digits must be met in one piece, since 8:30 is not 30:8. An empty answer is said by nothing.
    """
    if not answer or not response:
        return False
    size = len(answer)
    together = any(response[start : start + size] == answer for start in range(len(response) - size + 1))
    if together or any(char.isdigit() for word in answer for char in word):
        return together
    return set(answer) <= set(response)


def is_list(text: str) -> bool:
    """Whether a text names so many things that containing the answer among them says nothing.

    A line of the commonest answers contains somebody's answer to many questions. Parts count where they are short: a
    sentence with commas is no list.
    """
    parts = [part for part in _DIVIDER.split(text) if part.strip()]
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


def first_line(text: str) -> str:
    """The first line with anything in it, or an empty string."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def forms(texts: Iterable[str]) -> set[Words]:
    """The different forms of several texts, without empty ones."""
    return {found for text in texts if (found := form(text))}


def _digit(char: str) -> str:
    if char.isdecimal() and not "0" <= char <= "9":
        return str(unicodedata.decimal(char))
    return char


def _number(word: str) -> str:
    """Without leading zeros: 08:30 and 8:30 are one time."""
    return word.lstrip("0") or "0" if word.isdecimal() else word
