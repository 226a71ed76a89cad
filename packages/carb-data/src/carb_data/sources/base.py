"""The interface of source adapters, their registry, and the build that streams one into a file."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BeforeValidator

from carb_data import files
from carb_data.errors import CarbError
from carb_data.models import BonSet, Frozen
from carb_data.options import closest
from carb_data.registry import Registry, cultures
from carb_data.sources.models import Skip
from carb_data.sources.published import find_files
from carb_data.validation import read_options

__all__ = ["BuildReport"]

ENTRY_POINTS = "carb.sources"
"""Entry-point group under which other distributions register a ``Source``."""

_ROWS_PER_PIECE = 4096


class Options(Frozen):
    """Base of a source's options: every field is an option by name, with a default and a description."""


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""An option that takes several names: a sequence, or one string with commas."""


@dataclass(frozen=True, slots=True)
class Source:
    """An adapter from one public data set, or from one file format, to sets.

    ``rows(path, options, seed)`` yields a set or a ``Skip`` for every item of the source, in an order and with a
    content that depend on its arguments alone, holding no more in memory than the source's own files need.
    It raises ``CarbError`` when ``path`` does not hold the source.
    """

    name: str
    description: str
    license: str
    rows: Callable[[Path, Any, int], Iterator[BonSet | Skip]]
    options: type[Options] = Options
    files: str | None = None
    """Name of the source whose files it reads, where that is not its own; empty where it reads none of its own."""


_SHIPPED = {
    **{name: f"carb_data.sources.{name}:SOURCE" for name in ("blend", "table", "wvs")},
    "carb-open": "carb_data.sources.open:SOURCE",
    "blend-families": "carb_data.sources.blend_families:SOURCE",
}


_DECLARED = Path(str(resources.files("carb_data") / "resources" / "sources"))


@cache
def _declarations() -> dict[str, Path]:
    """The declared sources that ship with this package, with their files."""
    return {file.stem: file for file in sorted(_DECLARED.glob("*.toml"))}


class Sources:
    """Sources by name; a source's module is imported when the source is first asked for.

    Places are written ``module:attribute``; a name that ends in ``.toml`` is the file of a declaration. Other
    distributions add theirs under the entry-point group ``carb.sources``, and a script with ``add``.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places: dict[str, str | Source] = dict(places)

    def add(self, source: Source) -> None:
        """Add a source, or replace the one of that name."""
        self._places[source.name] = source

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._places, *_declarations(), *self._plugins()}))

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in _declarations() or name in self._plugins()

    def __getitem__(self, name: str) -> Source:
        place = self._places.get(name) or self._plugins().get(name)
        declaration = Path(name) if name.endswith(".toml") else _declarations().get(name)
        if place is None and declaration is not None:
            from carb_data.sources.declared import declared

            return declared(declaration)
        if place is None:
            names = list(self)
            raise CarbError(f"There is no source '{name}'.{closest(name, names)} Known sources: {', '.join(names)}.")
        if isinstance(place, Source):
            return place
        module, _, attribute = place.partition(":")
        source = getattr(importlib.import_module(module), attribute)
        if not isinstance(source, Source):
            raise CarbError(f"The source '{name}' is registered as {place}, which is not a carb_data Source.")
        return source

    @staticmethod
    def _plugins() -> dict[str, str]:
        return {point.name: point.value for point in metadata.entry_points(group=ENTRY_POINTS)}


sources = Sources(_SHIPPED)
"""The registry: the sources that ship with this package, and those that others registered."""


class RowCount(Frozen):
    """How many rows were built for one culture, domain and language."""

    culture: str
    domain: str
    language: str
    rows: int


class BuildReport(Frozen):
    """What a build made, and what it did not make and why."""

    source: str
    path: str
    out: str
    seed: int
    options: dict[str, Any]
    built: int
    skipped: int
    counts: tuple[RowCount, ...]
    """Sorted by culture, domain, language; they sum to ``built``."""
    reasons: dict[str, int]
    """Reason to number of skipped items, most frequent first; they sum to ``skipped``."""
    licenses: tuple[str, ...]
    """Licences of the built rows."""


def parse_options(source: Source, given: Mapping[str, Any]) -> Options:
    """The options of ``source`` from names and values; values may be the strings of a command line.

    Raises:
        CarbError: an option is unknown (with the nearest known one) or its value is not valid.
    """
    return read_options(source.options, f"Source '{source.name}'", given)


def rows(
    name: str | Source, path: str | Path | None = None, *, seed: int = 0, **options: Any
) -> Iterator[BonSet | Skip]:
    """Stream the sets and skips of a source without writing a file.

    Args:
        name: a registered source, or a ``Source`` itself.
        path: the file or folder that holds the source's data; by default where ``find_files`` finds it.
        seed: the seed of every random choice.
        options: the source's own options.

    Raises:
        CarbError: unknown source or option, or ``path`` does not hold the source.
    """
    source = name if isinstance(name, Source) else sources[name]
    chosen = parse_options(source, options)
    path = _place(source) if path is None else path
    if not Path(path).exists():
        raise CarbError(f"There is nothing at {path}; give the folder or file that holds the data of '{source.name}'.")
    return source.rows(Path(path), chosen, seed)


