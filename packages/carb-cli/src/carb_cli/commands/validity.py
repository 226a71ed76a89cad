"""``carb validity``: do benchmark scores predict downstream results?"""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from carb_cli import correlated, display
from carb_cli.correlated import estimate_cells, show_influence, show_uncertain
from carb_cli.csvs import Points, read_points
from carb_cli.figures import charts, theme
from carb_cli.options import Confidence, Json, Several
from carb_cli.output import Output
from carb_cli.report.content import read_runs
from carb_cli.report.validity import chart_rows
from carb_data import CarbError
from carb_metrics import (
    Correlation,
    DependentCorrelations,
    InfluenceRow,
    UncertainCorrelation,
    bon_accuracy,
    compare_correlations,
    correlate,
    correlate_uncertain,
    leave_one_out,
    main_sets,
)


class Validity(Correlation, Output):
    """Output of ``carb validity --json``: how downstream results of n scorers go with their benchmark scores."""

    schema_: Literal["carb.validity/1"] = Field(default="carb.validity/1", alias="schema")
    confidence: float
    without: tuple[InfluenceRow, ...]
    """The correlation without each scorer."""
    against: dict[str, DependentCorrelations]
    """Comparison with each column of ``--against``: does the benchmark (a) predict better than it (b)?"""
    uncertain: UncertainCorrelation | None = None
    """Pearson's r as measured and without errors of measurement, with scorers of one base model kept together; null
    without a column ``benchmark_se``, ``downstream_se`` or ``base``."""


def validity(
    file: Path,
    *,
    run: Annotated[tuple[Path, ...], Several] = (),
    against: str | None = None,
    figure: Path | None = None,
    interval: Literal["analytic", "bca"] = "analytic",
    confidence: Confidence = 0.95,
    shared_source: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Say whether benchmark scores of reward models predict their downstream results.

    For example:

        carb validity downstream.csv --figure validity.svg

    Parameters
    ----------
    file
        CSV with a row for each reward model and the columns scorer, benchmark, downstream, and perhaps covariate,
        benchmark_se and downstream_se (standard errors), and base (the model that it was made from).
    run
        Run folders, all on the same data set, whose accuracies take the place of the column benchmark; the file's
        scorers are named as there.
    against
        The column with the scores of another benchmark, to say which of both predicts better.
    figure
        Write the points with the fitted line and its bands to this .svg or .png file.
    interval
        How the intervals of the correlations are made: by formula, or by a bootstrap (BCa), which needs about 40
        points.
    shared_source
        Say in the result that benchmark and downstream results rest on the same source, whose mistakes both share.
    """
    points = points_of(file, run, against)
    x, y = points.columns["benchmark"], points.columns["downstream"]
    covariate = points.columns.get("covariate")
    found = correlate(x, y, covariate, confidence, interval=interval)
    output = Validity(
        **dict(found),
        confidence=confidence,
        without=leave_one_out(x, y, points.names).points,
        against={} if against is None else {against: compare_correlations(x, points.columns[against], y, confidence)},
        uncertain=_uncertain(points, confidence, shared_source=shared_source),
    )
    if figure is not None:
        _draw(points, figure, confidence)
    if json:
        output.print()
        return
    _show(output, figure)


def points_of(file: Path, runs: tuple[Path, ...], against: str | None) -> Points:
    """The points of a CSV; with runs, their accuracies are the benchmark.

    Raises:
        CarbError: a column is missing, a scorer is in no run, or the runs are of different data sets.
    """
    required = ["downstream"] if runs else ["benchmark", "downstream"]
    if against is not None:
        required.append(against)
    try:
        points = read_points(file, required, ["covariate", "benchmark_se", "downstream_se"])
    except CarbError as error:
        if "lacks the column benchmark" in str(error):
            raise CarbError(f"{error} Or take the benchmark scores from runs, with --run FOLDER.") from None
        raise
    if not runs:
        return points
    read = read_runs(runs)
    groups = bon_accuracy(main_sets(read.scores.with_items(read.dataset)), by=("scorer",)).groups
    rows = groups.select("scorer", "accuracy", "low", "high")
    known = {name: (accuracy, low, high) for name, accuracy, low, high in rows.iter_rows()}
    unknown = [name for name in points.names if name not in known]
    if unknown:
        raise CarbError(f"{file} names {', '.join(unknown)}, which no run holds. There are {', '.join(sorted(known))}.")
    cells = [known[name] for name in points.names]
    width = 2 * NormalDist().inv_cdf(0.975)
    measured = {
        "benchmark": tuple(accuracy for accuracy, _, _ in cells),
        "benchmark_se": tuple((high - low) / width for _, low, high in cells),
    }
    return Points(points.names, {**measured, **points.columns, "benchmark": measured["benchmark"]}, points.bases)


def _uncertain(points: Points, confidence: float, *, shared_source: bool) -> UncertainCorrelation | None:
    columns = points.columns
    if points.bases is None and "benchmark_se" not in columns and "downstream_se" not in columns and not shared_source:
        return None
    return correlate_uncertain(
        columns["benchmark"],
        columns["downstream"],
        columns.get("benchmark_se"),
        columns.get("downstream_se"),
        points.bases,
        confidence,
        shared_source=shared_source,
    )


def _draw(points: Points, figure: Path, confidence: float) -> None:
    if figure.suffix not in (".svg", ".png"):
        raise CarbError(f"{figure}: figures are written as .svg or .png.")
    both = zip(points.columns["benchmark"], points.columns["downstream"], strict=True)
    rows, band = chart_rows(dict(zip(points.names, both, strict=True)), confidence)
    chart = charts.regression(rows, band, x_title="benchmark", y_title="downstream")
    theme.save_as(chart, figure)


def _show(found: Validity, figure: Path | None) -> None:
    level = f"{100 * found.confidence:.0f}%"
    rows = [(name, *estimate_cells(getattr(found, name))) for name in ("pearson", "spearman", "kendall")]
    if found.partial is not None:
        rows += [
            (f"{name}, covariate taken out", *estimate_cells(getattr(found.partial, name)))
            for name in ("pearson", "spearman")
        ]
    columns = ["correlation", "estimate", level, "p"]
    display.table(f"{found.n} reward model{'' if found.n == 1 else 's'}", columns, rows, right=columns[1:])
    if found.pearson.estimate is None:
        display.say("No correlation can be computed: that needs several reward models with different numbers.")
    fit = found.fit
    if fit.slope is not None and fit.intercept is not None:
        sign = "+" if fit.slope >= 0 else "−"
        line = f"downstream = {fit.intercept:.4g} {sign} {abs(fit.slope):.4g} × benchmark"
        display.say(f"{line}, r² = {correlated.figure(fit.r2)}, {display.p_clause(fit.p)}")
    show_influence(found.without, found.against)
    if figure is not None:
        display.say(f"Written: {figure.resolve()}")
    if found.uncertain is not None:
        show_uncertain(found.uncertain)
