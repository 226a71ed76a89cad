"""Open a task by its spec: BLEnD's questions, or prompts of the user's own, which nobody grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carb_data.errors import CarbError, DataError, Problem
from carb_data.files import json_lines
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.options import closest, read_query
from carb_data.sources.source_files import find_files
from carb_data.tasks.blend_task import BlendTaskOptions, open_blend
from carb_data.tasks.task import Task, TaskPrompt, evenly
from carb_data.validation import line_problems, read_options

__all__ = ["open_task"]


class PromptOptions(Frozen):
    """Options of ``prompts:FILE``."""

    one_line: bool = False
    """Answers are one line."""
    instruction: str = ""
    """How to answer, told before each prompt."""
    limit: int | None = Field(None, ge=1)
    """Take only this many, spread evenly over the cultures."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: Identifier
    prompt: Text
    culture: str
    language: LanguageTag
    topic: str | None = None


class PromptTask(Task):
    """Prompts; every grade is null."""

    def __init__(self, name: str, prompts: tuple[TaskPrompt, ...], options: PromptOptions) -> None:
        self.name = name
        self.prompts = prompts
        self.instruction = options.instruction
        self.one_line = options.one_line

    def grade(self, prompt_id: str, text: str) -> None:  # noqa: ARG002 - nothing is graded
        """Null."""
        return


def open_prompts(name: str, path: Path, read: PromptOptions) -> PromptTask:
    """Open ``prompts:FILE``: JSON Lines with ``id``, ``prompt``, ``culture``, ``language`` and perhaps ``topic``.

    Data sets have these fields, so that their prompts can be used; their responses are not read.

    Raises:
        CarbError: the file cannot be read, or lines lack a field; all are told.
    """
    prompts: dict[str, TaskPrompt] = {}
    problems: list[Problem] = []
    try:
        for number, content in json_lines(path, problems):
            try:
                row = _Row.model_validate(content)
            except ValidationError as error:
                problems.extend(line_problems(path, number, error))
                continue
            if row.id in prompts:
                problems.append(Problem(str(path), number, "id", f"'{row.id}' is there already"))
            said = row.model_dump(exclude={"prompt"})
            prompts[row.id] = TaskPrompt(**said, text=row.prompt, source_item=f"prompts:{row.id}")
    except OSError as error:
        raise CarbError(f"Cannot read the prompts in {path}: {error.strerror or error}.") from None
    if problems:
        raise DataError(problems)
    return PromptTask(name, evenly(list(prompts.values()), read.limit), read)


_KINDS: Mapping[str, tuple[type[Frozen], Callable[..., Task]]] = {
    "blend": (BlendTaskOptions, open_blend),
    "prompts": (PromptOptions, open_prompts),
}
"""Kind of task to its options, and the function of the spec, the path and these that opens it."""


def open_task(spec: str) -> Task:
    """Open the task that a spec string describes, ``KIND:PATH?key=value&…``.

    Args:
        spec: the task's spec, for example ``blend:?places=US,UK&weighted=true&limit=80``. An empty path stands for the
            files that ``carb data fetch`` got, or those in ``CARB_DATA_DIR``.

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
    form, opened = _KINDS[kind]
    options = read_options(form, owner, read_query(query, owner))
    found = opened(spec.strip(), Path(path).expanduser() if path else find_files(kind), options)
    if not found.prompts:
        raise CarbError(f"{owner} has no questions left; loosen its options.")
    return found
