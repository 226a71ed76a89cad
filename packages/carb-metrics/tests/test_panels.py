"""People's answers: planted truths are recovered, intervals cover, and reliability is crowd-kit's without a prior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_metrics import human_line, rater_reliability, region_gap

CENTRE = 1.2


def population(spread: float) -> float:
    """The share of the key over all people and sets of which ``crossed`` draws some."""
    draws = np.random.default_rng(0).normal(0, np.hypot(spread, spread / 2), 200_000)
    return float((1 / (1 + np.exp(-(CENTRE + draws)))).mean())


def crossed(rng: np.random.Generator, sets: int, people: int, spread: float) -> tuple[list, list, list]:
    """Answers that depend on the set and on the person."""
    of_set, of_person = rng.normal(0, spread, sets), rng.normal(0, spread / 2, people)
    chance = 1 / (1 + np.exp(-(CENTRE + of_set[:, None] + of_person)))
    got = rng.random((sets, people)) < chance
    names = [(f"s{i}", f"p{j}") for i in range(sets) for j in range(people)]
    return got.ravel().astype(int).tolist(), [a for a, _ in names], [b for _, b in names]


@pytest.mark.parametrize(("sets", "people", "spread"), [(44, 5, 0.0), (44, 5, 1.0), (30, 3, 0.7), (60, 12, 1.5)])
def test_the_human_line_covers(sets: int, people: int, spread: float) -> None:
    rng = np.random.default_rng(1)
    hits, truth = 0, population(spread)
    for _ in range(300):
        agrees, of_set, of_person = crossed(rng, sets, people, spread)
        found = human_line(agrees, of_set, of_person)
        hits += found.low <= truth <= found.high
    assert hits / 300 >= 0.925  # 95% less three standard errors of 300 trials would be 0.912


def test_the_human_line_at_the_edges() -> None:
    assert human_line([], [], []).model_dump() == {
        "share": None, "low": None, "high": None, "answers": 0, "people": 0, "sets": 0,
    }  # fmt: skip
    alone = human_line([1], ["s"], ["p"])
    assert (alone.share, alone.low, alone.high) == (1, 0, 1)
    all_right = human_line([1] * 40, [f"s{n // 2}" for n in range(40)], [f"p{n % 2}" for n in range(40)])
    assert all_right.high == 1
    assert 0.8 < all_right.low < 0.9  # 20 sets count, not 40 answers
    with pytest.raises(CarbError, match="0 or 1"):
        human_line([2], ["s"], ["p"])
    with pytest.raises(CarbError, match="same length"):
        human_line([1], ["s", "t"], ["p"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40))
def test_the_human_line_holds_its_share(rows: list[tuple[int, int, int]]) -> None:
    found = human_line([r[0] for r in rows], [f"{r[1]}" for r in rows], [f"{r[2]}" for r in rows])
    assert 0 <= found.low <= found.share <= found.high <= 1


def ratings(rng: np.random.Generator, accuracies: list[float], units: int, missing: float = 0.0) -> tuple[list, list]:
    truth = rng.choice(3, units, p=[0.25, 0.6, 0.15])
    table: list[list[str | None]] = []
    for true in truth:
        row: list[str | None] = []
        for accuracy in accuracies:
            right = rng.random() < accuracy
            given_ = true if right else rng.choice([k for k in range(3) if k != true])
            row.append(None if rng.random() < missing else "rwd"[given_])
        table.append(row)
    return ["rwd"[k] for k in truth], table


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_planted_reliabilities_and_spammers_are_found(seed: int) -> None:
    """Five readers of known accuracy and two who answer by lot: each is found within a tenth."""
    planted = [0.95, 0.9, 0.85, 0.8, 0.75, 1 / 3, 1 / 3]
    truth, table = ratings(np.random.default_rng(seed), planted, 400)
    found = rater_reliability(table, [f"p{n}" for n in range(7)], "rwd")
    for rater, accuracy in zip(found.raters, planted, strict=True):
        assert abs(rater.accuracy - accuracy) < 0.1
        assert rater.low <= rater.accuracy <= rater.high
    best = [found.categories[int(np.argmax(row))] for row in found.posterior]
    assert np.mean([a == b for a, b in zip(best, truth, strict=True)]) > 0.93


def test_intervals_of_reliability_cover() -> None:
    rng = np.random.default_rng(3)
    planted = [0.95, 0.9, 0.85, 0.8, 0.9]
    hits = trials = 0
    for _ in range(60):
        _, table = ratings(rng, planted, 200, missing=0.2)
        for rater, accuracy in zip(rater_reliability(table, list("abcde"), "rwd").raters, planted, strict=True):
            hits += rater.low <= accuracy <= rater.high
            trials += 1
    assert hits / trials >= 0.9


@pytest.mark.filterwarnings("ignore:The (inplace|copy) keyword")  # crowd-kit's own use of pandas
def test_without_a_prior_it_is_the_published_model() -> None:
    pandas = pytest.importorskip("pandas")
    crowdkit = pytest.importorskip("crowdkit.aggregation", reason="needs crowd-kit")
    _, table = ratings(np.random.default_rng(5), [0.9, 0.8, 0.7, 0.6], 300, missing=0.1)
    rows = [
        {"task": u, "worker": f"p{j}", "label": label}
        for u, row in enumerate(table)
        for j, label in enumerate(row)
        if label is not None
    ]
    theirs = crowdkit.DawidSkene(n_iter=150, tol=1e-8).fit(pandas.DataFrame(rows))
    ours = rater_reliability(table, [f"p{j}" for j in range(4)], "rwd", smoothing=0)
    expected = theirs.probas_.sort_index()
    got = np.array([ours.posterior[u] for u in expected.index])
    assert np.abs(got - expected[list("rwd")].to_numpy()).max() < 2e-3
    for rater in ours.raters:
        matrix = theirs.errors_.loc[rater.rater].loc[list("rwd"), list("rwd")].to_numpy()
        assert np.abs(np.array(rater.confusion) - matrix.T).max() < 5e-3


def test_reliability_with_hardly_any_ratings_stays_moderate() -> None:
    found = rater_reliability([["r", None], [None, None], ["w", "w"]], ["a", "b"], "rwd")
    assert all(0.05 < value < 0.95 for rater in found.raters for row in rater.confusion for value in row)
    assert found.posterior[1] == pytest.approx(found.shares)
    with pytest.raises(CarbError, match="units, raters"):
        rater_reliability([["x", None]], ["a", "b"], "rwd")


def panel(rng: np.random.Generator, gap: float) -> tuple[list[list[str | None]], list[str]]:
    """Eight people of two regions; on a share of sets the second region has another custom."""
    regions = ["north"] * 4 + ["south"] * 4
    rows: list[list[str | None]] = []
    for _ in range(40):
        other = rng.random() < gap
        rows.append(
            [
                ("b" if other and region == "south" else "a") if rng.random() < 0.85 else str(rng.choice(list("abcd")))
                for region in regions
            ]
        )
    return rows, regions


def test_regions_are_told_apart_where_they_differ_and_not_elsewhere() -> None:
    rng = np.random.default_rng(2)
    assert all(region_gap(*panel(rng, 0.3)).p < 0.06 for _ in range(5))
    false = sum(region_gap(*panel(rng, 0.0)).p < 0.05 for _ in range(40))
    assert false <= 6  # 2 expected; more than 6 has a chance below 2%
    lone = region_gap([["a", "b"]], ["north", None])
    assert (lone.p, lone.within) == (None, None)
