"""What people of each place of BLEnD answered: the files, and the answer on which a place agrees."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.models import Provenance, Votes
from carb_data.sources.answers import Meaning, Thesaurus, is_answer, kind, meaning, says_nothing
from carb_data.sources.blend_files import (
    PLACES,
    BlendQuestion,
    Entry,
    check_places,
    items_file,
    read_items,
    read_topics,
)
from carb_data.sources.grouping import SameItems
from carb_data.sources.ranges import asks_for_money, asks_for_month
from carb_data.sources.reading import find_folder

LICENSE = "CC-BY-SA-4.0"
URL = "https://github.com/nlee0212/BLEnD"
_MIN_VOTES = 2
_MAX_UNKNOWING = 2
_ASKED = 5
"""How many people answered each question, as the paper says."""
_OTHER_CALENDAR = frozenset({"Ethiopia", "Iran"})
_MOST_PLACES = 2
"""An answer that somebody gave in more places than this is said everywhere ("pizza", "the phone"): where nobody of five
people gave it, it may be right all the same, so that it is no wrong answer. Found by reading; see docs/readings.md."""
_WITHIN = ({"Indonesia", "West_Java"},)
"""Places that are part of another: what is said in one is often right in the other."""
_OPEN_QUESTIONS = re.compile(
    r"side job|underpaid|ready-to-eat|after.?school curricular|team-building|first salary|\bperks?\b|online resource|"
    r"communicate remotely|extreme sport|type of vehicle|COVID-19|key milestones|snacks at shopping malls|housewarming|"
    r"non-alcoholic drink|wedding venue|have with coffee|commuting time|average commute|skiing|activit|leisure|"
    r"break time|\bdo (?:during|after|in|on|with|to)\b|usually do\b|bring with them|tradition is there|rainy weather|"
    r"side dish|stew\b|private education|while watching|go after|cost-effective|typical gift|famous family",
    re.IGNORECASE,
)
"""Questions that read as having several right answers in every place, or none; see docs/readings.md."""
_OPEN = "the question has several right answers everywhere"
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


class Answers:
    """The files, with what is derived from all of them."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        check_places(needed)
        folder = find_folder(path, "annotations", "BLEnD")
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
        self._given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for place, items in self.items.items():
            for number, item in items.items():
                for entry in item.annotations:
                    if english := self.shown(entry.en_answers, "en"):
                        self.meanings[id(entry)] = meaning(clean(entry.en_answers), english)
                        self.thesaurus.learn(self.meanings[id(entry)].forms)
                        for form in self.meanings[id(entry)].forms:
                            self._given[number, form].add(place)
        self.tops = {
            (place, number): self._top(place, number, item)
            for place, items in self.items.items()
            for number, item in items.items()
        }

    def provenance(self, number: str, notes: str | None = None) -> Provenance:
        """Where a set about a question comes from."""
        return Provenance(
            source="blend",
            source_id=self.same.name(number),
            license=LICENSE,
            url=URL,
            method="human-vote",
            tier="human-voted",
            notes=notes,
        )

    def can_be_wrong_in(self, place: str, top: Top, number: str) -> bool:
        """Whether an answer that nobody of ``place`` gave may be taken for a wrong one: it is not said everywhere.

        Numbers, times and dates are compared by their ranges instead.
        """
        if any({place, top.place} == pair for pair in _WITHIN):
            return False
        if top.meaning.kind != "text":
            return True
        return len(set().union(*(self._given[number, form] for form in top.meaning.forms))) <= _MOST_PLACES

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

        The first one that the people's answer was recorded with, since later ones are looser; but not one that occurs
        nowhere else in the source while another does, since such translations are often slips, and not a list of
        several wordings.
        """
        whole = clean(variants)
        single = [text for text in whole if not any(mark in text for mark in SEVERAL) or is_bare(text)] or whole
        known = [text for text in single if self.frequency[language, text.casefold()] > 1]
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
        shown = self.shown(entry.en_answers, "en")
        unfit = _found_by_readers(place, number) or self._unfit(place, item, entry, shown)
        if unfit is not None:
            return unfit
        local = self.shown(entry.answers, PLACES[place][1])
        if is_bare(local) and is_bare(shown) and kind(local) != kind(shown):
            local = shown  # digits are the same in every language; 9.5 beside 05/15 gives itself away
        return Top(place, entry, shown, local, self.meanings[id(entry)])

    def _unfit(self, place: str, item: BlendQuestion, entry: Entry, shown: str) -> str | None:
        """Why an agreed answer makes no fair set."""
        if not all(is_answer(variant) for variant in clean(entry.en_answers)):
            return "the top answer is a remark, not an answer"
        if _OPEN_QUESTIONS.search(item.en_question):
            return _OPEN
        if says_nothing(shown, item.en_question):
            return "the top answer says no more than the question"
        form = self.meanings[id(entry)].kind
        if form == "number" and asks_for_money(item.en_question):
            return "the answer is an amount of money, and currencies differ"
        if form == "time" and "dinner" in item.en_question.casefold() and self._is_before_noon(entry):
            return "the time of day does not fit the question"
        dated = form in ("date", "calendar") or (form == "number" and asks_for_month(item.en_question))
        if dated and place in _OTHER_CALENDAR:
            return "the answer is a date in another calendar"
        return None

    def _is_before_noon(self, entry: Entry) -> bool:
        """Whether a time was given without its half of the day: 08:00 for dinner."""
        return any(low < _NOON for _, low, _ in self.meanings[id(entry)].spans)


_NOON = 12 * 60.0


def _found_by_readers(place: str, number: str) -> str | None:
    questions, answers = _read()
    if number in questions:
        return _OPEN
    return "readers found the agreed answer wrong or unclear" if f"{place}/{number}" in answers else None


@cache
def _read() -> tuple[frozenset[str], frozenset[str]]:
    """Questions, and a place's answers, that a reader of every question in use found unfair; see docs/readings.md."""
    content = json.loads((resources.files("carb_data") / "resources" / "blend_read.json").read_text("utf-8"))
    return frozenset(content["questions"]), frozenset(content["answers"])


def cast_votes(answer: Top, place: str) -> Votes:
    """How many of the people asked in ``place`` gave an answer: none where it is another place's."""
    return Votes(asked=max(_ASKED, answer.entry.count), right=answer.entry.count if answer.place == place else 0)


def clean(variants: Sequence[str]) -> list[str]:
    """The wordings that are not empty, without white space around them; of several lines, the first."""
    return [variant.strip().splitlines()[0].strip() for variant in variants if variant.strip()]


def is_bare(text: str) -> bool:
    """Digits, with the marks of times, dates and ranges: the same in every language."""
    return text.isascii() and any(char.isdigit() for char in text) and not any(char.isalpha() for char in text)
