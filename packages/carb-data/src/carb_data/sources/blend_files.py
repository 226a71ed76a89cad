"""BLEnD's files: the answers of each place, the one on which it agrees, and the places where that
is wrong.

Three guards keep a rejected answer from being right after all. Both sides agree: alone at the top,
two votes or more, at most two people who did not know. ``blend_answers.may_agree`` compares it with
*every* answer of the place. An answer that somebody gave in more than two places is wrong in none.
Numbers, times and dates make no set.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.joined import Joined
from carb_data.models import Frozen, Votes
from carb_data.overlap import plain
from carb_data.packaged import resource
from carb_data.sources.blend_answers import (
    Meaning,
    is_answer,
    is_number_or_date,
    may_agree,
    meaning,
    says_nothing,
)
from carb_data.validation import closest, read_file

_MIN_VOTES = 2
_MAX_UNKNOWING = 2
_ASKED = 5
"""How many people answered each question, from the paper."""
_MOST_PLACES = 2
"""An answer given in more places than this is common everywhere ("pizza", "the phone"). It may be
right even where none of five people gave it, so it is no wrong answer. Found by reading."""
_WITHIN = ({"Indonesia", "West_Java"},)
"""Places that are part of another: an answer of one is often right in the other."""
SEVERAL = ",;،、/"
"""Marks between several wordings in one."""


JUDGED: dict[str, Any] = resource("blend")
"""Knowledge about BLEnD beside its files: its places, and the questions and answers that readers
found unfair."""
PLACES: dict[str, tuple[str, str]] = {
    place: (culture, tongue) for place, (culture, tongue) in JUDGED["places"].items()
}
"""Place to culture id and language of the questions there."""
_OPEN_QUESTIONS = re.compile("|".join(JUDGED["open_questions"]), re.IGNORECASE)
"""Words of questions that read as having several right answers in every place, or none."""
_PLACES = "Algeria China Mexico North_Korea South_Korea Spain UK US"
LISTED = tuple(_PLACES.split())
"""Places of the ten listed cultures."""


class Entry(Frozen, extra="ignore"):
    """An answer that people gave, in its wordings, and how many gave it."""

    answers: list[str]
    en_answers: list[str]
    count: int


class BlendQuestion(Frozen, extra="ignore"):
    """A question with people's answers, and the number without an answer, by reason."""

    question: str
    en_question: str
    annotations: list[Entry]
    idks: dict[str, int] = Field(default={})


def check_places(places: Iterable[str]) -> None:
    """Raise ``CarbError`` for a place that BLEnD does not have."""
    for place in places:
        if place not in PLACES:
            raise CarbError(
                f"BLEnD has no place '{place}'.{closest(place, PLACES)} Places: "
                f"{', '.join(PLACES)}."
            )


def find_folder(path: Path) -> Path:
    """``path``, or its folder ``data``: the one that holds ``annotations``.

    Raises:
        CarbError: neither does.
    """
    for folder in (path, path / "data"):
        if (folder / "annotations").is_dir():
            return folder
    raise CarbError(
        f"{path} does not hold BLEnD: nothing there, or in its folder 'data', is called "
        "annotations."
    )


def items_file(folder: Path, place: str) -> Path:
    """The file with the answers of a place."""
    return folder / "annotations" / f"{place}_data.json"


def read_items(folder: Path, place: str) -> dict[str, BlendQuestion]:
    """Question id to question.

    Raises:
        CarbError: the file is missing or not BLEnD's.
    """
    return read_file(dict[str, BlendQuestion], items_file(folder, place), "file of BLEnD")


def read_topics(folder: Path, place: str) -> dict[str, str]:
    """Question id to topic.

    Raises:
        CarbError: the file is missing or not BLEnD's.
    """
    file = folder / "questions" / f"{place}_questions.csv"
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return {row["ID"]: row["Topic"] for row in csv.DictReader(lines)}
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise CarbError(
            f"Cannot read the topics of BLEnD's questions from {file}: {error}."
        ) from None


@dataclass(frozen=True)
class Top:
    """The answer of a place to a question, when its people agree on one."""

    place: str
    entry: Entry
    text: str
    meaning: Meaning

    def votes_in(self, place: str) -> Votes:
        """How many of the people asked in ``place`` gave the answer: none where it is another
        place's."""
        right = 0
        if self.place == place:
            right = self.entry.count
        return Votes(asked=max(_ASKED, self.entry.count), right=right)


