"""Means and their intervals, and mistakes that are named in the words of the caller."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics import (
    FamilyReport,
    bon_accuracy,
    breakdown,
    centred,
    compare,
    correlate,
    family_accuracy,
    mean_interval,
    paired_difference,
    place_gap,
    rank,
    sets_needed,
    surface_floor,
)
from carb_metrics.correlation import rival
from carb_metrics.intervals import wilson

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
pandas = pytest.importorskip("pandas", reason="a frame that is not polars'")
SERIES = pandas.Series([1.0, 0.0, 1.0], index=list("abc"))


def doubled(table):
    """A rejected row twice."""
    return ScoreTable(pl.concat([table.frame, table.frame[1:2]]))


def named(table, scorer):
    return ScoreTable(table.frame.with_columns(scorer=pl.lit(scorer)))


def test_one_paired_interval_for_any_values():
    rng = np.random.default_rng(10)
    a, b = rng.normal(1, 1, 40), rng.normal(0.5, 1, 40)
    found = paired_difference(a, b, bounded=False)
    expected = stats.ttest_rel(a, b).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert paired_difference([], []).estimate is None
    assert paired_difference([1, 0, 1], [0, 0, 1], clusters=["q", "q", None]).n == 3
    with pytest.raises(CarbError, match="same length"):
        paired_difference([1], [1, 0])
    with pytest.raises(CarbError, match="between 0 and 1"):
        paired_difference([2.0], [1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([1, None, 0, 1], [0, 0, 1, 0]), r"a\[1\] is missing"),
        (lambda: mean_interval([1, math.nan, 0]), r"values\[1\] is missing"),
        (lambda: mean_interval([5, 6, 7]), "between 0 and 1; for others give bounded=False"),
        (lambda: rival(math.nan, 0.5, 0.5, 20), "No data has"),
        (lambda: wilson(None, 10), "successes must lie between 0 and n; got nan of 10"),
        (lambda: wilson(5, math.inf), "got 5 of inf"),
        (lambda: wilson(5, 3), "got 5 of 3"),
        (lambda: wilson(-1, 3), "got -1 of 3"),
        (lambda: wilson(1, -2), "got 1 of -2"),
        (lambda: wilson(1, 2, 0), "confidence must lie between 0 and 1"),
        (lambda: wilson(1, 2, 95), "confidence must lie between 0 and 1"),
    ],
)
def test_a_missing_or_infinite_number_is_a_mistake(call, message):
    with pytest.raises(CarbError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: bon_accuracy(t.frame), "ScoreTable, not DataFrame"),
        (lambda t: sets_needed(0.1, 0.2, alpha=1), "alpha must lie between 0 and 1"),
        (lambda t: compare(t, t, margin=0.1, confidence=0.4), "confidence must be above 0.5"),
        (lambda t: compare(t, t, margin=2), "margin must lie between 0 and 1"),
        (lambda t: compare(t, t, by="colour"), "each key must"),
        (lambda t: compare(t, ScoreTable.concat([t, named(t, "b")])), "one scorer each"),
        (
            lambda t: correlate(SERIES, SERIES[::-1]),
            "x and y are of pandas and their indexes differ",
        ),
        (
            lambda t: paired_difference(SERIES, SERIES[::-1]),
            "a and b are of pandas and their indexes differ",
        ),
        (lambda t: bon_accuracy(doubled(t)), "has response 'item-0-1' of item 'item-0' twice"),
        (
            lambda t: compare(t, ScoreTable(t.frame.filter(pl.col("response_id") != "item-2-3"))),
            "other responses",
        ),
        (
            lambda t: compare(t, ScoreTable(t.frame.with_columns(culture=pl.lit("thai")))),
            "another culture",
        ),
        (
            lambda t: breakdown(ScoreTable(t.frame.with_columns(culture=pl.lit("klingon")))),
            "unknown culture 'klingon'",
        ),
    ],
)
def test_a_mistake_is_named_in_the_words_of_the_caller(make_table, call, message):
    with pytest.raises(CarbError, match=message):
        call(make_table([WON, LOST, WON], scorer="s"))


@pytest.mark.parametrize("wrong", ["carb-seed", []])
@pytest.mark.parametrize("measure", [family_accuracy, place_gap, rank, surface_floor])
def test_what_is_no_data_set_is_named(measure, wrong):
    with pytest.raises(CarbError, match=f"not a {type(wrong).__name__}"):
        measure(ScoreTable.concat([]), dataset=wrong)


@pytest.mark.parametrize("measure", [centred, surface_floor])
def test_what_is_no_table_is_named(measure):
    given = {"dataset": Dataset()} if measure is surface_floor else {}
    with pytest.raises(CarbError, match="ScoreTable, not list"):
        measure([1.0], **given)


def test_a_family_report_names_the_scorers_that_it_has():
    report = FamilyReport(by=None, rows=())
    with pytest.raises(CarbError, match=r"'length'.*none"):
        report.of("length")
