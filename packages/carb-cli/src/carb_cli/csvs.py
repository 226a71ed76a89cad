"""Reading small tables that users write."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from carb_data import CarbError


@dataclass(frozen=True, slots=True)
class Points:
    """Measurements of scorers: a name and a number for each column of each."""

    names: tuple[str, ...]
    columns: dict[str, tuple[float, ...]]
    bases: tuple[str, ...] | None = None
    """Base model of each scorer; null without a column ``base``."""


def read_points(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Points:
    """Read a CSV file with a column ``scorer`` and columns of numbers.

    Args:
        path: the file: UTF-8, comma-separated, with a header line.
        required: the columns of numbers that must be there.
        optional: the columns of numbers that are read where the file has them; all others are ignored.

    Raises:
        CarbError: the file cannot be read, a column is missing, a value is no number, or a scorer comes twice; every
            bad line is named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise CarbError(f"Cannot read {path}: {error.strerror}.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise CarbError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    missing = [name for name in ("scorer", *required) if name not in header]
    if missing:
        needed = ", ".join(("scorer", *required))
        raise CarbError(
            f"{path} lacks the column {', '.join(missing)}. It needs {needed}; it has {', '.join(header) or 'none'}."
        )
    wanted = [*required, *(name for name in optional if name in header)]
    names: list[str] = []
    columns: dict[str, list[float]] = {name: [] for name in wanted}
    problems = []
    for line, row in rows:
        name = (row["scorer"] or "").strip()
        if not name or name in names:
            problems.append(f"line {line}: scorer '{name}' " + ("comes twice" if name else "is empty"))
        names.append(name)
        for column in wanted:
            value = _number(row[column])
            if value is None:
                problems.append(f"line {line}: {column} is '{row[column] or ''}', not a number")
            columns[column].append(value if value is not None else math.nan)
    if problems:
        raise CarbError(f"{path}: {'; '.join(problems)}. Correct these lines, or leave them out.")
    bases = [(row.get("base") or "").strip() or name for name, (_, row) in zip(names, rows, strict=True)]
    return Points(
        tuple(names),
        {name: tuple(values) for name, values in columns.items()},
        tuple(bases) if "base" in header else None,
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
