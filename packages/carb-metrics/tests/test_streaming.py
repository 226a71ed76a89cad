"""Tables read in batches give the numbers of tables in memory."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable
from carb_metrics import accuracy_from_parquet, bon_accuracy

score = st.one_of(st.none(), st.integers(0, 3).map(float))
some_sets = st.lists(st.lists(score, min_size=2, max_size=5), min_size=1, max_size=15)


def several(make_table, sets):
    return ScoreTable.concat([make_table(sets, scorer=name, cultures=["thai", "german", "arabic"]) for name in "ab"])


@given(some_sets, st.integers(1, 40), st.sampled_from(["strict", "shared"]), st.sampled_from(["wrong", "exclude"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_of_any_size_give_the_same(make_table, tmp_path, sets, batch, ties, errors):
    table = several(make_table, sets)
    path = tmp_path / "scores.parquet"
    table.save(path)
    options = {"by": ("scorer", "culture"), "ties": ties, "errors": errors, "resamples": 50}
    expected = bon_accuracy(table, **options)
    found = accuracy_from_parquet(path, batch=batch, **options)
    assert found.groups.equals(expected.groups)
    for name in "ab":
        assert found.of(name) == expected.of(name)
    assert found.overall.accuracy == pytest.approx(expected.overall.accuracy, nan_ok=False) or found.overall.n == 0
    assert found.overall.low is None


@pytest.mark.parametrize("batch", [3, 7, 1000])
def test_scattered_rows_give_the_same(make_table, batch):
    sets = [[3.0, 1.0, 2.0, 0.0], [1.0, 2.0, 2.0, 0.0], [2.0, 2.0, None, 1.0], [5.0, 1.0, 1.0, 1.0]] * 5
    table = several(make_table, sets)
    scattered = table.frame.sample(fraction=1.0, shuffle=True, seed=1)
    expected = bon_accuracy(table, by="scorer")
    assert accuracy_from_parquet(scattered.lazy(), by="scorer", batch=batch).groups.equals(expected.groups)


def test_perturbed_rows_never_count(make_table):
    frame = make_table([[1.0, 0.0]] * 4).frame
    perturbed = frame.with_columns(perturbation=pl.lit("RP"), original="response_id", score=-pl.col("score"))
    mixed = pl.concat([frame, perturbed]).sort("item_id", maintain_order=True)
    for batch in (2, 3, 100):
        assert accuracy_from_parquet(mixed.lazy(), batch=batch).overall == bon_accuracy(ScoreTable(frame)).overall


def test_one_scorer_needs_no_key_and_keeps_its_interval(make_table):
    table = make_table([[1.0, 0.0], [0.0, 1.0]])
    assert accuracy_from_parquet(table.frame.lazy()).overall == bon_accuracy(table).overall


def test_weights_and_empty_tables(make_table):
    table = several(make_table, [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    options = {"by": ("scorer", "culture"), "weights": {"thai": 1, "german": 2, "arabic": 0}}
    found, expected = accuracy_from_parquet(table.frame.lazy(), **options), bon_accuracy(table, **options)
    assert found.weighted.accuracy == pytest.approx(expected.weighted.accuracy)
    assert found.weighted.low is None
    empty = accuracy_from_parquet(table.frame.clear().lazy(), by="culture")
    assert empty.overall.accuracy is None
    assert empty.groups.height == 0
    failed = ScoreTable(table.frame.with_columns(score=pl.lit(None, dtype=pl.Float64)))
    assert accuracy_from_parquet(failed.frame.lazy(), by="scorer", errors="exclude").macro.accuracy is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("role"), "missing columns"),
        (lambda f: f.with_columns(role=pl.lit("best")), "roles must be"),
        (lambda f: f.with_columns(score=pl.lit(float("nan"))), "NaN"),
        (lambda f: f.with_columns(score=pl.lit("high")), "numbers"),
        (lambda f: f.with_columns(item_id=pl.lit(None, dtype=pl.String)), "empty values"),
        (lambda f: f.filter(pl.col("role") == "rejected"), "cannot be judged"),
        (lambda f: pl.concat([f, f]), "cannot be judged"),
    ],
)
def test_what_is_no_score_table_is_refused(make_table, change, message):
    frame = make_table([[1.0, 0.0], [0.0, 1.0]]).frame
    with pytest.raises(CarbError, match=message):
        accuracy_from_parquet(change(frame).lazy())


def test_wrong_options_and_files(make_table, tmp_path):
    frame = make_table([[1.0, 0.0]]).frame
    with pytest.raises(CarbError, match="each key"):
        accuracy_from_parquet(frame.lazy(), by="colour")
    with pytest.raises(CarbError, match="batch"):
        accuracy_from_parquet(frame.lazy(), batch=0)
    with pytest.raises(CarbError, match="Cannot read"):
        accuracy_from_parquet(tmp_path / "none.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("no parquet")
    with pytest.raises(CarbError, match="Cannot read"):
        accuracy_from_parquet(text)


@pytest.mark.parametrize("batch", [3, 8, 1000])
@pytest.mark.parametrize("shuffled", [False, True])
def test_clusters_are_kept_together(make_table, batch, shuffled):
    """Sets of one source item, and of one family, count together, as in memory."""
    sets = [[3.0, 1.0], [1.0, 2.0], [2.0, 1.0], [5.0, 1.0], [0.0, 1.0], [0.0, 1.0]] * 5
    one = [make_table(sets, scorer=name, cultures=["thai", "german"], sources=["q", "r", "s"] * 2) for name in "ab"]
    table = ScoreTable.concat(one)
    frame = table.frame.with_columns(family=pl.when(pl.col("item_id") < "item-2").then(pl.lit("f")))
    expected = bon_accuracy(ScoreTable(frame), by=("scorer", "culture"))
    if shuffled:
        frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
    found = accuracy_from_parquet(frame.lazy(), by=("scorer", "culture"), batch=batch)
    independent = bon_accuracy(ScoreTable(frame.drop("source_item", "family")), by=("scorer", "culture"))
    assert found.overall.high - found.overall.low > independent.overall.high - independent.overall.low
    for name in "ab":
        for cell in ("overall", "macro"):
            mine, theirs = getattr(found.of(name), cell), getattr(expected.of(name), cell)
            assert mine.model_dump() == pytest.approx(theirs.model_dump())
    for row, other in zip(found.groups.to_dicts(), expected.groups.to_dicts(), strict=True):
        assert row == pytest.approx(other)


def test_source_items_with_one_set_each_are_independent(make_table):
    table = make_table([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], sources=["q", "r", "s"])
    assert accuracy_from_parquet(table.frame.lazy()).overall == bon_accuracy(table).overall
