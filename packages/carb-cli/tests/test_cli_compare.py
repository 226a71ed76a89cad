"""``carb compare``: one question, one answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from carb_data import Dataset, ScoreTable
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
