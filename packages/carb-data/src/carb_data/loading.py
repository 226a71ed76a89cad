"""A file or a folder as sets: files that hold sets, and tables of which sets are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from carb_data.errors import CarbError, Problem
from carb_data.files import load_files, suffix_of
from carb_data.language import UNDETERMINED
from carb_data.models import UNSPECIFIED, BonSet
from carb_data.registry import Registry
from carb_data.table_sets import Loaded, Progress, checked, left_out, read_sets, silent
from carb_data.tables import TABLE_SUFFIXES, first_record, kind_of, unknown_kind
from carb_data.values import unpacked

__all__ = ["table_files"]

_NAMED = 10
"""Most files that a sentence names."""
_NOBODY_SAID = {"culture": UNSPECIFIED, "domain": UNSPECIFIED, "language": UNDETERMINED}


def holds_sets(path: Path) -> bool:
    """Whether a file's records are sets, and not rows to make sets of. An empty file of the kinds
    that sets are written to holds neither."""
    record = first_record(path)
    if not record:
        return suffix_of(path) is not None
    version = record.get("schema", "none") or "carb-set/"
    if str(version).startswith("carb-set/"):
        return True
    origin = unpacked(record.get("provenance"))
    if isinstance(origin, Mapping) and "license" in origin:
        return True
    answers = record.get("responses")
    if not isinstance(answers, list) or not answers:
        return False
    answer = unpacked(answers[0])
    return isinstance(answer, Mapping) and {"role", "text"} <= {*answer}


def load_path(
    path: Path,
    given: Mapping[str, str],
    registry: Registry | None,
    *,
    prefix: bool = False,
    skip_bad: float = 0,
    progress: Progress = silent,
) -> Loaded:
    """The sets of a file, or of all files in a folder.

    Args:
        path: the file or folder.
        given: ``culture``, ``domain`` and ``language`` of what has none of its own.
        registry: cultures that may occur; null accepts any.
        prefix: whether ids that stand in a table begin with its file's name, so that they differ
            from those of another table. In a folder they do.
        skip_bad: how many rows of a file, or which share below 1, may be left out because they make
            no set.
        progress: called with how many rows of a table were read, of how many.

    Raises:
        DataError: some rows are no sets; all of them are reported.
        CarbError: nothing readable is there, or nothing lacks what is given.
    """
    paths = table_files(path)
    is_folder = path.is_dir()
    held = [one for one in paths if holds_sets(one)]
    problems: list[Problem] = []
    notes = _others(path, paths)
    sets = load_files(held, registry, problems)
    left_out(problems, len(sets), skip_bad, notes)
    sets, used = _filled(sets, checked(given, registry))
    for one in paths:
        if one in held:
            continue
        name = one.name
        label = ""
        if is_folder:
            name = one.relative_to(path).as_posix()
            label = f"{name}: "
        table = read_sets(
            one,
            defaults=given,
            registry=registry,
            prefix=name if prefix or len(paths) > 1 else "",
            skip_bad=skip_bad,
            progress=progress,
        )
        sets += table.sets
        used |= table.filled
        notes += [f"{label}{note}" for note in table.notes]
    if given and sets and not used:
        options = " and ".join(f"--{field}" for field in given)
        raise CarbError(f"Every row of {path} already has the values that {options} would fill in.")
    return Loaded(sets, notes, used)


def table_files(path: Path) -> list[Path]:
    """A file that can be read, or all such files of a folder.

    Raises:
        CarbError: there is none.
    """
    if not path.is_dir():
        if path.is_file() and kind_of(path) is None:
            raise CarbError(unknown_kind(path))
        return [path]
    files = [file for file in _files(path) if kind_of(file) is not None]
    first: dict[Path, Path] = {}
    for file in files:
        other = first.setdefault(file.resolve(), file)
        if other != file:
            raise CarbError(f"{file} and {other} are one file, by a link; remove the link.")
    if not files:
        raise CarbError(f"The folder {path} holds no file of {', '.join(TABLE_SUFFIXES)}.")
    return files


def _files(folder: Path) -> list[Path]:
    """The files of a folder, without those that systems and Excel hide there."""
    files = filter(Path.is_file, folder.rglob("*"))
    shown = [file for file in files if not file.name.startswith((".", "~$"))]
    return sorted(shown)


def _others(folder: Path, read: Sequence[Path]) -> list[str]:
    """A sentence on the files of a folder that are not read."""
    files = [file for file in _files(folder) if file not in read]
    if not folder.is_dir() or not files:
        return []
    others = [file.relative_to(folder).as_posix() for file in files]
    names = ", ".join(others[:_NAMED])
    if len(others) > _NAMED:
        names += ", …"
    return [f"{len(others):,} more files not read: {names}."]


def _filled(sets: Iterable[BonSet], given: Mapping[str, str]) -> tuple[list[BonSet], set[str]]:
    """The sets with missing values filled, and the fields that were."""
    used = set()
    filled = []
    for item in sets:
        missing = [field for field in given if getattr(item, field) == _NOBODY_SAID[field]]
        if missing:
            used.update(missing)
            content = item.model_dump(exclude_unset=True)
            for field in missing:
                content[field] = given[field]
            item = BonSet.model_validate(content).compacted()
        filled.append(item)
    return filled, used
