"""Agreement coefficients against their reference implementations and published examples."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from carb_data import CarbError
from carb_metrics import agreement

COEFFICIENTS = ("percent", "cohen", "krippendorff", "gwet")

rating = st.integers(1, 4)
missing = st.one_of(rating, st.none())
two_raters = st.lists(st.lists(rating, min_size=2, max_size=2), min_size=2, max_size=15)
gaps = st.lists(st.lists(missing, min_size=3, max_size=3), min_size=3, max_size=15)

KRIPPENDORFF_EXAMPLE = [
    [1, 1, None, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [None, 5, 5, 5],
    [None, None, 1, 1],
    [None, None, 3, None],
]
"""Krippendorff (2011), example C: twelve units, four observers, missing values."""


def test_the_published_example():
    """Alpha is Krippendorff's own; the others are of Gwet (2014), Handbook of Inter-Rater
    Reliability, 4th ed."""
    found = agreement(KRIPPENDORFF_EXAMPLE)
    assert round(found.krippendorff.estimate, 3) == 0.743
    assert round(found.gwet.estimate, 5) == 0.77544
    assert round(found.percent.estimate, 5) == 0.81818
    assert found.items == 11


@given(two_raters)
def test_cohen_equals_scikit_learn(ratings):
    metrics = pytest.importorskip("sklearn.metrics", reason="reference implementation")
    a, b = np.array(ratings).T
    assume(len(set(a) | set(b)) > 1)
    expected = metrics.cohen_kappa_score(a, b)
    found = agreement(ratings).cohen.estimate
    assert found == pytest.approx(expected, abs=1e-10)


@given(gaps)
def test_alpha_equals_krippendorff(ratings):
    reference = pytest.importorskip("krippendorff", reason="reference implementation")
    pairable = [row for row in ratings if sum(v is not None for v in row) > 1]
    assume(len({v for row in pairable for v in row if v is not None}) > 1)
    data = np.array([[math.nan if v is None else v for v in row] for row in ratings]).T
    expected = reference.alpha(reliability_data=data, level_of_measurement="nominal")
    found = agreement(ratings).krippendorff.estimate
    assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    "ratings", [[], [[1, None], [None, 1]], [[None, None]] * 2, [[1, 1], [1, 1]]]
)
def test_what_is_not_defined_is_null(ratings):
    found = agreement(ratings)
    assert found.cohen.estimate is None
    assert found.krippendorff.estimate is None
    assert (found.percent.estimate is None) == (found.items == 0)


@pytest.mark.parametrize(
    ("ratings", "options", "message"),
    [
        ([[1, 2], [1]], {}, "table of items"),
        ([[1], [1]], {}, "at least two raters"),
        ([[1, 2, 1], [2, 2, 1]], {}, "transposed"),
        (
            pl.DataFrame({"item_id": [1, 2], "a": [1, 2], "b": [1, 2]}),
            {},
            "'item_id' names the items",
        ),
        (
            pl.DataFrame({"set": ["x", "y", "z"], "a": ["u", "v", "u"], "b": ["u", "v", "v"]}),
            {},
            "'set' names the items",
        ),
        ([[1, "a"]], {}, "mix numbers and texts"),
        ([[1, 2]], {"categories": [1]}, "not named"),
    ],
)
def test_wrong_input_is_named(ratings, options, message):
    with pytest.raises(CarbError, match=message):
        agreement(ratings, **options)


def test_frames_and_few_items_are_rated_as_lists_are():
    texts = pl.DataFrame({"a": ["u", "v", "w"], "b": ["u", "v", "w"]})
    assert agreement(texts) == agreement(texts.rows())
    assert agreement([[1, 2, 1], [2, 2, 1]], clusters=[None, None]).items == 2


@pytest.mark.coverage
def test_coverage_of_all_intervals():
    rng, rounds, items = np.random.default_rng(0), 800, 80
    # Two raters see a balanced truth through noise: each says the truth with 0.8, else the other of
    # two categories.
    right = 0.8**2 + 0.2**2
    chance_corrected = 2 * right - 1
    truth = dict.fromkeys(COEFFICIENTS, chance_corrected) | {"percent": right}
    hits = dict.fromkeys(COEFFICIENTS, 0)
    for _ in range(rounds):
        hidden = rng.integers(0, 2, items)
        ratings = np.where(rng.random((items, 2)) < 0.8, hidden[:, None], 1 - hidden[:, None])
        found = agreement(ratings)
        for name, value in truth.items():
            part = getattr(found, name)
            hits[name] += part.low <= value <= part.high
    shares = {name: count / rounds for name, count in hits.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares
