"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Several = Parameter(negative=(), consume_multiple=True, show_default=False)
"""An option that takes several values, after one another or by being repeated."""
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False, help="Print the result as JSON.")]
Quiet = Annotated[bool, Parameter(name=["--quiet", "-q"], negative=(), show_default=False, help="Show no progress.")]
CultureFile = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--culture-file",
        negative=(),
        show_default=False,
        help="A file that defines further cultures; may be repeated.",
    ),
]


def add_cultures(paths: tuple[Path, ...]) -> None:
    """Make the cultures of the user's files known to everything that follows."""
    from carb_data import cultures

    cultures.add(*paths)
