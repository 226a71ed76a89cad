"""Batches under a budget of tokens, and what rows have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carb_scorers.models.shared_prefix import common_prefix, token_budget_batches

rows = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=5)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_budget_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


@given(rows)
def test_a_common_prefix_leaves_every_row_something_of_its_own(rows: list[list[int]]) -> None:
    length = common_prefix(rows)
    assert all(row[:length] == rows[0][:length] and len(row) > length for row in rows)
    assert length == min(map(len, rows)) - 1 or len({row[length] for row in rows}) > 1
