"""BLEnD's short answers, graded against everything that the people of a place said.

Myung et al. 2024, BLEnD, NeurIPS Datasets and Benchmarks, arXiv:2406.09948. As in its published scorer, a question
does not count where three or more people gave no answer or found it not applicable, where five did not know, or
where nobody answered; answers are tried from the most to the least voted; the unweighted grade is 1 for a match, the
weighted one the votes of the matched answer over those of the most voted. ``matching`` says how words are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_data.models import Frozen
from carb_data.sources import blend_files
from carb_data.sources.blend_files import BlendQuestion
from carb_data.sources.source_interface import Names
from carb_data.tasks.matching import Words, first_line, form, forms, is_list, names_many, says
from carb_data.tasks.task import Task, TaskPrompt, evenly

_MOST_WITHOUT_ANSWER = 2
_MOST_UNKNOWING = 4


class BlendTaskOptions(Frozen):
    """Options of ``blend:PATH``."""

    places: Names = blend_files.LISTED
    """Places whose questions are asked; by default those of the ten listed cultures."""
    language: Literal["english", "local"] = "english"
    """Ask the English question, or the one in the language of the place."""
    weighted: bool = False
    """Grade by the votes of the matched answer instead of by 0 and 1."""
    distinct: bool = False
    """Ask each question of one place only, chosen by its id, so that no two prompts ask the same."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the places."""


@dataclass(frozen=True, slots=True)
class Voted:
    """One answer that people gave."""

    votes: int
    forms: frozenset[tuple[str, Words]]
    """``(language, form)`` of each wording: those of the place, then the English ones."""


class BlendTask(Task):
    """BLEnD's short-answer questions."""

    instruction = "Answer with a few words only, in the language of the question."
    shots = (  # without culture, written for this package
        ("What do people use to keep dry in the rain?", "umbrella"),
        ("How many days are there in a week? (Provide Arabic numerals only.)", "7"),
        ("Which animal do people most often keep at home to catch mice?", "cat"),
        ("At what time of the day do people usually eat breakfast?", "in the morning"),
    )
    one_line = True

    def __init__(
        self, name: str, prompts: tuple[TaskPrompt, ...], voted: dict[str, tuple[Voted, ...]], *, weighted: bool
    ) -> None:
        self.name = name
        self.prompts = prompts
        self._voted = voted
        self._weighted = weighted
        self._words: dict[str, set[str]] = {}
        for language, words in (one for every in voted.values() for answer in every for one in answer.forms):
            if len(words) == 1:
                self._words.setdefault(language, set()).add(words[0])

    def grade(self, prompt_id: str, text: str) -> float:
        """1, or the share of the most votes, where the first line of a text says a human answer; else 0.

        A line that is one person's answer and nothing else is matched with that; otherwise the most voted answer
        that it contains is. A list of many things is no answer.
        """
        line, voted = first_line(text), self._voted[prompt_id]
        for says_it in (self._is, self._contains):
            for answer in voted:
                if any(says_it(line, *wording) for wording in answer.forms):
                    return answer.votes / voted[0].votes if self._weighted else 1.0
        return 0.0

    def _is(self, line: str, language: str, answer: Words) -> bool:
        return form(line, language) == answer

    def _contains(self, line: str, language: str, answer: Words) -> bool:
        said = form(line, language)
        if is_list(line, language) or names_many(said, self._words.get(language, ())):
            return False
        return says(said, answer, language)


def open_blend(name: str, path: Path, read: BlendTaskOptions) -> BlendTask:
    """Open ``blend:PATH?places=US,UK&language=english&weighted=true``.

    Args:
        name: The spec.
        path: the folder that holds ``annotations`` and ``questions``, or the one above it.
        read: The options.

    Raises:
        CarbError: an option is wrong, or the files are not BLEnD's.
    """
    blend_files.check_places(read.places)
    folder = blend_files.find_folder(path)
    voted: dict[str, tuple[Voted, ...]] = {}
    prompts: list[TaskPrompt] = []
    for place in dict.fromkeys(read.places):
        topics = blend_files.read_topics(folder, place)
        for number, item in blend_files.read_items(folder, place).items():
            for prompt, answers in _questions(place, number, item, topics.get(number), read.language):
                prompts.append(prompt)
                voted[prompt.id] = answers
    if read.distinct:
        prompts = _one_place_each(prompts)
    return BlendTask(name, evenly(prompts, read.limit), voted, weighted=read.weighted)


def _questions(
    place: str, number: str, item: BlendQuestion, topic: str | None, language: str
) -> Iterator[tuple[TaskPrompt, tuple[Voted, ...]]]:
    """The question with its answers, where it counts."""
    nothing = item.idks.get("no-answer", 0) + item.idks.get("not-applicable", 0)
    culture, local = blend_files.PLACES[place]
    spoken, text = ("en", item.en_question) if language == "english" else (local, item.question)
    if nothing > _MOST_WITHOUT_ANSWER or item.idks.get("idk", 0) > _MOST_UNKNOWING or not text.strip():
        return
    voted = []
    for entry in sorted(item.annotations, key=lambda entry: -entry.count):
        wordings = {("en", found) for found in forms(entry.en_answers, "en")}
        if spoken != "en":
            wordings |= {(spoken, found) for found in forms(entry.answers, spoken)}
        if wordings:
            voted.append(Voted(entry.count, frozenset(wordings)))
    if voted:
        name, source_item = f"{place}/{number}/{spoken}", f"blend:{number}"
        prompt = TaskPrompt(
            id=name, text=text.strip(), culture=culture, language=spoken, topic=topic, source_item=source_item
        )
        yield prompt, tuple(voted)


def _one_place_each(prompts: list[TaskPrompt]) -> list[TaskPrompt]:
    """Of the prompts that ask the same, the one with the lowest hash of its id."""
    first: dict[str, TaskPrompt] = {}
    for prompt in sorted(prompts, key=lambda prompt: hashlib.sha256(prompt.id.encode()).digest()):
        first.setdefault(prompt.source_item, prompt)
    return [prompt for prompt in prompts if first[prompt.source_item] is prompt]
