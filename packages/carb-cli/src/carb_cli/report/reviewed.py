"""What native speakers said of the key, as far as it stands beside the data set that a run scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from carb_cli.report.report_json import PeoplePart
from carb_cli.review.findings import WHOLE, Applied, line_beside
from carb_data import ScoreTable
from carb_metrics import judge_vs_human
from carb_metrics.rows import JudgedRow


def people(folders: Sequence[Path], fingerprint: str, scores: ScoreTable, confidence: float) -> PeoplePart:
    """The human line of a reviewed data set, people's agreement with each other, and that of each scorer with them.

    ``carb review apply`` writes it beside the data set, and ``carb run`` keeps it in the run's folder. A part of a data
    set (``--limit``) has the line of the whole: a line of the part would be higher than people earn, since retired
    sets, on which people disagreed, are not among those scored.

    Args:
        folders: the runs.
        fingerprint: fingerprint of the data set that they scored.
        scores: the scores of the main sets.
        confidence: the confidence level of all intervals, between 0 and 1.
    """
    found = next((one for folder in folders if (one := line_beside(folder / "dataset.parquet")) is not None), None)
    if found is None:
        return PeoplePart()
    lines = found.findings.lines
    return PeoplePart(
        line=lines[WHOLE],
        groups={name: line for name, line in lines.items() if name != WHOLE},
        cultures=sum(line.answers > 0 for name, line in lines.items() if name.endswith("/")),
        whole=found.fingerprint != fingerprint,
        scorers=_agreement(found, scores, confidence),
    )


def _agreement(found: Applied, scores: ScoreTable, confidence: float) -> tuple[JudgedRow, ...]:
    """Who of the people picked which answer is not kept, so the picks of a set are numbered; that changes no measure
    used here."""
    picks = [
        (one.set_id, f"{one.set_id} {number}", response)
        for one in found.findings.sets
        for number, response in enumerate(option.response for option in one.options for _ in range(option.best))
    ]
    known = set(scores.frame["item_id"].cast(pl.String).unique())
    human = pl.DataFrame(
        [pick for pick in picks if pick[0] in known], schema=["item_id", "rater", "response_id"], orient="row"
    )
    return judge_vs_human(scores, human, confidence) if human.height else ()
