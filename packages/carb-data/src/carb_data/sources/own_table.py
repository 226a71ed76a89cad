"""A table that you bring: CSV, TSV, Excel or JSON Lines in the shapes of ``carb_data.shapes``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import BonSet, Frozen
from carb_data.shapes import read_rows
from carb_data.sources.declaration import Declaration
from carb_data.sources.source_interface import Names

__all__ = ["Options", "build"]


class Options(Frozen):
    """Options of ``table``."""

    culture: str | None = None
    """Culture of rows without one of their own."""
    domain: str | None = None
    """Domain of rows without one of their own."""
    language: str | None = None
    """Language of rows without one of their own."""
    license: str | None = None
    """Licence of rows without one of their own."""
    origin: str | None = None
    """Name of the data set, for the provenance; by default own."""
    columns: Names = ()
    """Field and column, as prompt:Frage,chosen:richtig; by default found by name."""
    count_from: int | None = Field(None, ge=0, le=1)
    """Number of the first option; by default as answers show."""


def build(_: Declaration, path: Path, options: Options, seed: int) -> Iterator[BonSet]:  # noqa: ARG001 - order by hash
    """Yield a set for every row.

    Raises:
        DataError: with every row that makes no set.
    """
    pairs = [entry.partition(":") for entry in options.columns]
    wrong = [field for field, mark, column in pairs if not mark or not column]
    if wrong:
        raise CarbError(f"columns: write field:column, as prompt:Frage; '{wrong[0]}' has no column.")
    defaults = options.model_dump(exclude={"columns", "count_from"}, exclude_none=True)
    columns = {field: column for field, _, column in pairs}
    yield from read_rows(path, columns=columns, defaults=defaults, count_from=options.count_from)
