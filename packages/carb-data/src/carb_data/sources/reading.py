"""Reading source files: what is wrong with one is said in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from carb_data.errors import CarbError

T = TypeVar("T")


def read_json(file: Path, form: TypeAdapter[T], source: str) -> T:
    """The content of a JSON file, checked against ``form``.

    Raises:
        CarbError: the file is missing, is not JSON, or is not what ``source`` publishes.
    """
    try:
        return form.validate_json(file.read_bytes())
    except OSError as error:
        raise CarbError(f"Cannot read {file} of {source}: {error.strerror or error}.") from None
    except ValidationError as error:
        raise CarbError(f"{file} is not a file of {source}: {first_defect(error)}.") from None


def first_defect(error: ValidationError) -> str:
    """The first thing that was wrong, with its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    reason = first["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def read_text(file: Path, source: str) -> str:
    """A text file in UTF-8, with or without a byte order mark.

    Raises:
        CarbError: the file is missing or not UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CarbError(f"{file} of {source} is not UTF-8 text.") from None
    except OSError as error:
        raise CarbError(f"Cannot read {file} of {source}: {error.strerror or error}.") from None


def find_folder(path: Path, inside: str, source: str) -> Path:
    """``path``, or its folder ``data``: the one that matches the glob ``inside``.

    Raises:
        CarbError: neither does.
    """
    for folder in (path, path / "data"):
        if folder.is_dir() and next(folder.glob(inside), None) is not None:
            return folder
    raise CarbError(f"{path} does not hold {source}: nothing there, or in its folder 'data', is called {inside}.")
