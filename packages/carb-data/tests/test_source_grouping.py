"""Items that are one and the same, answers that say nothing, wrong answers of mixed length."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data.sources.grouping import _REPEATED, SameItems, _repeats, is_degenerate, of_mixed_length


def test_items_that_share_a_text_are_one():
    same = SameItems()
    for item, text in [
        ("c", "One text!"),
        ("b", "another"),
        ("a", "ONE  text"),
        ("b", "third"),
        ("d", "third?"),
        ("e", ""),
    ]:
        same.add(item, text)
    assert [same.name(item) for item in "abcdef"] == ["a", "b", "a", "b", "e", "f"]


def test_lengths_are_mixed_as_far_as_there_are_enough():
    ranked = [3, 9, 4, 8, 2, 7]
    chosen = [of_mixed_length(5, ranked, lambda n: n, 3, random.Random(seed)) for seed in range(200)]
    assert {sum(n > 5 for n in three) for three in chosen} == {0, 1, 2, 3}
    assert all(len(set(three)) == 3 for three in chosen)
    assert of_mixed_length(5, [9, 8, 7], lambda n: n, 3, random.Random(1)) == [9, 8, 7]
    assert len(of_mixed_length(5, [9, 1], lambda n: n, 3, random.Random(1))) == 2


@pytest.mark.parametrize(
    ("text", "degenerate"),
    [
        ("Rice with chicken, as everybody here eats it on Fridays.", False),
        ("…!", True),
        ("a broken \ufffd character", True),
        ("ha" * 40, True),
        ("I like to eat rice. " * 8, True),
        ("The best of them are Pau Gasol" + ", Juan Carlos Navarro" * 4, True),
        ("A good answer begins so, and then it falls into a loop" + " #tapas #paella #snacks" * 4, True),
        ("We sang it twice: hey ho, nobody is at home, hey ho, nobody is at home, and went.", False),
        ("| dish | place |\n" + "|" + " --- |" * 12 + "\n| rice | Spain |", False),
        ("One is rice. Two is bread. Three is soup. Four is cake.", False),
        ("1", False),
    ],
)
def test_answers_that_say_nothing_are_known(text, degenerate):
    assert is_degenerate(text) is degenerate


@given(
    st.text("ab", max_size=9),
    st.text("ab\n", min_size=1, max_size=45),
    st.integers(14, 18),
    st.text("ab", max_size=30),
)
@settings(max_examples=300, deadline=None)
def test_the_quick_search_for_repeated_text_finds_what_the_pattern_finds(before, part, times, after):
    text = before + part * times + after
    assert _repeats(text) is (_REPEATED.search(text) is not None)
