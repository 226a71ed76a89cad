"""Open a task by its spec: those of this package, and those that other distributions register."""

from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from carb_data.errors import CarbError, DataError, Problem, home_path
from carb_data.facts import read_lines
from carb_data.models import Frozen, Identifier, LanguageTag, Text
from carb_data.sources.source_files import find_files
from carb_data.tasks.blend_task import BlendTaskOptions, open_blend
from carb_data.tasks.choice_task import ChoiceTaskOptions, open_choice
from carb_data.tasks.omgeval_task import OmgevalTaskOptions, open_omgeval
from carb_data.tasks.task import Task, TaskPrompt
from carb_data.validation import read_options, read_query


class _Row(Frozen, extra="ignore"):
    id: Identifier
    prompt: Text
    culture: str
    language: LanguageTag


def open_prompts(name: str, path: Path, _: Frozen) -> Task:
    """Open ``prompts:FILE``: JSON Lines with ``id``, ``prompt``, ``culture`` and ``language``.

    Data sets have these fields, so that their prompts can be used; their responses are not read.

    Raises:
        CarbError: the file cannot be read, or lines lack a field; the message names all of them.
    """
    prompts = {}
    problems: list[Problem] = []
    try:
        for line in read_lines([path], _Row, problems):
            row = line.content
            if row.id in prompts:
                problems.append(
                    Problem(line.file, line.number, "id", f"'{row.id}' is there already")
                )
            fields = row.model_dump(exclude={"prompt"})
            prompts[row.id] = TaskPrompt(**fields, text=row.prompt, source_item=f"prompts:{row.id}")
    except OSError as error:
        raise CarbError(f"Cannot read the prompts in {path}: {error.strerror or error}.") from None
    if problems:
        raise DataError(problems)
    return Task(name, tuple(prompts.values()))


GROUP = "carb.tasks"
"""Entry points of other distributions' tasks: a name, and a function that returns a ``Task``. It
takes the spec, the path and the options as text (``Mapping[str, str]``)."""
_KINDS: Mapping[str, tuple[type[Frozen], Callable[..., Task]]] = {
    "blend": (BlendTaskOptions, open_blend),
    "choice": (ChoiceTaskOptions, open_choice),
    "omgeval": (OmgevalTaskOptions, open_omgeval),
    "prompts": (Frozen, open_prompts),
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
    folder = home_path(path)
    if not path:
        folder = find_files(kind)
    given = read_query(query, owner)
    if kind in _KINDS:
        form, opened = _KINDS[kind]
        task = opened(name, folder, read_options(form, owner, given))
    else:
        opened = registered[kind].load()
        task = opened(name, folder, given)
    if not task.prompts:
        raise CarbError(f"{owner} has no questions left; loosen its options.")
    return task
