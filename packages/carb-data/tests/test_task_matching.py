"""When an answer says a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data.tasks.blend_task import form, is_list, says


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The Boxes of cherries", "cherry"),
        ("around two", "2"),
        ("1,000 dollars", "1000 dollars"),
        ("A", "a"),
    ],
)
def test_a_word_is_said_in_other_forms(response, answer):
    assert says(form(response), form(answer))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("the price is high", "rice"),
        ("10", "1"),
        ("8:30", "30:8"),
        ("", "x"),
        ("x", ""),
    ],
)
def test_what_is_not_said(response, answer):
    assert not says(form(response), form(answer))


@given(st.text(max_size=30))
def test_a_text_says_itself_if_it_says_anything(text):
    found = form(text)
    assert says(found, found) == bool(found)


@pytest.mark.parametrize(
    "text",
    [
        "rice, bread, football, water, pizza",
        "rice; bread; football; water",
        " ".join(["rice bread football water"] * 5),
        "rice\nbread\nfootball\nwater",
    ],
)
def test_a_list_is_no_answer(text):
    assert is_list(text)
