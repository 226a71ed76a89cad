"""``carb compare``."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from carb_data import Dataset, ScoreTable, load
from carb_metrics import bon_accuracy, compare, margins
from cli_helpers import Carb, small_dataset, small_family, small_set


def table_of(folder: Path, scorer: str) -> ScoreTable:
    frame = ScoreTable.load(folder / "scores.parquet").frame
    return ScoreTable(frame.filter(pl.col("scorer") == scorer))


def test_json_is_what_the_metrics_say(carb: Carb, finished_run: Path) -> None:
    found = carb("compare", f"{finished_run}#length", f"{finished_run}#random", "--json").json
    a, b = table_of(finished_run, "baseline:length"), table_of(finished_run, "baseline:random")
    whole = compare(a, b)
    assert found["schema"] == "carb.compare/1"
    assert (found["a"], found["b"]) == ("baseline:length", "baseline:random")
    for name in ("n", "difference", "low", "high", "p", "only_a", "only_b", "more_sets"):
        assert found[name] == getattr(whole, name)
    assert sum(group["n"] for group in found["by_culture"]) == found["n"] == 80
    assert {group["key"] for group in found["by_domain"]} == {"commonsense", "values", "safety", "linguistics"}


def test_every_listed_item_is_won_by_one_alone(carb: Carb, finished_run: Path) -> None:
    found = carb("compare", f"{finished_run}#length", f"{finished_run}#random", "--items", 1000, "--json").json
    assert len(found["items"]) <= found["only_a"] + found["only_b"]
    for item in found["items"]:
        assert (item["margin_a"] > 0) != (item["margin_b"] > 0)
        assert (item["winner"] == "a") == (item["margin_a"] > 0)
    gaps = [abs(item["margin_a"] - item["margin_b"]) for item in found["items"]]
    assert gaps == sorted(gaps, reverse=True)


def test_margins_agree_with_accuracy(finished_run: Path) -> None:
    table = table_of(finished_run, "baseline:length")
    found = margins(table)
    assert found["right"].mean() == bon_accuracy(table).overall.strict


def test_noise_is_called_noise(carb: Carb, finished_run: Path) -> None:
    out = carb("compare", f"{finished_run}#length", f"{finished_run}#random").out
    whole = compare(table_of(finished_run, "baseline:length"), table_of(finished_run, "baseline:random"))
    assert whole.p is not None
    assert whole.p > 0.05
    assert "This may be noise" in out
    assert "further sets would settle" in out


def test_a_clear_difference_is_called_one(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    carb("run", "--data", data_file, "--scorer", "baseline:label", "baseline:random", "--out", folder)
    found = carb("compare", folder, "--json").json
    assert found["ties_a"] == found["n"]  # it is as good as chance, and would be much worse if ties lost
    assert (found["better"], found["strict_a"] < found["accuracy_a"]) == (None, True)
    frame = ScoreTable.load(folder / "scores.parquet").frame
    right = (pl.col("scorer").cast(pl.String) == "baseline:random") & (pl.col("role").cast(pl.String) == "chosen")
    ScoreTable(frame.with_columns(score=pl.when(right).then(9.0).otherwise("score"))).save(folder / "scores.parquet")
    assert carb("compare", folder, "--json").json["better"] == "b"
    assert "b is better" in carb("compare", folder).out


def test_a_scorer_with_itself(carb: Carb, finished_run: Path) -> None:
    found = carb("compare", f"{finished_run}#length", f"{finished_run}#length", "--json").json
    assert (found["difference"], found["p"], found["better"], found["items"]) == (0, 1, None, [])


def test_a_run_of_two_scorers_needs_no_names(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    carb("run", "--data", data_file, "--scorer", "baseline:length", "baseline:random", "--out", tmp_path / "r")
    found = carb("compare", tmp_path / "r", "--json").json
    assert (found["a"], found["b"]) == ("baseline:length", "baseline:random")


def test_naming_a_scorer(carb: Carb, finished_run: Path) -> None:
    ended = carb("compare", finished_run)
    assert ended.code == 2
    assert "Name two scorers" in ended.err
    ended = carb("compare", f"{finished_run}#nothing", f"{finished_run}#length")
    assert ended.code == 2
    assert "No scorer" in ended.err
    assert "baseline:random" in ended.err
    ended = carb("compare", f"{finished_run}#baseline", f"{finished_run}#length")
    assert ended.code == 2
    assert "More than one scorer" in ended.err


@pytest.mark.parametrize("changed", [True, False])
def test_runs_on_parts_of_the_same_data(carb: Carb, data_file: Path, tmp_path: Path, changed: bool) -> None:
    part = tmp_path / "part.jsonl"
    items = load(data_file)[:6]
    items.save(part)
    if changed:
        part.write_text(part.read_text(encoding="utf-8").replace("Question 3?", "Another question?"), encoding="utf-8")
    carb("run", "--data", data_file, "--scorer", "baseline:length", "--out", tmp_path / "a")
    carb("run", "--data", part, "--scorer", "baseline:random", "--out", tmp_path / "b")
    ended = carb("compare", tmp_path / "a", tmp_path / "b", "--json")
    if changed:
        assert ended.code == 2
        assert "'set-3'" in ended.err
    else:
        assert ended.json["n"] == 6
    assert len(small_dataset()) == 12


def test_a_margin_needs_evidence(carb: Carb, finished_run: Path) -> None:
    pair = (f"{finished_run}#length", f"{finished_run}#random")
    a, b = table_of(finished_run, "baseline:length"), table_of(finished_run, "baseline:random")
    found = carb("compare", *pair, "--margin", 0.5, "--json").json
    assert found["margin"] == compare(a, b, margin=0.5).margin.model_dump()
    assert carb("compare", *pair, "--json").json["margin"] is None
    out = carb("compare", *pair, "--margin", 0.01).out
    assert "it is not shown that a is no worse than b" in out
    ended = carb("compare", *pair, "--margin", 2)
    assert ended.code == 2
    assert "margin must lie between 0 and 1" in ended.err


def test_main_sets_count_and_families_say_the_place_effect(carb: Carb, tmp_path: Path) -> None:
    """Twelve mirrored sets, three of them main, and two of one place."""
    families = [item for n in range(3) for item in small_family(n)]
    Dataset([*families, small_set(90), small_set(91)]).save(tmp_path / "data.jsonl")
    run = ("--scorer", "baseline:length", "baseline:label", "--out", tmp_path / "r")
    carb("run", "--data", tmp_path / "data.jsonl", *run)
    out = carb("compare", tmp_path / "r").out
    assert "5 main sets" in out
    assert "Place effect over 3 families" in out
    found = carb("compare", tmp_path / "r", "--json").json
    assert (found["n"], found["counted"], found["place_effect"]["families"]) == (5, "main", 3)
    assert [sum(row["n"] for row in found[key]) for key in ("by_culture", "by_domain")] == [5, 5]


def test_sets_on_which_a_scorer_failed_are_counted(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    carb("run", "--data", data_file, "--scorer", "baseline:length", "baseline:random", "--out", folder)
    assert "failed" not in carb("compare", folder).out
    frame = ScoreTable.load(folder / "scores.parquet").frame
    item, name = pl.col("item_id").cast(pl.String), pl.col("scorer").cast(pl.String)
    lost = (name == "baseline:length") & item.is_in(["set-1", "set-4"]) & pl.col("perturbation").is_null()
    ScoreTable(frame.with_columns(pl.when(~lost).then("score").alias("score"))).save(folder / "scores.parquet")
    assert "Sets on which a scorer failed count as wrong: 2 of a, 0 of b." in carb("compare", folder).out
    found = carb("compare", folder, "--json").json
    assert (found["errors_a"], found["errors_b"]) == (2, 0)