class Answers:
    """The files, with the figures derived from all of them."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        check_places(needed)
        folder = find_folder(path)
        self.items = {
            place: read_items(folder, place)
            for place in PLACES
            if items_file(folder, place).exists()
        }
        missing = [items_file(folder, place) for place in needed if place not in self.items]
        if missing:
            paths = [file.relative_to(folder).as_posix() for file in missing]
            names = ", ".join(paths)
            raise CarbError(f"{folder} lacks {names} of BLEnD.")
        self.topics = {place: read_topics(folder, place) for place in needed}
        asked = [
            (place, number, item)
            for place, items in self.items.items()
            for number, item in items.items()
        ]
        self._same = Joined()
        self.frequency: Counter[str] = Counter()
        for _, number, item in asked:
            for question in (item.question, item.en_question):
                self._same.tie(number, plain(question) or None)
            for entry in item.annotations:
                self.frequency.update({*map(str.casefold, clean(entry.en_answers))})
        self.meanings: dict[int, Meaning] = {}
        self._also: defaultdict[str, set[str]] = defaultdict(set)
        """Form to the forms that were given along with it for one answer."""
        self._given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Question and form to the places where somebody gave it."""
        for place, number, item in asked:
            for entry in item.annotations:
                if self.shown(entry.en_answers):
                    self._learn(place, number, entry)
        self.tops = {
            (place, number): self._top(place, number, item) for place, number, item in asked
        }

    def _learn(
        self,
        place: str,
        number: str,
        entry: Entry,
    ) -> None:
        new = self.meanings[id(entry)] = meaning(clean(entry.en_answers))
        together = {form for form in new.forms if not form[0].isdigit()}
        for form in new.forms:
            self._given[number, form].add(place)
        for form in together:
            self._also[form] |= together

    def source_item(self, number: str) -> str:
        """One name for all questions that share a wording in some language."""
        return self._same.name(number)

    def is_wrong_in(
        self,
        place: str,
        number: str,
        top: Top,
    ) -> bool:
        """Whether another place's answer is wrong in ``place``: nobody there gave anything that it
        could pass for."""
        pair = {place, top.place}
        places = {one for form in top.meaning.forms for one in self._given[number, form]}
        if len(places) > _MOST_PLACES or pair in _WITHIN:
            return False
        for entry in self.items[place][number].annotations:
            answer = self.meanings.get(id(entry))
            if answer and may_agree(top.meaning, answer, self._also):
                return False
        return True

    def shown(self, variants: Sequence[str]) -> str:
        """The wording that a set shows; empty when there is none.

        The first one recorded with the people's answer, since later ones are looser. A list of
        several wordings does not count. Nor does one that occurs nowhere else in the source while
        another does: such translations are often slips.
        """
        whole = clean(variants)
        marks = {*SEVERAL}
        single = [text for text in whole if marks.isdisjoint(text)] or whole
        known = [text for text in single if self.frequency[text.casefold()] > 1]
        for text in known or single:
            return text
        return ""

    def _top(
        self,
        place: str,
        number: str,
        item: BlendQuestion,
    ) -> Top | None:
        """The answer on which a place agrees, if that makes a fair set."""
        unknowing = {**item.idks}
        not_applicable = unknowing.pop("not-applicable", 0)
        if max(sum(unknowing.values()), not_applicable) > _MAX_UNKNOWING:
            return None
        votes = [entry.count for entry in item.annotations]
        most = max(votes, default=0)
        if most < _MIN_VOTES or votes.count(most) > 1:
            return None
        entry = item.annotations[votes.index(most)]
        if not clean(entry.en_answers) or not clean(entry.answers):
            return None
        shown = self.shown(entry.en_answers)
        if _is_fair(place, number, item, entry, shown):
            return Top(place, entry, shown, self.meanings[id(entry)])
        return None


def _is_fair(
    place: str,
    number: str,
    item: BlendQuestion,
    entry: Entry,
    shown: str,
) -> bool:
    """Whether an agreed answer makes a fair set: the question has one right answer, and this text
    is one."""
    if number in JUDGED["questions"] or _OPEN_QUESTIONS.search(item.en_question):
        return False
    wordings = clean(entry.en_answers)
    return (
        f"{place}/{number}" not in JUDGED["answers"]  # readers found it wrong or unclear
        and all(map(is_answer, wordings))
        and not any(map(is_number_or_date, wordings))
        and not says_nothing(shown, item.en_question)
    )


def clean(variants: Sequence[str]) -> list[str]:
    """The wordings that are not empty, without white space around them; of several lines, the
    first."""
    filled = filter(None, map(str.strip, variants))
    first_lines = [variant.splitlines()[0] for variant in filled]
    return [line.strip() for line in first_lines]
