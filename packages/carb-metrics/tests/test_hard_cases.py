"""Uncertainty where it was wrong once: few points, dependent cases, frames, names of cultures,
scattered files."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from carb_metrics import correlate, judge_bias, judge_vs_human
from carb_metrics.calibrated import reliability
from carb_metrics.coefficients import coefficient


@pytest.mark.parametrize("n", [5, 7])
def test_spearman_of_a_perfect_order_has_the_exact_p(n):
    found = coefficient("spearman", np.arange(n, dtype=float), np.arange(n, dtype=float) ** 3)
    assert found == (1.0, pytest.approx(2 / math.factorial(n)))


def test_spearman_of_few_points_equals_all_orders_spelled_out():
    x, y = np.array([1.0, 2, 2, 4, 5, 7]), np.array([2.0, 1, 3, 3, 9, 4])
    rho = stats.spearmanr(x, y).statistic
    orders = [
        abs(stats.spearmanr(x, order).statistic) >= abs(rho) - 1e-9 for order in permutations(y)
    ]
    assert coefficient("spearman", x, y) == (pytest.approx(rho), pytest.approx(np.mean(orders)))


def test_fewer_than_five_points_are_described_and_not_tested():
    found = correlate([1, 2, 3, 4], [1, 3, 2, 4])
    assert found.spearman.estimate == pytest.approx(0.8)
    for part in (found.pearson, found.spearman, found.kendall):
        assert (part.p, part.low, part.high) == (None, None, None)
    assert (found.fit.p, found.fit.slope_low) == (None, None)
    assert found.fit.slope is not None


def test_people_and_judges_are_compared_by_source_item(make_table):
    rng = np.random.default_rng(1)
    sets = np.repeat(rng.permuted(np.tile([2.0, 1, 0, 0], (12, 1)), axis=1), 6, axis=0)
    human = pl.DataFrame(
        [(f"item-{i}", rater, f"item-{i}-0") for i in range(72) for rater in "ab"],
        schema=["item_id", "rater", "response_id"],
        orient="row",
    )
    apart = judge_vs_human(make_table(sets), human)[0].percent
    sources = [f"q{i // 6}" for i in range(72)]
    together = judge_vs_human(make_table(sets, sources=sources), human)[0].percent
    assert apart.estimate == together.estimate
    assert together.high - together.low > 1.8 * (apart.high - apart.low)


@pytest.mark.coverage
def test_calibration_of_dependent_cases_keeps_its_level():
    rng, hits = np.random.default_rng(2), {"plain": 0, "clustered": 0}
    cluster = np.repeat(np.arange(40), 5)
    for _ in range(150):
        said = np.repeat(rng.uniform(0.3, 0.9, 40), 5)
        right = (np.repeat(rng.random(40), 5) < said).astype(float)
        hits["clustered"] += reliability(said, right, cluster).p < 0.05
        hits["plain"] += reliability(said, right, np.arange(200)).p < 0.05
    assert hits["clustered"] / 150 < 0.1
    assert hits["plain"] / 150 > 0.3


@pytest.mark.coverage
def test_position_bias_of_repeated_presentations_keeps_its_level(make_table):
    rng, hits, rounds = np.random.default_rng(3), 0, 80
    table = make_table(rng.normal(size=(30, 3)), sources=[f"q{i // 3}" for i in range(30)])
    for _ in range(rounds):
        rows = []
        for i in range(30):
            habit = rng.integers(3)
            for order in range(4):
                pick = habit if rng.random() < 0.9 else rng.integers(3)
                rows += [
                    ("judge", f"item-{i}", str(order), f"item-{i}-{k}", k, float(k == pick))
                    for k in range(3)
                ]
        shown = pl.DataFrame(
            rows,
            schema=["scorer", "item_id", "order_id", "response_id", "position", "score"],
            orient="row",
        )
        hits += judge_bias(table, shown).of("judge").position_p < 0.05
    assert hits / rounds <= 0.12
