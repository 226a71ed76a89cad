"""How often 95% intervals of accuracies, means and differences hold the truth in hard designs.

Simulations, in a session of their own, whose tables are those of the method page.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_metrics import rank
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.means import means, share_interval
from carb_metrics.paired import paired_rows

pytestmark = pytest.mark.coverage

ROUNDS = 400
SINGLE = "**Single designs** (nominal .95):"

DESIGNS = {
    "4 clusters of 10": [10] * 4,
    "8 clusters of 5": [5] * 8,
    "15 of 1 to 20": [1, 1, 2, 3, 10, 20, 2, 4, 6, 1, 8, 12, 3, 5, 16],
    "40 of 1 to 8": list(range(1, 9)) * 5,
    "150 clusters of 4": [4] * 150,
    "one of 50, 30 of 2": [50, *[2] * 30],
}


def drawn(
    p: float, sizes: list[int], alike: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(sets,) credits and clusters; a share ``alike`` of clusters turn out all the same: a
    mixture."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    whole, own = rng.random(len(sizes)) < p, rng.random(len(cluster)) < p
    same = rng.random(len(sizes)) < alike
    return np.where(same[cluster], whole[cluster], own).astype(float), cluster


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95, 0.99, 0.999])
def test_shares_and_means_over_clusters(name, p, cell):
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(ROUNDS):
        credit, cluster = drawn(p, DESIGNS[name], 0.5, rng)
        interval = share_interval(credit, cluster, 0.95)
        found = means(credit[None], cluster, 0.95, (0.0, 1.0))
        hits += [
            interval.low - 1e-12 <= p <= interval.high + 1e-12,
            found.low[0] - 1e-12 <= p <= found.high[0] + 1e-12,
        ]
    accuracy, mean = hits / ROUNDS
    alike = (
        "by clusters of sets and true share p. In half of the clusters, all sets have the same "
        "result (nominal .95)"
    )
    cell(f"**Accuracy of one cell** (Wilson's interval), {alike}:", name, f"p = {p}", accuracy)
    cell(f"**A mean** (t of the clusters), {alike}:", name, f"p = {p}", mean)
    assert accuracy >= 0.9
    assert mean >= 0.9


GROUPS = {
    "ten of 5": [5] * 10,
    "ten of 44": [44] * 10,
    "5 and four of 200": [5, *[200] * 4],
    "5, 5, 10, 20, 40, 80, 200": [5, 5, 10, 20, 40, 80, 200],
    "ten of 200": [200] * 10,
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99, 0.998, 0.999])
def test_averages_over_groups(name, p, cell):
    sizes = GROUPS[name]
    rng, hits = np.random.default_rng(1), np.zeros(2)
    group = np.repeat(np.arange(len(sizes)), sizes)
    frame = pl.DataFrame(
        {"scorer": "s", "culture": [f"c{g}" for g in group], "item_id": np.arange(len(group))}
    )
    frame = frame.with_columns(tied=pl.lit(0), error=pl.lit(value=False))
    for _ in range(ROUNDS):
        sets = frame.with_columns(credit=pl.Series((rng.random(len(group)) < p).astype(float)))
        found = grouped_accuracy(sets, "culture")
        hits += [one.low - 1e-12 <= p <= one.high + 1e-12 for one in (found.overall, found.macro)]
    overall, macro = hits / ROUNDS
    cell(
        "**Average over groups** in which each weighs the same (macro), by sets in each:",
        name,
        f"p = {p}",
        macro,
    )
    cell("**The same groups** where each set weighs the same (micro):", name, f"p = {p}", overall)
    assert overall >= 0.9
    assert macro >= 0.9


@pytest.mark.parametrize("name", [*DESIGNS, "30 independent", "300 independent"])
@pytest.mark.parametrize("gain", [0.0, 0.15])
def test_paired_differences(name, gain, cell):
    """Two scorers; in half of the clusters all differences are the same. At 0 this is the level of
    the test too."""
    rng, hits, rejected = np.random.default_rng(2), 0, 0
    sizes = DESIGNS.get(name, [1] * int(name.split()[0]) if "independent" in name else [])
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    chances = [0.1, 0.8 - gain, 0.1 + gain]
    for _ in range(ROUNDS):
        whole = rng.choice([-1.0, 0.0, 1.0], len(sizes), p=chances)
        own = rng.choice([-1.0, 0.0, 1.0], len(cluster), p=chances)
        d = np.where((rng.random(len(sizes)) < 0.5)[cluster], whole[cluster], own)
        (found,) = paired_rows(d[None], cluster, 0.95)
        hits += found.low <= gain <= found.high
        rejected += found.p < 0.05
    title = (
        "**Two scorers** on the same sets: how often the interval holds the difference, and "
        "how often p < .05:"
    )
    for column, count in (("covered", hits), ("p < .05", rejected)):
        cell(title, name, f"difference {gain}: {column}", count / ROUNDS)
    assert hits / ROUNDS >= 0.9


def test_unequal_skewed_clusters_keep_the_level(cell):
    """Mean 0, but far from symmetric: what a test by signs alone rejects three times too often."""
    rng, hits = np.random.default_rng(3), 0
    for _ in range(ROUNDS):
        sizes = rng.integers(1, 30, 16)
        cluster = np.repeat(np.arange(16), sizes)
        d = np.where(rng.random(16) < 0.1, 0.9, -0.1)[cluster]
        (found,) = paired_rows(d[None], cluster, 0.95)
        hits += found.low <= 0 <= found.high
    cell(
        SINGLE,
        "two scorers, 16 skewed clusters of 1 to 29 sets: the interval holds 0",
        "share",
        hits / ROUNDS,
    )
    assert hits / ROUNDS >= 0.85


def test_rank_limits_hold_all_ranks_at_once(make_table, cell):
    rng, hits, rounds = np.random.default_rng(4), 0, 150
    skill = [0.0, 0.3, 0.3, 0.8, 1.2]
    for _ in range(rounds):
        tables = [
            make_table(
                (rng.normal(size=(120, 4)) + np.array([own, 0, 0, 0])).tolist(), scorer=f"s{i}"
            )
            for i, own in enumerate(skill)
        ]
        frame = pl.concat([table.frame for table in tables])
        found = {row.scorer: row.standing for row in rank(type(tables[0])(frame)).scorers}
        truth = [(1 + sum(o > own for o in skill), sum(o >= own for o in skill)) for own in skill]
        hits += all(
            found[f"s{i}"].low <= worst and best <= found[f"s{i}"].high
            for i, (best, worst) in enumerate(truth)
        )
    cell(SINGLE, "5 scorers on 120 sets: the limits hold the ranks of all", "share", hits / rounds)
    assert hits / rounds >= 0.93
