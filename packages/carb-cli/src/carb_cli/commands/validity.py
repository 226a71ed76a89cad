"""``carb validity``: do benchmark scores predict downstream results?"""

from __future__ import annotations

import csv
import json as json_module
import math
from dataclasses import dataclass
from pathlib import Path

from carb_cli import display
from carb_cli.json_output import print_json
from carb_cli.options import Confidence, Json, refuse, refuse_files
from carb_cli.report.scatter import scatter
from carb_data import CarbError, write_whole
from carb_metrics import Interval, correlate
from carb_metrics.rows import Correlation

OPTIONAL = ("covariate", "benchmark_se", "downstream_se")
"""Columns of numbers that are read where a file has them; all others are ignored."""


@dataclass(frozen=True)
class Points:
    """The reward models of one policy, and their numbers."""

    names: list[str]
    columns: dict[str, list[float]]
    bases: list[str] | None
    """The base model of each; null where the file has no such column."""


def validity(
    file: Path,
    *,
    benchmark: Path | None = None,
    against: str | None = None,
    figure: Path | None = None,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Test whether benchmark scores of reward models predict their downstream results.

    For example:

        carb validity downstream.csv

    Parameters
    ----------
    file
        CSV with a row for each reward model and the columns scorer, benchmark, downstream, and
        perhaps policy (each is a table of its own), covariate, benchmark_se and downstream_se
        (standard errors), and base (its base model).
    benchmark
        A report of `carb report --json`: its accuracies are the column benchmark.
    against
        Another benchmark, to test which of the two predicts better: a column of the file, or
        another report.
    figure
        Write the points and the fitted line to this SVG file, a panel for each policy.
    """
    refuse_files(figure, file)
    tested = ("benchmark", "downstream", str(benchmark))
    refuse(against in tested, "--against", "for the same numbers")
    policies = _read(file, benchmark, against)
    correlations = {}
    for name, points in policies.items():
        columns = points.columns
        correlations[name] = correlate(
            columns["benchmark"],
            columns["downstream"],
            columns.get("covariate"),
            confidence,
            x_error=columns.get("benchmark_se"),
            y_error=columns.get("downstream_se"),
            bases=points.bases,
            against=columns[against] if against else None,
            labels=points.names,
        )
    if figure is not None:
        drawn = {name: (_pairs(points), correlations[name]) for name, points in policies.items()}
        write_whole(figure, scatter(drawn))
    if json:
        dumped = {name: one.model_dump(mode="json") for name, one in correlations.items()}
        settings = {"confidence": confidence, "against": against}
        print_json((dumped[""] if list(dumped) == [""] else {"policies": dumped}) | settings)
        return
    for name, one in correlations.items():
        _show(one, confidence, against, name)
    if figure is not None:
        display.say(f"Written: {figure.resolve()}")


def _pairs(points: Points) -> list[tuple[str, float, float]]:
    columns = points.columns
    return list(zip(points.names, columns["benchmark"], columns["downstream"], strict=True))


def _read(path: Path, benchmark: Path | None, against: str | None) -> dict[str, Points]:
    """The reward models of each policy; of a file without the column under an empty name.

    Raises:
        CarbError: the file cannot be read, a column is missing, a value is no number, or a scorer
            comes twice; every bad line is named.
    """
    header, rows = _rows(path)
    reports = {} if benchmark is None else {"benchmark": _accuracies(benchmark)}
    if against is not None and against not in header and Path(against).is_file():
        reports[against] = _accuracies(Path(against))
    if benchmark is not None and "benchmark" in header:
        raise CarbError(f"{path} has the column benchmark, and --benchmark gives it, too.")
    numbers = ["benchmark", "downstream", *([against] if against else [])]
    needed = [name for name in ("scorer", *numbers) if name not in reports]
    missing = ", ".join(name for name in needed if name not in header)
    if missing:
        raise CarbError(f"{path} lacks the column {missing}. It has {', '.join(header) or 'none'}.")
    numbers += [name for name in OPTIONAL if name in header]
    policies: dict[str, Points] = {}
    problems = []
    for line, row in rows:
        name, policy = ((row.get(key) or "").strip() for key in ("scorer", "policy"))
        fresh = Points([], {key: [] for key in numbers}, [] if "base" in header else None)
        points = policies.setdefault(policy, fresh)
        if not name or name in points.names:
            fault = "comes twice" if name else "is empty"
            problems.append(f"line {line}: scorer '{name}' {fault}")
        points.names.append(name)
        if points.bases is not None:
            points.bases.append((row.get("base") or "").strip() or name)
        for column, values in points.columns.items():
            text = row.get(column) or ""
            known = reports.get(column)
            values.append(finite(text) if known is None else known.get(name, math.nan))
            if math.isnan(values[-1]):
                why = f"'{text}', not a number" if known is None else f"not known of '{name}'"
                problems.append(f"line {line}: {column} is {why}")
    if problems:
        raise CarbError(f"{path}: {'; '.join(problems)}. Correct these lines, or leave them out.")
    return policies


def _rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """The header of a CSV file, and its rows with their lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            rows = [(reader.line_num, row) for row in reader]
    except (csv.Error, UnicodeDecodeError) as error:
        raise CarbError(f"{path} is not a CSV file in UTF-8: {error}.") from None
    if header and not rows:
        raise CarbError(f"{path} has a header and no rows: write one for each reward model.")
    return header, rows


def _accuracies(path: Path) -> dict[str, float]:
    """The accuracy of each scorer of a report; without those that failed in every set.

    Raises:
        CarbError: the file is no report.
    """
    try:
        scorers = json_module.loads(path.read_text(encoding="utf-8"))["scorers"]
        known = {name: part["overall"]["accuracy"] for name, part in scorers.items()}
        return {name: float(value) for name, value in known.items() if value is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CarbError(f"{path} is no report. Write one: carb report RUN --json {path}") from None


def finite(text: str | None) -> float:
    """The number; NaN where it is none, or infinite."""
    try:
        value = float(text or "")
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _show(correlation: Correlation, confidence: float, against: str | None, policy: str) -> None:
    rows = [
        ("Spearman's ρ", correlation.spearman),
        ("Kendall's τ", correlation.kendall),
        ("Pearson's r", correlation.pearson),
        ("r² of the fitted line", Interval(estimate=correlation.fit.r2, p=correlation.fit.p)),
    ]
    if correlation.partial is not None:
        rows.append(("Spearman's ρ, covariate taken out", correlation.partial.spearman))
        rows.append(("Pearson's r, covariate taken out", correlation.partial.pearson))
    if correlation.corrected is not None:
        rows.append(("Pearson's r without errors of measurement", correlation.corrected))
    if correlation.rival is not None:
        rows.append((f"difference to the r of {against} (Williams)", correlation.rival.difference))
    known = sorted(
        (row.pearson, row.label) for row in correlation.influence or () if row.pearson is not None
    )
    for r, label in (known[0], known[-1]) if known else ():
        rows.append((f"Pearson's r without {label}", Interval(estimate=r)))
    columns = ["correlation", "estimate", f"{100 * confidence:.0f}%", "p"]
    shown = [(name, *_cells(estimate)) for name, estimate in rows]
    title = display.counted(correlation.n, "reward model")
    heading = f"{policy}: {title}" if policy else title
    display.table(heading, columns, shown, right=columns[1:])
    if correlation.pearson.estimate is None:
        display.say(
            "No correlation can be computed: that needs several reward models with "
            "different numbers."
        )
    if correlation.bases < correlation.n:
        display.say(
            f"The interval of Pearson's r is over {correlation.bases} base models; for related "
            "models those of the other correlations are not known."
        )


def _cells(estimate: Interval) -> tuple[str, str, str]:
    low, high = display.number(estimate.low, 3), display.number(estimate.high, 3)
    limits = "" if estimate.low is None else f"[{low}, {high}]"
    return display.number(estimate.estimate, 3), limits, display.p_value(estimate.p)
