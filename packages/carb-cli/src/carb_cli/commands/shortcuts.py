"""``carb shortcuts``: how far the surface gets, and how much of each scorer it explains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import Confidence, CultureFile, Json, RunFolder
from carb_cli.output import Output
from carb_cli.report.content import read_main
from carb_metrics import (
    Explainability,
    FamilyReport,
    SurfaceFloor,
    family_accuracy,
    shortcut_explainability,
    surface_features,
    surface_floor,
)


class Shortcuts(Output):
    """Output of ``carb shortcuts --json``."""

    schema_: Literal["carb.shortcuts/1"] = Field(default="carb.shortcuts/1", alias="schema")
    floor: SurfaceFloor | None
    explained: Explainability
    families: FamilyReport | None


def shortcuts(
    *runs: RunFolder, confidence: Confidence = 0.95, culture_file: CultureFile = (), json: Json = False
) -> None:
    """Show how far surface cues alone get, which scorers get further, and how much of each scorer they explain.

    For example:

        carb shortcuts runs/first
    """
    read, scores = read_main(runs, culture_file, "shortcuts")
    found = Shortcuts(
        floor=surface_floor(scores, read.dataset, confidence=confidence),
        explained=shortcut_explainability(scores, surface_features(read.dataset), confidence=confidence),
        families=family_accuracy(read.scores, read.dataset, "domain", confidence),
    )
    if json:
        found.print()
        return
    short = labels([row.scorer for row in found.explained.scorers])
    if found.floor is not None:
        columns = ["predictor", "accuracy %"]
        known = sorted(found.floor.overall.predictors.items(), key=lambda pair: -pair[1])
        display.table("Surface predictors, ties shared", columns, [(n, percent(a)) for n, a in known], columns[1:])
        tests = {test.scorer: test for test in found.floor.tests if not test.group}
    else:
        tests = {}
    rows = []
    for row in found.explained.scorers:
        test = tests.get(row.scorer)
        difference = "" if test is None else percent(test.difference.estimate)
        p = "" if test is None or test.p_adjusted is None else f"{test.p_adjusted:.3g}"
        above = "" if test is None else "yes" if test.above else "no"
        rows.append((short[row.scorer], percent(row.r2), difference, p, above))
    columns = ["scorer", "explained by surface %", "above the floor by %", "p", "above"]
    display.table("Scorers and the surface", columns, rows, right=columns[1:4])
