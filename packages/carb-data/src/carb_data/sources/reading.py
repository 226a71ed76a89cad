"""Reading source files: what is wrong with one is said in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from carb_data.errors import CarbError
from carb_data.validation import read_file

T = TypeVar("T")


def read_json(file: Path, form: TypeAdapter[T], source: str) -> T:
    """The content of a JSON file, checked against ``form``.

    Raises:
        CarbError: the file is missing, is not JSON, or is not what ``source`` publishes.
    """
    return read_file(form, file, f"file of {source}")


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
