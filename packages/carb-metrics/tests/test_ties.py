"""Ties: exact counts, and the distribution of random breaking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable
from carb_metrics import bon_accuracy, tie_report

score = st.one_of(st.none(), st.integers(0, 2).map(float))
some_sets = st.lists(st.lists(score, min_size=2, max_size=5), min_size=1, max_size=12)


def test_counts_and_words(make_table):
    table = make_table([[2.0, 1, 0], [2.0, 2, 1], [2.0, 2, 2], [1.0, 2, 2], [None, 1, 1]])
    report = tie_report(table)
    row = report.groups[0].model_dump()
    assert (row["n"], row["won"], row["tied"], row["lost"], row["errors"]) == (5, 1, 2, 1, 1)
    assert row["tied_with"] == (1, 1)
    assert (row["strict"], row["lenient"], row["levels"]) == (0.2, 0.6, 3)
    assert row["shared"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 5)
    (statement,) = report.statements()
    assert statement == (
        "judge: of 5 sets 1 were won outright, 2 tied at the top (1 with 1 rejected, 1 with 2 rejected), 1 lost, "
        "1 not judged; scores take 3 distinct values. Accuracy is 0.2000 if ties lose, 0.3667 on average if they are "
        "broken at random (0.2000 to 0.6000 in 95% of breakings), 0.6000 if they win."
    )


def test_without_ties_there_is_one_accuracy(make_table):
    assert tie_report(make_table([[2.0, 1.0]])).statements()[0].endswith("Accuracy is 1.0000 however ties are settled.")


@given(some_sets)
def test_both_rules_agree_with_bon_accuracy(make_table, sets):
    table = make_table(sets, cultures=["thai", "german"])
    row = tie_report(table).groups[0].model_dump()
    assert row["strict"] == pytest.approx(bon_accuracy(table).overall.accuracy)
    assert row["shared"] == pytest.approx(bon_accuracy(table, ties="shared").overall.accuracy)
    assert row["strict"] <= row["shared_low"] <= row["shared"] + 1e-12
    assert row["shared"] <= row["shared_high"] + 1e-12 <= row["lenient"] + 2e-12
    assert sum(row.n for row in tie_report(table, by="culture").groups) == len(sets)


def test_random_breaking_stays_within_the_range(make_table):
    sets = [[1.0, 1.0]] * 40 + [[1.0, 1.0, 1.0]] * 30 + [[2.0, 1.0]] * 30
    row = tie_report(make_table(sets), confidence=0.9).groups[0].model_dump()
    rng = np.random.default_rng(0)
    won = (30 + rng.binomial(40, 1 / 2, 20_000) + rng.binomial(30, 1 / 3, 20_000)) / 100
    inside = ((row["shared_low"] <= won) & (won <= row["shared_high"])).mean()
    assert 0.9 <= inside <= 0.95
    assert row["shared_low"] == np.quantile(won, 0.05, method="inverted_cdf")
    assert row["shared_high"] == np.quantile(won, 0.95, method="inverted_cdf")


def test_empty_and_wrong_input(make_table):
    table = make_table([[2.0, 1.0]])
    empty = tie_report(ScoreTable(table.frame.clear()))
    assert empty.groups == ()
    assert empty.statements() == []
    for by in ("colour", "scorer", "credit"):
        with pytest.raises(CarbError, match="each key"):
            tie_report(table, by=by)
