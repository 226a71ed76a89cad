"""``carb failures``: what all good scorers miss, and whose answer they take for whose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.figures import charts, theme
from carb_cli.labels import labels
from carb_cli.options import CultureFile, Json, RunFolder, Several, add_cultures
from carb_cli.output import Output
from carb_cli.report.content import read_runs
from carb_data import CarbError
from carb_metrics import Failures
from carb_metrics import failures as find

_SHOWN = 12
_CUT = 100
_WIDEST = 12
"""Cultures in the printed matrix; with more of them it is in the figure and in the JSON."""


class FailuresOutput(Output):
    """Output of ``carb failures --json``."""

    schema_: Literal["carb.failures/1"] = Field(default="carb.failures/1", alias="schema")
    failures: Failures


def failures(
    *runs: RunFolder,
    scorer: Annotated[tuple[str, ...], Several] = (),
    examples: int = 3,
    top: int = _SHOWN,
    topics: bool = True,
    figure: Path | None = None,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Show which sets all good scorers miss, by culture and topic, and which culture's answer they take.

    For example:

        carb failures runs/first --scorer baseline:length

    Parameters
    ----------
    scorer
        Scorers that count as good; by default all that are better than chance. May be repeated.
    examples
        Number of missed sets shown for each cluster.
    top
        Number of clusters and confusions shown.
    topics
        Make clusters by culture and topic, not by culture alone.
    figure
        Write the matrix of confusions to this .svg or .png file.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb failures runs/first")
    if examples < 0 or top < 1:
        raise CarbError("--examples must be at least 0 and --top at least 1.")
    if figure is not None and figure.suffix not in (".svg", ".png"):
        raise CarbError(f"{figure}: figures are written as .svg or .png.")
    add_cultures(culture_file)
    read = read_runs(runs)
    found = find(read.dataset, read.scores, scorers=scorer, examples=examples, by_topic=topics)
    if figure is not None:
        theme.save_as(charts.matrix(matrix(found), title="taken of offered"), figure)
    if json:
        FailuresOutput(failures=found).print()
        return
    _show(found, top)
    if figure is not None:
        display.say(f"Written: {figure.resolve()}")


def matrix(found: Failures) -> list[dict[str, object]]:
    """The rate of every pair: ``a`` is whose answer is right, ``b`` whose is taken; null where that is not offered."""
    rates = {(c.culture, c.taken): c.rate for c in found.confusion}
    names = sorted({name for pair in rates for name in pair})
    return [{"a": a, "b": b, "value": rates.get((a, b))} for a in names for b in names]


def _show(found: Failures, top: int) -> None:
    short = labels(one.scorer for one in found.good)
    rows = [(short[one.scorer], percent(one.accuracy), percent(one.low)) for one in found.good]
    display.table(
        "Good scorers", ["scorer", "accuracy %", "lower limit %"], rows, right=["accuracy %", "lower limit %"]
    )
    display.say("Accuracy is over main sets, as in the report; what follows is over all sets, mirrors included.")
    display.say(
        f"All of them miss {found.missed} of {found.sets} sets; if their misses were independent, it would be "
        f"{found.expected:.1f}. In {percent(found.same_answer)}% of the missed sets all pick the same wrong answer."
    )
    columns = ["culture", "topic", "missed", "of", "expected", "p (Holm)"]
    cells = [
        (c.culture, c.topic or "", c.missed, c.sets, f"{c.expected:.1f}", f"{c.p_adjusted:.3f}")
        for c in found.clusters[:top]
    ]
    display.table("Where", columns, cells, right=columns[2:])
    for cluster in found.clusters[:top]:
        for one in cluster.examples:
            display.say(
                f"  {one.item_id}: {_cut(one.prompt)} Right: {_cut(one.chosen)} ({percent(one.agree)}% take: "
                f"{_cut(one.taken)} of {one.taken_culture})"
            )
    more = [c for c in found.confusion if c.expected and c.picked > c.expected][:top]
    columns = ["right in", "taken from", "offered", "taken", "rate %", "expected"]
    taken = [(c.culture, c.taken, c.offered, f"{c.picked:.1f}", percent(c.rate), f"{c.expected:.1f}") for c in more]
    display.table("Another culture's answer is picked more often than by chance", columns, taken, right=columns[2:])
    pairs = matrix(found)
    names = list(dict.fromkeys(str(pair["a"]) for pair in pairs))
    if 1 < len(names) <= _WIDEST:
        rates = {(pair["a"], pair["b"]): pair["value"] for pair in pairs}
        lines = [[a, *(_rate(rates[a, b]) for b in names)] for a in names]
        display.table(
            "Picked of offered, %: the row's culture has the right answer, the column's the picked one",
            ["", *names],
            lines,
        )


def _rate(value: object) -> str:
    return percent(value) if isinstance(value, float) else ""


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _CUT else f"{flat[: _CUT - 1]}…"
