"""``carb compare``: one question, one answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from carb_data import Dataset, ScoreTable, load
from carb_metrics import compare
from cli_helpers import Carb, small_family, small_set

PROMISED = ["a", "b", "n", "ties_a", "ties_b", "accuracy_a", "accuracy_b", "strict_a", "strict_b", "difference"]
PROMISED += ["low", "high", "p", "test", "better"]


@pytest.fixture
def families(carb: Carb, tmp_path: Path) -> Path:
    """A run on eight families of four mirrored sets, and two sets of one place."""
    sets = [item for n in range(8) for item in small_family(n)]
    Dataset([*sets, small_set(90), small_set(91)]).save(tmp_path / "data.jsonl")
    out = tmp_path / "r"
    ended = carb(
        "run", "--data", tmp_path / "data.jsonl", "--scorer", "baseline:random", "baseline:label", "--out", out
    )
    assert ended.code == 0
    return out


def table_of(folder: Path, scorer: str) -> ScoreTable:
    frame = ScoreTable.load(folder / "scores.parquet").frame
    dataset = Dataset.load(folder / "dataset.parquet", registry=None)
    return ScoreTable(frame.filter(pl.col("scorer") == scorer)).with_items(dataset)


def test_json_is_what_the_metrics_say(carb: Carb, families: Path) -> None:
    found = carb("compare", families, "--json").json
    a, b = table_of(families, "baseline:random"), table_of(families, "baseline:label")
    dataset = Dataset.load(families / "dataset.parquet", registry=None)
    whole = compare(a, b, dataset=dataset)
    assert {name: found[name] for name in PROMISED} == {name: getattr(whole, name) for name in PROMISED}
    assert (found["a"], found["b"], found["n"]) == ("baseline:random", "baseline:label", 10), "main sets count"
    assert found["ties_b"] == 10
    assert found["strict_b"] == 0.0
    assert found["accuracy_b"] == pytest.approx(0.25), "a tie of four gives a quarter"
    place = found["place_effect"]
    assert whole.place_effect is not None
    assert (place["n"], place["a"], place["b"]) == (8, whole.place_effect.a, 0.0)
    assert (place["low"] < 0 < place["high"]) == (place["better"] is None)
    assert sum(group["n"] for group in found["by_culture"]) == found["n"]


def test_it_says_the_rule_of_ties_the_test_and_the_place_effect(carb: Carb, families: Path) -> None:
    out = carb("compare", families).out
    assert "25.0% right with ties shared, 0.0% where a tie is a loss (10 ties)" in out
    assert "10 main sets" in out
    assert table_test(families) in out
    assert "Place effect: a " in out
    assert "8 families" in out


def table_test(folder: Path) -> str:
    return str(compare(table_of(folder, "baseline:random"), table_of(folder, "baseline:label")).test)


def test_noise_and_a_clear_difference(carb: Carb, finished_run: Path) -> None:
    pair = (f"{finished_run}#length", f"{finished_run}#random")
    found = carb("compare", *pair, "--json").json
    said = carb("compare", *pair).out
    assert (found["low"] < 0 < found["high"]) == (found["better"] is None) == ("This may be noise" in said)
    same = carb("compare", pair[0], pair[0], "--json").json
    assert (same["difference"], same["better"], same["items"]) == (0, None, [])


def test_every_listed_item_is_won_by_one_alone(carb: Carb, finished_run: Path) -> None:
    found = carb("compare", f"{finished_run}#length", f"{finished_run}#random", "--items", 1000, "--json").json
    assert found["items"]
    for item in found["items"]:
        assert (item["margin_a"] > 0) != (item["margin_b"] > 0)
        assert (item["winner"] == "a") == (item["margin_a"] > 0)
    gaps = [abs(item["margin_a"] - item["margin_b"]) for item in found["items"]]
    assert gaps == sorted(gaps, reverse=True)


def test_naming_a_scorer(carb: Carb, finished_run: Path) -> None:
    for wanted, said in (
        ((finished_run,), "Name two scorers, for example: carb compare "),
        ((f"{finished_run}#nothing", f"{finished_run}#length"), "No scorer"),
        ((f"{finished_run}#baseline", f"{finished_run}#length"), "More than one scorer"),
    ):
        ended = carb("compare", *wanted)
        assert ended.code == 2
        assert said in ended.err
        assert "baseline:random" in ended.err


@pytest.mark.parametrize("changed", [True, False])
def test_runs_on_parts_of_the_same_data(carb: Carb, data_file: Path, tmp_path: Path, changed: bool) -> None:
    part = tmp_path / "part.jsonl"
    load(data_file)[:6].save(part)
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
        assert ended.json["place_effect"] is None


def test_a_margin_and_a_plan(carb: Carb, finished_run: Path) -> None:
    pair = (f"{finished_run}#length", f"{finished_run}#random")
    found = carb("compare", *pair, "--margin", 0.5, "--plan", "--json").json
    assert found["margin"]["equivalent"]
    sizes = [row["sets"] for row in found["plan"]]
    assert sizes == sorted(sizes, reverse=True)
    assert [row["difference"] for row in found["plan"]] == [0.01, 0.02, 0.03, 0.05, 0.1]
    out = carb("compare", *pair, "--margin", 0.01, "--plan").out
    assert "it is not shown that a is no worse than b" in out
    assert f"{sizes[0]:,}" in out
    ended = carb("compare", *pair, "--margin", 2)
    assert ended.code == 2
    assert "margin must lie between 0 and 1" in ended.err


def test_sets_on_which_a_scorer_failed(carb: Carb, data_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    carb("run", "--data", data_file, "--scorer", "baseline:length", "baseline:random", "--out", folder)
    assert "failed" not in carb("compare", folder).out
    frame = ScoreTable.load(folder / "scores.parquet").frame
    length = pl.col("scorer").cast(pl.String) == "baseline:length"
    some = length & pl.col("item_id").cast(pl.String).is_in(["set-1", "set-4"])
    for lost, code, said in (
        (some, 0, "Sets on which a scorer failed count as wrong: 2 of a, 0 of b."),
        (length, 1, "A scorer failed on every set"),
    ):
        ScoreTable(frame.with_columns(pl.when(~lost).then("score").alias("score"))).save(folder / "scores.parquet")
        ended = carb("compare", folder)
        assert ended.code == code
        assert said in ended.out
        assert (carb("compare", folder, "--json").json["difference"] is None) == (code == 1)
