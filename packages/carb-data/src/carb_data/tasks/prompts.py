"""Prompts of the user's own, without grades: a scorer can pick, and nobody says what the pick is worth."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from carb_data.errors import CarbError, DataError, Problem
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.tasks.base import GradesOneByOne, TaskKind, TaskPrompt, evenly
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


class PromptTask(GradesOneByOne):
    """Prompts; every grade is null."""

    shots: tuple[tuple[str, str], ...] = ()

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
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CarbError(f"Cannot read the prompts in {path}: {error}.") from None
    prompts: dict[str, TaskPrompt] = {}
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate_json(line)
        except ValidationError as error:
            problems.extend(line_problems(path, number, error))
            continue
        if row.id in prompts:
            problems.append(Problem(str(path), number, "id", f"'{row.id}' is there already"))
        prompts[row.id] = TaskPrompt(
            id=row.id,
            text=row.prompt,
            culture=row.culture,
            language=row.language,
            topic=row.topic,
            source_item=f"prompts:{row.id}",
        )
    if problems:
        raise DataError(problems)
    if not prompts:
        raise CarbError(f"{path} holds no prompts.")
    return PromptTask(name, evenly(list(prompts.values()), read.limit), read)


TASK = TaskKind(PromptOptions, open_prompts)
