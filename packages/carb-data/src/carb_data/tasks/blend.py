"""BLEnD's short answers, graded against everything that the people of a place said.

Myung et al. 2024, BLEnD, NeurIPS Datasets and Benchmarks, arXiv:2406.09948. As in its published scorer, a question
does not count where three or more people gave no answer or found it not applicable, where five did not know, or
where nobody answered; answers are tried from the most to the least voted; the unweighted grade is 1 for a match, the
weighted one the votes of the matched answer over those of the most voted. ``matching`` says how words are compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_data.dataset import Dataset
from carb_data.errors import CarbError
from carb_data.files import SUFFIXES
from carb_data.models import Frozen
from carb_data.sources.base import Names
from carb_data.sources.blend import SHIPPED
from carb_data.sources.blend_files import PLACES, BlendQuestion, check_places, read_items, read_topics
from carb_data.sources.reading import find_folder
from carb_data.tasks.base import GradesOneByOne, TaskKind, TaskPrompt, evenly
from carb_data.tasks.matching import ComparableText, first_line, form, forms, is_list, is_same, names_many, says

_MOST_WITHOUT_ANSWER = 2
_MOST_UNKNOWING = 4
INSTRUCTION = "Answer with a few words only, in the language of the question."
SHOTS = (
    ("What do people use to keep dry in the rain?", "umbrella"),
    ("How many days are there in a week? (Provide Arabic numerals only.)", "7"),
    ("Which animal do people most often keep at home to catch mice?", "cat"),
    ("At what time of the day do people usually eat breakfast?", "in the morning"),
)
"""Culture-free examples, written for this package."""


class BlendTaskOptions(Frozen):
    """Options of ``blend:PATH``."""

    places: Names = SHIPPED
    """Places whose questions are asked; the default are those whose cultures this package registers."""
    language: Literal["english", "local"] = "english"
    """Ask the English question, or the one in the language of the place."""
    weighted: bool = False
    """Grade by the votes of the matched answer instead of by 0 and 1."""
    match: Literal["contains", "exact", "published"] = "contains"
    """``contains``: the answer is said somewhere in a short answer, but a list of answers says none; ``exact``: nothing
    else is said; ``published``: said anywhere, in lists as well, as the published scorer takes it."""
    whole: bool = False
    """Grade the whole text instead of its first line."""
    topics: Names = ()
    """The topics to ask about; empty for all."""
    ids: Names = ()
    """The ids of the questions to ask; empty for all. The same id is asked in every place."""
    without: Names = ()
    """Leave out the questions of these: data sets (.jsonl, .parquet), or files with an id on each line."""
    distinct: bool = False
    """Ask each question of one place only, chosen by its id, so that no two prompts ask the same."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the places."""


@dataclass(frozen=True, slots=True)
class Voted:
    """One answer that people gave."""

    votes: int
    forms: frozenset[tuple[str, ComparableText]]
    """``(language, form)`` of each wording: those of the place, then the English ones."""


@dataclass(frozen=True, slots=True)
class VotedMatch:
    """The human answer that a response says."""

    votes: int
    weight: float
    """Its votes over those of the most voted answer, in (0, 1]."""


class BlendTask(GradesOneByOne):
    """BLEnD's short-answer questions."""

    instruction = INSTRUCTION
    shots: tuple[tuple[str, str], ...] = SHOTS
    one_line = True

    def __init__(
        self, name: str, prompts: tuple[TaskPrompt, ...], voted: dict[str, tuple[Voted, ...]], options: BlendTaskOptions
    ) -> None:
        self.name = name
        self.prompts = prompts
        self._voted = voted
        self._options = options
        self._words: dict[str, set[str]] = {}
        for language, wanted in (one for every in voted.values() for answer in every for one in answer.forms):
            if len(wanted.words) == 1:
                self._words.setdefault(language, set()).add(wanted.words[0])

    def match(self, prompt_id: str, text: str) -> VotedMatch | None:
        """The human answer that a text says, or null where it says none.

        A text that is one person's answer and nothing else is matched with that; otherwise the most voted answer
        that it contains is. A list of many things is no answer (``matching.is_list``, ``matching.names_many``).
        """
        voted = self._voted[prompt_id]
        graded = text if self._options.whole else first_line(text)
        most = voted[0].votes
        tests = (is_same,) if self._options.match == "exact" else (is_same, None)
        for test in tests:
            for answer in voted:
                for language, wanted in answer.forms:
                    there = form(graded, language)
                    if test is None and self._options.match == "contains" and self._is_list(graded, there, language):
                        continue
                    if test(there, wanted) if test else says(there, wanted, language):
                        return VotedMatch(answer.votes, answer.votes / most)
        return None

    def _is_list(self, text: str, said: ComparableText, language: str) -> bool:
        return is_list(text, language) or names_many(said, self._words.get(language, ()))

    def grade(self, prompt_id: str, text: str) -> float:
        """1 or the weight where a human answer is said, else 0."""
        found = self.match(prompt_id, text)
        if found is None:
            return 0.0
        return found.weight if self._options.weighted else 1.0


