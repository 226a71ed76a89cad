"""Is any test item, or a near-duplicate of one, in the training data? By the character n-grams of
both.

The index is exact, and streams on the larger side. The measure is containment, not the Jaccard
similarity that MinHash estimates. Containment still sees a test item inside a longer training text;
there the Jaccard similarity is near 0, and a MinHash index finds nothing.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from carb_data.models import BonSet, Frozen, cited
from carb_data.packaged import resource

THRESHOLD = 0.7
"""Share of a test text's n-grams in one training text that makes it a near-duplicate. PaLM
(Chowdhery et al. 2022, section 8) took 70% of 8-grams."""
MIN_BYTES = 32
"""A response shorter than this is no evidence by itself: many items may be answered 'rice'. UTF-8
bytes, since a Han character (3 bytes) carries more than a Latin letter (1 byte)."""
EXCERPT = 160

Entry = str | BonSet
"""A text, or a set with all its texts."""
Evidence = Literal["source", "fact", "exact", "near"]
_STRENGTH: dict[Evidence, int] = {"source": 3, "fact": 2, "exact": 1, "near": 0}


class Overlap(Frozen):
    """One text of one test item that the training data holds, with the strongest evidence found."""

    item_id: str
    """Id of the test set; for a plain test text its position, counted from 0."""
    field: str
    """``prompt``, ``text`` (a plain text), ``source_item``, ``fact``, or the id of a response."""
    kind: Evidence
    """``source``: both come from one source item; ``fact``: answers of both follow one fact;
    ``exact``: the same text once normalised; ``near``: the training text holds most of its
    n-grams."""
    score: float
    """Containment for ``near``, else 1."""
    train_position: int
    """Position of the training entry, counted from 0."""
    train_id: str | None
    """Its id where it is a set."""
    train_text: str
    test_text: str
    """Both cut to ``EXCERPT`` characters."""

    @property
    def strength(self) -> tuple[int, float]:
        """The evidence, in the compared form."""
        return _STRENGTH[self.kind], self.score


class ContaminationReport(Frozen):
    """The overlap of test data and training data."""

    train_texts: int
    """Number of training texts; each prompt and each response of a set is one."""
    test_items: int
    threshold: float
    """Share of a test text's n-grams that makes a near-duplicate, 0 to 1."""
    overlaps: tuple[Overlap, ...]
    """Overlaps found, at most one for each text of the test data, in the order of the test data."""
    train_positions: tuple[int, ...]
    """Positions of all training entries with any overlap, counted from 0; leave these out of
    training."""

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
        rising = sorted(self.overlaps, key=lambda overlap: _STRENGTH[overlap.kind])
        strongest = {overlap.item_id: overlap.kind for overlap in rising}
        counts = Counter(strongest.values())
        return {kind: counts[kind] for kind in _STRENGTH}


def check_contamination(
    train: Iterable[Entry],
    test: Iterable[Entry],
) -> ContaminationReport:
    """Look for the test items in the training data: by source item, fact, exact text and n-grams.

    ``train`` is streamed, so its size does not matter to memory; ``test`` is held and indexed. A
    near-duplicate is a training text that holds the share ``THRESHOLD`` of a test text's character
    n-grams, or more. Every one is found, since there is no sampling. PaLM took 70% of 8-grams
    (Chowdhery et al. 2022, arXiv 2204.02311, section 8).

    Args:
        train: texts (a prompt, a document, a conversation), or sets, whose prompt and responses are
            each one text.
        test: sets, or plain texts. Responses shorter than ``MIN_BYTES`` (of UTF-8) are not looked
            for; prompts always are.

    Returns:
        ``.overlaps``: at most one for each test text, with its strongest evidence.
        ``.train_positions``: the positions of training entries to leave out, counted from 0.
    """
    items = list(test)
    wanted = _Wanted(items)
    overlaps: dict[int, Overlap] = {}
    positions = set()
    texts = 0
    for position, entry in enumerate(train):
        train_id = None
        if isinstance(entry, BonSet):
            train_id = entry.id
        texts += len(_all_texts(entry))
        for number, kind, score, text in wanted.hits(entry):
            positions.add(position)
            tested = wanted.texts[number]
            overlap = Overlap(
                item_id=tested.item_id,
                field=tested.field,
                kind=kind,
                score=score,
                train_position=position,
                train_id=train_id,
                train_text=text[:EXCERPT],
                test_text=tested.text[:EXCERPT],
            )
            known = overlaps.get(number)
            if known is None or known.strength < overlap.strength:
                overlaps[number] = overlap
    return ContaminationReport(
        train_texts=texts,
        test_items=len(items),
        threshold=THRESHOLD,
        overlaps=tuple(overlaps[number] for number in sorted(overlaps)),
        train_positions=tuple(sorted(positions)),
    )


