"""The sources by name: the declarations that ship here, and what others registered."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

from carb_data.errors import CarbError
from carb_data.options import closest
from carb_data.sources.declaration import Declaration, read_declaration, shipped
from carb_data.sources.declared import DeclaredRows
from carb_data.sources.source_interface import Source

__all__ = ["Sources", "sources"]

ENTRY_POINTS = "carb.sources"
"""Entry-point group under which other distributions register a ``Source``."""


class Sources(Mapping[str, Source]):
    """Sources by name, or by the path of a ``.toml`` file that declares one.

    Other distributions register theirs under the entry-point group ``carb.sources``, as ``module:attribute``. A script
    gives its ``Source`` itself to ``build`` and ``rows``.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*shipped(), *_registered()}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __getitem__(self, name: str) -> Source:
        if name.endswith(".toml"):
            return _declared(read_declaration(Path(name)))
        if (point := _registered().get(name)) is not None:
            found = point.load()
            if not isinstance(found, Source):
                raise CarbError(f"The source '{name}' is registered as {point.value}, which is not a carb_data Source.")
            return found
        names = list(self)
        if name not in names:
            raise CarbError(f"There is no source '{name}'.{closest(name, names)} Known sources: {', '.join(names)}.")
        return _declared(shipped()[name])


def _registered() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}


def _declared(source: Declaration) -> Source:
    given = source.name, source.description, source.license
    if not source.reader:
        return Source(*given, DeclaredRows(source))
    module = importlib.import_module(source.reader)
    return Source(*given, partial(module.build, source), module.OPTIONS, source.has_files)


sources = Sources()
"""The registry."""
