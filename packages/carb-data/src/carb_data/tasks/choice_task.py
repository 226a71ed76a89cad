"""Multiple-choice questions of any file that loads (INCLUDE, Belebele, MMLU) as a task."""

import re
from pathlib import Path
from string import ascii_uppercase

from pydantic import Field

from carb_data.dataset import load
from carb_data.declaration import order_key
from carb_data.errors import CarbError
from carb_data.models import BonSet, Frozen
from carb_data.tasks.task import Task, TaskPrompt, evenly, first_line

_LETTER = re.compile(r"[\W_]*([A-Z])[\W_]*", re.ASCII)
_LETTER_AND_TEXT = re.compile(r"[\W_]*([A-Z])[).:\]]+\s+(.+)", re.ASCII)


class ChoiceTaskOptions(Frozen):
    """Options of ``choice:PATH``."""

    limit: int | None = Field(default=None, ge=1)
    """Ask only this many, spread evenly over the cultures."""


class ChoiceTask(Task):
    """Questions with lettered options, of which one is right."""

    instruction = "Answer with the letter of the right option alone."
    shots = (  # without culture, written for this package
        ("Which of these do people drink?\n\nA. sand\nB. tea", "B"),
        ("How many legs has a horse?\n\nA. four\nB. two\nC. six", "A"),
    )
    one_line = True

    def __init__(self, name: str, sets: list[BonSet]) -> None:
        self._options = {item.id: _in_order(item) for item in sets}
        self._right = {item.id: item.chosen.text for item in sets}
        prompts = [_prompt(item, self._options[item.id]) for item in sets]
        super().__init__(name, tuple(prompts))

    def grade(self, prompt_id: str, text: str) -> float:
        """1 where the first line is the right option's letter, its text, or both; else 0."""
        picked = _picked(first_line(text), self._options[prompt_id])
        return float(picked == self._right[prompt_id])


def open_choice(name: str, path: Path, read: ChoiceTaskOptions) -> ChoiceTask:
    """Open ``choice:PATH?limit=80``.

    Raises:
        CarbError: the file does not load, or a question has more than 26 options.
    """
    sets = load(str(path))
    for item in sets:
        if len(item.responses) > len(ascii_uppercase):
            raise CarbError(f"{path}: '{item.id}' has more options than there are letters (26).")
    asked = evenly(ChoiceTask(name, [*sets]).prompts, read.limit)
    return ChoiceTask(name, [sets[prompt.id] for prompt in asked])


def _in_order(item: BonSet) -> tuple[str, ...]:
    """The texts of the options in an order without information, the same every time."""
    texts = sorted(item.texts, key=lambda text: order_key(item.id, text))
    return tuple(texts)


def _prompt(item: BonSet, options: tuple[str, ...]) -> TaskPrompt:
    lettered = zip(ascii_uppercase, options, strict=False)
    lines = [f"{letter}. {text}" for letter, text in lettered]
    return TaskPrompt(
        id=item.id,
        text="\n".join([item.prompt_text, "", *lines]),
        culture=item.culture,
        language=item.language,
        source_item=item.source_item,
    )


def _picked(line: str, options: tuple[str, ...]) -> str | None:
    """The option that a line names; null where it names none, or a letter and another option."""
    by_letter = dict(zip(ascii_uppercase, options, strict=False))
    if alone := _LETTER.fullmatch(line):  # also where an option is a letter itself
        return by_letter.get(alone[1])
    if line in options:
        return line
    if both := _LETTER_AND_TEXT.fullmatch(line):
        letter, text = both.groups()
        if text == by_letter.get(letter):
            return text
    return None
