"""``carb items``: what each item does, and how reliable all of them are together."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from carb_cli import display
from carb_cli.display import percent
from carb_cli.labels import labels
from carb_cli.options import CultureFile, Json, add_cultures
from carb_cli.output import Output
from carb_cli.report.content import read_runs
from carb_data import CarbError
from carb_metrics import ItemAnalysis, Reliability, benchmark_reliability, item_analysis, main_sets

_SHOWN = 20


class Items(Output):
    """Output of ``carb items --json``."""

    schema_: Literal["carb.items/1"] = Field(default="carb.items/1", alias="schema")
    reliability: Reliability
    analysis: ItemAnalysis


def items(
    *runs: Path, top: int = _SHOWN, confidence: float = 0.95, culture_file: CultureFile = (), json: Json = False
) -> None:
    """Show how hard each item is, whether it tells good scorers from bad ones, and which items look wrong.

    For example:

        carb items runs/first

    Parameters
    ----------
    runs
        Folders that `carb run` wrote, all on the same data set.
    top
        Number of flagged items and of conspicuous cultures that are shown.
    confidence
        Confidence of all intervals, between 0 and 1.
    """
    if not runs:
        raise CarbError("Name at least one run folder, for example: carb items runs/first")
    add_cultures(culture_file)
    read = read_runs(runs)
    scores = main_sets(read.scores.with_items(read.dataset))
    found = Items(
        reliability=benchmark_reliability(scores, confidence=confidence), analysis=item_analysis(scores, confidence)
    )
    if json:
        found.print()
        return
    _show(found, top)


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
        display.table("Better or worse on a culture than its items foretell", columns, rows_odd, right=columns[2:])
