"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print the result as JSON.")]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative=(), help="Show no progress.")]
CultureFile = Annotated[
    tuple[Path, ...],
    Parameter(name="--culture-file", negative=(), help="A file that defines further cultures; may be repeated."),
]


def add_cultures(paths: tuple[Path, ...]) -> None:
    """Make the cultures of the user's files known to everything that follows."""
    from carb_data import cultures

    cultures.add(*paths)