def sharing(items: Sequence[BonSet]) -> Iterator[tuple[BonSet, BonSet]]:
    """Pairs of sets where one holds a text of the other, or nearly, as ``check_contamination``
    would find."""
    wanted = _Wanted(items)
    owners = {item.id: item for item in items}
    for item in items:
        for number, *_ in wanted.hits(item):
            yield owners[wanted.texts[number].item_id], item


@dataclass(frozen=True, slots=True)
class _Text:
    item_id: str
    field: str
    text: str


class _Wanted:
    """The texts of the test data, found by source item, fact and n-grams."""

    def __init__(self, items: Sequence[Entry]) -> None:
        self.texts: list[_Text] = []
        for number, entry in enumerate(items):
            self.texts += _texts(entry, number)
        self._named: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._positions: list[int] = []
        indexed = []
        for number, one in enumerate(self.texts):
            if one.field in _NAMES:
                self._named[one.field, one.text].append(number)
            else:
                self._positions.append(number)
                indexed.append(one.text)
        self._index = NgramIndex(indexed, THRESHOLD)

    def hits(self, entry: Entry) -> Iterator[tuple[int, Evidence, float, str]]:
        """The test texts in a training entry: number of a test text in ``texts``, evidence, score,
        and the training text."""
        if not isinstance(entry, str):
            for field, name in _names(entry):
                kind = _NAMES[field]
                for number in self._named.get((field, name), ()):
                    yield number, kind, 1.0, name
        for text in _all_texts(entry):
            for match in self._index.matches([text]):
                evidence: Evidence = "near"
                if match.exact:
                    evidence = "exact"
                for copy in self._index.copies(match.indexed):
                    number = self._positions[copy]
                    yield number, evidence, match.containment, text


def _texts(entry: Entry, number: int) -> Iterator[_Text]:
    if isinstance(entry, str):
        yield _Text(str(number), "text", entry)
        return
    for field, name in _names(entry):
        yield _Text(entry.id, field, name)
    yield _Text(entry.id, "prompt", entry.prompt_text)
    for response in entry.answers:
        content = response.text.encode("utf-8", "replace")
        if len(content) >= MIN_BYTES:
            yield _Text(entry.id, response.id, response.text)


_NAMES: dict[str, Evidence] = {"source_item": "source", "fact": "fact"}


def _names(entry: BonSet) -> Iterator[tuple[str, str]]:
    """Ties between sets that do not depend on their texts, by field."""
    yield "source_item", entry.source_item
    for fact in cited(entry.answers):
        yield "fact", fact


