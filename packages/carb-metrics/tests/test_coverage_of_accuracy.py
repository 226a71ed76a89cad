"""95% intervals of accuracies and their differences hold the truth in 93 to 97% of simulated data sets."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from carb_data import ScoreTable
from carb_metrics import rank
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.clusters import number
from carb_metrics.comparison import _Pairs
from carb_metrics.paired import difference_interval
from carb_metrics.tally import GAP_DRAWS

ROUNDS = 600
COMMON = {"culture": "thai", "domain": "values", "language": "th", "perturbation": None, "original": None}
FEW = 500
assert GAP_DRAWS > FEW  # simulations use fewer replicates only to be fast


def sets_frame(credit, group, source=None):
    """A row per set, as ``set_outcomes`` gives it."""
    n = len(credit)
    frame = pl.DataFrame(
        {
            "scorer": ["judge"] * n,
            "culture": [f"c{g:02}" for g in group],
            "item_id": [f"i{i}" for i in range(n)],
            "credit": np.asarray(credit, dtype=np.float64),
            "tied": [0] * n,
            "error": [False] * n,
        }
    )
    return frame if source is None else frame.with_columns(source_item=pl.Series([f"q{s}" for s in source]))


def inside(cell, truth):
    return cell.low - 1e-12 <= truth <= cell.high + 1e-12


def shares(hits):
    return {name: count / ROUNDS for name, count in hits.items()}


def holds(hits, low=0.93, high=0.97):
    assert all(low <= share <= high for share in shares(hits).values()), shares(hits)


@pytest.mark.parametrize("sizes", [[30] * 10, [5, 10, 20, 40, 80, 5, 10, 20, 40, 80]])
def test_strict_averages_and_gap(sizes):
    p = np.array([0.95, 0.7, 0.72, 0.75, 0.78, 0.7, 0.74, 0.76, 0.72, 0.4])
    sizes = np.array(sizes)
    sizes[[0, -1]] = np.maximum(sizes[[0, -1]], 40)
    group = np.repeat(np.arange(10), sizes)
    weights = {f"c{g:02}": g + 1.0 for g in range(10)}
    truth = {
        "overall": p @ sizes / sizes.sum(),
        "macro": p.mean(),
        "weighted": p @ np.arange(1, 11) / 55,
        "gap": 0.55,
    }
    rng, hits = np.random.default_rng(0), dict.fromkeys(truth, 0)
    for seed in range(ROUNDS):
        credit = rng.random(len(group)) < p[group]
        found = grouped_accuracy(sets_frame(credit, group), "culture", weights=weights, resamples=FEW, seed=seed)
        for name, value in truth.items():
            hits[name] += inside(getattr(found, name), value)
    # Groups of five sets may be best or worst by chance, which the gap's interval allows for.
    holds({"gap": hits.pop("gap")}, high=0.97 if sizes.min() == 30 else 1.0)
    holds(hits)


def test_gap_between_equal_groups_errs_on_the_safe_side():
    rng, hits = np.random.default_rng(1), {"gap": 0}
    group = np.repeat(np.arange(6), 50)
    for seed in range(ROUNDS):
        found = grouped_accuracy(sets_frame(rng.random(300) < 0.7, group), "culture", resamples=FEW, seed=seed)
        hits["gap"] += inside(found.gap, 0)
    holds(hits, low=0.95, high=1.0)


def test_shared_credits():
    rng, hits = np.random.default_rng(2), {"cell": 0, "macro": 0}
    values, mass = np.array([0.0, 0.25, 1 / 3, 0.5, 1.0]), np.array([0.25, 0.1, 0.1, 0.25, 0.3])
    group = np.repeat(np.arange(4), 30)
    for seed in range(ROUNDS):
        credit = rng.choice(values, 120, p=mass)
        found = grouped_accuracy(sets_frame(credit, group), "culture", resamples=FEW, seed=seed)
        hits["cell"] += inside(found.cell("c00"), values @ mass)
        hits["macro"] += inside(found.macro, values @ mass)
    holds(hits)


def clustered(rng, clusters, groups):
    """Translations of items into all groups: whether an item is easy is common to its translations."""
    easy = np.where(rng.random(clusters) < 0.5, 0.9, 0.5)
    credit = rng.random((clusters, groups)) < easy[:, None]
    return credit.ravel(), np.tile(np.arange(groups), clusters), np.repeat(np.arange(clusters), groups)


def test_clusters_across_groups():
    rng, hits = np.random.default_rng(3), {"overall": 0, "macro": 0, "cell": 0, "independent": 0}
    for seed in range(ROUNDS):
        credit, group, source = clustered(rng, 60, 5)
        found = grouped_accuracy(sets_frame(credit, group, source), "culture", resamples=FEW, seed=seed)
        hits["overall"] += inside(found.overall, 0.7)
        hits["macro"] += inside(found.macro, 0.7)
        hits["cell"] += inside(found.cell("c00"), 0.7)
        hits["independent"] += inside(grouped_accuracy(sets_frame(credit, group), resamples=1).overall, 0.7)
    assert hits.pop("independent") / ROUNDS < 0.9  # what ignoring the clusters would give
    holds(hits)


def test_clusters_within_groups():
    rng, hits = np.random.default_rng(4), {"overall": 0, "macro": 0, "cell": 0}
    for seed in range(ROUNDS):
        credit, _, source = clustered(rng, 120, 3)
        group = source % 3
        found = grouped_accuracy(sets_frame(credit, group, source), "culture", resamples=FEW, seed=seed)
        hits["overall"] += inside(found.overall, 0.7)
        hits["macro"] += inside(found.macro, 0.7)
        hits["cell"] += inside(found.cell("c00"), 0.7)
    holds(hits)


def test_pooled_over_scorers():
    rng, hits = np.random.default_rng(5), {"overall": 0, "macro": 0}
    for _ in range(ROUNDS):
        credit, scorer, source = clustered(rng, 100, 4)
        frame = sets_frame(credit, source % 4).with_columns(
            scorer=pl.Series([f"s{s}" for s in scorer]), item_id=pl.Series([f"i{s}" for s in source])
        )
        found = grouped_accuracy(frame, ("scorer", "culture"), resamples=10)
        hits["overall"] += inside(found.overall, 0.7)
        hits["macro"] += inside(found.macro, 0.7)
    holds(hits, high=0.98)  # clusters are given the benefit of the doubt, see ``clusters.PSEUDO``


def paired_frame(a, b, group, source=None):
    frame = sets_frame(a, group, source)
    return frame.with_columns(credit_b=pl.Series(np.asarray(b, dtype=np.float64)))


def test_paired_differences():
    rng, hits = np.random.default_rng(6), {"micro": 0, "macro": 0, "clustered": 0, "group": 0}
    group = np.repeat(np.arange(4), [20, 30, 50, 100])
    p = np.array([0.5, 0.6, 0.7, 0.8])[group]
    source = np.arange(200) // 2
    for _ in range(ROUNDS):
        hard = rng.random(200)
        a, b = hard < p, np.where(rng.random(200) < 0.3, rng.random(200) < p - 0.1, hard < p)
        pairs = _Pairs(paired_frame(a, b, group), ("culture",), 0.95)
        found = pairs.summary()
        truth = 0.3 * 0.1
        hits["micro"] += found["low"] <= truth <= found["high"]
        hits["macro"] += inside(found["macro"], truth)
        here = pairs.of(np.flatnonzero(group == 3))
        hits["group"] += here.low <= truth <= here.high
        twice = rng.random(100) < 0.5
        d = np.where(twice, rng.choice([0, 1], 100, p=[0.4, 0.6]), rng.choice([0, -1], 100, p=[0.6, 0.4]))
        frame = paired_frame((d > 0)[source], (d < 0)[source], group, source)
        found = _Pairs(frame, (), 0.95).summary()
        hits["clustered"] += found["low"] <= 0.1 <= found["high"]
    holds(hits)


def test_rank_limits_hold_all_ranks_at_once():
    rng, n, rounds, hits = np.random.default_rng(8), 150, 200, 0
    p = np.array([0.8, 0.7, 0.65, 0.5])
    scorer, item, place = np.divmod(np.arange(4 * n * 2), 2 * n)[0], np.arange(4 * n * 2) // 2 % n, np.arange(8 * n) % 2
    text = {
        "scorer": pl.Series([f"s{s}" for s in scorer]),
        "item_id": pl.Series([f"i{i}" for i in item]),
        "response_id": pl.Series([f"r{k}" for k in place]),
        "role": pl.Series(["rejected" if k else "chosen" for k in place]),
    }
    columns = [(pl.lit(value, dtype=pl.String)).alias(name) for name, value in COMMON.items()]
    frame = pl.DataFrame(text).with_columns(columns)
    for _ in range(rounds):
        won = (rng.random((4, n)) < p[:, None]).astype(np.float64)
        score = np.where(place == 0, won[scorer, item], 0.5)
        found = rank(ScoreTable(frame.with_columns(score=pl.Series(score))))
        truth = dict(zip(sorted(row.scorer for row in found.scorers), [1, 2, 3, 4], strict=True))
        hits += all(row.place.low <= truth[row.scorer] <= row.place.high for row in found.scorers)
    assert hits / rounds >= 0.95


def test_closed_form_difference():
    rng = np.random.default_rng(7)
    for n in (20, 100):
        counts = rng.multinomial(n, [0.2, 0.1, 0.7], size=3000)
        hits = 0
        for only_a, only_b, _ in counts:
            d = np.repeat([1.0, -1.0, 0.0], [only_a, only_b, n - only_a - only_b])
            low, high = difference_interval(d)
            hits += low <= 0.1 <= high
        assert 0.93 <= hits / 3000 <= 0.97


def test_group_numbers_follow_the_names():
    of_row, groups = number(pl.DataFrame({"a": ["y", "x", None, "y"]}), ("a",))
    assert groups["a"].to_list() == [None, "x", "y"]
    assert of_row.tolist() == [2, 1, 0, 2]
    assert math.isclose(of_row.sum(), 5)
