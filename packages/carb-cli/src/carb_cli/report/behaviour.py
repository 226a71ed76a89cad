"""How the scorers of runs behave apart from being right: bias and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from carb_cli.report.model import Behaviour, Report
from carb_data import Dataset, ScoreTable
from carb_metrics import (
    MarginRow,
    judge_bias,
    margin_calibration,
)
from carb_metrics.leads import Coverage
from carb_metrics.rows import BiasRow, PositionRow
from carb_scorers.run import read_presentations


def behaviour(folders: Sequence[Path], dataset: Dataset, scores: ScoreTable, confidence: float) -> Behaviour:
    """What the runs tell.

    Args:
        folders: the runs; in those without a journal, such as entries of a leaderboard, nothing tells of positions.
        dataset: the sets that they scored.
        scores: the scores of the sets that count.
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
    return Behaviour(
        bias=judge_bias(scores, shown if some else None, lengths, confidence),
        calibration=margin_calibration(scores, "culture", confidence),
    )


def models(report: Report) -> list[str]:
    """The scorers that are no baselines: what baselines do, their names say."""
    return [name for name, part in report.scorers.items() if part.spec.kind != "baseline"]


def biased(report: Report) -> list[tuple[BiasRow, PositionRow | None]]:
    """The models whose picks or lengths tell something, each with how often it picks the first position."""
    bias = report.behaviour.bias
    first = {row.scorer: row for row in bias.positions if row.position == 0}
    rows = [(row, first.get(row.scorer)) for name in models(report) if (row := bias.of(name))]
    return [(row, place) for row, place in rows if place is not None or row.length_r is not None]


def calibrated(report: Report) -> dict[str, dict[str | None, MarginRow]]:
    """For each model whose leads can be calibrated: its rows by culture, with null for all sets."""
    rows = {
        name: {row.group: row for row in report.behaviour.calibration if row.scorer == name} for name in models(report)
    }
    return {name: groups for name, groups in rows.items() if None in groups and groups[None].calibration is not None}


def accuracy_at(row: MarginRow, share: float) -> Coverage | None:
    """Accuracy among the sets with the clearest leads, at least this share of them."""
    return next((one for one in row.coverage if one.coverage >= share - 1e-9), None)
