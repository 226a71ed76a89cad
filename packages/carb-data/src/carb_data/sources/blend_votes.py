"""What people of each place of BLEnD answered, the answer on which a place agrees, and where it is wrong.

The guards against a rejected answer that is right after all: agreement on both sides (alone at the top, two votes or
more, at most two people who did not know); ``blend_answers.may_agree`` against *every* answer of the place; and an
answer that somebody gave in more than two places is wrong in none. Numbers, times and dates make no set.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.joined import Joined
from carb_data.models import Votes
from carb_data.ngrams import plain
from carb_data.sources.blend_answers import (
    Meaning,
    Thesaurus,
    is_answer,
    is_number_or_date,
    may_agree,
    meaning,
    says_nothing,
)
from carb_data.sources.blend_files import (
    PLACES,
    BlendQuestion,
    Entry,
    check_places,
    find_folder,
    items_file,
    judged,
    read_items,
    read_topics,
)

_MIN_VOTES = 2
_MAX_UNKNOWING = 2
_ASKED = 5
"""How many people answered each question, as the paper says."""
_MOST_PLACES = 2
"""An answer that somebody gave in more places than this is said everywhere ("pizza", "the phone"): where nobody of five
people gave it, it may be right all the same, so that it is no wrong answer. Found by reading."""
_WITHIN = ({"Indonesia", "West_Java"},)
"""Places that are part of another: what is said in one is often right in the other."""
SEVERAL = ",;،、/"
"""Marks between several wordings in one."""


@dataclass(frozen=True, slots=True)
class Top:
    """The answer of a place to a question, when its people agree on one."""

    place: str
    entry: Entry
    text: str
    meaning: Meaning

    def votes_in(self, place: str) -> Votes:
        """How many of the people asked in ``place`` gave the answer: none where it is another place's."""
        return Votes(asked=max(_ASKED, self.entry.count), right=self.entry.count if self.place == place else 0)


class Answers:
    """The files, with what is derived from all of them."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        check_places(needed)
        folder = find_folder(path)
        self.items = {place: read_items(folder, place) for place in PLACES if items_file(folder, place).exists()}
        missing = [place for place in needed if place not in self.items]
        if missing:
            lacking = (items_file(folder, place).relative_to(folder).as_posix() for place in missing)
            raise CarbError(f"{folder} lacks {', '.join(lacking)} of BLEnD.")
        self.topics = {place: read_topics(folder, place) for place in needed}
        self._same = Joined()
        first: dict[str, str] = {}
        for items in self.items.values():
            for number, item in items.items():
                for key in filter(None, map(plain, (item.question, item.en_question))):
                    self._same.join(number, first.setdefault(key, number))
        self.frequency = self._count_wordings()
        self.thesaurus = Thesaurus()
        self.meanings: dict[int, Meaning] = {}
        self._given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for place, items in self.items.items():
            for number, item in items.items():
                for entry in item.annotations:
                    if self.shown(entry.en_answers):
                        self.meanings[id(entry)] = meaning(clean(entry.en_answers))
                        self.thesaurus.learn(self.meanings[id(entry)].forms)
                        for form in self.meanings[id(entry)].forms:
                            self._given[number, form].add(place)
        self.tops = {
            (place, number): self._top(place, number, item)
            for place, items in self.items.items()
            for number, item in items.items()
        }

    def source_item(self, number: str) -> str:
        """The name that all questions have which share a wording in some language."""
        return self._same.name(number)

    def is_wrong_in(self, place: str, number: str, top: Top) -> bool:
        """Whether another place's answer is wrong in ``place``: nobody there gave anything that it could pass for."""
        said_in = set().union(*(self._given[number, form] for form in top.meaning.forms))
        if len(said_in) > _MOST_PLACES or any({place, top.place} == pair for pair in _WITHIN):
            return False
        given = (self.meanings.get(id(entry)) for entry in self.items[place][number].annotations)
        return not any(answer and may_agree(top.meaning, answer, self.thesaurus) for answer in given)

    def _count_wordings(self) -> Counter[str]:
        wordings: Counter[str] = Counter()
        for items in self.items.values():
            for item in items.values():
                for entry in item.annotations:
                    wordings.update({text.casefold() for text in clean(entry.en_answers)})
        return wordings

    def shown(self, variants: Sequence[str]) -> str:
        """The wording that a set shows; empty when there is none.

        The first one that the people's answer was recorded with, since later ones are looser; but not one that occurs
        nowhere else in the source while another does, since such translations are often slips, and not a list of
        several wordings.
        """
        whole = clean(variants)
        single = [text for text in whole if not any(mark in text for mark in SEVERAL)] or whole
        known = [text for text in single if self.frequency[text.casefold()] > 1]
        return next(iter(known or single), "")

    def _top(self, place: str, number: str, item: BlendQuestion) -> Top | str:
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
        shown = self.shown(entry.en_answers)
        unfit = _unfit(place, number, item, entry, shown)
        if unfit is not None:
            return unfit
        return Top(place, entry, shown, self.meanings[id(entry)])


def _unfit(place: str, number: str, item: BlendQuestion, entry: Entry, shown: str) -> str | None:
    """Why an agreed answer makes no fair set."""
    wordings = clean(entry.en_answers)
    if number in judged()["questions"] or _open_questions().search(item.en_question):
        return "the question has several right answers everywhere"
    if f"{place}/{number}" in judged()["answers"]:
        return "readers found the agreed answer wrong or unclear"
    if not all(map(is_answer, wordings)):
        return "the top answer is a remark, not an answer"
    if any(map(is_number_or_date, wordings)):
        return "the answer is a number or a date"
    return "the top answer says no more than the question" if says_nothing(shown, item.en_question) else None


@cache
def _open_questions() -> re.Pattern[str]:
    """Words of questions that read as having several right answers in every place, or none."""
    return re.compile("|".join(judged()["open_questions"]), re.IGNORECASE)


def clean(variants: Sequence[str]) -> list[str]:
    """The wordings that are not empty, without white space around them; of several lines, the first."""
    return [variant.strip().splitlines()[0].strip() for variant in variants if variant.strip()]
