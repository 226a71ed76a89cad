"""How the scorers of runs behave apart from being right: bias of position and length, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from carb_cli.report.model import JudgesPart
from carb_data import Dataset, ScoreTable, cultures
from carb_metrics import calibration, judge_bias
from carb_scorers.run import read_presentations


def judges(folders: Sequence[Path], dataset: Dataset, scores: ScoreTable, confidence: float) -> JudgesPart:
    """What the runs tell.

    Args:
        folders: the runs; in those without a journal, such as entries of a leaderboard, nothing tells of positions.
        dataset: the sets that they scored.
        scores: the scores of the main sets.
        confidence: the confidence level of all intervals, between 0 and 1.
    """
    kept = scores.frame["item_id"].cast(pl.String).unique().to_list()
    parts = [read_presentations(folder) for folder in folders if (folder / "journal").is_dir()]
    shown = pl.concat(parts).filter(pl.col("item_id").is_in(kept)) if parts else None
    lengths = pl.DataFrame(
        [(s.id, r.id, len(r.text)) for s in dataset for r in (*s.responses, *s.perturbed)],
        schema={"item_id": pl.String, "response_id": pl.String, "length": pl.Int64},
        orient="row",
    )
    some = shown is not None and shown.height > 0
    return JudgesPart(
        bias=judge_bias(scores, shown if some else None, lengths, confidence),
        calibration=calibration(_rolled_up(scores), "culture", confidence=confidence),
    )


def _rolled_up(scores: ScoreTable) -> ScoreTable:
    """Each variety under the culture for which it counts, as in ``breakdown``."""
    ids = scores.frame["culture"].unique().cast(pl.String).to_list()
    roots = {name: cultures.root(name).id for name in ids if name in cultures}
    return ScoreTable(scores.frame.with_columns(pl.col("culture").cast(pl.String).replace(roots)))
