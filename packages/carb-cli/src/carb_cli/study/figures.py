"""The figures and tables of a study."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from carb_cli.figures import charts, theme
from carb_cli.output import write
from carb_cli.study.result import Prediction, StudyResult
from carb_metrics import fit_line

_STEPS = 41


def draw(out: Path, result: StudyResult) -> tuple[str, ...]:
    """Write the figures into ``out/figures``: the rank correlations of each benchmark with each outcome, the line of
    each prediction, and the Best-of-N curves of each outcome.

    Returns:
        paths relative to ``out``.
    """
    written = []
    ranks = [
        {"name": p.outcome, "group": p.benchmark, "value": p.spearman.estimate}
        | {"low": p.spearman.low, "high": p.spearman.high}
        for p in result.predictions
        if p.spearman.estimate is not None
    ]
    if ranks:
        title = f"Spearman's rank correlation of benchmark and outcome, {100 * result.confidence:.0f}% intervals"
        written.append("figures/rank-correlations.svg")
        theme.save_as(charts.correlations(ranks, title=title), out / written[-1])
    for prediction in result.predictions:
        if prediction.n >= 2:
            name = f"figures/{_file(prediction.outcome)}--{prediction.benchmark}.svg"
            theme.save_as(regression(result, prediction), out / name)
            written.append(name)
    for outcome in result.outcomes:
        rows = [
            {"name": scorer.name, "x": point.n, "y": point.picked}
            for scorer in result.scorers
            for point in scorer.curves.get(outcome.id, ())
        ]
        best = next((s.curves[outcome.id] for s in result.scorers if s.curves.get(outcome.id)), ())
        rows += [{"name": "best available", "x": point.n, "y": point.best} for point in best]
        if rows:
            name = f"figures/{_file(outcome.id)}--curve.svg"
            theme.save_as(charts.lines(rows, x_title="n", y_title="quality of the pick"), out / name)
            written.append(name)
    return tuple(written)


def regression(result: StudyResult, prediction: Prediction) -> object:
    """Downstream against benchmark with the fitted line, its confidence band and its prediction band."""
    kept = [scorer for scorer in result.scorers if scorer.name in prediction.scorers]
    x = [scorer.benchmarks[prediction.benchmark].value for scorer in kept]
    y = [scorer.downstream[prediction.outcome].value for scorer in kept]
    points = [{"name": s.name, "x": a, "y": b} for s, a, b in zip(kept, x, y, strict=True)]
    line = fit_line(np.array(x, dtype=float), np.array(y, dtype=float), result.confidence)
    band = []
    if line.slope is not None:
        numbers = [value for value in x if value is not None]
        band = line.predict(np.linspace(min(numbers), max(numbers), _STEPS), result.confidence).to_dicts()
    return charts.regression(points, band, x_title=prediction.benchmark, y_title=prediction.outcome)


def write_tables(out: Path, result: StudyResult) -> None:
    """Write ``table.csv``, ``curves.csv``, and for each outcome ``points-*.csv`` as ``carb validity`` reads it."""
    header = ["scorer", "spec"]
    for name in (*result.benchmarks, *(o.id for o in result.outcomes)):
        header += [name, f"{name} low", f"{name} high", f"{name} n", f"{name} errors"]
    rows: list[list[object]] = []
    for scorer in result.scorers:
        row: list[object] = [scorer.name, scorer.spec]
        for cells, names in (
            (scorer.benchmarks, result.benchmarks),
            (scorer.downstream, [o.id for o in result.outcomes]),
        ):
            for name in names:
                cell = cells.get(name)
                row += [""] * 5 if cell is None else [cell.value, cell.low, cell.high, cell.n, cell.errors]
        rows.append(row)
    write(out / "table.csv", _csv([header, *rows]))
    curves: list[Sequence[object]] = [("outcome", "scorer", "n", "picked", "best", "regret")]
    for scorer in result.scorers:
        for name, curve in scorer.curves.items():
            curves += [(name, scorer.name, p.n, p.picked, p.best, p.regret) for p in curve]
    write(out / "curves.csv", _csv(curves))
    for outcome in result.outcomes:
        write(out / f"points-{_file(outcome.id)}.csv", _csv(_points(result, outcome.id)))


def _points(result: StudyResult, outcome: str) -> list[Sequence[object]]:
    others = [name for name in result.benchmarks if name != result.primary]
    points: list[Sequence[object]] = [("scorer", "benchmark", "downstream", *others)]
    for scorer in result.scorers:
        down, first = scorer.downstream.get(outcome), scorer.benchmarks.get(result.primary)
        if down is None or down.value is None or first is None or first.value is None:
            continue
        rest = [scorer.benchmarks.get(name) for name in others]
        points.append((scorer.name, first.value, down.value, *("" if c is None else c.value for c in rest)))
    return points


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(["" if v is None else v for v in row] for row in rows)
    return text.getvalue()


def _file(outcome: str) -> str:
    return outcome.replace("/", "--")
