"""Downstream tasks behind one small interface: prompts for a policy, and a pure grade for each answer."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.options import closest, read_query
from carb_data.sources.source_files import find_files
from carb_data.validation import read_options

__all__ = ["AnswerPair", "Judge", "Task", "TaskKind", "TaskPrompt", "evenly", "open_task"]


class TaskPrompt(Frozen):
    """One question that a policy answers."""

    id: Identifier
    text: Text
    """What a policy reads and what a scorer is shown."""
    culture: str
    """Whose knowledge it asks for: a culture id, or a name of the same form where none is registered."""
    language: LanguageTag
    topic: str | None = None
    source_item: str
    """Prompts that share it ask the same thing (of other places, in other languages): they are not independent."""


class Task:
    """A downstream task."""

    name: str
    """The spec that opens it again."""
    prompts: tuple[TaskPrompt, ...]
    instruction: str = ""
    """How to answer, told to a policy before the question; a scorer does not see it."""
    shots: tuple[tuple[str, str], ...] = ()
    """Examples of question and answer, which a base model needs to see the form of an answer."""
    one_line: bool = False
    """Answers are one line: a policy stops at the end of it."""

    def grade(self, prompt_id: str, text: str) -> float | None:
        """The worth of an answer, between 0 and 1; null where none can be given. Pure: the same text, the same grade.

        Raises:
            KeyError: there is no such prompt.
        """
        raise NotImplementedError

    def grade_all(self, answers: Sequence[tuple[str, str]]) -> list[float | None]:
        """The grades of many answers, each ``(prompt_id, text)``, in order; the same as one by one."""
        return [self.grade(prompt_id, text) for prompt_id, text in answers]


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers in the order in which a judge is to see them."""

    prompt: TaskPrompt
    first: str
    second: str


Judge = Callable[[Sequence[AnswerPair]], Sequence[float | None]]
"""For each comparison the share of the win that goes to ``first``: 1, 0, ½ for a tie, null where the judge failed."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """How tasks of a kind are opened."""

    options: type[Frozen]
    open: Callable[..., Task]
    """Function of the task's name, the path, the options and the judge, which is null where none was given."""


_KINDS = {
    "blend": "carb_data.tasks.blend_task",
    "omgeval": "carb_data.tasks.omgeval_task",
    "prompts": "carb_data.tasks.prompts_task",
}
"""Kind to the module that holds its ``TASK``."""


def open_task(spec: str, *, judge: Judge | None = None) -> Task:
    """Open the task that a spec string describes, ``KIND:PATH?key=value&…``.

    Args:
        spec: the task's spec, for example ``blend:?places=US,UK&weighted=true&limit=80``. An empty path stands for the
            files that ``carb data fetch`` got, or those in ``CARB_DATA_DIR``.
        judge: the function that compares answers, for tasks that need one (``omgeval``).

    Raises:
        CarbError: unknown kind or option, or files that are not the task's.
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
    place = Path(path).expanduser() if path else find_files(kind)
    found = task.open(spec.strip(), place, read_options(task.options, owner, given), judge)
    if not found.prompts:
        raise CarbError(f"{owner} has no questions left; loosen its options.")
    return found


def evenly(prompts: Sequence[TaskPrompt], limit: int | None) -> tuple[TaskPrompt, ...]:
    """At most ``limit`` prompts in their order: the first of each culture in turn, so that all cultures are there."""
    seen: Counter[str] = Counter()
    ranked = []
    for place, prompt in enumerate(prompts):
        seen[prompt.culture] += 1
        ranked.append((seen[prompt.culture], place))
    return tuple(prompts[place] for place in sorted(place for _, place in sorted(ranked)[:limit]))
