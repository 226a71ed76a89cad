"""BLEnD's short answers, graded against everything that the people of a place said.

Myung et al. 2024, BLEnD, NeurIPS Datasets and Benchmarks, arXiv:2406.09948. As in its published scorer, a question
does not count where three or more people gave no answer or found it not applicable, where five did not know, or
where nobody answered; answers are tried from the most to the least voted; the unweighted grade is 1 for a match, the
weighted one the votes of the matched answer over those of the most voted. ``matching`` says how words are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    weighted: bool = False
    """Grade by the votes of the matched answer instead of by 0 and 1."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the places."""


@dataclass(frozen=True, slots=True)
class Voted:
    """One answer that people gave."""

    votes: int
    forms: frozenset[Words]
    """The form of each wording."""


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
        super().__init__(name, prompts)
        self._voted = voted
        self._weighted = weighted
        every = {words for answers in voted.values() for answer in answers for words in answer.forms}
        self._words = {words[0] for words in every if len(words) == 1}

    def grade(self, prompt_id: str, text: str) -> float:
        """1, or the share of the most votes, where the first line of a text says a human answer; else 0.

        A line that is one person's answer and nothing else is matched with that; otherwise the most voted answer
        that it contains is. A list of many things is no answer.
        """
        line, voted = first_line(text), self._voted[prompt_id]
        said = form(line)
        found = next((answer for answer in voted if said in answer.forms), None)
        if found is None and not is_list(line) and not names_many(said, self._words):
            found = next((answer for answer in voted if any(says(said, wording) for wording in answer.forms)), None)
        if found is None:
            return 0.0
        return found.votes / voted[0].votes if self._weighted else 1.0


def open_blend(name: str, path: Path, read: BlendTaskOptions) -> BlendTask:
    """Open ``blend:PATH?places=US,UK&weighted=true``.

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
            for prompt, answers in _questions(place, number, item, topics.get(number)):
                prompts.append(prompt)
                voted[prompt.id] = answers
    return BlendTask(name, evenly(prompts, read.limit), voted, weighted=read.weighted)


def _questions(
    place: str, number: str, item: BlendQuestion, topic: str | None
) -> Iterator[tuple[TaskPrompt, tuple[Voted, ...]]]:
    """The question with its answers, where it counts."""
    nothing = item.idks.get("no-answer", 0) + item.idks.get("not-applicable", 0)
    text = item.en_question.strip()
    if nothing > _MOST_WITHOUT_ANSWER or item.idks.get("idk", 0) > _MOST_UNKNOWING or not text:
        return
    ranked = sorted(item.annotations, key=lambda entry: -entry.count)
    voted = tuple(Voted(entry.count, frozenset(found)) for entry in ranked if (found := forms(entry.en_answers)))
    if voted:
        prompt = TaskPrompt(
            id=f"{place}/{number}/en",
            text=text,
            culture=blend_files.PLACES[place][0],
            language="en",
            topic=topic,
            source_item=f"blend:{number}",
        )
        yield prompt, voted
