"""How the scorers of runs behave apart from being right: agreement, bias, ties, calibration, draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import polars as pl

from carb_cli.display import percent, safe
from carb_cli.labels import labels
from carb_cli.report.model import Behaviour, Report
from carb_data import Dataset, ScoreTable
from carb_metrics import (
    MarginRow,
    draws_of,
    judge_bias,
    margin_calibration,
    minimum_detectable_difference,
    pick_agreement,
    sampling_variance,
    sets_needed,
    tie_report,
)
from carb_metrics.leads import Coverage
from carb_metrics.rows import BiasRow, PositionRow, TieRow
from carb_scorers.presentations import read_presentations


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
        picks=pick_agreement(scores, confidence),
        bias=judge_bias(scores, shown if some else None, lengths, confidence),
        ties=tie_report(scores, confidence=confidence),
        calibration=margin_calibration(scores, "culture", confidence),
        draws=sampling_variance(draws_of(scores, shown), confidence) if shown is not None and some else (),
    )


def models(report: Report) -> list[str]:
    """The scorers that are no baselines: what baselines do, their names say."""
    return [name for name, part in report.scorers.items() if part.spec.kind != "baseline"]


def planning(report: Report) -> str:
    """What the sets can tell of the two best scorers, in a sentence; empty with one scorer."""
    names = [*models(report), *(name for name in report.scorers if name not in models(report))][:2]
    pair = next((row for row in report.pairs if {row.a, row.b} == set(names)), None)
    if pair is None or pair.difference is None or pair.low is None or pair.high is None:
        return ""
    discordance = ((pair.only_a or 0) + (pair.only_b or 0)) / pair.n
    if not discordance:
        return ""
    # How many times wider the interval is than that of independent sets, squared: what clusters cost.
    plain = math.sqrt(max(discordance - pair.difference**2, 1e-12) / pair.n)
    error = (pair.high - pair.low) / 2 / NormalDist().inv_cdf((1 + report.confidence) / 2)
    effect, alpha = max(1.0, (error / plain) ** 2), 1 - report.confidence
    least = minimum_detectable_difference(pair.n, discordance, alpha=alpha, design_effect=effect)
    needed = sets_needed(pair.difference, discordance, alpha=alpha, design_effect=effect)
    a, b = (safe(labels(report.scorers)[name]) for name in (pair.a, pair.b))
    said = f"Between {a} and {b}, these {pair.n:,} sets find a true difference of "
    said += "no size" if least is None else f"{percent(least)} points or more"
    said += " four times in five"
    settled = pair.p_adjusted is not None and pair.p_adjusted < alpha
    if needed is not None and not settled:
        said += f"; to settle the {percent(abs(pair.difference))} points seen, about {needed:,} sets would be needed"
    return f"{said}. carb compare --plan plans other sizes."


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
