"""The human line covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_metrics import human_line

CENTRE = 1.2


def population(spread: float) -> float:
    """The share of the key over all people and sets of which ``crossed`` draws some."""
    draws = np.random.default_rng(0).normal(0, np.hypot(spread, spread / 2), 200_000)
    return float((1 / (1 + np.exp(-(CENTRE + draws)))).mean())


def crossed(
    rng: np.random.Generator, sets: int, people: int, spread: float
) -> tuple[list, list, list]:
    """Answers that depend on the set and on the person."""
    of_set, of_person = rng.normal(0, spread, sets), rng.normal(0, spread / 2, people)
    chance = 1 / (1 + np.exp(-(CENTRE + of_set[:, None] + of_person)))
    got = rng.random((sets, people)) < chance
    names = [(f"s{i}", f"p{j}") for i in range(sets) for j in range(people)]
    return got.ravel().astype(int).tolist(), [a for a, _ in names], [b for _, b in names]


@pytest.mark.coverage
@pytest.mark.parametrize(
    ("sets", "people", "spread"), [(44, 5, 0.0), (44, 5, 1.0), (30, 3, 0.7), (60, 12, 1.5)]
)
def test_the_human_line_covers(sets: int, people: int, spread: float) -> None:
    rng = np.random.default_rng(1)
    hits, truth = 0, population(spread)
    for _ in range(300):
        agrees, of_set, of_person = crossed(rng, sets, people, spread)
        found = human_line(agrees, of_set, of_person)
        hits += found.low <= truth <= found.high
    assert hits / 300 >= 0.925  # 95% less three standard errors of 300 trials would be 0.912


def test_the_human_line_at_the_edges() -> None:
    zero = {"answers": 0, "people": 0, "unknown": 0, "sets": 0}
    assert human_line([], [], []).model_dump() == {"share": None, "low": None, "high": None, **zero}
    alone = human_line([1], ["s"], ["p"])
    assert (alone.estimate, alone.low, alone.high) == (1, 0, 1)
    all_right = human_line(
        [1] * 40, [f"s{n // 2}" for n in range(40)], [f"p{n % 2}" for n in range(40)]
    )
    assert all_right.high == 1
    assert 0.8 < all_right.low < 0.9  # 20 sets count, not 40 answers
    assert not alone.enough
    assert (all_right.enough, all_right.people, all_right.n) == (False, 2, 40)
    names = [[f"{kind}{n // 2 if kind == 's' else n % 4}" for n in range(40)] for kind in "sp"]
    assert human_line([1] * 40, *names).enough
    unknown = human_line([1, 0, 1, 1], ["s", "s", "t", "t"], ["p", None, "", None])
    assert (unknown.people, unknown.unknown) == (1, 3)  # not one person of three answers
    with pytest.raises(CarbError, match="0 or 1"):
        human_line([2], ["s"], ["p"])
    with pytest.raises(CarbError, match="the same length"):
        human_line([1], ["s", "t"], ["p"])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40
    )
)
def test_the_human_line_holds_its_share(rows: list[tuple[int, int, int]]) -> None:
    found = human_line([r[0] for r in rows], [f"{r[1]}" for r in rows], [f"{r[2]}" for r in rows])
    assert 0 <= found.low <= found.estimate <= found.high <= 1
