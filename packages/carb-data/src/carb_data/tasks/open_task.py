"""Open a task by its spec: those of this package, and those that other distributions register."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from carb_data.errors import CarbError, DataError, Problem
from carb_data.facts import Line, read_lines
from carb_data.language import UNDETERMINED
from carb_data.models import UNSPECIFIED, Frozen, Identifier, LanguageTag, Text
from carb_data.sources.source_files import find_files, read_text
from carb_data.tasks.blend_task import BlendTaskOptions, open_blend
from carb_data.tasks.choice_task import ChoiceTaskOptions, open_choice
from carb_data.tasks.task import Task, TaskPrompt
from carb_data.validation import read_options, read_query


class PromptTaskOptions(Frozen):
    """Options of ``prompts:FILE``, for questions without their own."""

    culture: str = UNSPECIFIED
    language: LanguageTag = UNDETERMINED


class _Row(PromptTaskOptions, extra="ignore"):
    id: Identifier
    prompt: Text


def open_prompts(name: str, path: Path, read: PromptTaskOptions) -> Task:
    """Open ``prompts:FILE``: JSON Lines with ``id`` and ``prompt``, and maybe ``culture`` and
    ``language``, or a ``.txt`` file with a question on each line (OMGEval).

    Data sets have these fields, so that their prompts can be used; their responses are not read.

    Raises:
        CarbError: the file cannot be read, or lines lack a field; the message names all of them.
    """
    prompts = {}
    problems: list[Problem] = []
    lines = read_lines([path], _Row, problems)
    if path.suffix == ".txt":
        lines = _plain_lines(path)
    try:
        for line in lines:
            row = line.content
            if row.id in prompts:
                problems.append(
                    Problem(line.file, line.number, "id", f"'{row.id}' is there already")
                )
            fields = read.model_dump() | row.model_dump(exclude={"prompt"}, exclude_unset=True)
            prompts[row.id] = TaskPrompt(**fields, text=row.prompt, source_item=f"prompts:{row.id}")
    except OSError as error:
        raise CarbError(f"Cannot read the prompts in {path}: {error.strerror or error}.") from None
    if problems:
        raise DataError(problems)
    return Task(name, tuple(prompts.values()))


def _plain_lines(path: Path) -> Iterator[Line[_Row]]:
    text = read_text(path, "prompts")
    for number, line in enumerate(text.splitlines(), 1):
        if prompt := line.strip():
            yield Line(str(path), number, _Row(id=str(number), prompt=prompt))


GROUP = "carb.tasks"
"""Entry points of other distributions' tasks: a name, and a function that returns a ``Task``. It
takes the spec, the path and the options as text (``Mapping[str, str]``)."""
_KINDS: Mapping[str, tuple[type[Frozen], Callable[..., Task]]] = {
    "blend": (BlendTaskOptions, open_blend),
    "choice": (ChoiceTaskOptions, open_choice),
    "prompts": (PromptTaskOptions, open_prompts),
}
"""Kind of task to its options, and the function of the spec, the path and these that opens it."""


def open_task(spec: str) -> Task:
    """Open the task that a spec string describes: ``KIND:PATH?key=value&…``.

    Args:
        spec: the task's spec, for example ``blend:?places=US,UK&weighted=true&limit=80``. An empty
            path stands for the files that ``carb data fetch`` got, or those in ``CARB_DATA_DIR``.

    Raises:
        CarbError: unknown kind or option, or files that are not the task's.
    """
    name = spec.strip()
    kind, colon, target = name.partition(":")
    path, _, query = target.partition("?")
    owner = f"Task '{name}'"
    registered = metadata.entry_points(group=GROUP)
    kinds = {*_KINDS, *registered.names}
    if not colon or kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise CarbError(f"'{name}' is not a task; write KIND:PATH?key=value&... KIND is {known}.")
    folder = Path(path).expanduser()
    if not path:
        folder = find_files(kind)
    given = read_query(query, owner)
    if kind in _KINDS:
        form, opened = _KINDS[kind]
        options = read_options(form, owner, given)
        task = opened(name, folder, options)
    else:
        opened = registered[kind].load()
        task = opened(name, folder, given)
    if not task.prompts:
        raise CarbError(f"{owner} has no questions left; loosen its options.")
    return task
