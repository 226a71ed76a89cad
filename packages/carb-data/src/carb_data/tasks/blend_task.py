"""BLEnD's short answers, graded against all answers of the people of a place.

Myung et al. 2024, BLEnD, NeurIPS Datasets and Benchmarks, arXiv:2406.09948. As in its published
scorer, a question does not count where nobody answered, or where five people did not know. Nor does
it where three or more gave no answer or found it not applicable. Answers are tried from the most to
the least voted. The unweighted grade is 1 for a match, the weighted one the votes of the matched
answer over those of the most voted.

That scorer (section 4; ``evaluation/exact_match.py``) takes an answer as right when it contains a
person's answer as a string, or all its words after lemmatising. This module has light rules instead
of a lemmatiser, and differs on purpose in one point. A string must be met at the borders of words:
"rice" is not in "price", nor "1" in "10".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from pydantic import Field

from carb_data.declaration import Names
from carb_data.models import Frozen
from carb_data.packaged import resource
from carb_data.sources import blend_files
from carb_data.sources.blend_answers import normalise
from carb_data.sources.blend_files import BlendQuestion
from carb_data.tasks.task import Task, TaskPrompt, evenly, first_line

_MOST_WITHOUT_ANSWER = 2
_MOST_UNKNOWING = 4
MOST_PARTS = 3
"""Alternatives that a short answer may name, divided by commas and the like."""
MOST_WORDS = 15
"""Words of an answer beside the one that is looked for; more are a list, or a text, and no short
answer."""
_DIVIDER = re.compile(r"[,;/|،؛、，；・·•\n]|\s[-–—]\s")
_SHORT_PART = 4
_DIGITS: dict[str, str] = resource("answers_en")["digits"]

Words = tuple[str, ...]
"""The words of a text in the form in which they are compared."""


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
        self,
        name: str,
        prompts: tuple[TaskPrompt, ...],
        voted: dict[str, tuple[Voted, ...]],
        *,
        weighted: bool,
    ) -> None:
        super().__init__(name, prompts)
        self._voted = voted
        self._weighted = weighted
        self._words: set[str] = set()
        for answer in chain.from_iterable(voted.values()):
            self._words.update(words[0] for words in answer.forms if len(words) == 1)

    def grade(self, prompt_id: str, text: str) -> float:
        """1, or the share of the most votes, where the first line of a text says a human answer;
        else 0.

        A line that is one person's answer and nothing else is matched with that; otherwise the most
        voted answer that it contains is. A list of many things is no answer.
        """
        voted = self._voted[prompt_id]
        line = first_line(text)
        form_of_line = form(line)
        matched = next((answer for answer in voted if form_of_line in answer.forms), None)
        if matched is None and not is_list(line) and not names_many(form_of_line, self._words):
            holding = (
                one for one in voted if any(says(form_of_line, words) for words in one.forms)
            )
            matched = next(holding, None)
        if matched is None:
            return 0.0
        if self._weighted:
            return matched.votes / voted[0].votes
        return 1.0


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
    place: str,
    number: str,
    item: BlendQuestion,
    topic: str | None,
) -> Iterator[tuple[TaskPrompt, tuple[Voted, ...]]]:
    """The question with its answers; nothing if too few people could answer it."""
    nothing = item.idks.get("no-answer", 0) + item.idks.get("not-applicable", 0)
    text = item.en_question.strip()
    if nothing > _MOST_WITHOUT_ANSWER or item.idks.get("idk", 0) > _MOST_UNKNOWING or not text:
        return
    ranked = sorted(item.annotations, key=lambda entry: -entry.count)
    voted = tuple(
        Voted(entry.count, frozenset(shapes))
        for entry in ranked
        if (shapes := forms(entry.en_answers))
    )
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


# how words are compared


@lru_cache(maxsize=4096)
def form(text: str) -> Words:
    """The words of a text: lower case, digits of all scripts as 0-9, without punctuation, articles
    and accents."""
    text = unicodedata.normalize("NFKC", text).replace("\u200b", "")
    text = "".join(str(unicodedata.decimal(char, char)) for char in text)
    text = re.sub(r"(?<=\d)[,،٬](?=\d{3}(?!\d))", "", text)
    plain = normalise(text).split() or re.findall(
        r"\w+", text.casefold()
    )  # the mark "A" is no article
    return tuple(_number(_DIGITS.get(word, word)) for word in plain)


def says(response: Words, answer: Words) -> bool:
    """Whether a response contains an answer: its words one after the other, or all of them
    somewhere.

    Answers with digits must be met in one piece, since 8:30 is not 30:8. No response contains an
    empty answer.
    """
    if not answer or not response:
        return False
    size = len(answer)
    together = any(
        response[start : start + size] == answer for start in range(len(response) - size + 1)
    )
    if together or any(char.isdigit() for word in answer for char in word):
        return together
    return set(answer) <= set(response)


def is_list(text: str) -> bool:
    """Whether a text lists so many things that containing the answer is no evidence.

    A line of the commonest answers contains somebody's answer to many questions. Parts count where
    they are short: a sentence with commas is no list.
    """
    parts = [part for part in _DIVIDER.split(text) if part.strip()]
    short = [part for part in parts if len(part.split()) <= _SHORT_PART]
    return len(short) > MOST_PARTS or len(text.split()) > MOST_WORDS


def names_many(answer: Words, answers: Collection[str]) -> bool:
    """Whether a text is made of many answers, with or without dividers: a list of the commonest
    answers, say.

    It is true if more than ``MOST_PARTS`` different words are each an answer to some question.
    These must be two thirds of all different words, or more. A sentence has other words as well.

    Args:
        answer: form of the text.
        answers: words that alone answer some question.
    """
    named = {word for word in answer if word in answers}
    return len(named) > MOST_PARTS and 3 * len(named) >= 2 * len(set(answer))


def forms(texts: Iterable[str]) -> set[Words]:
    """The different forms of several texts, without empty ones."""
    return {shape for text in texts if (shape := form(text))}


def _number(word: str) -> str:
    """Without leading zeros: 08:30 and 8:30 are one time."""
    if word.isdecimal():
        return word.lstrip("0") or "0"
    return word
