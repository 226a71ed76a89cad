"""The sources by name: the declarations that ship here, and what others registered."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from carb_data.errors import CarbError
from carb_data.options import closest
from carb_data.sources.declaration import Declaration, read_declaration, shipped
from carb_data.sources.declared import DeclaredOptions, DeclaredRows
from carb_data.sources.source import Reader, Source

__all__ = ["Sources", "sources"]

ENTRY_POINTS = "carb.sources"
"""Entry-point group under which other distributions register a ``Source``."""

_T = TypeVar("_T")


class Sources:
    """Sources by name, or by the path of a ``.toml`` file that declares one.

    Other distributions register theirs under the entry-point group ``carb.sources``, as ``module:attribute``, and a
    script with ``add``.
    """

    def __init__(self) -> None:
        self._added: dict[str, Source] = {}

    def add(self, source: Source) -> None:
        """Add a source, or replace the one of that name."""
        self._added[source.name] = source

    def __iter__(self) -> Iterator[str]:
        own = (name for name, declaration in shipped().items() if declaration.yields_sets)
        return iter(sorted({*self._added, *own, *_registered()}))

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __getitem__(self, name: str) -> Source:
        if name in self._added:
            return self._added[name]
        if name.endswith(".toml"):
            return _declared(read_declaration(Path(name)))
        if (place := _registered().get(name)) is not None:
            return _imported(place, Source, name)
        if name in self:
            return _declared(shipped()[name])
        names = list(self)
        raise CarbError(f"There is no source '{name}'.{closest(name, names)} Known sources: {', '.join(names)}.")


def _registered() -> dict[str, str]:
    return {point.name: point.value for point in metadata.entry_points(group=ENTRY_POINTS)}


def _declared(declaration: Declaration) -> Source:
    given = declaration.name, declaration.description, declaration.license
    if not declaration.reader:
        return Source(*given, DeclaredRows(declaration), DeclaredOptions)
    reader = _imported(declaration.reader, Reader, declaration.name)
    return Source(*given, lambda *args: reader.rows(declaration, *args), reader.options, reader.has_files)


def _imported(place: str, form: type[_T], name: str) -> _T:
    module, _, attribute = place.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, form):
        raise CarbError(f"The source '{name}' is registered as {place}, which is not a carb_data {form.__name__}.")
    return found


sources = Sources()
"""The registry."""
