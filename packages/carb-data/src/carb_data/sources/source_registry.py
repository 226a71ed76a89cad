"""The sources by name, and the building of a file of sets from one, with the reasons for skipped
items."""

import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from carb_data.dataset import Dataset
from carb_data.declaration import Declaration, Skip, Source, read_declaration, shipped
from carb_data.errors import CarbError
from carb_data.journal import write_whole
from carb_data.models import UNSPECIFIED, BonSet, Frozen
from carb_data.registry import cultures
from carb_data.sources.declared import declared_rows
from carb_data.sources.source_files import find_files
from carb_data.table_sets import Progress, silent
from carb_data.validation import closest, read_options


def source_names() -> list[str]:
    """The names of all sources: those declared here, and those that other distributions register.

    They do so under the entry-point group ``carb.sources``, as ``module:attribute``. A script gives
    its ``Source`` itself to ``build`` and ``rows``.
    """
    return sorted({*shipped(), *_registered()})


def open_source(name: str) -> Source:
    """A source by its name, or by the path of a ``.toml`` file that declares one.

    Raises:
        CarbError: there is no such source, the file is no declaration, or what is registered is no
            ``Source``.
    """
    if name.endswith(".toml"):
        return _declared(read_declaration(Path(name)))
    if (point := _registered().get(name)) is not None:
        loaded = point.load()
        if not isinstance(loaded, Source):
            raise CarbError(
                f"The source '{name}' is registered as {point.value}, which is not a "
                "carb_data Source."
            )
        return loaded
    known = shipped()
    if name not in known:
        names = source_names()
        raise CarbError(
            f"There is no source '{name}'.{closest(name, names)} Known sources: {', '.join(names)}."
        )
    return _declared(known[name])


def _registered() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group="carb.sources")}


def _declared(source: Declaration) -> Source:
    given = source.name, source.description, source.license
    if not source.reader:
        return Source(*given, partial(declared_rows, source))
    module = importlib.import_module(source.reader)
    return Source(
        *given, partial(module.build, source), module.OPTIONS, source.published is not None
    )


class BuildReport(Frozen):
    """The sets of a build, and the items left out with the reasons."""

    source: str
    path: str
    out: str
    seed: int
    options: dict[str, Any]
    built: int
    skipped: int
    counts: dict[str, dict[str, int]]
    """Number of sets by culture and domain; they sum to ``built``."""
    reasons: dict[str, int]
    """Reason to number of skipped items, most frequent first; they sum to ``skipped``."""
    licenses: tuple[str, ...]
    """Licences of the built sets."""
    notes: tuple[str, ...] = ()
    """Sentences about content that was not read."""


def rows(
    name: str | Source, path: str | Path | None = None, *, seed: int = 0, **options: Any
) -> Iterator[BonSet | Skip]:
    """Stream the sets and skips of a source without writing a file.

    Args:
        name: a registered source, or a ``Source`` itself.
        path: the file or folder that holds the source's data; by default where ``find_files`` finds
            it.
        seed: the seed of every random choice.
        options: the source's own options.

    Raises:
        CarbError: unknown source or option, or ``path`` does not hold the source.
    """
    source, location, chosen = _opened(name, path, options)
    made = source.rows(location, chosen, seed)
    return (row for row in made if not isinstance(row, str))


def _opened(
    name: str | Source, path: str | Path | None, options: Mapping[str, Any]
) -> tuple[Source, Path, Frozen]:
    """The source, where its files are, and its options."""
    source = name
    if not isinstance(source, Source):
        source = open_source(source)
    chosen = read_options(source.options, f"Source '{source.name}'", options)
    if path is None:
        path = Path()
        if source.has_files:
            path = find_files(source.name)
    location = Path(path)
    if not location.exists():
        raise CarbError(
            f"There is nothing at {location}; give the folder or file that holds the data of "
            f"'{source.name}'."
        )
    return source, location, chosen


def _made(
    rows: Iterator[BonSet | Skip | str], progress: Progress
) -> tuple[dict[str, BonSet], list[Skip], list[str]]:
    """The sets by id, the skipped items, and notes on unread files; an unknown culture ends the
    build with a remedy."""
    made = {}
    skipped = []
    notes = []
    for row in rows:
        if isinstance(row, str):
            notes.append(row)
        elif isinstance(row, Skip):
            skipped.append(row)
        elif row.id in made:
            skipped.append(Skip.of(row, "repeated id"))
        else:
            if row.culture != UNSPECIFIED:
                cultures.root(row.culture)  # which refuses an unknown one
            made[row.id] = row
        progress(len(made), len(skipped))
    return made, skipped, notes


def build(
    name: str | Source,
    path: str | Path | None,
    out: str | Path,
    *,
    seed: int = 0,
    progress: Progress = silent,
    **options: Any,
) -> BuildReport:
    """Build a file of sets from a source.

    ``out`` appears, or is replaced, only when everything was made; after an error it is as it was.

    Args:
        name: a registered source, or a ``Source`` itself.
        path: the file or folder that holds the source's data; None for where ``find_files`` finds
            it.
        out: a ``.jsonl`` or ``.parquet`` file.
        seed: the seed of every random choice; the same seed gives the same file.
        progress: the function that is called after each source item with the numbers built and
            skipped so far.
        options: the source's own options.

    Raises:
        CarbError: unknown source or option, ``path`` does not hold the source, a culture is not
            registered, or nothing at all could be built.
    """
    source, location, chosen = _opened(name, path, options)
    out = Path(out)
    if out.suffix not in (".jsonl", ".parquet"):
        raise CarbError(f"{out}: unknown file type; sets are written to a .jsonl or .parquet file.")
    made, skipped, notes = _made(source.rows(location, chosen, seed), progress)
    reasons = Counter(skip.reason for skip in skipped).most_common()
    if not made:
        why = "; ".join(f"{reason}: {n}" for reason, n in reasons) or "it holds no items"
        raise CarbError(
            f"Nothing could be built from {location} as '{source.name}' ({why}). No file was "
            "written."
        )
    sets = made.values()
    write_whole(out, Dataset(sets).save)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for item in sets:
        counts[item.culture][item.domain.value] += 1
    licenses = {item.provenance.license for item in sets}
    return BuildReport(
        source=source.name,
        path=str(location),
        out=str(out),
        seed=seed,
        options=chosen.model_dump(mode="json"),
        built=len(made),
        skipped=len(skipped),
        counts={culture: dict(counts[culture]) for culture in sorted(counts)},
        reasons=dict(reasons),
        licenses=tuple(sorted(licenses)),
        notes=tuple(notes),
    )
