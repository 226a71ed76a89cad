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

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
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
    limit: int | None = Field(default=None, ge=1)
    """Ask only this many, spread evenly over the places."""


@dataclass(frozen=True)
class Voted:
    """One answer that people gave."""

    votes: int
    forms: frozenset[Words]
    """The form of each wording."""

    def is_in(self, response: Words) -> bool:
        """Whether a response contains one of the wordings."""
        return any(says(response, words) for words in self.forms)


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
            for words in answer.forms:
                if len(words) == 1:
                    self._words.update(words)

    def grade(self, prompt_id: str, text: str) -> float:
        """1, or the share of the most votes, where the first line of a text says a human answer;
        else 0.

        A line that is one person's answer and nothing else is matched with that; otherwise the most
        voted answer that it contains is. A list of many things is no answer.
        """
        voted = self._voted[prompt_id]
        line = first_line(text)
        form_of_line = form(line)
        matched = [answer for answer in voted if form_of_line in answer.forms]
        if not matched and not is_list(line) and not names_many(form_of_line, self._words):
            matched = [answer for answer in voted if answer.is_in(form_of_line)]
        if not matched:
            return 0.0
        if self._weighted:
            return matched[0].votes / voted[0].votes
        return 1.0


def open_blend(name: str, path: Path, read: BlendTaskOptions) -> BlendTask:
    """Open ``blend:PATH?places=US,UK&weighted=true``.

    Args:
        name: The spec.
        path: the folder that holds ``annotations``, or the one above it.
        read: The options.

    Raises:
        CarbError: an option is wrong, or the files are not BLEnD's.
    """
    blend_files.check_places(read.places)
    folder = blend_files.find_folder(path)
    voted = {}
    prompts = []
    for place in dict.fromkeys(read.places):
        culture, _ = blend_files.PLACES[place]
        items = blend_files.read_items(folder, place)
        for number, item in items.items():
            answers = _answers(item)
            if not answers:
                continue
            prompt = TaskPrompt(
                id=f"{place}/{number}/en",
                text=item.en_question.strip(),
                culture=culture,
                language="en",
                source_item=f"blend:{number}",
            )
            prompts.append(prompt)
            voted[prompt.id] = answers
    asked = evenly(prompts, read.limit)
    return BlendTask(name, asked, voted, weighted=read.weighted)


def _answers(item: BlendQuestion) -> tuple[Voted, ...]:
    """The answers to a question; none if too few people could answer it."""
    reasons = Counter(item.idks)
    if not item.en_question.strip() or reasons["idk"] > _MOST_UNKNOWING:
        return ()
    if reasons["no-answer"] + reasons["not-applicable"] > _MOST_WITHOUT_ANSWER:
        return ()
    voted = []
    by_votes = sorted(item.annotations, key=lambda entry: -entry.count)
    for entry in by_votes:
        wordings = {form(text) for text in entry.en_answers}
        wordings.discard(())
        if wordings:
            voted.append(Voted(entry.count, frozenset(wordings)))
    return tuple(voted)


# how words are compared


@lru_cache(maxsize=4096)
def form(text: str) -> Words:
    """The words of a text: lower case, digits of all scripts as 0-9, without punctuation, articles
    and accents."""
    text = unicodedata.normalize("NFKC", text).replace("\u200b", "")
    characters = [str(unicodedata.decimal(char, char)) for char in text]
    text = "".join(characters)
    text = re.sub(r"(?<=\d)[,،٬](?=\d{3}(?!\d))", "", text)
    plain = normalise(text).split()
    if not plain:  # the mark "A" is no article
        plain = re.findall(r"\w+", text.casefold())
    digits = [_DIGITS.get(word, word) for word in plain]
    return tuple(map(_number, digits))


def says(response: Words, answer: Words) -> bool:
    """Whether a response contains an answer: its words one after the other, or all of them
    somewhere.

    Answers with digits must be met in one piece, since 8:30 is not 30:8. No response contains an
    empty answer.
    """
    if not answer or not response:
        return False
    size = len(answer)
    for start in range(len(response) - size + 1):
        if response[start : start + size] == answer:
            return True
    if any(map(str.isdigit, "".join(answer))):
        return False
    return set(answer) <= set(response)


def is_list(text: str) -> bool:
    """Whether a text lists so many things that containing the answer is no evidence.

    A line of the commonest answers contains somebody's answer to many questions. Parts count where
    they are short: a sentence with commas is no list.
    """
    sizes = [len(part.split()) for part in _DIVIDER.split(text)]
    short = [size for size in sizes if 0 < size <= _SHORT_PART]
    if len(short) > MOST_PARTS:
        return True
    return len(text.split()) > MOST_WORDS


def names_many(answer: Words, answers: Collection[str]) -> bool:
    """Whether a text is made of many answers, with or without dividers: a list of the commonest
    answers, say.

    It is true if more than ``MOST_PARTS`` different words are each an answer to some question.
    These must be two thirds of all different words, or more. A sentence has other words as well.

    Args:
        answer: form of the text.
        answers: words that alone answer some question.
    """
    words = set(answer)
    named = words.intersection(answers)
    return len(named) > MOST_PARTS and 3 * len(named) >= 2 * len(words)


def _number(word: str) -> str:
    """Without leading zeros: 08:30 and 8:30 are one time."""
    if word.isdecimal():
        return word.lstrip("0") or "0"
    return word
