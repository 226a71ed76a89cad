"""Texts as they are compared, and wrong answers among which the length of the right one tells nothing."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def plain(text: str) -> str:
    """The text as it is compared: NFKC, case folded, punctuation and white space as single spaces."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


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
