"""What people of each place of BLEnD answered: the files, and the answer on which a place agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.sources.answers import Meaning, Thesaurus, is_answer, meaning
from carb_data.sources.blend_files import PLACES, Entry, Item, items_file, read_items, read_topics
from carb_data.sources.grouping import SameItems

_MIN_VOTES = 2
_MAX_UNKNOWING = 2
SEVERAL = ",;،、/"
"""Marks between several wordings in one."""


@dataclass(frozen=True, slots=True)
class Top:
    """The answer of a place to a question, when its people agree on one."""

    place: str
    entry: Entry
    text: str
    local: str
    """The answer in the language of the place."""
    meaning: Meaning


class Votes:
    """The files, with what is derived from all of them."""

    def __init__(self, folder: Path, needed: Sequence[str]) -> None:
        self.items = {place: read_items(folder, place) for place in PLACES if items_file(folder, place).exists()}
        missing = [place for place in needed if place not in self.items]
        if missing:
            lacking = (items_file(folder, place).relative_to(folder).as_posix() for place in missing)
            raise CarbError(f"{folder} lacks {', '.join(lacking)} of BLEnD.")
        self.topics = {place: read_topics(folder, place) for place in needed}
        self.same = SameItems()
        for items in self.items.values():
            for number, item in items.items():
                self.same.add(number, item.question)
                self.same.add(number, item.en_question)
        self.frequency = self._count_wordings()
        self.thesaurus = Thesaurus()
        self.meanings: dict[int, Meaning] = {}
        for items in self.items.values():
            for item in items.values():
                for entry in item.annotations:
                    if english := self.shown(entry.en_answers, "en"):
                        self.meanings[id(entry)] = meaning(clean(entry.en_answers), english)
                        self.thesaurus.learn(self.meanings[id(entry)].forms)
        self.tops = {
            (place, number): self._top(place, item)
            for place, items in self.items.items()
            for number, item in items.items()
        }

    def _count_wordings(self) -> Counter[tuple[str, str]]:
        wordings: Counter[tuple[str, str]] = Counter()
        for place, items in self.items.items():
            for item in items.values():
                for entry in item.annotations:
                    wordings.update({("en", text.casefold()) for text in clean(entry.en_answers)})
                    if PLACES[place][1] != "en":
                        wordings.update({(PLACES[place][1], text.casefold()) for text in clean(entry.answers)})
        return wordings

    def shown(self, variants: Sequence[str], language: str) -> str:
        """The wording that a set shows; empty when there is none.

        The one that occurs most in the source, since translations that occur once are often slips, and not a list of
        several wordings.
        """
        whole = clean(variants)
        single = [text for text in whole if not any(mark in text for mark in SEVERAL) or is_bare(text)] or whole
        return max(single, key=lambda text: self.frequency[language, text.casefold()], default="")

    def _top(self, place: str, item: Item) -> Top | str:
        """The agreed answer, or why there is none."""
        if not item.annotations:
            return "nobody gave an answer"
        votes = max(entry.count for entry in item.annotations)
        first = [entry for entry in item.annotations if entry.count == votes]
        unknowing = sum(n for reason, n in item.idks.items() if reason != "not-applicable")
        if item.idks.get("not-applicable", 0) > _MAX_UNKNOWING:
            return "the question does not apply there"
        if unknowing > _MAX_UNKNOWING:
            return f"more than {_MAX_UNKNOWING} people did not know"
        if votes < _MIN_VOTES:
            return f"fewer than {_MIN_VOTES} people agree"
        if len(first) > 1:
            return "the top answer is tied"
        entry = first[0]
        if not clean(entry.en_answers) or not clean(entry.answers):
            return "the top answer is incomplete"
        if not all(is_answer(variant) for variant in clean(entry.en_answers)):
            return "the top answer is a remark, not an answer"
        local = self.shown(entry.answers, PLACES[place][1])
        return Top(place, entry, self.shown(entry.en_answers, "en"), local, self.meanings[id(entry)])


def clean(variants: Sequence[str]) -> list[str]:
    """The wordings that are not empty, without white space around them."""
    return [variant.strip() for variant in variants if variant.strip()]


def is_bare(text: str) -> bool:
    """Digits, with the marks of times, dates and ranges: the same in every language."""
    return text.isascii() and any(char.isdigit() for char in text) and not any(char.isalpha() for char in text)
