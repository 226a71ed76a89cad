"""Prompts of the user's own, without grades: a scorer can pick, and nobody says what the pick is worth."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carb_data.errors import CarbError, DataError, Problem
from carb_data.files import json_lines
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.tasks.task import Task, TaskKind, TaskPrompt, evenly
from carb_data.validation import line_problems


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


def open_prompts(name: str, path: Path, read: PromptOptions, _: object) -> PromptTask:
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


TASK = TaskKind(PromptOptions, open_prompts)
