"""``carb items``: what each item does, and how reliable all of them are together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import Confidence, CultureFile, Json, RunFolder
from carb_cli.output import Output
from carb_cli.report.content import read_main
from carb_data import ScoreTable
from carb_metrics import (
    ItemAnalysis,
    ItemResponse,
    Reliability,
    benchmark_reliability,
    item_analysis,
    item_response,
)
from carb_metrics.response_curves import FEWEST_RASCH

_SHOWN = 20


class Items(Output):
    """Output of ``carb items --json``."""

    schema_: Literal["carb.items/1"] = Field(default="carb.items/1", alias="schema")
    reliability: Reliability
    analysis: ItemAnalysis
    response: ItemResponse | None
    """Abilities of scorers and parameters of items on one scale; null with too few scorers."""


def items(
    *runs: RunFolder,
    top: int = _SHOWN,
    confidence: Confidence = 0.95,
    culture_file: CultureFile = (),
    json: Json = False,
) -> None:
    """Show how hard each item is, whether it tells good scorers from bad ones, and which items look wrong.

    For example:

        carb items runs/first

    Parameters
    ----------
    top
        Number of flagged items and of conspicuous cultures that are shown.
    """
    _, scores = read_main(runs, culture_file, "items")
    found = Items(
        reliability=benchmark_reliability(scores, confidence=confidence),
        analysis=item_analysis(scores, confidence),
        response=_response(scores, confidence),
    )
    if json:
        found.print()
        return
    _show(found, top)


def _response(scores: ScoreTable, confidence: float) -> ItemResponse | None:
    if scores.frame["scorer"].n_unique() < FEWEST_RASCH or scores.frame["item_id"].n_unique() < 2:
        return None
    return item_response(scores, confidence=confidence)


def _show(found: Items, top: int) -> None:
    whole, analysis = found.reliability, found.analysis
    flagged = analysis.flagged()
    display.pairs(
        "Items",
        {
            "scorers": analysis.scorers,
            "items": f"{len(analysis.items):,}, of {whole.items:,} source items",
            "reliability (alpha)": f"{display.number(whole.alpha.estimate)} "
            f"[{display.number(whole.alpha.low)}, {display.number(whole.alpha.high)}]",
            "dependability (phi)": display.number(whole.phi),
            "items for alpha 0.9": whole.items_for(0.9) or "–",
            "flagged": f"{len(flagged):,}",
            "item response theory": f"needs {FEWEST_RASCH} scorers" if found.response is None else found.response.model,
        },
    )
    rows = [
        (i.item_id, i.culture, i.domain, percent(i.difficulty), display.number(i.discrimination), ", ".join(i.flags))
        for i in sorted(flagged, key=lambda item: (item.discrimination is None, item.discrimination or 0.0))[:top]
    ]
    columns = ["item", "culture", "domain", "won %", "discrimination", "flags"]
    display.table(f"Flagged items, {len(rows)} of {len(flagged)}", columns, rows, right=columns[3:5])
    odd = [one for one in analysis.functioning if one.p_adjusted is not None and one.p_adjusted < 0.05]
    short = labels([one.scorer for one in odd])
    columns = ["scorer", "culture", "sets", "difference %", "p"]
    rows_odd = [
        (short[one.scorer], one.culture, one.n, percent(one.difference.estimate), f"{one.p_adjusted:.3g}")
        for one in sorted(odd, key=lambda one: one.p_adjusted or 0.0)[:top]
    ]
    if rows_odd:
        display.table("Better or worse on a culture than its items predict", columns, rows_odd, right=columns[2:])
    if found.response is not None:
        short = labels([row.scorer for row in found.response.scorers])
        abilities = [
            (
                short[row.scorer],
                display.number(row.ability.estimate),
                f"{display.number(row.ability.low)} to {display.number(row.ability.high)}",
                display.number(found.response.information(row.ability.estimate or 0.0)),
            )
            for row in found.response.scorers
        ]
        columns = ["scorer", "ability", "interval", "information of the items"]
        display.table("Abilities, in standard deviations of the scorers", columns, abilities, right=columns[1:])
