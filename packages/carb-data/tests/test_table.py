"""The score table accepts its schema and nothing else."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable, load
from carb_data.table import COLUMNS

ROW = {
    "scorer": "s", "item_id": "i", "response_id": "r", "role": "chosen", "culture": "thai", "domain": "values",
    "language": "th", "perturbation": None, "original": None, "score": 1.0,
}  # fmt: skip


def frame(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame([{**ROW, **row} for row in rows] or [], schema=COLUMNS)


@given(scores=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_a_table_gives_its_frame_back(scores):
    table = ScoreTable(frame(*({"score": score} for score in scores)))
    assert table.frame["score"].to_list() == scores
    assert list(table.frame.columns) == list(COLUMNS)
    assert len(table) == len(scores)


def test_it_is_saved_and_loaded_again(tmp_path):
    table = ScoreTable(frame({}, {"score": None, "perturbation": "CC", "original": "r"}))
    table.save(tmp_path / "scores.parquet")
    assert ScoreTable.load(tmp_path / "scores.parquet") == table
    with pytest.raises(CarbError, match="Cannot read the score table"):
        ScoreTable.load(tmp_path / "absent.parquet")


def test_column_order_kind_and_whole_numbers_do_not_matter():
    mixed = frame({}, {}).with_columns(pl.col("scorer").cast(pl.Categorical), score=pl.Series([1, 2]))
    table = ScoreTable(mixed.select(sorted(mixed.columns)))
    assert list(table.frame.columns) == list(COLUMNS)
    assert table.frame.schema["score"] == pl.Float64
    assert table.frame.schema["scorer"] == pl.Categorical


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame({}).drop("role"), r"missing columns \['role'\]"),
        (frame({}).with_columns(other=1), r"unknown columns \['other'\]"),
        (frame({"score": math.nan}), "NaN or infinite"),
        (frame({"score": math.inf}), "NaN or infinite"),
        (frame({"role": "best"}), "found .'best'"),
        (frame({"item_id": None}), r"empty values in \['item_id'\]"),
        (frame({}).with_columns(score=pl.lit("high")), "must be numbers"),
        (frame({}).with_columns(item_id=1), "must be text"),
    ],
)
def test_what_is_no_score_table_is_refused_with_the_reason(bad, reason):
    with pytest.raises(CarbError, match=reason):
        ScoreTable(bad)


def test_topics_and_source_items_are_joined_in():
    seed = load("carb-seed@2")
    table = ScoreTable(frame({"item_id": seed[0].id}, {"item_id": "unknown"})).with_items(seed)
    assert table.frame["topic"].to_list() == [seed[0].topic, None]
    assert table.frame["source_item"].to_list() == [seed[0].source_item, None]
    assert table.with_items(seed) == table


def test_tables_are_put_together():
    one, two = ScoreTable(frame({})), ScoreTable(frame({"scorer": "t"}))
    assert ScoreTable.concat([one, two]).frame["scorer"].to_list() == ["s", "t"]
    assert len(ScoreTable.concat([])) == 0


def test_a_folder_of_a_run_is_no_table(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    ScoreTable(pl.DataFrame(schema=COLUMNS)).save(tmp_path / "scores.parquet")
    with pytest.raises(CarbError, match="Cannot read the score table"):
        ScoreTable.load(tmp_path)


def test_tables_with_and_without_items_do_not_go_together():
    plain = ScoreTable(pl.DataFrame(schema=COLUMNS))
    with pytest.raises(CarbError, match=r"differ in the columns .*'family'.*with_items"):
        ScoreTable.concat([plain, plain.with_items(load("carb-seed"))])
