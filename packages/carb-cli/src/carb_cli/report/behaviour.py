"""How the scorers of runs behave apart from being right: agreement, bias, ties, calibration, draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from carb_cli.report.model import Behaviour, Report
from carb_data import Dataset, ScoreTable
from carb_metrics import (
    MarginRow,
    draws_of,
    judge_bias,
    margin_calibration,
    pick_agreement,
    sampling_variance,
    tie_report,
)
from carb_metrics.leads import Coverage
from carb_metrics.rows import BiasRow, PositionRow, TieRow
from carb_scorers.presentations import read_presentations


def behaviour(folders: Sequence[Path], dataset: Dataset, scores: ScoreTable, confidence: float) -> Behaviour:
    """What the runs tell.

    Args:
        folders: the runs; in those without a journal, such as entries of a leaderboard, nothing tells of positions.
        dataset: their sets.
        scores: the scores of the sets that count.
        confidence: of all intervals.
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
        picks=pick_agreement(scores, confidence),
        bias=judge_bias(scores, shown if some else None, lengths, confidence),
        ties=tie_report(scores, confidence=confidence),
        calibration=margin_calibration(scores, "culture", confidence),
        draws=sampling_variance(draws_of(scores, shown), confidence) if shown is not None and some else (),
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


def tied(report: Report) -> list[TieRow]:
    """The scorers that have ties, most ties first."""
    return sorted((row for row in report.behaviour.ties.groups if row.tied), key=lambda row: (-row.tied, row.scorer))


def calibrated(report: Report) -> dict[str, dict[str | None, MarginRow]]:
    """For each model whose leads can be calibrated: its rows by culture, with null for all sets."""
    rows = {
        name: {row.group: row for row in report.behaviour.calibration if row.scorer == name} for name in models(report)
    }
    return {name: groups for name, groups in rows.items() if None in groups and groups[None].calibration is not None}


def accuracy_at(row: MarginRow, share: float) -> Coverage | None:
    """Accuracy among the sets with the clearest leads, at least this share of them."""
    return next((one for one in row.coverage if one.coverage >= share - 1e-9), None)
