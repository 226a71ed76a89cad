"""R_corr, R_appr and their sum, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from carb_data import CarbError
from tal_rlvr import correctness_reward, criteria_reward, total_reward
from tal_rlvr.judge_rewards import CLIP, CriteriaCase, Reading, VerdictRow

BARE, GOOD, BAD = VerdictRow((1,), (9,)), VerdictRow((1,), (2, 9)), VerdictRow((1,), (3, 9))
SWAPPED = Reading(VerdictRow((5,), (2, 9)), VerdictRow((5,), (9,)))
P = {
    BARE: (0.10, 0.30),
    GOOD: (0.60, 0.20),
    BAD: (0.05, 0.45),
    SWAPPED.with_criteria: (0.20, 0.40),
    SWAPPED.without_criteria: (0.30, 0.30),
}
NAN, INF = math.nan, math.inf


class Table:
    """A provider that reads probabilities from a table and counts what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, rows):
        self.asked.append(list(rows))
        return [(math.log(P[row][0]), math.log(P[row][1])) for row in rows]


def values(cases, **options):
    return [reward.value for reward in criteria_reward(cases, Table(), **options)]


def test_the_paper_s_form_is_the_gain_in_log_probability():
    cases = [
        CriteriaCase(GOOD, BARE, "A"),
        CriteriaCase(BAD, BARE, "A"),
        CriteriaCase(GOOD, BARE, "B"),
    ]
    # log(0.60/0.10), log(0.05/0.10), log(0.20/0.30)
    assert values(cases, odds=False, clip=None) == pytest.approx(
        [math.log(6), math.log(0.5), math.log(2 / 3)]
    )


def test_the_default_is_the_gain_in_log_odds_over_both_orders_bent_once():
    case = CriteriaCase(GOOD, BARE, "A", swapped=SWAPPED)
    # as shown log(0.6/0.2) - log(0.1/0.3) = log 9; in the other order, label B, log(0.4/0.2) -
    # log(0.3/0.3) = log 2
    (reward,) = criteria_reward([case], Table(), clip=None)
    assert reward.value == pytest.approx((math.log(9) + math.log(2)) / 2)
    assert reward.with_criteria == pytest.approx((math.log(3) + math.log(2)) / 2)
    assert reward.without_criteria == pytest.approx(math.log(1 / 3) / 2)
    gain = reward.value
    assert values([case]) == pytest.approx([gain / (1 + gain / CLIP)])
    assert values([case], clip=1.2) == pytest.approx([gain / (1 + gain / 1.2)])


def test_a_sure_reader_still_tells_better_criteria_from_worse_ones():
    gains = [2.0, 6.0, 12.0]
    read = {VerdictRow((1,), (n, 9)): (0.0, -gain) for n, gain in enumerate(gains)} | {
        BARE: (-1.0, -1.0)
    }
    cases = [CriteriaCase(row, BARE, label) for row in list(read)[:3] for label in "AB"]
    found = criteria_reward(cases, lambda rows: [read[row] for row in rows])
    right, wrong = [one.value for one in found[::2]], [one.value for one in found[1::2]]
    assert right == sorted(right)
    assert right == pytest.approx([2 / 3, 6 / 7, 12 / 13])
    assert wrong == pytest.approx([-value for value in right])
    assert max(right) < CLIP  # R_corr decides


def test_what_moves_the_reader_towards_even_earns_nothing():
    """A log-probability gains more where even is better than it loses where even is worse: 0.30
    nats here."""
    biased, even = (math.log(0.8), math.log(0.2)), (math.log(0.5), math.log(0.5))
    reader = {
        BARE: biased,
        GOOD: even,
        SWAPPED.with_criteria: even,
        SWAPPED.without_criteria: biased,
    }
    for label in "AB":
        case = CriteriaCase(GOOD, BARE, label, swapped=SWAPPED)
        (fair,) = criteria_reward([case], lambda rows: [reader[row] for row in rows])
        (paid,) = criteria_reward(
            [case], lambda rows: [reader[row] for row in rows], odds=False, clip=None
        )
        assert fair.value == pytest.approx(0)
        assert paid.value > 0.2


@pytest.mark.parametrize(
    ("bare", "given", "odds"),
    [
        ((-1.0, -2.0), (NAN, NAN), True),
        ((NAN, NAN), (-1.0, -2.0), True),
        ((-1.0, -2.0), (-1.0, NAN), False),
        ((-1.0, -2.0), (INF, -2.0), True),
        ((-1.0, -2.0), (-INF, -INF), True),
        ((-INF, -1.0), (-INF, -1.0), False),
    ],
)
@pytest.mark.parametrize("paid", [True, False])
def test_what_is_no_number_earns_no_reward(bare, given, odds, paid):
    """``max(-clip, min(clip, nan))`` is the clip: the highest reward for a model that has broken
    down."""
    cases = [CriteriaCase(GOOD, GOOD, "A"), CriteriaCase(BAD, BARE, "A", paid=paid)]
    read = {GOOD: (-1.0, -2.0), BAD: given, BARE: bare}
    with pytest.raises(CarbError, match="case 2"):
        criteria_reward(cases, lambda rows: [read[row] for row in rows], odds=odds)


@pytest.mark.parametrize("odds", [True, False])
def test_a_probability_of_zero_earns_the_clip(odds):
    finite, never = (-1.0, -2.0), (-INF, -1.0)
    case = CriteriaCase(GOOD, BARE, "A")
    (lowest,) = criteria_reward([case], lambda _: [finite, never], odds=odds)
    (highest,) = criteria_reward([case], lambda _: [never, finite], odds=odds)
    assert (lowest.value, highest.value) == (-CLIP, CLIP)
    with pytest.raises(CarbError, match=r"case 1.*clip"):
        criteria_reward([case], lambda _: [finite, never], odds=odds, clip=None)
    with pytest.raises(ValueError, match="above 0"):
        criteria_reward([], Table(), clip=0)


def test_the_total_is_the_weighted_sum_and_a_number():
    assert total_reward([1.0, -1.0], [0.5, -2.0]) == [1.5, -3.0]
    assert total_reward([1.0, -1.0], [0.5, -2.0], weight=0.1) == pytest.approx([1.05, -1.2])
    assert total_reward([1.0], [0.0], formats=[1.0]) == [1.0]
    assert total_reward([1.0], [0.0], formats=[1.0], format_weight=0.25) == [1.25]
    with pytest.raises(ValueError, match="zip"):
        total_reward([1.0], [])
    for correctness, criteria in (
        ([1.0, 1.0], [0.0, NAN]),
        ([1.0, NAN], [0.0, 0.0]),
        ([1.0, 1.0], [0.0, -INF]),
    ):
        with pytest.raises(CarbError, match="output 2"):
            total_reward(correctness, criteria)


@pytest.mark.parametrize("label", [None, "a", "C", 0])
def test_a_label_is_a_or_b(label):
    with pytest.raises(CarbError, match=r"Label 2 .*'A' or 'B'"):
        correctness_reward(["no verdict here", "Verdict: A"], ["A", label])
    with pytest.raises(CarbError, match=r"Label 1 .*'A' or 'B'"):
        criteria_reward([CriteriaCase(GOOD, BARE, label)], Table())
