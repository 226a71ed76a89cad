"""``carb validity``: do benchmark scores predict downstream results?"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from carb_cli import display
from carb_cli.json_output import print_json
from carb_cli.options import Confidence, Json
from carb_data import CarbError
from carb_metrics import correlate
from carb_metrics.rows import Correlation, Interval

OPTIONAL = ("covariate", "benchmark_se", "downstream_se")
"""Columns of numbers that are read where a file has them; all others are ignored."""


def validity(
    file: Path,
    *,
    against: str | None = None,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Say whether benchmark scores of reward models predict their downstream results.

    For example:

        carb validity downstream.csv

    Parameters
    ----------
    file
        CSV with a row for each reward model and the columns scorer, benchmark, downstream, and
        perhaps covariate, benchmark_se and downstream_se (standard errors), and base (the model
        that it was made from).
    against
        The column with the scores of another benchmark, to say which of both predicts better.
    """
    names, columns, bases = _read(
        file, ["benchmark", "downstream", *([against] if against else [])]
    )
    found = correlate(
        columns["benchmark"],
        columns["downstream"],
        columns.get("covariate"),
        confidence,
        x_error=columns.get("benchmark_se"),
        y_error=columns.get("downstream_se"),
        bases=bases,
        against=columns[against] if against else None,
        labels=names,
    )
    if json:
        print_json({**found.model_dump(mode="json"), "confidence": confidence, "against": against})
    else:
        _show(found, confidence, against)


def _read(
    path: Path, required: Sequence[str]
) -> tuple[list[str], dict[str, list[float]], list[str] | None]:
    """The names of the scorers, the columns of numbers, and the base model of each, where there is
    such a column.

    Raises:
        CarbError: the file cannot be read, a column is missing, a value is no number, or a scorer
            comes twice; every bad line is named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            rows = [(reader.line_num, row) for row in reader]
    except (csv.Error, UnicodeDecodeError) as error:
        raise CarbError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    missing = ", ".join(name for name in ("scorer", *required) if name not in header)
    if missing:
        raise CarbError(f"{path} lacks the column {missing}. It has {', '.join(header) or 'none'}.")
    names: list[str] = []
    columns: dict[str, list[float]] = {
        name: [] for name in (*required, *OPTIONAL) if name in header
    }
    problems = []
    for line, row in rows:
        name = (row["scorer"] or "").strip()
        if not name or name in names:
            problems.append(
                f"line {line}: scorer '{name}' " + ("comes twice" if name else "is empty")
            )
        names.append(name)
        for column, values in columns.items():
            values.append(finite(row[column]))
            if math.isnan(values[-1]):
                problems.append(f"line {line}: {column} is '{row[column] or ''}', not a number")
    if problems:
        raise CarbError(f"{path}: {'; '.join(problems)}. Correct these lines, or leave them out.")
    bases = [
        (row.get("base") or "").strip() or name for name, (_, row) in zip(names, rows, strict=True)
    ]
    return names, columns, bases if "base" in header else None


def finite(text: str | None) -> float:
    """The number; NaN where it is none, or infinite."""
    try:
        value = float(text or "")
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _show(found: Correlation, confidence: float, against: str | None) -> None:
    rows = [
        ("Spearman's ρ", found.spearman),
        ("Kendall's τ", found.kendall),
        ("Pearson's r", found.pearson),
    ]
    if found.partial is not None:
        rows.append(("Spearman's ρ, covariate taken out", found.partial.spearman))
        rows.append(("Pearson's r, covariate taken out", found.partial.pearson))
    if found.corrected is not None:
        rows.append(("Pearson's r without errors of measurement", found.corrected))
    if found.rival is not None:
        rows.append((f"difference to the r of {against} (Williams)", found.rival.difference))
    known = sorted(
        (row.pearson, row.label) for row in found.influence or () if row.pearson is not None
    )
    for r, label in (known[0], known[-1]) if known else ():
        rows.append((f"Pearson's r without {label}", Interval(estimate=r)))
    columns = ["correlation", "estimate", f"{100 * confidence:.0f}%", "p"]
    shown = [(name, *_cells(estimate)) for name, estimate in rows]
    display.table(display.counted(found.n, "reward model"), columns, shown, right=columns[1:])
    if found.pearson.estimate is None:
        display.say(
            "No correlation can be computed: that needs several reward models with "
            "different numbers."
        )
    if found.bases < found.n:
        display.say(
            f"The interval of Pearson's r is over {found.bases} base models; for related models "
            "those of the other correlations are not known."
        )


def _cells(estimate: Interval) -> tuple[str, str, str]:
    low, high = display.number(estimate.low, 3), display.number(estimate.high, 3)
    limits = "" if estimate.low is None else f"[{low}, {high}]"
    return display.number(estimate.estimate, 3), limits, display.p_value(estimate.p)
