"""How many sets will it take? Power by simulation, with clusters, cultures and several comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from carb_data import CarbError
from carb_metrics.cells import Result
from carb_metrics.clusters import design
from carb_metrics.intervals import Floats, check_alpha, wilson
from carb_metrics.paired import check_difference

__all__ = ["PowerRow", "simulate_power"]


class PowerRow(Result):
    """The chance to find a difference with a number of sets."""

    sets: int
    power: float
    """Share of simulated comparisons over all cultures together that find the difference in the right direction."""
    low: float
    """Lower 95% limit of that share, as far as the simulations tell."""
    high: float
    each_culture: float | None
    """The same for one culture alone, corrected over the cultures (Bonferroni); null for one culture."""


def simulate_power(
    difference: float,
    discordance: float,
    sets: Sequence[int],
    *,
    cultures: int = 1,
    cluster: int = 1,
    alike: float = 0.0,
    comparisons: int = 1,
    alpha: float = 0.05,
    simulations: int = 2_000,
    seed: int = 0,
) -> tuple[PowerRow, ...]:
    """Simulate comparisons of two scorers.

    Args:
        difference: the true difference of accuracies.
        discordance: share of sets that exactly one of both wins, at least ``abs(difference)``.
        sets: numbers of sets to try.
        cultures: equally large groups that the sets come from.
        cluster: sets of one source item.
        alike: share of source items whose sets all turn out alike, 0 to 1.
        comparisons: tests that are made together; each is held to ``alpha`` over their number (Bonferroni, which is
            never better than Holm).
        alpha: The two-sided level of the test.
        simulations: How many data sets are simulated for each number of sets.
        seed: The seed of the simulations.

    Raises:
        CarbError: a value out of range.
    """
    check_alpha(alpha)
    check_difference(difference, discordance)
    if min(sets, default=0) < 2 or min(cultures, cluster, comparisons, simulations) < 1 or not 0 <= alike <= 1:
        raise CarbError("sets must be at least 2; cultures, cluster, comparisons at least 1; alike from 0 to 1.")
    rng = np.random.default_rng(seed)
    rows = []
    for n in sets:
        found = _power(n, difference, discordance, cluster, alike, alpha / comparisons, simulations, rng)
        low, high = wilson(found * simulations, simulations)
        each = None
        if cultures > 1:
            part, level = max(2, n // cultures), alpha / comparisons / cultures
            each = _power(part, difference, discordance, cluster, alike, level, simulations, rng)
        rows.append(PowerRow(sets=n, power=found, low=float(low), high=float(high), each_culture=each))
    return tuple(rows)


def _power(
    n: int,
    difference: float,
    discordance: float,
    cluster: int,
    alike: float,
    alpha: float,
    simulations: int,
    rng: np.random.Generator,
) -> float:
    from scipy.special import stdtrit

    groups = -(-n // cluster)
    mass = [(discordance - difference) / 2, 1 - discordance, (discordance + difference) / 2]
    edges = np.cumsum(mass)[:2]

    def draw(*shape: int) -> Floats:
        return np.searchsorted(edges, rng.random(shape), side="right").astype(np.float64) - 1

    d = draw(simulations, groups, cluster)
    same = rng.random((simulations, groups)) < alike
    d = np.asarray(np.where(same[..., None], d[..., :1], d), dtype=np.float64).reshape(simulations, -1)[:, :n]
    of = np.repeat(np.arange(groups), cluster)[:n]
    centre = d.sum(1) / (n + 2)
    variance: Floats = ((d**2).sum(1) + 2) / (n + 2) - centre**2
    effect: Floats = np.ones(simulations)
    freedom = 1e9
    if cluster > 1:
        found = [design(of, row - row.mean()) for row in d]
        effect = np.array([f.effect[0] for f in found], dtype=np.float64)
        freedom = float(found[0].freedom[0])
    z = centre / np.sqrt(variance / (n + 2) * effect)
    limit = float(stdtrit(min(freedom, 1e9), 1 - alpha / 2))
    return float((z * np.sign(difference) > limit).mean()) if difference else float((np.abs(z) > limit).mean())
