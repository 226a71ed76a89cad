"""A table that you bring: CSV, TSV, Excel or JSON Lines in the shapes of ``carb_data.shapes``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from carb_data.errors import CarbError
from carb_data.models import BonSet
from carb_data.shapes import read_rows
from carb_data.sources.base import Names, Options, Source

__all__ = ["SOURCE"]


class TableOptions(Options):
    """Options of ``table``."""

    culture: str | None = Field(None, description="Culture of rows without one of their own")
    domain: str | None = Field(None, description="Domain of rows without one of their own")
    language: str | None = Field(None, description="Language of rows without one of their own")
    license: str | None = Field(None, description="Licence of rows without one of their own")
    origin: str | None = Field(None, description="Name of the data set, for the provenance; by default own")
    columns: Names = Field((), description="Field and column, as prompt:Frage,chosen:richtig; by default found by name")
    count_from: int | None = Field(
        None, ge=0, le=1, description="Number of the first option; by default as answers show"
    )


def build(path: Path, options: TableOptions, seed: int) -> Iterator[BonSet]:  # noqa: ARG001 - the order is by hash
    """Yield a set for every row.

    Args:
        path: The path of the file.
        options: The culture, the domain and whatever else the columns do not say.
        seed: It has no effect here: the order of the answers follows from their texts.

    Raises:
        DataError: with every row that makes no set.
    """
    pairs = [entry.partition(":") for entry in options.columns]
    wrong = [field for field, mark, column in pairs if not mark or not column]
    if wrong:
        raise CarbError(f"columns: write field:column, as prompt:Frage; '{wrong[0]}' has no column.")
    defaults = {
        name: value
        for name, value in options.model_dump(exclude={"columns", "count_from"}).items()
        if value is not None
    }
    columns = {field: column for field, _, column in pairs}
    yield from read_rows(path, columns=columns, defaults=defaults, count_from=options.count_from)


SOURCE = Source(
    name="table",
    description="A CSV, TSV, Excel or JSON Lines file you bring: prompt, chosen, rejected or question, A to D, answer",
    license="as given",
    rows=build,
    options=TableOptions,
)
