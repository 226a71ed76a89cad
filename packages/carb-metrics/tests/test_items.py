"""Items: difficulty and discrimination."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_data import ScoreTable
from carb_metrics import item_analysis

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def won(flags):
    return [WON if flag else LOST for flag in flags]


def many(make_table, credit):
    """A table of scorers (rows) and items (columns)."""
    return ScoreTable.concat(
        [make_table(won(row), scorer=f"s{i:02}") for i, row in enumerate(np.asarray(credit))]
    )


def test_difficulty_and_discrimination_equal_their_definitions(make_table):
    rng = np.random.default_rng(2)
    ability, hard = rng.normal(0, 1, 40), rng.normal(0, 1, 60)
    credit = rng.random((40, 60)) < 1 / (1 + np.exp(-(ability[:, None] - hard)))
    order = np.argsort(credit.mean(1))
    credit[:, 0], credit[:, 1] = False, True
    credit[order[:20], 2], credit[order[20:], 2] = True, False  # only bad scorers win it
    items = {item.item_id: item for item in item_analysis(many(make_table, credit)).items}
    assert min(items.values(), key=lambda item: item.discrimination or 0.0).item_id == "item-2"
    assert (items["item-0"].discrimination, items["item-1"].difficulty) == (None, 1.0)
    rest = (credit.sum(1) - credit[:, 5]) / 59
    assert items["item-5"].discrimination == pytest.approx(np.corrcoef(credit[:, 5], rest)[0, 1])
    assert items["item-5"].difficulty == credit[:, 5].mean()


def test_mirrors_are_analysed_where_that_is_asked_for(make_table):
    table = many(make_table, np.eye(3) > 0)
    frame = table.frame.with_columns(
        mirror=pl.col("item_id") == "item-2", kind=pl.lit(None, pl.String)
    )
    marked = ScoreTable(frame)
    assert [one.item_id for one in item_analysis(marked).items] == ["item-0", "item-1"]
    assert len(item_analysis(marked, mirrors=True).items) == 3
