"""Which texts hold most of the character n-grams of which others? Exact, and streaming on the larger side.

The smaller side is indexed: n-gram to texts. Texts of the larger side stream by in batches; each batch is one array of
code points, so that normalising, hashing and looking up are a few passes over arrays and not a loop over texts.

Containment is used, and not the Jaccard similarity that MinHash estimates, because it still sees a test item that
stands inside a longer training text: there the Jaccard similarity is near 0 and a MinHash index finds nothing.
Compared by ``benchmarks/bench_data.py``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from carb_data.extras import require

__all__ = ["NgramIndex", "normalise"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]
    Hashes = NDArray[np.uint64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.int64]

LENGTH = 8
"""Characters in an n-gram."""
LENGTH_SYLLABIC = 4
"""Characters in an n-gram that starts with a Han character, kana or Hangul: each of these is a syllable or more."""
BATCH_CHARACTERS = 2**20
"""Characters hashed at once: bounds the memory that streaming needs (about 100 bytes a character)."""
COMMON = 32
"""An n-gram in more of the indexed texts than this is boilerplate ("what is the most popular ...") and no evidence."""
LEAST = 6
"""A text with fewer n-grams of its own than this is found only where it stands by itself, unchanged."""

_DROPPED = 0
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, from the golden ratio (Knuth, TAOCP vol. 3, 6.4)


@cache
def _numpy() -> Any:
    return require("numpy", package="carb-data", extra="checks")


_FORMS = {"آ": "ا", "أ": "ا", "إ": "ا", "ٱ": "ا", "ى": "ي", "ئ": "ي", "ؤ": "و", "ة": "ه"}
"""Arabic letters that are written either way."""
_MARKS = ((0x0591, 0x05C7), (0x0610, 0x061A), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670), (0x06D6, 0x06ED))
"""Points of Hebrew and marks of Arabic, which most texts leave out, and the stroke that lengthens an Arabic word."""


@cache
def _characters() -> Codes:
    """Code point to code point: letters, marks and numbers stay, all others go.

    White space and punctuation go too, so that a text is found that was cut into words, or that lost its punctuation.
    """
    np = _numpy()
    table: Codes = np.full(0x110000, _DROPPED, dtype=np.uint32)
    for code in range(0x110000):
        if unicodedata.category(chr(code))[0] in "LMN":
            table[code] = code
    for form, plain in _FORMS.items():
        table[ord(form)] = ord(plain)
    for first, last in _MARKS:
        table[first : last + 1] = _DROPPED
    return table


@cache
def _syllabic() -> Flags:
    np = _numpy()
    table: Flags = np.zeros(0x110000, dtype=np.bool_)
    for first, last in ((0x1100, 0x11FF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0x20000, 0x3FFFF)):
        table[first : last + 1] = True
    return table


@dataclass(frozen=True, slots=True)
class _Batch:
    codes: Codes
    """Normalised code points of all texts, one after the other."""
    owners: NDArray[np.int64]
    """For each code point, which text it belongs to."""
    texts: Sequence[str]
    """The normalised texts."""


def _normalised(texts: Sequence[str]) -> _Batch:
    np = _numpy()
    folded = [unicodedata.normalize("NFKC", text).casefold() for text in texts]
    data = "".join(folded).encode("utf-32-le", "replace")
    codes = _characters()[np.frombuffer(data, dtype=np.uint32)]
    owners = np.repeat(np.arange(len(folded)), [len(text) for text in folded])
    kept = codes != _DROPPED
    codes, owners = codes[kept], owners[kept]
    ends = np.searchsorted(owners, np.arange(len(folded) + 1)).tolist()
    whole = codes.tobytes().decode("utf-32-le")
    texts = [unicodedata.normalize("NFC", whole[start:end]) for start, end in pairwise(ends)]
    return _Batch(codes, owners, texts)


def normalise(text: str) -> str:
    """The text as it is compared: NFKC, case folded, without punctuation, spaces and marks that may be left out."""
    return _normalised([text]).texts[0]


def _ngrams(batch: _Batch) -> tuple[Hashes, NDArray[np.int64]]:
    """Hash and owner of every n-gram that lies within one text."""
    np = _numpy()
    codes = batch.codes.astype(np.uint64)
    size = len(codes)
    if size < LENGTH_SYLLABIC:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    multiplier = np.uint64(_MULTIPLIER)
    value = np.zeros(size, dtype=np.uint64)
    short = value
    for offset in range(LENGTH):
        if offset == LENGTH_SYLLABIC:
            short = value.copy()
        rest = size - offset
        if rest <= 0:
            break
        value[:rest] = value[:rest] * multiplier + codes[offset:]
        value[:rest] ^= value[:rest] >> np.uint64(29)
    syllabic = _syllabic()[batch.codes]
    value = np.where(syllabic, short, value)
    last = np.arange(size) + np.where(syllabic, LENGTH_SYLLABIC, LENGTH) - 1
    inside = last < size
    inside[inside] = batch.owners[last[inside]] == batch.owners[inside]
    hashes = value[inside] * multiplier
    hashes ^= hashes >> np.uint64(32)
    return hashes, batch.owners[inside]


def _distinct(hashes: NDArray[Any], owners: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each n-gram of each text once, ordered by text and n-gram."""
    np = _numpy()
    order = np.lexsort((hashes, owners))
    hashes, owners = hashes[order], owners[order]
    first = np.ones(len(hashes), dtype=np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    return hashes[first], owners[first]


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


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of one batch of streamed texts."""

    start: int
    """Position of the batch's first text."""
    size: int
    matches: list[Match]


class NgramIndex:
    """An index of texts by their character n-grams, for texts that stream by."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        """Index ``texts``; ``threshold`` is the smallest containment that counts, in (0, 1]."""
        np = _numpy()
        copies: dict[str, list[int]] = {}
        for start, batch in _batches(texts):
            for position, text in enumerate(batch.texts, start):
                copies.setdefault(text, []).append(position)
        copies.pop("", None)  # punctuation alone is not evidence
        self._copies = list(copies.values())
        self._exact = {text: number for number, text in enumerate(copies)}
        all_owners, all_hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for start, batch in _batches(copies):
            hashes, owners = _distinct(*_ngrams(batch))
            all_owners.append(owners + start)
            all_hashes.append(hashes)
        owners, hashes = np.concatenate(all_owners), np.concatenate(all_hashes)
        order = np.argsort(hashes, kind="stable")
        owners, hashes = owners[order], hashes[order]
        keys, first, counts = np.unique(hashes, return_index=True, return_counts=True)
        own = counts <= COMMON
        self._keys, self._first, self._counts, self._owners = keys[own], first[own], counts[own], owners
        self._sizes = np.bincount(owners[np.repeat(own, counts)], minlength=len(copies))
        needed = np.maximum(np.ceil(threshold * self._sizes - 1e-9), 1)
        self._needed = np.where(self._sizes >= LEAST, needed, np.inf)
        # Hashes are uniform, so the first bits lead to the place of a key in one step, or to none.
        bits = max(8, min(26, len(self._keys).bit_length() + 2))
        self._shift = np.uint64(64 - bits)
        self._places = np.searchsorted(self._keys >> self._shift, np.arange(2**bits + 1)).astype(np.int32)

    def copies(self, indexed: int) -> list[int]:
        """Positions of all indexed texts that are the same once normalised as the ``indexed`` of a match."""
        return self._copies[indexed]

    def _find(self, hashes: Hashes) -> Places:
        """Position of each hash among the keys, or -1."""
        np = _numpy()
        place: Places = np.full(len(hashes), -1, dtype=np.int64)
        bucket = hashes >> self._shift
        at, end = self._places[bucket], self._places[bucket + np.uint64(1)]
        open_ = np.flatnonzero(at < end)
        at = at[open_]
        while len(open_):
            equal = self._keys[at] == hashes[open_]
            place[open_[equal]] = at[equal]
            more = ~equal & (at + 1 < end[open_])
            open_, at = open_[more], at[more] + 1
        return place

    def matches(self, texts: Iterable[str]) -> Iterator[Match]:
        """All matches of the texts that stream by; memory does not grow with their number."""
        for batch in self.batches(texts):
            yield from batch.matches

    def batches(self, texts: Iterable[str]) -> Iterator[Matches]:
        """The matches of one batch of streamed texts after the other."""
        for start, batch in _batches(texts):
            equal = {
                streamed: self._exact[text] for streamed, text in enumerate(batch.texts, start) if text in self._exact
            }
            found = [Match(indexed, streamed, 1.0, exact=True) for streamed, indexed in equal.items()]
            found += [match for match in self._close(batch, start) if equal.get(match.streamed) != match.indexed]
            yield Matches(start, len(batch.texts), found)

    def _close(self, batch: _Batch, start: int) -> Iterator[Match]:
        np = _numpy()
        hashes, streamed = _ngrams(batch)
        place = self._find(hashes)
        hit = place >= 0
        place, streamed = _distinct(place[hit], streamed[hit])
        counts = self._counts[place]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        indexed = self._owners[np.repeat(self._first[place], counts) + offsets]
        pairs = np.repeat(streamed, counts) * max(1, len(self._copies)) + indexed
        pairs, shared = np.unique(pairs, return_counts=True)
        at, of = np.divmod(pairs, max(1, len(self._copies)))
        enough = shared >= self._needed[of]
        containment = shared[enough] / self._sizes[of[enough]]
        for position, text, share in zip(at[enough].tolist(), of[enough].tolist(), containment.tolist(), strict=True):
            yield Match(text, start + position, share, exact=False)


def _batches(texts: Iterable[str]) -> Iterator[tuple[int, _Batch]]:
    """Batches of about ``BATCH_CHARACTERS``, each with the position of its first text."""
    start, size, group = 0, 0, list[str]()
    for text in texts:
        group.append(text)
        size += len(text) + 1
        if size >= BATCH_CHARACTERS:
            yield start, _normalised(group)
            start, size, group = start + len(group), 0, []
    if group:
        yield start, _normalised(group)
