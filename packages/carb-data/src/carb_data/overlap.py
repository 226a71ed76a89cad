"""Is any test item, or a near-duplicate of one, in the training data?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from carb_data.models import BonSet, Frozen
from carb_data.ngrams import Match, NgramIndex

__all__ = ["THRESHOLD", "ContaminationReport", "check_contamination", "sharing"]

THRESHOLD = 0.7
"""Share of a test text's n-grams in one training text that makes it a near-duplicate; as PaLM (Chowdhery et al. 2022,
section 8) took 70% of 8-grams."""
MIN_BYTES = 32
"""A response shorter than this says nothing by itself: many items may be answered 'rice'. UTF-8 bytes of the
normalised text, since a Han character (3 bytes) tells more than a Latin letter (1 byte)."""
EXCERPT = 160

Evidence = Literal["source", "exact", "near"]
_STRENGTH: dict[Evidence, int] = {"source": 2, "exact": 1, "near": 0}


class Overlap(Frozen):
    """One text of one test item that the training data holds, with the strongest evidence found."""

    item_id: str
    """Id of the test set; for a plain test text its position, counted from 0."""
    field: str
    """``prompt``, ``text`` (a plain text), ``source_item``, or the id of a response."""
    kind: Evidence
    """``source``: both come from one source item; ``exact``: the same text once normalised; ``near``: the training
    text holds most of its n-grams."""
    score: float
    """Containment for ``near``, else 1."""
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
    """Texts looked for: prompts, and responses of ``MIN_BYTES`` or more."""
    threshold: float
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
        strongest: dict[str, Evidence] = {}
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
) -> ContaminationReport:
    """Look for the test items in the training data: by source item, exact text and n-grams.

    ``train`` is streamed, so its size does not matter to memory; ``test`` is held and indexed. Every match at or above
    ``THRESHOLD`` is found (there is no sampling), and none below is reported.

    Args:
        train: texts (a prompt, a document, a conversation), or sets, whose prompt and responses are each one text.
        test: sets, or plain texts. Responses shorter than ``MIN_BYTES`` are not looked for; prompts always are.
    """
    finder = _Finder(list(test))
    for match in finder.index.matches(finder.stream(train)):
        finder.keep_all(match)
    return ContaminationReport(
        train_entries=finder.entries,
        train_texts=finder.train_texts,
        test_items=finder.items,
        test_texts=len(finder.texts),
        threshold=THRESHOLD,
        overlaps=tuple(finder.found[place] for place in sorted(finder.found)),
        train_positions=tuple(sorted(finder.positions)),
    )


class _Finder:
    """The indexed test texts, and the strongest overlap found so far for each."""

    def __init__(self, test: list[BonSet | str]) -> None:
        self.items = len(test)
        self.entries = self.train_texts = 0
        self.texts = [text for place, entry in enumerate(test) for text in _texts(entry, place)]
        self.found: dict[int, Overlap] = {}
        self.positions: set[int] = set()
        self._now = _TrainText(0, None, "")  # what the index reads
        self._strongest: dict[int, tuple[int, float]] = {}
        self._sources: dict[str, list[int]] = {}
        for place, text in enumerate(self.texts):
            if text.field == "source_item":
                self._sources.setdefault(text.text, []).append(place)
        self._places = [place for place, text in enumerate(self.texts) if text.field != "source_item"]
        self.index = NgramIndex([self.texts[place].text for place in self._places], THRESHOLD)

    def stream(self, train: Iterable[str | BonSet]) -> Iterator[str]:
        """The training texts; what shares a source item with the test data is kept on the way."""
        for position, entry in enumerate(train):
            self.entries += 1
            texts: tuple[str, ...] = (entry,) if isinstance(entry, str) else _all_texts(entry)
            name = None if isinstance(entry, str) else entry.id
            if not isinstance(entry, str):
                for place in self._sources.get(entry.source_item, ()):
                    self._keep(place, "source", 1.0, _TrainText(position, name, entry.source_item))
            for text in texts:
                self._now = _TrainText(position, name, text)
                self.train_texts += 1
                yield text

    def keep_all(self, match: Match) -> None:
        """For every test text that is the same, unless an earlier training text was as strong evidence for them."""
        entry = self._now
        strength = (_STRENGTH["exact" if match.exact else "near"], match.containment)
        if self._strongest.get(match.indexed, (-1, 0.0)) >= strength:
            self.positions.add(entry.position)
            return
        self._strongest[match.indexed] = strength
        for position in self.index.copies(match.indexed):
            self._keep(self._places[position], "exact" if match.exact else "near", match.containment, entry)

    def _keep(self, place: int, kind: Evidence, score: float, entry: _TrainText) -> None:
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


def sharing(items: Sequence[BonSet]) -> Iterator[tuple[BonSet, BonSet]]:
    """Pairs of sets of which one holds a text of the other, or nearly, as ``check_contamination`` would find."""
    owners = [(item, text.text) for item in items for text in _texts(item, 0) if text.field != "source_item"]
    index = NgramIndex([text for _, text in owners], THRESHOLD)
    everything = [(item, text) for item in items for text in _all_texts(item)]
    for match in index.matches(text for _, text in everything):
        for position in index.copies(match.indexed):
            yield owners[position][0], everything[match.streamed][0]


def _texts(entry: BonSet | str, place: int) -> Iterator[_Text]:
    if isinstance(entry, str):
        yield _Text(str(place), "text", entry)
        return
    yield _Text(entry.id, "source_item", entry.source_item)
    yield _Text(entry.id, "prompt", entry.prompt_text)
    for response in (*entry.responses, *entry.perturbed):
        if len(response.text.encode("utf-8", "replace")) >= MIN_BYTES:
            yield _Text(entry.id, response.id, response.text)


def _all_texts(item: BonSet) -> tuple[str, ...]:
    return (item.prompt_text, *(response.text for response in (*item.responses, *item.perturbed)))
