"""Rows of JSON Lines, JSON and Parquet files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carb_data import CarbError

__all__ = ["read_rows", "row_files"]


def row_files(path: Path) -> list[Path]:
    """The file, or every file of rows in the folder.

    Raises:
        CarbError: the folder holds none.
    """
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.rglob("*") if re.search(r"\.(jsonl|json|parquet)(\.gz)?$", p.name))
    if not found:
        raise CarbError(f"{path} holds no .jsonl, .json or .parquet file.")
    return found


def read_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a ``.jsonl``, ``.json`` (both also ``.gz``) or ``.parquet`` file.

    Raises:
        CarbError: the file cannot be read or holds something else than objects.
    """
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CarbError(f"Cannot read {path}: {reason}.") from None
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    else:
        try:
            rows = list(json.loads(text))
        except (TypeError, ValueError) as error:
            raise CarbError(f"{path} is not valid JSON: {error}.") from None
    if not all(isinstance(row, dict) for row in rows):
        raise CarbError(f"{path} must hold objects, one a row.")
    return rows


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        reason = str(error).replace("line 1 column", "column")  # of the text that was parsed, which is one line
        raise CarbError(f"{path}:{number} is not valid JSON: {reason}.") from None


def _parquet(path: Path) -> list[Mapping[str, Any]]:
    import polars

    try:
        return list(polars.read_parquet(path).to_dicts())
    except polars.exceptions.PolarsError as error:
        raise CarbError(f"{path} is not a Parquet file: {str(error).splitlines()[0]}.") from None
