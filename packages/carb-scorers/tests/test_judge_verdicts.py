"""Verdicts in double brackets: exactly one, in the model's own words, or none."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_scorers.judge.verdicts import VerdictError, parse_pick, parse_rating, without_thinking

ABCD = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "pick"),
    [
        ("[[B]]", 1),
        ("Because of the custom, my verdict is [[C]].", 2),
        ("[[B]] ... as I said, [[B]]", 1),
        ("[[ d ]]", 3),
        ("**[[A]]**", 0),
        ("[[**A**]]", 0),
        ("［［Ｂ］］", 1),
        ("<think>Perhaps [[A]]? No.</think>\n[[B]]", 1),
        ("Perhaps [[A]]? No.</think>[[B]]", 1),
        ("[A] is tempting, (C) too. [[D]]", 3),
        ("[[A.]]", 0),
        ("[[(B)]]", 1),
        ("[[Option C]]", 2),
        ("[[answer (D).]]", 3),
        ("[[A]], that is [[Option A.]]", 0),
    ],
)
def test_picks(text: str, pick: int) -> None:
    assert parse_pick(text, ABCD) == pick


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no verdict"),
        ("B", "no verdict"),
        ("[B]", "no verdict"),
        ("The answer says [[A]], but I prefer [[B]]", "several verdicts"),
        ("[[E]]", "none of"),
        ("[[X]]", "none of"),
        ("[[AB]]", "none of"),
        ("[[Option]]", "none of"),
        ("[[A or B]]", "none of"),
        ("[[]]", "none of"),
        ("<think>[[B]]", "no verdict"),
        ("<think>[[B]]</think>", "no verdict"),
    ],
)
def test_no_pick(text: str, reason: str) -> None:
    with pytest.raises(VerdictError, match=reason):
        parse_pick(text, ABCD)


def test_ratings() -> None:
    assert [parse_rating(t) for t in ("[[7]]", "[[10]]", "[[7.5]]", "[[7,5]]", "[[8/10]]")] == [
        7,
        10,
        7.5,
        7.5,
        8,
    ]
    for text in ("[[0]]", "[[11]]", "[[-3]]", "[[seven]]", "[[1e1]]", "[[nan]]"):
        with pytest.raises(VerdictError, match="no number from 1 to 10"):
            parse_rating(text)


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_a_verdict_or_a_verdict_error(text: str) -> None:
    for parse in (lambda t: parse_pick(t, ABCD), lambda t: parse_rating(t)):
        for candidate in (text, f"[[{text}]]"):
            with contextlib.suppress(VerdictError):
                parse(candidate)


@settings(deadline=None)
@given(st.text().filter(lambda t: "think>" not in t), st.text().filter(lambda t: "think>" not in t))
def test_thinking_is_left_out(thought: str, said: str) -> None:
    assert without_thinking(f"<think>{thought}</think>{said}") == said
    assert without_thinking(said) == said
    assert without_thinking(f"{said}<think>{thought}") == said