def open_blend(name: str, path: Path, read: BlendTaskOptions) -> BlendTask:
    """Open ``blend:PATH?places=US,UK&language=english&weighted=true``.

    Args:
        path: the folder that holds ``annotations`` and ``questions``, or the one above it.

    Raises:
        CarbError: an option is wrong, or the files are not BLEnD's.
    """
    check_places(read.places)
    folder = find_folder(path, "annotations", "BLEnD")
    left_out = frozenset(i for path in read.without for i in read_ids(Path(path)))
    prompts: list[TaskPrompt] = []
    voted: dict[str, tuple[Voted, ...]] = {}
    for place in dict.fromkeys(read.places):
        topics = read_topics(folder, place)
        items = read_items(folder, place)
        for number, item in items.items():
            if (read.ids and number not in read.ids) or number in left_out:
                continue
            if read.topics and topics.get(number) not in read.topics:
                continue
            prompt, answers = _question(place, number, item, topics.get(number), read.language)
            if prompt is not None and answers:
                prompts.append(prompt)
                voted[prompt.id] = answers
    if read.distinct:
        prompts = _one_place_each(prompts)
    if not prompts:
        raise CarbError(f"Task '{name}' has no questions left; loosen places, topics, ids or without.")
    kept = evenly(prompts, read.limit)
    return BlendTask(name, kept, voted, read)


TASK = TaskKind(BlendTaskOptions, open_blend)


def _question(
    place: str, number: str, item: BlendQuestion, topic: str | None, language: str
) -> tuple[TaskPrompt | None, tuple[Voted, ...]]:
    nothing = item.idks.get("no-answer", 0) + item.idks.get("not-applicable", 0)
    if nothing > _MOST_WITHOUT_ANSWER or item.idks.get("idk", 0) > _MOST_UNKNOWING:
        return None, ()
    culture, local = PLACES[place]
    spoken = "en" if language == "english" else local
    text = item.en_question if language == "english" else item.question
    if not text.strip():
        return None, ()
    voted = []
    for entry in sorted(item.annotations, key=lambda entry: -entry.count):
        wordings = {("en", found) for found in forms(entry.en_answers, "en")}
        if spoken != "en":
            wordings |= {(spoken, found) for found in forms(entry.answers, spoken)}
        if wordings:
            voted.append(Voted(entry.count, frozenset(wordings)))
    prompt = TaskPrompt(
        id=f"{place}/{number}/{spoken}",
        text=text.strip(),
        culture=culture,
        language=spoken,
        topic=topic,
        source_item=f"blend:{number}",
    )
    return prompt, tuple(voted)


def _one_place_each(prompts: list[TaskPrompt]) -> list[TaskPrompt]:
    """Of the prompts that ask the same, the one with the lowest hash of its id."""
    first: dict[str, TaskPrompt] = {}
    for prompt in prompts:
        other = first.get(prompt.source_item)
        if other is None or _hash(prompt.id) < _hash(other.id):
            first[prompt.source_item] = prompt
    kept = {prompt.id for prompt in first.values()}
    return [prompt for prompt in prompts if prompt.id in kept]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def read_ids(path: Path) -> frozenset[str]:
    """The ids of BLEnD's questions in a data set, or in a file with an id (or ``blend:ID``) on each line.

    Raises:
        CarbError: it cannot be read.
    """
    if path.suffix in SUFFIXES:
        sets = Dataset.load(path, registry=None)
        return frozenset(s.provenance.source_id or "" for s in sets if s.provenance.source == "blend")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CarbError(f"Cannot read the ids in {path}: {error.strerror}.") from None
    return frozenset(line.strip().removeprefix("blend:") for line in lines if line.strip())
