"""Items: difficulty, discrimination, and flags that number does not explain."""

from __future__ import annotations

import numpy as np
import pytest

from carb_data import ScoreTable
from carb_metrics import item_analysis
from carb_metrics.items import ATTRACTIVE, NEGATIVE

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def won(flags):
    return [WON if flag else LOST for flag in flags]


def many(make_table, credit, **options):
    """A table of scorers (rows) and items (columns)."""
    return ScoreTable.concat(
        [make_table(won(row), scorer=f"s{i:02}", **options) for i, row in enumerate(np.asarray(credit))]
    )


def rasch(rng, scorers, items):
    ability, hard = rng.normal(0, 1, scorers), rng.normal(0, 1, items)
    return rng.random((scorers, items)) < 1 / (1 + np.exp(-(ability[:, None] - hard)))


def test_a_reversed_item_is_flagged_and_good_ones_are_not(make_table):
    rng = np.random.default_rng(2)
    credit = rasch(rng, 40, 60)
    order = np.argsort(credit.mean(1))
    credit[:, 0], credit[:, 1] = False, True
    credit[order[:20], 2], credit[order[20:], 2] = True, False  # only bad scorers win it
    found = item_analysis(many(make_table, credit, cultures=["thai", "german"]))
    items = {item.item_id: item for item in found.items}
    assert items["item-2"].flags == (NEGATIVE, ATTRACTIVE)
    # All take the same wrong answer of the first item: that is for people to look at.
    assert [item.item_id for item in found.items if item.flags] == ["item-0", "item-2"]
    assert (items["item-0"].discrimination, items["item-1"].difficulty) == (None, 1.0)
    rest = (credit.sum(1) - credit[:, 5]) / 59
    assert items["item-5"].discrimination == pytest.approx(np.corrcoef(credit[:, 5], rest)[0, 1])
    assert items["item-5"].difficulty == credit[:, 5].mean()


@pytest.mark.coverage
@pytest.mark.parametrize("scorers", [10, 25])
def test_sets_of_good_items_are_rarely_flagged(make_table, scorers, say):
    rng, rounds = np.random.default_rng(4), 40
    found = [item_analysis(many(make_table, rasch(rng, scorers, 100))).items for _ in range(rounds)]
    share = np.mean([any(item.flags for item in items) for items in found])
    say(f"{scorers} scorers, 100 good items: some flag in {share:.2f} of {rounds} benchmarks")
    assert share <= 0.15
