"""Is any test item, or a near-duplicate of one, in the training data?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from carb_data.models import BonSet, Frozen
from carb_data.ngrams import NgramIndex

__all__ = ["THRESHOLD", "ContaminationReport", "check_contamination", "sharing"]

THRESHOLD = 0.7
"""Share of a test text's n-grams in one training text that makes it a near-duplicate; as PaLM (Chowdhery et al. 2022,
section 8) took 70% of 8-grams."""
MIN_BYTES = 32
"""A response shorter than this says nothing by itself: many items may be answered 'rice'. UTF-8 bytes,
since a Han character (3 bytes) tells more than a Latin letter (1 byte)."""
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

    train_texts: int
    test_items: int
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
    items = list(test)
    wanted = _Wanted(items)
    found: dict[int, Overlap] = {}
    positions: set[int] = set()
    texts = 0
    for position, entry in enumerate(train):
        texts += len(_all_texts(entry))
        for place, kind, score, text in wanted.hits(entry):
            positions.add(position)
            known = found.get(place)
            if known is None or (_STRENGTH[known.kind], known.score) < (_STRENGTH[kind], score):
                found[place] = Overlap(
                    item_id=wanted.texts[place].item_id,
                    field=wanted.texts[place].field,
                    kind=kind,
                    score=score,
                    train_position=position,
                    train_id=None if isinstance(entry, str) else entry.id,
                    train_text=text[:EXCERPT],
                    test_text=wanted.texts[place].text[:EXCERPT],
                )
    return ContaminationReport(
        train_texts=texts,
        test_items=len(items),
        threshold=THRESHOLD,
        overlaps=tuple(found[place] for place in sorted(found)),
        train_positions=tuple(sorted(positions)),
    )


def sharing(items: Sequence[BonSet]) -> Iterator[tuple[BonSet, BonSet]]:
    """Pairs of sets of which one holds a text of the other, or nearly, as ``check_contamination`` would find."""
    wanted, owners = _Wanted(items), {item.id: item for item in items}
    for item in items:
        for place, *_ in wanted.hits(item):
            yield owners[wanted.texts[place].item_id], item


@dataclass(frozen=True, slots=True)
class _Text:
    item_id: str
    field: str
    text: str


class _Wanted:
    """The texts of the test data, found by source item and by n-grams."""

    def __init__(self, items: Sequence[BonSet | str]) -> None:
        self.texts = [text for place, entry in enumerate(items) for text in _texts(entry, place)]
        self._sources: defaultdict[str, list[int]] = defaultdict(list)
        self._places: list[int] = []
        for place, text in enumerate(self.texts):
            if text.field == "source_item":
                self._sources[text.text].append(place)
            else:
                self._places.append(place)
        self._index = NgramIndex([self.texts[place].text for place in self._places], THRESHOLD)

    def hits(self, entry: str | BonSet) -> Iterator[tuple[int, Evidence, float, str]]:
        """What a training entry holds: place of a test text in ``texts``, evidence, score, and the training text."""
        if not isinstance(entry, str):
            for place in self._sources.get(entry.source_item, ()):
                yield place, "source", 1.0, entry.source_item
        for text in _all_texts(entry):
            for match in self._index.matches([text]):
                for copy in self._index.copies(match.indexed):
                    yield self._places[copy], "exact" if match.exact else "near", match.containment, text


def _texts(entry: BonSet | str, place: int) -> Iterator[_Text]:
    if isinstance(entry, str):
        yield _Text(str(place), "text", entry)
        return
    yield _Text(entry.id, "source_item", entry.source_item)
    yield _Text(entry.id, "prompt", entry.prompt_text)
    for response in (*entry.responses, *entry.perturbed):
        if len(response.text.encode("utf-8", "replace")) >= MIN_BYTES:
            yield _Text(entry.id, response.id, response.text)


def _all_texts(entry: str | BonSet) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return (entry.prompt_text, *(response.text for response in (*entry.responses, *entry.perturbed)))
