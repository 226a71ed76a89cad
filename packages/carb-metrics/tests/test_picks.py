"""Agreement between scorers: the same picks, and the same mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from carb_data import ScoreTable
from carb_metrics import paired_difference, pick_agreement
from carb_metrics.clusters import share_interval
from carb_metrics.paired import paired_rows


def test_picks_by_hand(make_table):
    a = make_table([[2.0, 1, 0], [0.0, 2, 1], [0.0, 2, 1], [0.0, 1, 1], [None, 1, 0], [2.0, 1, 0]], scorer="a")
    b = make_table([[3.0, 1, 0], [0.0, 9, 1], [0.0, 1, 2], [0.0, 1, 2], [2.0, 1, 0], [0.0, 1, 0]], scorer="b")
    (row,) = pick_agreement(ScoreTable.concat([b, a]))
    assert (row.a, row.b, row.n, row.wrong) == ("a", "b", 4, 2)  # one tie and one error are no picks
    assert (row.same, row.same_wrong, row.same_wrong_chance) == (0.5, 0.5, 0.5)
    expected = share_interval(np.array([1.0, 1, 0, 0]), np.arange(4), 0.95)
    assert (row.same, row.low, row.high) == expected


def test_source_items_are_kept_together(make_table):
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 20, 4)).repeat(4, axis=1).tolist()
    sources = [f"q{i // 4}" for i in range(80)]

    def width(**options) -> float:
        both = [make_table(sets, scorer=name, **options) for name, sets in (("a", one), ("b", two))]
        (row,) = pick_agreement(ScoreTable.concat(both))
        return row.high - row.low

    assert width(sources=sources) > 1.5 * width()


def test_without_two_scorers_or_picks_nothing_is_said(make_table):
    table = make_table([[1.0, 0.0]])
    assert pick_agreement(table) == ()
    assert pick_agreement(ScoreTable(table.frame.clear())) == ()
    tied = [make_table([[1.0, 1.0]], scorer=name) for name in "ab"]
    (row,) = pick_agreement(ScoreTable.concat(tied))
    assert (row.n, row.same, row.wrong, row.same_wrong_chance) == (0, None, 0, None)


def test_rows_of_differences_are_those_of_each_alone():
    rng = np.random.default_rng(1)
    d, cluster = rng.integers(-1, 2, (5, 60)).astype(float), np.arange(60) // 3
    d[1, rng.random(60) < 0.4] = np.nan
    d[2] = np.nan
    for found, mine in zip(paired_rows(d, cluster), d, strict=True):
        known = ~np.isnan(mine)
        alone = paired_difference(mine[known], np.zeros(known.sum()), cluster[known], bounded=False)
        assert (found.n, found.p) == (alone.n, alone.p)
        assert found.estimate == pytest.approx(alone.estimate)
        assert found.n == 0 or found.design_effect == pytest.approx(alone.design_effect)
    assert paired_rows(np.empty((0, 3))) == []
