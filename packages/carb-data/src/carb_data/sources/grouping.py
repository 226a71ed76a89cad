"""Which items are one and the same, and which of several wrong answers keep the length of the right one secret."""

from __future__ import annotations

import random
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from carb_data.joined import Joined

T = TypeVar("T")


def plain(text: str) -> str:
    """The text as it is compared: NFKC, case folded, punctuation and white space as single spaces."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


_REPEATED = re.compile(r"(.{1,40}?)\1{15,}", re.DOTALL)
_LOOP = 20
"""Least characters of a part that comes again and again."""
_UNPACKED = 200
"""Bytes below which a text is too short for its packed size to say anything."""


def is_degenerate(text: str) -> bool:
    """Whether an answer is no answer: no letters, a broken character, or the same words over and over."""
    if not any(char.isalnum() for char in text) or "\ufffd" in text or _repeats(text) or _loops(text):
        return True
    parts = [part for line in text.splitlines() for part in re.split(r"[.!?。！？؟]+", line) if len(plain(part)) > 8]
    if len(parts) >= 4 and len({plain(part) for part in parts}) * 2 <= len(parts):
        return True
    content = text.encode("utf-8", "replace")
    return len(content) >= _UNPACKED and len(zlib.compress(content, 9)) * 6 < len(content)


def _repeats(text: str) -> bool:
    """Whether up to 40 characters stand 16 times in a row.

    The pattern alone takes milliseconds a text. Sixteen copies of ``size`` characters cover eight copies that
    begin at a multiple of ``8 * size``, so only a text that has those is searched.
    """
    return (
        any(
            text[start : start + 7 * size] == text[start + size : start + 8 * size]
            for size in range(1, 41)
            for start in range(0, len(text) - 8 * size + 1, 8 * size)
        )
        and _REPEATED.search(text) is not None
    )


def _loops(text: str) -> bool:
    """Whether 20 characters or more, words among them, stand three times in a row or more; four times for certain."""
    for start in range(0, len(text) - 3 * _LOOP + 1, _LOOP):
        size = text.find(text[start : start + _LOOP], start + _LOOP) - start
        part = text[start : start + size]
        if size > 0 and text[start : start + 3 * size] == 3 * part and any(map(str.isalnum, part)):
            return True
    return False


class SameItems:
    """Items that share a text, directly or through others, are one item: a split must not divide them."""

    def __init__(self) -> None:
        self._joined = Joined()
        self._owner: dict[str, str] = {}

    def add(self, item: str, text: str) -> None:
        """Say that ``item`` has ``text``, for example as its prompt in some language."""
        if key := plain(text):
            self._joined.join(item, self._owner.setdefault(key, item))

    def name(self, item: str) -> str:
        """The name that all items have which are the same as ``item``: the least of theirs."""
        return self._joined.name(item)


def of_mixed_length(
    own: int, ranked: Sequence[T], length: Callable[[T], int], count: int, random_: random.Random
) -> list[T]:
    """Choose ``count`` of ``ranked``, best first, so that the length of the right answer tells nothing.

    How many of the chosen are longer than the right answer is drawn evenly from 0 to ``count``, as far as there are
    enough of either: neither the longest nor the shortest nor the middle answer is right more often than by chance.

    Args:
        own: length of the right answer.
        ranked: wrong answers, best first.
        length: length of a wrong answer.
        count: The number of texts to choose.
        random_: A seeded generator of random numbers.
    """
    longer = [other for other in ranked if length(other) > own]
    others = [other for other in ranked if length(other) <= own]
    wanted = random_.randint(0, count)
    wanted = max(min(wanted, len(longer)), count - len(others))
    return [*longer[:wanted], *others[: count - wanted]][:count]
