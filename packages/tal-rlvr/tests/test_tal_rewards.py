from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError
from tal_rlvr import correctness_reward, criteria_reward, format_reward, parse_judgement, total_reward
from tal_rlvr.appropriateness import CLIP, BaselineCache, CriteriaCase, VerdictRow, label_logprob
from tal_rlvr.reward_functions import permuted

BARE, GOOD, BAD = VerdictRow((1,), (9,)), VerdictRow((1,), (2, 9)), VerdictRow((1,), (3, 9))
P = {BARE: (0.10, 0.30), GOOD: (0.60, 0.20), BAD: (0.05, 0.45)}


class Table:
    """A provider that reads probabilities from a table and counts what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, rows):
        self.asked.append(list(rows))
        return [(math.log(P[row][0]), math.log(P[row][1])) for row in rows]


def test_the_paper_s_form_is_the_gain_in_log_probability():
    cases = [CriteriaCase(GOOD, BARE, "A"), CriteriaCase(BAD, BARE, "A"), CriteriaCase(GOOD, BARE, "B")]
    values = [r.value for r in criteria_reward(cases, Table(), normalise=False, clip=None)]
    # log(0.60/0.10), log(0.05/0.10), log(0.20/0.30)
    assert values == pytest.approx([math.log(6), math.log(0.5), math.log(2 / 3)])


def test_the_default_counts_the_ratio_of_the_verdicts_alone():
    (reward,) = criteria_reward([CriteriaCase(GOOD, BARE, "A")], Table(), clip=None)
    # 0.60/0.80 = 3/4 against 0.10/0.40 = 1/4
    assert reward.with_criteria == pytest.approx(math.log(3 / 4))
    assert reward.without_criteria == pytest.approx(math.log(1 / 4))
    assert reward.value == pytest.approx(math.log(3))


def test_a_clip_bounds_it_on_both_sides():
    cases = [CriteriaCase(GOOD, BARE, "A"), CriteriaCase(BAD, BARE, "A"), CriteriaCase(GOOD, BARE, "B")]
    values = [r.value for r in criteria_reward(cases, Table(), normalise=False, clip=0.5)]
    assert values == pytest.approx([0.5, -0.5, math.log(2 / 3)])
    assert [r.value for r in criteria_reward(cases[:2], Table(), normalise=False)] == [CLIP, -CLIP]
    with pytest.raises(ValueError, match="above 0"):
        criteria_reward([], Table(), clip=0)


def test_an_output_without_criteria_earns_the_lowest():
    cases = [CriteriaCase(row, BARE, "A", paid=False) for row in (GOOD, BAD)]
    assert [r.value for r in criteria_reward(cases, Table())] == [-CLIP, -CLIP]
    unbound = [r.value for r in criteria_reward(cases, Table(), normalise=False, clip=None)]
    assert unbound == pytest.approx([0.0, math.log(0.5)])


def test_the_z_free_term_is_asked_for_once_while_the_policy_is_current():
    table, cache = Table(), BaselineCache()
    cases = [CriteriaCase(GOOD, BARE, "A"), CriteriaCase(BAD, BARE, "A")]
    cache.use(1)
    first = criteria_reward(cases, table, cache=cache)
    assert table.asked == [[BARE, GOOD, BAD]]
    cache.use(1)
    assert criteria_reward(cases, table, cache=cache) == first
    assert table.asked[1] == [GOOD, BAD]
    cache.use(2)
    criteria_reward(cases, table, cache=cache)
    assert table.asked[2] == [BARE, GOOD, BAD]


def test_without_the_z_free_term():
    table = Table()
    (reward,) = criteria_reward([CriteriaCase(GOOD, None, "A")], table, normalise=False, clip=None)
    assert reward.value == reward.with_criteria == pytest.approx(math.log(0.6))
    assert table.asked == [[GOOD]]


def test_extreme_log_probabilities_stay_finite():
    assert label_logprob((-1e5, 0.0), "A") == pytest.approx(-1e5)
    assert label_logprob((0.0, -1e5), "A") == 0.0
    assert label_logprob((-3.0, -3.0), "B") == pytest.approx(math.log(0.5))


def test_the_total_is_the_weighted_sum():
    assert total_reward([1.0, -1.0], [0.5, -2.0]) == [1.5, -3.0]
    assert total_reward([1.0, -1.0], [0.5, -2.0], weight=0.1) == pytest.approx([1.05, -1.2])
    assert total_reward([1.0, -1.0], [0.5, -2.0], clip=1.0, weight=0.5) == [1.25, -1.5]
    assert total_reward([1.0], [0.0], formats=[1.0]) == [1.0]
    assert total_reward([1.0], [0.0], formats=[1.0], format_weight=0.25) == [1.25]
    with pytest.raises(ValueError, match="zip"):
        total_reward([1.0], [])


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("bare", "given", "normalise"),
    [
        ((-1.0, -2.0), (NAN, NAN), True),
        ((NAN, NAN), (-1.0, -2.0), True),
        ((-1.0, -2.0), (-1.0, NAN), False),
        ((-1.0, -2.0), (INF, -2.0), True),
        ((-INF, -INF), (-INF, -INF), True),
        ((-1.0, -2.0), (-INF, -INF), True),
        ((-INF, -1.0), (-INF, -1.0), False),
    ],
)
@pytest.mark.parametrize("paid", [True, False])
def test_what_is_no_number_earns_no_reward(bare, given, normalise, paid):
    """``max(-clip, min(clip, nan))`` is the clip: the highest reward for a model that has broken down."""
    cases = [CriteriaCase(GOOD, None, "A"), CriteriaCase(BAD, BARE, "A", paid=paid)]
    with pytest.raises(CarbError, match="case 2"):
        criteria_reward(cases, lambda _: [bare, (-1.0, -2.0), given], normalise=normalise)


@pytest.mark.parametrize("normalise", [True, False])
def test_a_probability_of_zero_earns_the_clip(normalise):
    finite, never = (-1.0, -2.0), (-INF, -1.0)
    case = CriteriaCase(GOOD, BARE, "A")
    (lowest,) = criteria_reward([case], lambda _: [finite, never], normalise=normalise)
    (highest,) = criteria_reward([case], lambda _: [never, finite], normalise=normalise)
    assert (lowest.value, highest.value) == (-CLIP, CLIP)
    with pytest.raises(CarbError, match=r"case 1.*clip"):
        criteria_reward([case], lambda _: [finite, never], normalise=normalise, clip=None)


def test_a_total_is_a_number():
    assert total_reward([1.0], [-INF], clip=0.5) == [0.5]
    for correctness, criteria in (([1.0, 1.0], [0.0, NAN]), ([1.0, NAN], [0.0, 0.0])):
        for clip in (None, 0.5):
            with pytest.raises(CarbError, match="output 2"):
                total_reward(correctness, criteria, clip=clip)
    with pytest.raises(CarbError, match=r"output 1.*clip"):
        total_reward([1.0], [-INF])


@pytest.mark.parametrize("label", [None, "a", "C", 0])
def test_a_label_is_a_or_b(label):
    with pytest.raises(CarbError, match=r"Label 2 .*'A' or 'B'"):
        correctness_reward(["no verdict here", "Verdict: A"], ["A", label])
    with pytest.raises(CarbError, match=r"Label 1 .*'A' or 'B'"):
        criteria_reward([CriteriaCase(GOOD, BARE, label)], Table())


def test_an_unparsable_output_is_wrong_and_formless():
    judgement = parse_judgement("I prefer A.")
    assert correctness_reward([judgement], ["A"]) == [-1.0]
    assert format_reward([judgement, parse_judgement("Verdict: A", direct=True)]) == [0.0, 1.0]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(-1, 1)), max_size=12), st.integers(0, 9))
def test_permuted_rewards_are_the_same_ones_within_each_prompt(rows, step):
    prompts, values = [(ord(p),) for p, _ in rows], [v for _, v in rows]
    drawn = permuted(prompts, values, step)
    for prompt in set(prompts):
        own = [sorted(v for p, v in zip(prompts, side, strict=True) if p == prompt) for side in (values, drawn)]
        assert own[0] == own[1]
    assert drawn == permuted(prompts, values, step)


def test_permuted_rewards_say_nothing_about_their_output():
    drawn = [permuted([(1,)] * 4, [0.0, 0.0, 0.0, 1.0], step).index(1.0) for step in range(400)]
    assert all(60 < drawn.count(place) < 140 for place in range(4))
