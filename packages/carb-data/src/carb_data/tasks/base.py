"""Downstream tasks behind one small interface: prompts for a policy, and a pure grade for each answer."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from carb_data.errors import CarbError
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.options import closest, read_query
from carb_data.sources.published import find_files
from carb_data.validation import read_options

__all__ = ["evenly"]


class TaskPrompt(Frozen):
    """One question that a policy answers."""

    id: Identifier
    text: Text
    """The question, with its options where it has them: what a policy reads and what a scorer is shown."""
    culture: str
    """Whose knowledge it asks for: a culture id, or a name of the same form where none is registered."""
    language: LanguageTag
    topic: str | None = None
    source_item: str
    """Prompts that share it ask the same thing (of other places, in other languages): they are not independent."""


class Task(Protocol):
    """A downstream task."""

    name: str
    """The spec that opens it again."""
    prompts: tuple[TaskPrompt, ...]
    instruction: str
    """How to answer, told to a policy before the question; a scorer does not see it."""
    shots: tuple[tuple[str, str], ...]
    """Examples of question and answer, which a base model needs to see the form of an answer."""
    one_line: bool
    """Answers are one line: a policy stops at the end of it."""

    def grade(self, prompt_id: str, text: str) -> float | None:
        """The worth of an answer, between 0 and 1; null where none can be given. Pure: the same text, the same grade.

        Raises:
            KeyError: there is no such prompt.
        """
        ...

    def grade_all(self, answers: Sequence[tuple[str, str]]) -> list[float | None]:
        """The grades of many answers, each ``(prompt_id, text)``, in order; the same as one by one."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers in the order in which a judge is to see them."""

    prompt: TaskPrompt
    first: str
    second: str


Judge = Callable[[Sequence[AnswerPair]], Sequence[float | None]]
"""For each comparison the share of the win that goes to ``first``: 1, 0, ½ for a tie, null where the judge failed."""


class GradesOneByOne:
    """Gives ``grade_all`` to a task that has ``grade``."""

    def grade(self, prompt_id: str, text: str) -> float | None:
        """The grade of one answer, 0 to 1; null where there is none."""
        raise NotImplementedError

    def grade_all(self, answers: Sequence[tuple[str, str]]) -> list[float | None]:
        """The grades of many answers, in order."""
        return [self.grade(prompt_id, text) for prompt_id, text in answers]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """How tasks of a kind are opened."""

    options: type[Frozen]
    open: Callable[..., Task]
    """Function of the task's name, the path and the options, and of the judge where tasks need one."""
    judged: bool = False
    """Whether the task needs a judge."""


_KINDS = {
    "blend": "carb_data.tasks.blend",
    "blend-choice": "carb_data.tasks.blend_choice",
    "include": "carb_data.tasks.include",
    "omgeval": "carb_data.tasks.omgeval",
    "prompts": "carb_data.tasks.prompts",
}
"""Kind to the module that holds its ``TASK``."""


def open_task(spec: str, *, judge: Judge | None = None) -> Task:
    """Open the task that a spec string describes, ``KIND:PATH?key=value&…``.

    Args:
        spec: the task's spec, for example ``blend:?places=US,UK&weighted=true&limit=80``. An empty path stands for the
            files that ``carb data fetch`` got, or those in ``CARB_DATA_DIR``.
        judge: the function that compares answers, for tasks that need one (``omgeval``).

    Raises:
        CarbError: unknown kind or option, a missing judge, or files that are not the task's.
    """
    match = re.fullmatch(r"([a-z][a-z0-9-]*):([^?]*)(?:\?(.*))?", spec.strip(), flags=re.DOTALL)
    if match is None:
        raise CarbError(f"'{spec}' is not a task; write KIND:PATH?key=value&..., with one of {', '.join(_KINDS)}.")
    kind, path, query = match.groups()
    if kind not in _KINDS:
        raise CarbError(f"Unknown task kind '{kind}'.{closest(kind, _KINDS)} Known kinds: {', '.join(_KINDS)}.")
    owner = f"Task '{spec.strip()}'"
    given = read_query(query, owner)
    task: TaskKind = importlib.import_module(_KINDS[kind]).TASK
    place = Path(path).expanduser() if path else find_files(kind.removesuffix("-choice"))
    options = read_options(task.options, owner, given)
    return task.open(spec.strip(), place, options, *([judge] if task.judged else []))


def evenly(prompts: Sequence[TaskPrompt], limit: int | None) -> tuple[TaskPrompt, ...]:
    """At most ``limit`` prompts in their order: the first of each culture in turn, so that all cultures are there."""
    if limit is None or limit >= len(prompts):
        return tuple(prompts)
    seen: dict[str, int] = {}
    ranked = []
    for place, prompt in enumerate(prompts):
        seen[prompt.culture] = seen.get(prompt.culture, 0) + 1
        ranked.append((seen[prompt.culture], place))
    kept = {place for _, place in sorted(ranked)[:limit]}
    return tuple(prompt for place, prompt in enumerate(prompts) if place in kept)
