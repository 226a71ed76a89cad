"""``carb judges``: how scorers behave apart from being right: position, order, length, ties, calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import CultureFile, Json
from carb_cli.output import Output
from carb_cli.report.content import read_main
from carb_metrics import (
    JudgeBias,
    MarginRow,
    SamplingRow,
    TieReport,
    draws_of,
    judge_bias,
    margin_calibration,
    sampling_variance,
    tie_report,
)
from carb_scorers.presentations import read_presentations


class Judges(Output):
    """Output of ``carb judges --json``."""

    schema_: Literal["carb.judges/1"] = Field(default="carb.judges/1", alias="schema")
    bias: JudgeBias
    ties: TieReport
    calibration: tuple[MarginRow, ...]
    """What the lead of the first answer says of being right, over all sets and by culture, with risk and coverage."""
    draws: tuple[SamplingRow, ...]
    """Variance between the presentations of one set (orders, and repeated samples) and between sets; for judges that
    were shown the same answers of a set several times."""


def judges(*runs: Path, confidence: float = 0.95, culture_file: CultureFile = (), json: Json = False) -> None:
    """Show how scorers behave apart from being right: bias of position, order and length, ties, and calibration.

    For example:

        carb judges runs/first

    Parameters
    ----------
    runs
        Folders that `carb run` wrote, all on the same data set.
    confidence
        Confidence of all intervals, between 0 and 1.
    """
    read, scores = read_main(runs, culture_file, "judges")
    kept = set(scores.frame["item_id"].to_list())
    shown = pl.concat([read_presentations(folder) for folder in runs]).filter(pl.col("item_id").is_in(sorted(kept)))
    lengths = pl.DataFrame(
        [(s.id, r.id, len(r.text)) for s in read.dataset for r in (*s.responses, *s.perturbed)],
        schema={"item_id": pl.String, "response_id": pl.String, "length": pl.Int64},
        orient="row",
    )
    found = Judges(
        bias=judge_bias(scores, shown if shown.height else None, lengths, confidence),
        ties=tie_report(scores, confidence=confidence),
        calibration=margin_calibration(scores, "culture", confidence),
        draws=sampling_variance(draws_of(scores, shown), confidence),
    )
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
        short = labels([row.scorer for row in found.draws])
        columns = ["scorer", "draws", "accuracy %", "interval", "variance within", "between", "all draws alike %"]
        drawn = [
            (short[row.scorer], f"{row.draws:.1f}", percent(row.accuracy.estimate),
             display.interval(row.accuracy.low, row.accuracy.high), display.number(row.within),
             display.number(row.between), percent(row.stable))
            for row in found.draws
        ]  # fmt: skip
        display.table("Several presentations of a set", columns, drawn, right=columns[1:])
    for line in found.ties.statements():
        display.say(line)
