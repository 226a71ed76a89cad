"""Which texts hold most of the character n-grams of which others? Exact, and streaming on the larger side.

Containment is used, and not the Jaccard similarity that MinHash estimates, because it still sees a test item that
stands inside a longer training text: there the Jaccard similarity is near 0 and a MinHash index finds nothing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["NgramIndex", "normalise", "plain"]

LENGTH = 8
"""Characters in an n-gram."""
LENGTH_SYLLABIC = 4
"""Characters in an n-gram that starts with a Han character, kana or Hangul: each of these is a syllable or more."""
COMMON = 32
"""An n-gram in more of the indexed texts than this is boilerplate ("what is the most popular ...") and no evidence."""
LEAST = 6
"""A text with fewer n-grams of its own than this is found only where it stands by itself, unchanged."""

_FORMS = {"آ": "ا", "أ": "ا", "إ": "ا", "ٱ": "ا", "ى": "ي", "ئ": "ي", "ؤ": "و", "ة": "ه"}
"""Arabic letters that are written either way."""
_MARKS = ((0x0591, 0x05C7), (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06ED))
"""Points of Hebrew and marks of Arabic, which most texts leave out, and the stroke that lengthens an Arabic word."""
_SYLLABIC = (
    ("\u1100", "\u11ff"),
    ("\u3040", "\u30ff"),
    ("\u3400", "\u9fff"),
    ("\uac00", "\ud7af"),
    ("\U00020000", "\U0003ffff"),
)


class _Characters(dict[int, str | None]):
    """Code point to what stands for it: letters, marks and numbers stay, all others go, white space among them.

    So a text is found that was cut into words, or that lost its punctuation.
    """

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        kept = unicodedata.category(char)[0] in "LMN" and not any(first <= code <= last for first, last in _MARKS)
        self[code] = _FORMS.get(char, char) if kept else None
        return self[code]


_CHARACTERS = _Characters()


def normalise(text: str) -> str:
    """The text as it is compared: NFKC, case folded, without punctuation, spaces and marks that may be left out."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFC", folded.translate(_CHARACTERS))


def plain(text: str) -> str:
    """The words of a text as they are compared: NFKC, case folded, punctuation and white space as single spaces."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


def ngrams(text: str) -> set[str]:
    """The n-grams of a normalised text."""
    size = len(text)
    found = set()
    for start, char in enumerate(text):
        end = start + (LENGTH_SYLLABIC if char >= "\u1100" and _is_syllabic(char) else LENGTH)
        if end <= size:
            found.add(text[start:end])
    return found


def _is_syllabic(char: str) -> bool:
    return any(first <= char <= last for first, last in _SYLLABIC)


@dataclass(frozen=True, slots=True)
class Match:
    """One streamed text that holds at least the asked share of the n-grams of one indexed text."""

    indexed: int
    """Number of the indexed text; ``NgramIndex.copies`` gives the positions of all texts that it stands for."""
    streamed: int
    """Position of the streamed text."""
    containment: float
    """Share of the indexed text's own n-grams (distinct, without boilerplate) that the streamed text holds, 0 to 1."""
    exact: bool
    """Whether both texts are the same once normalised."""


class NgramIndex:
    """An index of texts by their character n-grams, for texts that stream by."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        """Index ``texts``; ``threshold`` is the smallest containment that counts, in (0, 1]."""
        copies: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            copies.setdefault(normalise(text), []).append(position)
        copies.pop("", None)  # punctuation alone is not evidence
        self._copies = list(copies.values())
        self._exact = {text: number for number, text in enumerate(copies)}
        grams: dict[str, list[int]] = {}
        for number, text in enumerate(copies):
            for gram in ngrams(text):
                grams.setdefault(gram, []).append(number)
        self._grams = {gram: owners for gram, owners in grams.items() if len(owners) <= COMMON}
        self._sizes = Counter(owner for owners in self._grams.values() for owner in owners)
        self._threshold = threshold

    def copies(self, indexed: int) -> list[int]:
        """Positions of all indexed texts that are the same once normalised as the ``indexed`` of a match."""
        return self._copies[indexed]

    def matches(self, texts: Iterable[str]) -> Iterator[Match]:
        """All matches of the texts that stream by; memory does not grow with their number."""
        for streamed, text in enumerate(texts):
            normal = normalise(text)
            exact = self._exact.get(normal)
            if exact is not None:
                yield Match(exact, streamed, 1.0, exact=True)
            shared = Counter(owner for gram in ngrams(normal) for owner in self._grams.get(gram, ()))
            for indexed, count in sorted(shared.items()):
                own = self._sizes[indexed]
                if indexed != exact and own >= LEAST and count >= math.ceil(self._threshold * own - 1e-9):
                    yield Match(indexed, streamed, count / own, exact=False)