def _all_texts(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    texts = [response.text for response in entry.answers]
    return (entry.prompt_text, *texts)


# which texts hold most of the character n-grams of which others

LENGTH = 8
"""Characters in an n-gram."""
LENGTH_SYLLABIC = 4
"""Characters in an n-gram that starts with a Han character, kana or Hangul: each of these is a
syllable or more."""
COMMON = 32
"""An n-gram in more of the indexed texts than this is boilerplate ("what is the most popular ...")
and no evidence."""
LEAST = 6
"""A text with fewer n-grams of its own than this is found only where it stands by itself,
unchanged."""

_CLASSES: dict[str, Any] = resource("characters")
"""``forms``: Arabic letters that are written either way. ``marks``: points of Hebrew and marks of
Arabic, which most texts leave out, and the stroke that lengthens an Arabic word. ``syllabic``: Han,
kana and Hangul."""
_FORMS: dict[str, str] = _CLASSES["forms"]
_MARK = re.compile(f"[{_CLASSES['marks']}]")


class _Characters(dict[int, str | None]):
    """Code point to its replacement: letters, marks and numbers stay, all others go, white space
    among them.

    So a text is found that was cut into words, or that lost its punctuation.
    """

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        category = unicodedata.category(char)
        self[code] = None
        if category[0] in "LMN" and not _MARK.match(char):
            self[code] = _FORMS.get(char, char)
        return self[code]


_CHARACTERS = _Characters()
_ASCII = bytes(range(128))
_ASCII_LEFT_OUT = bytes(code for code in _ASCII if not chr(code).isalnum())


def normalise(text: str) -> str:
    """The form of a text in which texts are compared.

    It is in Unicode's form NFKC (Unicode Standard Annex 15) with case folded. Punctuation, spaces
    and optional marks, such as Arabic vowel signs, are taken out.
    """
    if text.isascii():  # the same, eight times as fast
        return text.lower().encode().translate(None, _ASCII_LEFT_OUT).decode()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFC", folded.translate(_CHARACTERS))


def plain(text: str) -> str:
    """The words of a text as they are compared: NFKC, case folded, punctuation and white space as
    single spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"[^\W_]+", folded))


_SYLLABLES: str = _CLASSES["syllabic"]
_SYLLABIC = re.compile(f"[{_SYLLABLES}]")
_NGRAM = re.compile(
    rf"(?=([{_SYLLABLES}].{{{LENGTH_SYLLABIC - 1}}}|[^{_SYLLABLES}].{{{LENGTH - 1}}}))", re.DOTALL
)


def windows(text: str) -> list[str]:
    """The n-grams of a normalised text, one for each place where one starts."""
    if _SYLLABIC.search(text):
        return _NGRAM.findall(text)
    starts = range(len(text) - LENGTH + 1)
    return [text[start : start + LENGTH] for start in starts]


@dataclass(frozen=True, slots=True)
class Match:
    """One streamed text that holds at least the asked share of the n-grams of one indexed text."""

    indexed: int
    """Number of the indexed text; ``NgramIndex.copies`` gives the positions of all texts that it
    stands for."""
    streamed: int
    """Position of the streamed text."""
    containment: float
    """Share of the indexed text's own n-grams (distinct, without boilerplate) that the streamed
    text holds, 0 to 1."""
    exact: bool
    """Whether both texts are the same once normalised."""


class NgramIndex:
    """An index of texts by their character n-grams, for texts that stream by."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        """Index ``texts``; ``threshold`` is the smallest containment that counts, in (0, 1]."""
        copies: defaultdict[str, list[int]] = defaultdict(list)
        for position, text in enumerate(texts):
            copies[normalise(text)].append(position)
        copies.pop("", None)  # punctuation alone is not evidence
        self._copies = [*copies.values()]
        self._exact: dict[str, int] = {}
        grams: defaultdict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(copies):
            self._exact[text] = number
            for gram in {*windows(text)}:
                grams[gram].append(number)
        self._grams = {gram: owners for gram, owners in grams.items() if len(owners) <= COMMON}
        self._sizes = Counter(chain.from_iterable(self._grams.values()))
        self._threshold = threshold

    def copies(self, indexed: int) -> list[int]:
        """Positions of all indexed texts whose normal form is that of the text at ``indexed``."""
        return self._copies[indexed]

    def matches(self, texts: Iterable[str]) -> Iterator[Match]:
        """All matches of the texts that stream by; memory does not grow with their number."""
        for streamed, text in enumerate(texts):
            normal = normalise(text)
            exact = self._exact.get(normal)
            if exact is not None:
                yield Match(exact, streamed, 1.0, exact=True)
            grams = {*windows(normal)}
            owners = [self._grams.get(gram, ()) for gram in grams]
            shared = Counter(chain.from_iterable(owners))
            for indexed, count in sorted(shared.items()):
                size = self._sizes[indexed]
                if indexed == exact or size < LEAST:
                    continue
                least = math.ceil(self._threshold * size - 1e-9)
                if count >= least:
                    yield Match(indexed, streamed, count / size, exact=False)
