"""The Best-of-n estimator against brute force over all subsets."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_scorers.bon.curve import expected_pick, pick_weights


def brute_force(scores, qualities, n):
    """Mean quality of the pick over every subset of n; those who share the highest score share the pick."""
    total = Fraction(0)
    subsets = list(combinations(range(len(scores)), n))
    for subset in subsets:
        top = max(scores[i] for i in subset)
        winners = [i for i in subset if scores[i] == top]
        total += sum(Fraction(qualities[i]) for i in winners) / len(winners)
    return float(total / len(subsets))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 6)), min_size=1, max_size=8).flatmap(
        lambda pairs: st.tuples(st.just(pairs), st.integers(1, len(pairs)))
    )
)
def test_equals_brute_force_over_all_subsets(case):
    pairs, n = case
    scores, qualities = zip(*pairs, strict=True)
    assert expected_pick(scores, qualities, n) == pytest.approx(brute_force(scores, qualities, n), abs=1e-12)


def test_the_curve_of_the_quality_itself_never_falls():
    quality = [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    curve = [expected_pick(quality, quality, n) for n in (1, 2, 4, 8, 16)]
    assert curve == sorted(curve)
    assert curve[-1] == 1


@pytest.mark.parametrize("n", [0, 4])
def test_a_size_beyond_the_pool_is_a_mistake(n):
    with pytest.raises(CarbError, match="has 3"):
        pick_weights([1, 2, 3], n)


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(CarbError, match="NaN"):
        pick_weights([1.0, float("nan"), 0.5], 2)
