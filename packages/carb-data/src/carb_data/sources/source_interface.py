"""What a source is: an adapter from one public data set, or from one kind of file, to sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints

from carb_data.models import BonSet, Frozen

__all__ = ["Names", "Skip", "Source"]


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""An option that takes several names: a sequence, or one string with commas."""


class Skip(Frozen):
    """One source item from which nothing was made, and why."""

    source_id: str
    reason: Annotated[str, StringConstraints(min_length=1)]
    """A phrase that is the same for all items skipped for the same cause, so that reasons can be counted."""
    culture: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """An adapter from one public data set, or from one kind of file, to sets."""

    name: str
    description: str
    license: str
    rows: Callable[[Path, Any, int], Iterator[BonSet | Skip]]
    """Function of the path, the options and the seed. It yields a set or a ``Skip`` for every item of the source, in an
    order and with a content that depend on its arguments alone, and raises ``CarbError`` when the path does not hold
    the source."""
    options: type[Frozen] = Frozen
    """Each field is an option by name, with a default and a docstring."""
    has_files: bool = True
    """False for a source that reads what other sources read."""
