"""Downstream tasks behind one small interface: prompts for a policy, and a pure grade for each
answer."""

from collections import Counter
from collections.abc import Sequence

from carb_data.models import Frozen, Identifier, LanguageTag, Text


class TaskPrompt(Frozen):
    """One question that a policy answers."""

    id: Identifier
    text: Text
    """The prompts of a policy and of a scorer."""
    culture: str
    """Whose knowledge it asks for: a culture id, or a name of the same form where none is
    registered."""
    language: LanguageTag
    source_item: str
    """Prompts that share it ask the same thing (of other places, in other languages): they are not
    independent."""


class Task:
    """A downstream task. This one grades nothing."""

    instruction: str = ""
    """The instruction to a policy before the question; a scorer does not get it."""
    shots: tuple[tuple[str, str], ...] = ()
    """Examples of question and answer, which a base model needs to see the form of an answer."""
    one_line: bool = False
    """Answers are one line: a policy stops at the end of it."""

    def __init__(self, name: str, prompts: tuple[TaskPrompt, ...]) -> None:
        """Make a task of prompts; its name is the spec that opens it again."""
        self.name = name
        self.prompts = prompts

    # nothing is graded here
    def grade(self, prompt_id: str, text: str) -> float | None:  # noqa: ARG002
        """The worth of an answer, between 0 and 1; null where none can be given. Pure: the same
        text, the same grade.

        Raises:
            KeyError: there is no such prompt.
        """
        return None


def evenly(prompts: Sequence[TaskPrompt], limit: int | None) -> tuple[TaskPrompt, ...]:
    """At most ``limit`` prompts in their order: the first of each culture in turn, so that all
    cultures are there."""
    seen: Counter[str] = Counter()
    turns = []
    for prompt in prompts:
        seen[prompt.culture] += 1
        turns.append(seen[prompt.culture])
    numbers = range(len(prompts))
    first = sorted(sorted(numbers, key=turns.__getitem__)[:limit])
    return tuple(prompts[index] for index in first)


def first_line(text: str) -> str:
    """The first line of a text that is not blank; empty where there is none."""
    return next(filter(None, map(str.strip, text.splitlines())), "")
