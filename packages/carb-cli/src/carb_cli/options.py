"""Options that several commands share."""

from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

from cyclopts import Parameter

from carb_cli.main import invoked
from carb_data import CarbError, DiskError

Several = Parameter(negative=(), consume_multiple=True, show_default=False)
"""An option that takes several values, after one another or by being repeated."""
Names = Annotated[tuple[str, ...], Several]
"""Several texts."""
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""A switch that is off unless it is given."""
Json = Annotated[
    bool,
    Parameter(name="--json", negative=(), show_default=False, help="Print the result as JSON."),
]


def _folder(_: object, path: Path | None) -> None:
    """Refuse, before any work, a folder that cannot be written."""
    if path is None:
        return
    whole = path.absolute()
    there = next(one for one in (whole, *whole.parents) if one.exists())
    try:
        with TemporaryFile(dir=there):
            return
    except OSError as error:
        raise DiskError(path, error) from None


def _file(_: object, path: Path | None) -> None:
    """The same for the folder of a file; ``-`` is stdout."""
    if path is not None and str(path) != "-":
        _folder(_, path.parent)


OutFolder = Parameter(validator=_folder)
OutFile = Parameter(validator=_file, show_default=False)
MaybeFile = Annotated[Path | None, OutFile]
"""A file to write, if it is given."""
TextFile = Annotated[MaybeFile, Parameter(allow_leading_hyphen=True)]
"""A file for a text, or ``-`` for stdout."""
MdFile = Annotated[
    TextFile,
    Parameter(help="Write the leaderboard, or the section, in Markdown to a file; - for stdout."),
]
LatexFile = Annotated[
    TextFile,
    Parameter(help="Write the leaderboard, or the section, in LaTeX to a file; - for stdout."),
]

DataFile = Annotated[Path, OutFile, Parameter(help="The .jsonl or .parquet file to write.")]
RunFolder = Annotated[
    Path, Parameter(help="Folders that `carb run` wrote, all on the same data set.")
]
DataName = Annotated[str, Parameter(help="carb-seed, a path, or hf://owner/name.")]


def _share(_: object, value: float | None) -> None:
    if value is not None and not 0 < value < 1:
        raise CarbError(f"A share lies between 0 and 1, such as 0.95 for 95%; got {value:g}.")


Confidence = Annotated[
    float,
    Parameter(validator=_share, help="Confidence of the intervals, between 0 and 1."),
]
Margin = Annotated[float | None, Parameter(validator=_share)]


def refuse(given: object, option: str, why: str) -> None:
    """Refuse an option that another one makes void.

    Raises:
        CarbError: the option was given.
    """
    if given:
        raise CarbError(f"{option} has no effect {why}; leave {option} out.")


def refuse_files(*paths: Path | None, figure: Path | None = None) -> None:
    """Refuse a folder where a file is to be written, two texts in one file, and a figure whose name
    says that it is no SVG.

    Raises:
        CarbError: a path is a folder, two are the same file, or the figure's name ends otherwise.
    """
    every = (*paths, figure)
    files = [path.resolve() for path in every if path is not None and str(path) != "-"]
    for path in files:
        if path.is_dir():
            raise CarbError(
                f"{path} is a folder. Name a file in it, such as {path / 'report.html'}."
            )
        if files.count(path) > 1:
            raise CarbError(f"Two options name the same file, {path}. Give each its own.")
    if figure is not None and figure.suffix != ".svg":
        raise CarbError(f"{figure}: a figure is written as .svg.")


def refuse_loading(why: str) -> None:
    """Refuse options about the rows of a table where no table is read.

    Raises:
        CarbError: such an option was given.
    """
    for option in invoked.loading()[::2]:
        refuse(True, option, why)


def refuse_mixed_output(json: bool, *texts: Path | None) -> None:
    """Refuse two results on stdout.

    Raises:
        CarbError: more than one of ``--json`` and the files is stdout.
    """
    if json + sum(str(path) == "-" for path in texts) > 1:
        raise CarbError("Two of --json, --md and --latex go to stdout. Give all but one a file.")


@dataclass(frozen=True)
class OptionGroup:
    """Options that a command takes together. The command line shows the docstrings of the fields as
    help."""

    def arguments(self) -> list[str]:
        """These options as they are written on a command line; those with their default value are
        left out."""
        given: list[str] = []
        for option in fields(self):
            value = getattr(self, option.name)
            if value != option.default:
                several = value
                if not isinstance(value, tuple):
                    several = (str(value),)
                given += [f"--{option.name.replace('_', '-')}", *(() if value is True else several)]
        return given
