"""A file or a folder as sets: files that hold sets, and tables of which sets are made."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from carb_data.errors import CarbError, Problem
from carb_data.files import load_files, suffix_of
from carb_data.language import UNDETERMINED
from carb_data.models import UNSPECIFIED, BonSet
from carb_data.registry import Registry
from carb_data.table_sets import Loaded, Progress, checked, left_out, read_sets
from carb_data.tables import READS, contents, kind_of
from carb_data.values import unpacked

__all__ = ["table_files"]

_NAMED = 10
"""Most files that a sentence names."""
_ABOUT = re.compile(r"(croissant|datapackage|dataset_dict|dataset_infos?)\.json")
"""Files that other programs write beside the tables of a folder, about them."""
_PART = re.compile(r"(.+?)[-_.]?\d+-of-(\d+)")
"""The name of a part of a table that was parted into several files."""
_NOBODY_SAID = {"culture": UNSPECIFIED, "domain": UNSPECIFIED, "language": UNDETERMINED}


def holds_sets(path: Path) -> bool:
    """Whether a file's records are sets, and not rows to make sets of. An empty file of the kinds
    that sets are written to holds neither."""
    _, record = next(contents(path, []), (0, None))
    if record is None:
        return suffix_of(path) is not None
    if not isinstance(record, Mapping):
        return False
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
    prefix: bool,
    skip_bad: float,
    progress: Progress,
) -> Loaded:
    """The sets of a file, or of all files in a folder.

    Args:
        path: the file or folder.
        given: ``culture``, ``domain`` and ``language`` for the rows that have none.
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
    values = checked(given, registry)
    problems: list[Problem] = []
    notes = [*_others(path, paths), *_lacking_parts(paths)]
    by_file = load_files(filter(holds_sets, paths), registry, problems)
    left_out(problems, sum(map(len, by_file.values())), skip_bad, notes)
    used: set[str] = set()
    folder = path if path.is_dir() else path.parent
    for one in paths:
        name = one.relative_to(folder).as_posix()
        if one in by_file:
            table = _filled(by_file[one], values)
        else:
            table = read_sets(
                one,
                defaults=values,
                registry=registry,
                prefix=name if prefix or len(paths) > 1 else "",
                skip_bad=skip_bad,
                progress=progress,
            )
        by_file[one] = table.sets
        used |= table.filled
        label = "" if one == path else f"{name}: "
        notes += [f"{label}{note}" for note in table.notes]
    sets = [item for one in paths for item in by_file[one]]
    if given and sets and not used:
        options = " and ".join(f"--{field}" for field in given)
        raise CarbError(f"Every row of {path} already has the values that {options} would fill in.")
    _refuse_held(by_file)
    return Loaded(sets, notes, used)


def _refuse_held(by_file: Mapping[Path, Sequence[BonSet]]) -> None:
    """Refuse a file whose every set stands in another one, too."""
    if len(by_file) == 1:
        return
    holding: defaultdict[int, set[Path]] = defaultdict(set)
    for path, sets in by_file.items():
        for item in sets:
            holding[_content(item)].add(path)
    for path, sets in by_file.items():
        holders = [holding[_content(item)] for item in sets]
        others = {*by_file}.intersection(*holders) - {path}
        if sets and others:
            raise CarbError(
                f"Every set of {path} stands in {min(others)}, too, and would count twice. Remove "
                "one of the files, name one of their folders (hf://owner/name/folder), or give "
                "each file a column country, where they are of several."
            )


def _content(item: BonSet) -> int:
    """A number of what a set asks about which culture, and of its answers."""
    wrong = frozenset(answer.text for answer in item.rejected)
    return hash((item.culture, item.prompt_text, item.chosen.text, wrong))


def _lacking_parts(paths: Iterable[Path]) -> Iterator[str]:
    """A sentence on each table of which some numbered parts are not read."""
    matches = map(_PART.match, map(str, paths))
    parts = Counter(match.groups() for match in matches if match)
    for (name, count), read in parts.items():
        if read < int(count):
            yield f"{read} of the {int(count)} parts of {name} are read."


def table_files(path: Path) -> list[Path]:
    """A file that can be read, or all such files of a folder.

    Raises:
        CarbError: there is none.
    """
    if not path.is_dir():
        return [path]
    files = [file for file in _files(path) if kind_of(file) and not _ABOUT.fullmatch(file.name)]
    first: dict[Path, Path] = {}
    for file in files:
        other = first.setdefault(file.resolve(), file)
        if other != file:
            raise CarbError(
                f"{file} and {other} are one file, by a link or as a copy in the hub's cache; "
                "remove the link, or name one of the folders (hf://owner/name/folder)."
            )
    if not files:
        raise CarbError(f"The folder {path} holds no table; {READS}")
    return files


def _files(folder: Path) -> list[Path]:
    """The files of a folder, without those that systems and Excel hide there."""
    files = filter(Path.is_file, folder.rglob("*"))
    shown = [file for file in files if not file.name.startswith((".", "~$"))]
    return sorted(shown)


def _others(folder: Path, read: Sequence[Path]) -> list[str]:
    """A sentence on the files of a folder that are not read."""
    files = [file for file in _files(folder) if file not in read]
    if not files:
        return []
    names = [file.relative_to(folder).as_posix() for file in files[:_NAMED]]
    if len(files) > _NAMED:
        names += ["…"]
    return [f"{len(files):,} more files not read: {', '.join(names)}."]


def _filled(sets: Iterable[BonSet], given: Mapping[str, str]) -> Loaded:
    """The sets with missing values filled."""
    used = set()
    filled = []
    for item in sets:
        missing = [field for field in given if getattr(item, field) == _NOBODY_SAID[field]]
        if missing:
            used.update(missing)
            content = item.model_dump(exclude_unset=True)
            filling = {field: given[field] for field in missing}
            item = BonSet.model_validate(content | filling).compacted()
        filled.append(item)
    notes = [] if filled else ["It holds no sets."]
    return Loaded(filled, notes, used)
