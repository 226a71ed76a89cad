"""Build a file of sets from a source, and say what was built and what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from carb_data.dataset import Dataset
from carb_data.errors import CarbError
from carb_data.journal import write_whole
from carb_data.models import BonSet, Frozen
from carb_data.registry import Registry, cultures
from carb_data.sources.source_files import find_files
from carb_data.sources.source_interface import Skip, Source
from carb_data.sources.source_registry import sources
from carb_data.validation import read_options

__all__ = ["BuildReport", "RowCount", "build", "rows"]


class RowCount(Frozen):
    """How many sets were built for one culture, domain and language."""

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
    """Licences of the built sets."""


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
    chosen = _options(source, options)
    place = _place(source, path)
    if not place.exists():
        raise CarbError(f"There is nothing at {place}; give the folder or file that holds the data of '{source.name}'.")
    return source.rows(place, chosen, seed)


def _options(source: Source, given: Mapping[str, Any]) -> Frozen:
    return read_options(source.options, f"Source '{source.name}'", given)


def _place(source: Source, path: str | Path | None) -> Path:
    if path is not None:
        return Path(path)
    return find_files(source.name) if source.has_files else Path()


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
    """Build a file of sets from a source.

    ``out`` appears, or is replaced, only when everything was made; after an error it is as it was.

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
    place, out = _place(source, path), Path(out)
    if out.suffix not in (".jsonl", ".parquet"):
        raise CarbError(f"{out}: unknown file type; sets are written to a .jsonl or .parquet file.")
    made: dict[str, BonSet] = {}
    skipped: list[Skip] = []
    for row in rows(source, place, seed=seed, **options):
        if isinstance(row, Skip):
            skipped.append(row)
        elif row.id in made:
            skipped.append(Skip(source_id=row.id, reason="repeated id", culture=row.culture, language=row.language))
        else:
            if registry is not None:
                _ = registry[row.culture]  # an unknown culture ends the build with what to do
            made[row.id] = row
        if progress is not None:
            progress(len(made), len(skipped))
    reasons = Counter(skip.reason for skip in skipped).most_common()
    if not made:
        why = "; ".join(f"{reason}: {n}" for reason, n in reasons) or "it holds no items"
        raise CarbError(f"Nothing could be built from {place} as '{source.name}' ({why}). No file was written.")
    write_whole(out, Dataset(made.values()).save)
    if skips is not None:
        write_whole(Path(skips), "".join(skip.model_dump_json(exclude_none=True) + "\n" for skip in skipped))
    counts = Counter((item.culture, item.domain.value, item.language) for item in made.values())
    return BuildReport(
        source=source.name,
        path=str(place),
        out=str(out),
        seed=seed,
        options=_options(source, options).model_dump(mode="json"),
        built=len(made),
        skipped=len(skipped),
        counts=tuple(
            RowCount(culture=culture, domain=domain, language=language, rows=n)
            for (culture, domain, language), n in sorted(counts.items())
        ),
        reasons=dict(reasons),
        licenses=tuple(sorted({item.provenance.license for item in made.values()})),
    )
