"""Accuracy: what counts as won, and the promises on bounds, order and names."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable
from carb_metrics import bon_accuracy
from carb_metrics.rows import Cell

score = st.one_of(st.none(), st.integers(-3, 3).map(float))
one_set = st.lists(score, min_size=2, max_size=5)
some_sets = st.lists(one_set, min_size=1, max_size=12)

WON, LOST, TIED = [2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 0.0, 1.0], [2.0, 2.0, 0.0, 2.0]


def test_won_lost_tied_and_failed_sets_are_counted(make_table):
    cell = bon_accuracy(make_table([WON, WON, LOST, TIED, [2.0, None, 1.0, 0.0]])).overall
    assert (cell.strict, cell.n, cell.ties, cell.errors) == (0.4, 5, 1, 1)


def test_a_tie_earns_its_share_and_is_no_win(make_table):
    table = make_table([TIED, WON])
    cell = bon_accuracy(table).overall
    assert cell.accuracy == pytest.approx((1 / 3 + 1) / 2, abs=1e-15)
    assert cell.strict == 0.5


def test_micro_weighs_sets_and_macro_weighs_groups(make_table):
    table = make_table([WON, WON, WON, LOST], cultures=["thai", "thai", "thai", "german"])
    result = bon_accuracy(table, by="culture")
    assert result.overall.accuracy == 0.75
    assert result.macro.accuracy == 0.5
    assert result.groups.columns == [
        "culture",
        "accuracy",
        "low",
        "high",
        "n",
        "ties",
        "errors",
        "strict",
    ]
    assert result.groups["culture"].to_list() == ["german", "thai"]


def test_perturbed_rows_never_count(make_table):
    table = make_table([WON])
    perturbed = table.frame.with_columns(
        response_id=pl.lit("p-") + pl.col("response_id"),
        perturbation=pl.lit("CC"),
        original="response_id",
        score=-pl.col("score"),
    )
    assert bon_accuracy(ScoreTable(pl.concat([table.frame, perturbed]))) == bon_accuracy(table)


@pytest.mark.parametrize("by", [(), ("culture",), ("scorer", "culture")])
def test_empty_input_gives_null(make_table, by):
    result = bon_accuracy(ScoreTable(make_table([WON]).frame.clear()), by=by)
    assert (
        result.overall
        == result.macro
        == Cell(accuracy=None, low=None, high=None, n=0, ties=None, errors=None)
    )
    assert result.groups.height == 0
    assert result.groups.columns == [
        *by,
        "accuracy",
        "low",
        "high",
        "n",
        "ties",
        "errors",
        "strict",
    ]


def test_several_scorers_must_be_told_apart(make_table):
    table = ScoreTable.concat(
        [make_table([WON, LOST], scorer="a"), make_table([WON, WON], scorer="b")]
    )
    with pytest.raises(CarbError, match="holds 2 scorers"):
        bon_accuracy(table)
    result = bon_accuracy(table, by=("scorer", "culture"))
    assert result.of("a").overall.accuracy == 0.5
    assert result.of("b").macro.accuracy == 1
    assert result.overall.accuracy is None
    assert result.of("a") == bon_accuracy(make_table([WON, LOST], scorer="a"), by="culture")
    with pytest.raises(CarbError, match="no scorer 'c'"):
        result.of("c")


@given(some_sets)
def test_company_changes_no_interval(make_table, sets):
    alone = make_table(sets, scorer="a", cultures=["thai", "german"])
    all_tied = make_table(
        [[0.0] * len(values) for values in sets], scorer="b", cultures=["thai", "german"]
    )
    found = (
        bon_accuracy(ScoreTable.concat([alone, all_tied]), by=("scorer", "culture")).of("a").overall
    )
    expected = bon_accuracy(alone, by="culture").overall
    assert found.model_dump() == pytest.approx(expected.model_dump(), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "colour"}, "each key must be one of"),
        ({"by": ("culture", "culture")}, "once"),
        ({"by": "topic"}, "with_items"),
        ({"confidence": 1.0}, "confidence must lie"),
    ],
)
def test_wrong_options_say_what_is_right(make_table, options, message):
    with pytest.raises(CarbError, match=message):
        bon_accuracy(make_table([WON]), **options)


def test_sets_that_lack_a_role_or_hold_it_twice_are_refused(make_table):
    frame = make_table([WON, LOST]).frame
    for broken in (
        frame.filter(pl.col("role") == "rejected"),
        pl.concat([frame, frame]),
        frame.head(1),
    ):
        with pytest.raises(CarbError, match=r"cannot be judged|twice"):
            bon_accuracy(ScoreTable(broken))


@given(some_sets, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_groups_do_not_matter(make_table, sets, random):
    table = make_table(sets, cultures=["thai", "german", "arabic"])
    result = bon_accuracy(table, by="culture")
    rows = list(range(len(table)))
    random.shuffle(rows)
    assert bon_accuracy(ScoreTable(table.frame[rows]), by="culture") == result
    renamed = bon_accuracy(
        make_table(sets, cultures=["russian", "korean", "spanish"]), by="culture"
    )
    assert renamed.macro == result.macro


@given(some_sets)
def test_monotone_transforms_change_nothing(make_table, sets):
    moved = [[None if v is None else math.exp(v) * 3 - 5 for v in values] for values in sets]
    assert bon_accuracy(make_table(moved)) == bon_accuracy(make_table(sets))
