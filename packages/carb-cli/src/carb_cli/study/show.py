"""``carb validity --study``: the study's result for people."""

from __future__ import annotations

from pathlib import Path

from carb_cli import display
from carb_cli.correlated import estimate_cells, show_influence, show_uncertain
from carb_cli.display import percent
from carb_cli.progress import progress
from carb_cli.study.result import Measured, Prediction, StudyResult
from carb_cli.study.run import run_study


def study_command(path: Path, *, json: bool, quiet: bool) -> int | None:
    """Run or resume a study and print what it found.

    Returns:
        1 where a cell could not be filled, else null.
    """
    with progress(quiet) as report:
        result = run_study(path, report=report)
    if json:
        result.print()
    else:
        show(result)
    return 1 if result.failures else None


def show(result: StudyResult) -> None:
    """Print the table of scorers and the correlations."""
    columns = ["scorer", *result.benchmarks, *(outcome.id for outcome in result.outcomes)]
    rows = [
        (
            scorer.name,
            *(_measured(scorer.benchmarks.get(name)) for name in result.benchmarks),
            *(_measured(scorer.downstream.get(outcome.id)) for outcome in result.outcomes),
        )
        for scorer in result.scorers
    ]
    display.table("Accuracies and downstream quality, in percent", columns, rows, right=columns[1:])
    for outcome in result.outcomes:
        if outcome.random is not None:
            display.say(
                f"{outcome.id}: {outcome.prompts} prompts; a random sample is worth {percent(outcome.random)}%, the "
                f"best of {outcome.n} {percent(outcome.best)}%."
            )
        elif outcome.start is not None:
            display.say(
                f"{outcome.id}: {outcome.prompts} prompts that no policy was trained on; before training "
                f"{percent(outcome.start)}%."
            )
        found = [prediction for prediction in result.predictions if prediction.outcome == outcome.id]
        level = f"{100 * result.confidence:.0f}%"
        columns = ["benchmark", "scorers", "Pearson", level, "p", "Spearman", f"{level} ", "r²"]
        cells = [
            (p.benchmark, p.n, *estimate_cells(p.pearson), *estimate_cells(p.spearman)[:2], display.number(p.fit.r2))
            for p in found
        ]
        display.table(f"What predicts {outcome.id}?", columns, cells, right=columns[1:])
        for prediction in found:
            if prediction.benchmark == result.primary:
                _details(prediction)
    for failure in result.failures:
        display.say(f"Missing: {failure.scorer}, {failure.cell}: {failure.reason}")
    display.say(f"Written: {result.out}/study.json, table.csv, curves.csv, points-*.csv, figures/")


def _details(prediction: Prediction) -> None:
    if prediction.uncertain is not None:
        show_uncertain(prediction.uncertain)
    show_influence(prediction.without, prediction.against)
    if prediction.partial is not None:
        estimate, limits, p = estimate_cells(prediction.partial.pearson)
        display.say(f"With {prediction.covariate} taken out: r = {estimate} {limits}, p = {p}.")


def _measured(cell: Measured | None) -> str:
    if cell is None or cell.value is None:
        return "–"
    limits = display.interval(cell.low, cell.high)
    return f"{percent(cell.value)} [{limits}]" if limits else f"{percent(cell.value)}"
