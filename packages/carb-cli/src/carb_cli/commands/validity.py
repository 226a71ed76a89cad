"""``carb validity``: do benchmark scores predict downstream results?"""

import csv
import json as json_module
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carb_cli.display import counted, number, p_value, say, table
from carb_cli.json_output import print_json
from carb_cli.options import Confidence, Json, MaybeFile, refuse, refuse_files
from carb_cli.report.page import drawn
from carb_cli.report.scatter import panel
from carb_data import CarbError, write_whole
from carb_metrics import Interval, correlate
from carb_metrics.rows import Correlation

OPTIONAL = ("covariate", "benchmark_se", "downstream_se")
"""Columns of numbers that are read where a file has them; all others are ignored."""


@dataclass(frozen=True)
class Points:
    """The reward models of one policy, and their numbers."""

    names: list[str]
    bases: list[str]
    """The base model of each; its own name where the file names none."""
    columns: dict[str, list[float]]


def validity(
    file: Path,
    *,
    benchmark: Path | None = None,
    against: str | None = None,
    figure: MaybeFile = None,
    confidence: Confidence = 0.95,
    json: Json = False,
) -> None:
    """Test whether benchmark scores of reward models predict their downstream results.

    For example:

        carb validity downstream.csv

    Parameters
    ----------
    file
        CSV with a row for each reward model and the columns scorer, benchmark, downstream. It may
        have policy (each is a table of its own), covariate, benchmark_se, downstream_se (standard
        errors), and base (its base model).
    benchmark
        A report of `carb report --json`: its accuracies are the column benchmark.
    against
        Another benchmark, to test which of the two predicts better: a column of the file, or
        another report.
    figure
        Write the points and the fitted line to this SVG file: a panel for each policy, and one for
        the other benchmark beside it.
    """
    refuse_files(file, figure=figure)
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
        panels = list(_panels(policies, correlations, against))
        write_whole(figure, drawn("scatter.svg.jinja", panels=panels))
    if json:
        settings = {"confidence": confidence, "against": against}
        print_json(_dumped(correlations) | settings)
        return
    for name, one in correlations.items():
        _show(one, confidence, against, name)
    if figure is not None:
        say(f"Written: {figure.resolve()}")


def _dumped(correlations: Mapping[str, Correlation]) -> dict[str, Any]:
    """The content of ``--json``: a single correlation as it is, several by policy."""
    if list(correlations) == [""]:
        return correlations[""].model_dump(mode="json")
    return {"policies": correlations}


def _panels(
    policies: Mapping[str, Points], correlations: Mapping[str, Correlation], against: str | None
) -> Iterator[dict[str, Any]]:
    """The picture's panels: each policy's, and beside it that of the other benchmark."""
    for name, points in policies.items():
        columns = points.columns
        known = {"benchmark": correlations[name]}
        if against:
            known[against] = correlate(columns[against], columns["downstream"])
        for axis, correlation in known.items():
            pairs = zip(points.names, columns[axis], columns["downstream"], strict=True)
            yield panel(name, Path(axis).stem, list(pairs), correlation)


def _read(path: Path, benchmark: Path | None, against: str | None) -> dict[str, Points]:
    """The reward models of each policy; of a file without the column under an empty name.

    Raises:
        CarbError: the file cannot be read, a column is missing, a value is no number, or a scorer
            comes twice; every bad line is named.
    """
    header, rows = _rows(path)
    reports = {}
    if benchmark is not None:
        reports["benchmark"] = _accuracies(benchmark)
    if against is not None and against not in header and Path(against).is_file():
        reports[against] = _accuracies(Path(against))
    if benchmark is not None and "benchmark" in header:
        raise CarbError(f"{path} has the column benchmark, and --benchmark gives it, too.")
    numbers = ["benchmark", "downstream"]
    if against:
        numbers.append(against)
    known = {*header, *reports}
    missing = ", ".join(name for name in ("scorer", *numbers) if name not in known)
    if missing:
        raise CarbError(f"{path} lacks the column {missing}. It has {', '.join(header) or 'none'}.")
    numbers += [name for name in OPTIONAL if name in header]
    policies: dict[str, Points] = {}
    problems = []
    for line, row in rows:
        policy = row.get("policy", "")
        fresh = Points([], [], {name: [] for name in numbers})
        points = policies.setdefault(policy, fresh)
        problems += [f"line {line}: {problem}" for problem in _add(points, row, reports)]
    if problems:
        raise CarbError(f"{path}: {'; '.join(problems)}. Correct these lines, or leave them out.")
    return policies


