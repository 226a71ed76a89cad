"""Words that question and answer share are no knowledge of a place."""

from __future__ import annotations

import asyncio
from pathlib import Path

from carb_cli.report.content import content, read_runs
from carb_data import Dataset, load
from carb_metrics import family_accuracy
from carb_metrics.surface import overlap_scores
from carb_scorers import evaluate
from carb_scorers.run import run


def some_families() -> Dataset:
    seed = load("carb-seed").without_perturbed()
    families = sorted({item.family for item in seed if item.family})[:12]
    return seed.filter(lambda item: item.family in families)


def test_the_metric_scores_as_the_baseline_does() -> None:
    sets = some_families()
    ran = evaluate(sets, "baseline:overlap").frame.sort("item_id", "response_id")
    computed = overlap_scores(sets).frame.sort("item_id", "response_id")
    assert ran["score"].to_list() == computed["score"].to_list()


def test_a_report_computes_the_place_win_rate_of_shared_words(tmp_path: Path) -> None:
    """Whether or not the baseline ran."""
    sets = some_families()
    asyncio.run(run(sets, ["baseline:length"], tmp_path / "run"))
    report = content(read_runs([tmp_path / "run"]))
    expected = family_accuracy(overlap_scores(sets), sets).of("baseline:overlap").place_win
    assert report.shared_words == expected
