"""The score table accepts its schema and nothing else."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable, load
from carb_data.table import COLUMNS

VALUES = ("s", "i", "r", "chosen", "thai", "values", "th", None, None, 1.0)
ROW = dict(zip(COLUMNS, VALUES, strict=True))


def frame(*rows: dict) -> pl.DataFrame:
    numbered = [{**ROW, "response_id": f"r{n}" if n else "r", **row} for n, row in enumerate(rows)]
    return pl.DataFrame(numbered, schema=COLUMNS)


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
    mixed = frame({}, {}).with_columns(
        pl.col("scorer").cast(pl.Categorical), score=pl.Series([1, 2])
    )
    table = ScoreTable(mixed.select(sorted(mixed.columns)))
    assert list(table.frame.columns) == list(COLUMNS)
    assert table.frame.schema["score"] == pl.Float64
    assert table.frame.schema["scorer"] == pl.Categorical


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame({}).drop("role"), r"missing columns \['role'\]"),
        (frame({}).with_columns(other=1), r"unknown columns \['other'\]"),
        (frame({"score": math.inf}), "NaN or infinite"),
        (frame({"role": "best"}), "found .'best'"),
        (frame({}).with_columns(score=pl.lit("high")), "must be numbers"),
        (frame({}).with_columns(item_id=1), "must be text"),
    ],
)
def test_what_is_no_score_table_is_refused_with_the_reason(bad, reason):
    with pytest.raises(CarbError, match=reason):
        ScoreTable(bad)


def test_topics_and_source_items_are_joined_in():
    seed = load("carb-seed")
    rows = [{"item_id": seed[0].id, "response_id": response.id} for response in seed[0].responses]
    table = ScoreTable(frame(*rows, {"item_id": "unknown"})).with_items(seed)
    assert table.frame["topic"].to_list() == [*[seed[0].topic] * 4, None]
    assert table.frame["source_item"].to_list() == [*[seed[0].source_item] * 4, None]
    with pytest.raises(
        CarbError, match=f"no row for response '{rows[0]['response_id']}' of item '{seed[0].id}'"
    ):
        ScoreTable(frame(*rows[1:])).with_items(seed)
    assert table.with_items(seed) == table


def test_a_row_that_is_there_twice_or_lost_is_named():
    rows = [{"item_id": item, "response_id": name} for item in "ab" for name in "xyz"]
    with pytest.raises(
        CarbError, match=r"'s' has response 'y' of item 'a' twice, in rows 1 and 6 "
    ):
        ScoreTable(frame(*rows, rows[1]))
    other = [{**row, "scorer": "t"} for row in rows[:5]]
    with pytest.raises(CarbError, match="scorer 't' has no row for response 'z' of item 'b'"):
        ScoreTable(frame(*rows, *other))
    assert len(ScoreTable(frame(*rows, *other[:3]))) == 9  # another scorer may have seen fewer sets


def test_a_score_that_is_no_number_is_reported_with_file_scorer_and_row(tmp_path):
    broken = frame({"score": math.nan})
    broken.write_parquet(tmp_path / "scores.parquet")
    with pytest.raises(CarbError) as refused:
        ScoreTable.load(tmp_path / "scores.parquet")
    first = broken.filter(pl.col("score").is_nan()).row(0, named=True)
    for fact in ("scores.parquet", first["scorer"], first["item_id"], first["response_id"], "null"):
        assert fact in str(refused.value)