def _add(
    points: Points, row: Mapping[str, str], reports: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Add the reward model of a row; yields what is wrong with it."""
    name = row["scorer"]
    if not name:
        yield "scorer '' is empty"
    elif name in points.names:
        yield f"scorer '{name}' comes twice"
    points.names.append(name)
    points.bases.append(row.get("base") or name)
    for column, values in points.columns.items():
        if column in reports:
            value = reports[column].get(name, math.nan)
            fault = f"not known of '{name}'"
        else:
            value = finite(row[column])
            fault = f"'{row[column]}', not a number"
        if math.isnan(value):
            yield f"{column} is {fault}"
        values.append(value)


def _rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The header of a CSV file, and its rows with their lines; a missing value is empty."""
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = header
            for row in reader:
                values = {name: (row[name] or "").strip() for name in header}
                rows.append((reader.line_num, values))
    except FileNotFoundError:
        wanted = "Write a CSV with the columns scorer, benchmark and downstream."
        raise CarbError(f"There is no file {path}. {wanted}") from None
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


def finite(text: str) -> float:
    """The number; NaN where it is none, or infinite."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    if math.isfinite(value):
        return value
    return math.nan


def _show(correlation: Correlation, confidence: float, against: str | None, policy: str) -> None:
    fit = correlation.fit
    rows = [
        ("Spearman's ρ", correlation.spearman),
        ("Kendall's τ", correlation.kendall),
        ("Pearson's r", correlation.pearson),
        ("r² of the fitted line", Interval(estimate=fit.r2, p=fit.p)),
    ]
    partial = correlation.partial
    if partial is not None:
        rows.append(("Spearman's ρ, covariate taken out", partial.spearman))
        rows.append(("Pearson's r, covariate taken out", partial.pearson))
    if correlation.corrected is not None:
        rows.append(("Pearson's r without errors of measurement", correlation.corrected))
    if correlation.rival is not None:
        rows.append((f"difference to the r of {against} (Williams)", correlation.rival.difference))
    influence = correlation.influence or ()
    known = sorted((one.pearson, one.label) for one in influence if one.pearson is not None)
    extremes = [known[0], known[-1]] if known else []
    for r, label in extremes:
        rows.append((f"Pearson's r without {label}", Interval(estimate=r)))
    columns = ["correlation", "estimate", f"{100 * confidence:.0f}%", "p"]
    shown = [(name, *_cells(estimate)) for name, estimate in rows]
    title = counted(correlation.n, "reward model")
    if policy:
        title = f"{policy}: {title}"
    table(title, columns, shown, right=columns[1:])
    if correlation.pearson.estimate is None:
        say(
            "No correlation can be computed: that needs several reward models with "
            "different numbers."
        )
    if correlation.bases < correlation.n:
        extent = "needs more than" if correlation.pearson.low is None else "is over"
        say(
            f"The interval of Pearson's r {extent} {correlation.bases} base models; for related "
            "models those of the other correlations are not known."
        )


def _cells(estimate: Interval) -> tuple[str, str, str]:
    limits = ""
    if estimate.low is not None:
        low = number(estimate.low, 3)
        high = number(estimate.high, 3)
        limits = f"[{low}, {high}]"
    return number(estimate.estimate, 3), limits, p_value(estimate.p)
