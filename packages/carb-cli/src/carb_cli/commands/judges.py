"""``carb judges``: how scorers behave apart from being right: position, order, length, ties, calibration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import Confidence, CultureFile, Json, RunFolder
from carb_cli.output import Output
from carb_cli.report.behaviour import behaviour
from carb_cli.report.content import read_main
from carb_cli.report.model import Behaviour


class Judges(Behaviour, Output):
    """Output of ``carb judges --json``."""

    schema_: Literal["carb.judges/1"] = Field(default="carb.judges/1", alias="schema")


def judges(*runs: RunFolder, confidence: Confidence = 0.95, culture_file: CultureFile = (), json: Json = False) -> None:
    """Show how scorers behave, apart from accuracy: bias of position, order and length, ties, and calibration.

    For example:

        carb judges runs/first
    """
    read, scores = read_main(runs, culture_file, "judges")
    found = Judges(**dict(behaviour(runs, read.dataset, scores, confidence)))
    if json:
        found.print()
        return
    short = labels([row.scorer for row in found.bias.scorers])
    rows = []
    whole = {row.scorer: row for row in found.calibration if row.group is None}
    for row in found.bias.scorers:
        lead = whole.get(row.scorer)
        ece = None if lead is None or lead.calibration is None else lead.calibration.ece
        rows.append(
            (
                short[row.scorer],
                "–" if row.position_p is None else f"{row.position_p:.3g}",
                percent(row.swap_consistency),
                percent(row.self_agreement),
                display.number(row.length_r),
                display.number(ece),
                display.number(None if lead is None else lead.area),
            )
        )
    columns = ["scorer", "position p", "same after a swap %", "same when asked again %", "length r"]
    columns += ["calibration error", "mean risk"]
    display.table("Judges", columns, rows, right=columns[1:])
    if found.draws:
        columns = ["scorer", "draws", "accuracy %", "interval", "variance within", "between", "all draws alike %"]
        drawn = [
            (short[row.scorer], f"{row.draws:.1f}", percent(row.accuracy.estimate),
             display.interval(row.accuracy.low, row.accuracy.high), display.number(row.within),
             display.number(row.between), percent(row.stable))
            for row in found.draws
        ]  # fmt: skip
        display.table("Several presentations of a set", columns, drawn, right=columns[1:])
    if found.picks:
        columns = ["scorers", "sets", "same pick %", "interval", "both wrong", "same wrong pick %", "by chance %"]
        alike = [
            (f"{short[row.a]}, {short[row.b]}", row.n, percent(row.same), display.interval(row.low, row.high),
             row.wrong, percent(row.same_wrong), percent(row.same_wrong_chance))
            for row in sorted(found.picks, key=lambda row: -(row.same or 0.0))
        ]  # fmt: skip
        display.table("Agreement between scorers", columns, alike, right=columns[1:])
    for line in found.ties.statements():
        display.say(line)
