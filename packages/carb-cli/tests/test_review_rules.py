"""Tallies and rules: what the answers to a set say, and what follows from it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_cli.review.asking import Opinion, ReviewAnswer, items_of
from carb_cli.review.findings import SetTally, tally
from carb_cli.review.recording import GivenAnswer
from review_helpers import a_set, picked

ITEM = next(items_of([a_set(0)]))
KEY = str(ITEM.key)
OTHERS = [token for token in ITEM.tokens if token != KEY]


def of(*answers: ReviewAnswer) -> SetTally:
    return tally(ITEM, [GivenAnswer(ITEM, str(n), a, ITEM.tokens, 0) for n, a in enumerate(answers)])


AGREE, AGAINST = picked(ITEM, KEY), picked(ITEM, OTHERS[0])
TOO, DEPENDS = picked(ITEM, KEY, **{OTHERS[0]: "right"}), picked(ITEM, KEY, **{OTHERS[1]: "depends"})
UNKNOWN, OBJECTED = ReviewAnswer(status="unknown"), ReviewAnswer(status="objected")
STILTED = ReviewAnswer(
    status="answered",
    opinions={t: Opinion(verdict="best" if t == KEY else "wrong", natural=t != OTHERS[2]) for t in ITEM.tokens},
)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([AGREE] * 3, "keep"),
        ([AGREE] * 2 + [UNKNOWN] * 9, "open"),
        ([AGREE] * 4 + [AGAINST], "keep"),
        ([AGREE] * 2 + [AGAINST], "fix"),
        ([AGREE] + [AGAINST] * 2, "retire"),
        ([AGREE] * 2 + [TOO], "keep"),
        ([AGREE] + [TOO] * 2, "fix"),
        ([AGREE] + [DEPENDS] * 2, "fix"),
        ([AGREE] + [STILTED] * 2, "fix"),
        ([AGREE] * 4 + [OBJECTED], "fix"),
        ([AGREE] + [OBJECTED] * 2, "retire"),
        ([OBJECTED] * 3, "retire"),
        ([], "open"),
    ],
)
def test_the_strict_rules(answers: list[ReviewAnswer], verdict: str) -> None:
    counted = of(*answers)
    assert counted.verdict == verdict
    assert bool(counted.reasons) == (verdict != "keep")


@given(st.lists(st.sampled_from([AGREE, AGAINST, TOO, DEPENDS, UNKNOWN, OBJECTED, STILTED]), max_size=12))
def test_a_tally_adds_up_in_any_order(answers: list[ReviewAnswer]) -> None:
    one, two = of(*answers), of(*reversed(answers))
    assert (one.verdict, one.reasons) == (two.verdict, two.reasons)
    assert one.reviews + one.unknown == len(answers)
    assert one.picks + answers.count(OBJECTED) == one.reviews
    for option in one.options:
        assert option.best + option.right + option.wrong + option.depends == one.picks
    assert all(s is None or 0 <= s <= 1 for s in one.shares.values())


@given(st.integers(3, 12), st.data())
def test_more_agreement_never_makes_a_verdict_worse(reviewers: int, data: st.DataObject) -> None:
    rank = {"retire": 0, "fix": 1, "keep": 2}
    against = data.draw(st.integers(0, reviewers))
    found = [rank[of(*[AGAINST] * n, *[AGREE] * (reviewers - n)).verdict] for n in range(against, -1, -1)]
    assert all(a <= b for a, b in pairwise(found))
