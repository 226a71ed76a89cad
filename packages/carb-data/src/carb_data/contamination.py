"""Is any test item, or a near-duplicate of one, in the training data?"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from carb_data.errors import CarbError
from carb_data.extras import require
from carb_data.models import BonSet, Frozen
from carb_data.ngrams import Match, NgramIndex

__all__ = ["THRESHOLD", "ContaminationReport", "check_contamination"]

THRESHOLD = 0.7
"""Share of a test text's n-grams in one training text that makes it a near-duplicate; as PaLM (Chowdhery et al. 2022,
section 8) took 70% of 8-grams."""
MIN_BYTES = 32
"""A response shorter than this says nothing by itself: many items may be answered 'rice'. UTF-8 bytes of the
normalised text, since a Han character (3 bytes) tells more than a Latin letter (1 byte)."""
SIMILARITY = 0.95
EXCERPT = 160

Embed = Callable[[Sequence[str]], Any]
"""Texts to vectors: anything numpy reads as an array of shape (texts, dimensions); directions are compared."""
Kind = Literal["source", "exact", "near", "similar"]
_STRENGTH: dict[Kind, int] = {"source": 3, "exact": 2, "near": 1, "similar": 0}


class Overlap(Frozen):
    """One text of one test item that the training data holds, with the strongest evidence found."""

    item_id: str
    """Id of the test set; for a plain test text its position, counted from 0."""
    field: str
    """``prompt``, ``text`` (a plain text), ``source_item``, or the id of a response."""
    kind: Kind
    """``source``: both come from one source item; ``exact``: the same text once normalised; ``near``: the training
    text holds most of its n-grams; ``similar``: the embeddings are close."""
    score: float
    """Containment for ``near``, cosine for ``similar``, else 1."""
    train_position: int
    """Position of the training entry, counted from 0."""
    train_id: str | None
    """Its id where it is a set."""
    train_text: str
    test_text: str
    """Both cut to ``EXCERPT`` characters."""


class ContaminationReport(Frozen):
    """What of the test data is in the training data."""

    train_entries: int
    train_texts: int
    test_items: int
    test_texts: int
    """Texts looked for: prompts, and responses of ``min_bytes`` or more."""
    threshold: float
    similarity: float | None
    """Least cosine looked for; null where no embedder was given."""
    overlaps: tuple[Overlap, ...]
    """Overlaps found, at most one for each text of the test data, in the order of the test data."""
    train_positions: tuple[int, ...]
    """Positions of all training entries with any overlap, counted from 0: what to leave out of training."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.overlaps

    @property
    def contaminated(self) -> tuple[str, ...]:
        """Ids of the test items with any overlap, in order."""
        return tuple(dict.fromkeys(overlap.item_id for overlap in self.overlaps))

    @property
    def counts(self) -> dict[str, int]:
        """Number of test items by their strongest evidence."""
        strongest: dict[str, Kind] = {}
        for overlap in self.overlaps:
            known = strongest.get(overlap.item_id)
            if known is None or _STRENGTH[overlap.kind] > _STRENGTH[known]:
                strongest[overlap.item_id] = overlap.kind
        found = Counter(strongest.values())
        return {kind: found[kind] for kind in _STRENGTH}


@dataclass(frozen=True, slots=True)
class _Text:
    item_id: str
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class _TrainText:
    position: int
    name: str | None
    text: str


def check_contamination(
    train: Iterable[str | BonSet],
    test: Iterable[BonSet | str],
    *,
    threshold: float = THRESHOLD,
    min_bytes: int = MIN_BYTES,
    embed: Embed | None = None,
    similarity: float = SIMILARITY,
    progress: Callable[[int], None] | None = None,
) -> ContaminationReport:
    """Look for the test items in the training data: by source item, exact text, n-grams, and embeddings.

    ``train`` is streamed, so its size does not matter to memory; ``test`` is held and indexed. Every match at or above
    the threshold is found (there is no sampling), and none below is reported.

    Args:
        train: texts (a prompt, a document, a conversation), or sets, whose prompt and responses are each one text.
        test: sets, or plain texts.
        threshold: least share, in (0, 1], of a test text's distinct character n-grams in one training text.
        min_bytes: responses shorter than this, in UTF-8 bytes, are not looked for; prompts always are.
        embed: the function from texts to vectors. If given, texts whose vectors have at least the cosine ``similarity``
            are found too, paraphrases and translations among them, as far as the embedder sees them.
        similarity: least cosine of two vectors of ``embed``, in [-1, 1].
        progress: the function that is called now and then with the number of training texts read.

    Raises:
        CarbError: a threshold out of range.
        MissingExtraError: numpy is not installed (extra ``checks``).
    """
    if not 0 < threshold <= 1 or not -1 <= similarity <= 1:
        raise CarbError(f"threshold must be in (0, 1] and similarity in [-1, 1]; got {threshold} and {similarity}.")
    finder = _Finder(list(test), threshold, min_bytes, embed, similarity)
    finder.read(train, progress)
    return ContaminationReport(
        train_entries=finder.entries,
        train_texts=finder.train_texts,
        test_items=finder.items,
        test_texts=len(finder.texts),
        threshold=threshold,
        similarity=similarity if embed is not None else None,
        overlaps=tuple(finder.found[place] for place in sorted(finder.found)),
        train_positions=tuple(sorted(finder.positions)),
    )


