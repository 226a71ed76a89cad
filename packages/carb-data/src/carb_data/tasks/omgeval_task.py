"""OMGEval's questions that were rewritten for a culture, as a task.

Liu et al. 2024, OMGEval, arXiv:2402.13524. Its answers are open: a judge compares them, so nothing
is graded here.
"""

from pathlib import Path

from pydantic import Field

from carb_data.declaration import Names
from carb_data.errors import CarbError
from carb_data.models import Frozen
from carb_data.packaged import resource
from carb_data.sources.source_files import read_text
from carb_data.tasks.task import Task, TaskPrompt, evenly

FILES: dict[str, list[str]] = resource("omgeval")
"""The culture and the file of each language, one question a line."""


class OmgevalTaskOptions(Frozen):
    """Options of ``omgeval:PATH``."""

    languages: Names = tuple(FILES)
    """Languages whose questions are asked."""
    limit: int | None = Field(default=None, ge=1)
    """Ask only this many, spread evenly over the cultures."""


def open_omgeval(name: str, path: Path, read: OmgevalTaskOptions) -> Task:
    """Open ``omgeval:PATH?languages=ar,zh,ja``.

    Args:
        name: The spec.
        path: the folder of the project, or its ``data``.
        read: The options.

    Raises:
        CarbError: there is no such language, or a file cannot be read.
    """
    unknown = [language for language in read.languages if language not in FILES]
    if unknown:
        raise CarbError(f"OMGEval has no {', '.join(unknown)}. It has {', '.join(FILES)}.")
    folder = path / "data"
    if not folder.is_dir():
        folder = path
    prompts: list[TaskPrompt] = []
    for language in dict.fromkeys(read.languages):
        culture, file = FILES[language]
        text = read_text(folder / file, "OMGEval")
        prompts += [
            TaskPrompt(
                id=f"{language}/{number}",
                text=line.strip(),
                culture=culture,
                language=language,
                source_item=f"omgeval:{language}/{number}",
            )
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    return Task(name, evenly(prompts, read.limit))
