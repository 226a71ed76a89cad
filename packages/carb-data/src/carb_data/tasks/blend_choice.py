"""BLEnD's multiple-choice form: which of four answers is right here, the others being right elsewhere.

The published files (``mc_questions_file.csv``: MCQID, ID, country, prompt, choices, choice_countries, answer_idx) are
read as they are. Where only the annotations are at hand, the questions are built from them with the guards of
``carb_data.sources.blend``, which asks the same thing without a language model's help in choosing wrong answers.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import BonSet, Frozen
from carb_data.sources.base import Names
from carb_data.sources.blend import SHIPPED, BlendOptions, build
from carb_data.sources.blend_files import PLACES, check_places
from carb_data.sources.reading import find_folder
from carb_data.tasks.base import GradesOneByOne, TaskKind, TaskPrompt, evenly
from carb_data.tasks.blend import read_ids
from carb_data.tasks.choices import read_choice, with_options

INSTRUCTION = "Answer with the letter of the right option only."
SHOTS = (
    ("What keeps people dry in the rain?\nA. umbrella\nB. spoon\nC. candle\nD. carpet", "A"),
    ("How many days are there in a week?\nA. 5\nB. 9\nC. 7\nD. 12", "C"),
    ("Which animal catches mice?\nA. sheep\nB. cat\nC. hen\nD. carp", "B"),
)
"""Culture-free examples, written for this package."""


class ChoiceOptions(Frozen):
    """Options of ``blend-choice:PATH``."""

    places: Names = SHIPPED
    language: Literal["english", "local"] = "english"
    """The language of questions that are built from the annotations; the published ones are English."""
    without: Names = ()
    """Leave out the questions of these: data sets, or files with an id on each line."""
    seed: int = 0
    """Seed of the wrong answers and of the order of the options, for questions that are built here."""
    limit: int | None = Field(None, ge=1)
    """Ask only this many, spread evenly over the places."""


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A question with its options."""

    prompt: TaskPrompt
    options: tuple[str, ...]
    right: int
    cultures: tuple[str, ...]
    """The places in which each option is right."""


class ChoiceTask(GradesOneByOne):
    """Multiple choice: 1 for the right option, 0 for another or none that can be read."""

    instruction = INSTRUCTION
    one_line = True

    def __init__(
        self, name: str, questions: tuple[ChoiceQuestion, ...], shots: tuple[tuple[str, str], ...] = SHOTS
    ) -> None:
        self.name = name
        self.shots = shots
        self.prompts = tuple(question.prompt for question in questions)
        self._questions = {question.prompt.id: question for question in questions}

    def choice(self, prompt_id: str, text: str) -> int | None:
        """The place of the option that an answer picks, or null."""
        return read_choice(text, self._questions[prompt_id].options)

    def grade(self, prompt_id: str, text: str) -> float:
        """1 where the right option is picked, else 0."""
        return float(self.choice(prompt_id, text) == self._questions[prompt_id].right)


def open_blend_choice(name: str, path: Path, read: ChoiceOptions) -> ChoiceTask:
    """Open ``blend-choice:PATH``: a published CSV file, or the folder of the annotations.

    Raises:
        CarbError: an option is wrong, or the files are not BLEnD's.
    """
    check_places(read.places)
    left_out = frozenset(i for path in read.without for i in read_ids(Path(path)))
    found = _published(path, read) if path.suffix == ".csv" else _built(path, read)
    questions = {q.prompt.id: q for q in found if q.prompt.source_item.removeprefix("blend:") not in left_out}
    kept = evenly([question.prompt for question in questions.values()], read.limit)
    if not kept:
        raise CarbError(f"Task '{name}' has no questions left; loosen places or without.")
    return ChoiceTask(name, tuple(questions[prompt.id] for prompt in kept))


TASK = TaskKind(ChoiceOptions, open_blend_choice)


def _published(path: Path, options: ChoiceOptions) -> Iterator[ChoiceQuestion]:
    csv.field_size_limit(sys.maxsize)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), 2):
                if row["country"] in options.places:
                    yield _row(row, f"{path}:{number}")
    except OSError as error:
        raise CarbError(f"Cannot read {path}: {error.strerror}.") from None
    except (KeyError, UnicodeDecodeError) as error:
        raise CarbError(f"{path} is not a multiple-choice file of BLEnD: {error}.") from None


def _row(row: Mapping[str, str], where: str) -> ChoiceQuestion:
    try:
        choices: dict[str, str] = json.loads(row["choices"])
        countries: dict[str, str] = json.loads(row["choice_countries"])
        letters = sorted(choices)
        right = letters.index(row["answer_idx"].strip())
        # the published prompt holds instruction and options; the question is the part before the instruction
        question = row["prompt"].split(" Without any explanation", 1)[0].split("\n", 1)[0]
        texts = tuple(str(choices[letter]) for letter in letters)
        cultures = tuple(PLACES.get(countries.get(letter, ""), ("", ""))[0] for letter in letters)
    except (ValueError, AttributeError, TypeError) as error:
        raise CarbError(f"{where} is not a multiple-choice question of BLEnD: {error}.") from None
    prompt = TaskPrompt(
        id=f"{row['country']}/{row['MCQID']}",
        text=with_options(question, texts),
        culture=PLACES[row["country"]][0],
        language="en",
        source_item=f"blend:{row['ID']}",
    )
    return ChoiceQuestion(prompt, texts, right, cultures)


def _built(path: Path, options: ChoiceOptions) -> Iterator[ChoiceQuestion]:
    folder = find_folder(path, "annotations", "BLEnD")
    rows = build(folder, BlendOptions(languages=options.language, places=options.places), options.seed)
    for item in rows:
        if isinstance(item, BonSet):
            yield question_of(item, options.seed)


def question_of(item: BonSet, seed: int) -> ChoiceQuestion:
    """A Best-of-N set as a multiple-choice question; the options are ordered by a hash of the seed and their text."""

    def place(text: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{item.id}\0{text}".encode("utf-8", "surrogatepass")).digest()

    shown = sorted(item.responses, key=lambda response: place(response.text))
    prompt = TaskPrompt(
        id=item.id,
        text=with_options(item.prompt_text, [response.text for response in shown]),
        culture=item.culture,
        language=item.language,
        topic=item.topic,
        source_item=item.source_item,
    )
    right = next(n for n, response in enumerate(shown) if response.id == item.chosen.id)
    return ChoiceQuestion(prompt, tuple(r.text for r in shown), right, tuple(r.culture or "" for r in shown))