class _Finder:
    """The indexed test texts, and the strongest overlap found so far for each."""

    def __init__(
        self, test: list[BonSet | str], threshold: float, least: int, embed: Embed | None, similarity: float
    ) -> None:
        self.items = len(test)
        self.entries = self.train_texts = 0
        self.texts = [text for place, entry in enumerate(test) for text in _texts(entry, place, least)]
        self.found: dict[int, Overlap] = {}
        self.positions: set[int] = set()
        self._window: dict[int, _TrainText] = {}  # handed to the index and not yet matched
        self._strongest: dict[int, tuple[int, float]] = {}
        self._sources: dict[str, list[int]] = {}
        for place, text in enumerate(self.texts):
            if text.field == "source_item":
                self._sources.setdefault(text.text, []).append(place)
        self._places = [place for place, text in enumerate(self.texts) if text.field != "source_item"]
        looked_for = [self.texts[place].text for place in self._places]
        self._index = NgramIndex(looked_for, threshold)
        self._similar = None if embed is None else _Similar(looked_for, embed, similarity)

    def read(self, train: Iterable[str | BonSet], progress: Callable[[int], None] | None) -> None:
        for batch in self._index.batches(self._stream(train)):
            for match in batch.matches:
                self._keep_all(match, self._window[match.streamed])
            if self._similar is not None:
                entries = [self._window[batch.start + place] for place in range(batch.size)]
                for indexed, streamed, cosine in self._similar.matches([entry.text for entry in entries]):
                    self._keep(self._places[indexed], "similar", cosine, entries[streamed])
            for place in range(batch.start, batch.start + batch.size):
                del self._window[place]
            if progress is not None:
                progress(self.train_texts)

    def _stream(self, train: Iterable[str | BonSet]) -> Iterator[str]:
        for position, entry in enumerate(train):
            self.entries += 1
            texts: tuple[str, ...] = (entry,) if isinstance(entry, str) else _all_texts(entry)
            name = None if isinstance(entry, str) else entry.id
            if not isinstance(entry, str):
                for place in self._sources.get(entry.source_item, ()):
                    self._keep(place, "source", 1.0, _TrainText(position, name, entry.source_item))
            for text in texts:
                self._window[self.train_texts] = _TrainText(position, name, text)
                self.train_texts += 1
                yield text

    def _keep_all(self, match: Match, entry: _TrainText) -> None:
        """For every test text that is the same, unless an earlier training text was as strong evidence for them."""
        strength = (_STRENGTH["exact" if match.exact else "near"], match.containment)
        if self._strongest.get(match.indexed, (-1, 0.0)) >= strength:
            self.positions.add(entry.position)
            return
        self._strongest[match.indexed] = strength
        for position in self._index.copies(match.indexed):
            self._keep(self._places[position], "exact" if match.exact else "near", match.containment, entry)

    def _keep(self, place: int, kind: Kind, score: float, entry: _TrainText) -> None:
        self.positions.add(entry.position)
        known = self.found.get(place)
        if known is not None and (_STRENGTH[known.kind], known.score) >= (_STRENGTH[kind], score):
            return
        self.found[place] = Overlap(
            item_id=self.texts[place].item_id,
            field=self.texts[place].field,
            kind=kind,
            score=score,
            train_position=entry.position,
            train_id=entry.name,
            train_text=entry.text[:EXCERPT],
            test_text=self.texts[place].text[:EXCERPT],
        )


def _texts(entry: BonSet | str, place: int, least: int) -> Iterator[_Text]:
    if isinstance(entry, str):
        yield _Text(str(place), "text", entry)
        return
    yield _Text(entry.id, "source_item", entry.source_item)
    yield _Text(entry.id, "prompt", entry.prompt_text)
    for response in (*entry.responses, *entry.perturbed):
        if len(response.text.encode("utf-8", "replace")) >= least:
            yield _Text(entry.id, response.id, response.text)


def _all_texts(item: BonSet) -> tuple[str, ...]:
    return (item.prompt_text, *(response.text for response in (*item.responses, *item.perturbed)))


class _Similar:
    def __init__(self, texts: Sequence[str], embed: Embed, similarity: float) -> None:
        self._embed = functools.partial(_unit_vectors, embed)
        self._least = similarity
        self._vectors = self._embed(texts) if texts else None

    def matches(self, texts: Sequence[str]) -> Iterator[tuple[int, int, float]]:
        np = require("numpy", package="carb-data", extra="checks")
        if self._vectors is None or not texts:
            return
        cosines = self._vectors @ self._embed(texts).T
        for indexed, streamed in zip(*(found.tolist() for found in np.nonzero(cosines >= self._least)), strict=True):
            yield indexed, streamed, float(cosines[indexed, streamed])


def _unit_vectors(embed: Embed, texts: Sequence[str]) -> Any:
    np = require("numpy", package="carb-data", extra="checks")
    vectors = np.asarray(embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise CarbError(f"The embedder gave an array of shape {vectors.shape} for {len(texts)} texts.")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