def _place(source: Source) -> Path:
    return Path() if source.files == "" else find_files(source.files or source.name)


def build(
    name: str | Source,
    path: str | Path | None,
    out: str | Path,
    *,
    seed: int = 0,
    registry: Registry | None = cultures,
    skips: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> BuildReport:
    """Build a file from a source, streaming: memory does not grow with the number of rows.

    ``out`` appears, or is replaced, only when everything was written; after an error it is as it was.

    Args:
        name: a registered source, or a ``Source`` itself.
        path: the file or folder that holds the source's data; None for where ``find_files`` finds it.
        out: a ``.jsonl`` or ``.parquet`` file.
        seed: the seed of every random choice; the same seed gives the same file.
        registry: cultures that may occur; ``None`` accepts any.
        skips: a ``.jsonl`` file for every skipped item with its reason.
        progress: the function that is called after each source item with the numbers built and skipped so far.
        options: the source's own options.

    Raises:
        CarbError: unknown source or option, ``path`` does not hold the source, a culture is not registered, or
            nothing at all could be built.
    """
    source = name if isinstance(name, Source) else sources[name]
    path = _place(source) if path is None else path
    out = Path(out)
    if out.suffix not in (".jsonl", ".parquet"):
        raise CarbError(f"{out}: unknown file type; sets are written to a .jsonl or .parquet file.")
    stream = rows(source, path, seed=seed, **options)
    tally = _Tally(registry, progress)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{os.getpid()}.jsonl")
    packed = draft.with_suffix(".parquet")
    rejects = None if skips is None else Path(skips)
    rejects_draft = out.with_name(f".{out.name}.{os.getpid()}.skips")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            if rejects is None:
                file.writelines(tally.lines(stream, None))
            else:
                rejects.parent.mkdir(parents=True, exist_ok=True)
                with rejects_draft.open("w", encoding="utf-8", newline="\n") as rejected:
                    file.writelines(tally.lines(stream, lambda skip: rejected.write(skip + "\n")))
        if tally.built == 0:
            raise CarbError(_nothing(source, path, tally.reasons))
        if out.suffix == ".parquet":
            _pack(draft, packed)
        (packed if out.suffix == ".parquet" else draft).replace(out)
        if rejects is not None:
            rejects_draft.replace(rejects)
    finally:
        for leftover in (draft, packed, rejects_draft):
            leftover.unlink(missing_ok=True)
    return BuildReport(
        source=source.name,
        path=str(path),
        out=str(out),
        seed=seed,
        options=json.loads(parse_options(source, options).model_dump_json()),
        built=tally.built,
        skipped=tally.reasons.total(),
        counts=tuple(
            RowCount(culture=culture, domain=domain, language=language, rows=n)
            for (culture, domain, language), n in sorted(tally.counts.items())
        ),
        reasons=dict(tally.reasons.most_common()),
        licenses=tuple(sorted(tally.licenses)),
    )


def _pack(lines: Path, packed: Path) -> None:
    """Parquet from JSON Lines, piece by piece: read at once, the lines would take several times their size."""
    with tempfile.TemporaryDirectory(dir=packed.parent, prefix=packed.name) as folder, lines.open("rb") as file:
        parts: list[Path] = []
        while piece := b"".join(itertools.islice(file, _ROWS_PER_PIECE)):
            parts.append(Path(folder) / f"{len(parts)}.parquet")
            pl.read_ndjson(io.BytesIO(piece), schema=files.SCHEMA).write_parquet(parts[-1])
        pl.scan_parquet(parts).sink_parquet(packed, row_group_size=_ROWS_PER_PIECE)


class _Tally:
    """Counts what passes through, and turns repeated ids into skips: ids must be unique in a file."""

    def __init__(self, registry: Registry | None, progress: Callable[[int, int], None] | None) -> None:
        self.registry = registry
        self.progress = progress
        self.built = 0
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.reasons: Counter[str] = Counter()
        self.licenses: set[str] = set()

    def lines(self, stream: Iterable[BonSet | Skip], reject: Callable[[str], object] | None) -> Iterator[str]:
        seen: set[str] = set()
        for row in stream:
            if isinstance(row, Skip):
                entry = row
            elif row.id in seen:
                entry = Skip(source_id=row.id, reason="repeated id", culture=row.culture, language=row.language)
            else:
                seen.add(row.id)
                if self.registry is not None:
                    _ = self.registry[row.culture]  # an unknown culture ends the build with what to do
                self.built += 1
                self.counts[row.culture, row.domain.value, row.language] += 1
                self.licenses.add(row.provenance.license)
                yield files.to_json(row) + "\n"
                self._report()
                continue
            self.reasons[entry.reason] += 1
            if reject is not None:
                reject(entry.model_dump_json(exclude_none=True))
            self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(self.built, self.reasons.total())


def _nothing(source: Source, path: str | Path, reasons: Counter[str]) -> str:
    why = "; ".join(f"{reason}: {n}" for reason, n in reasons.most_common()) or "it holds no items"
    return f"Nothing could be built from {path} as '{source.name}' ({why}). No file was written."
