"""Means over families keep their level and coverage where origins are the units, on the seed's own
families, for a scorer whose associations with a fact are the same in every language."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import pytest

from carb_data import BonSet, load

pytestmark = pytest.mark.coverage

RUNS = 400
KNOWN = 0.15
"""Share of facts that the scorer knows in the second design."""


def families() -> dict[str, list[BonSet]]:
    """The complete families whose questions name their places."""
    made: defaultdict[str, list[BonSet]] = defaultdict(list)
    for item in load("carb-seed"):
        if item.family is not None and item.wording_of is None:
            made[item.family].append(item)
    return {
        name: sets
        for name, sets in made.items()
        if len({item.chosen.text for item in sets}) == len(sets) == len(sets[0].responses)
    }


def place_win(sets: Sequence[BonSet], score: Callable[[str, str], float]) -> float:
    """How often an answer scores higher under its own place than under another one, ties half."""
    facts = [item.chosen.source.fact for item in sets]
    wins = [
        0.5 * ((score(fact, own) > score(fact, place)) + (score(fact, own) >= score(fact, place)))
        for own, fact in zip(facts, facts, strict=True)
        for place in facts
        if place != fact
    ]
    return statistics.fmean(wins)


def associations(draws: random.Random, known: float) -> Callable[[str, str], float]:
    """How strongly a scorer associates a fact with the place of another one, in any language."""
    noise: dict[tuple[str, str], float] = {}
    knows: dict[str, bool] = {}

    def score(fact: str, place: str) -> float:
        if fact == place and knows.setdefault(fact, draws.random() < known):
            return math.inf
        return noise.setdefault((fact, place), draws.random())

    return score


def interval(values: Mapping[str, float], unit: Mapping[str, str]) -> tuple[float, float]:
    """A 95% interval of the mean over families by t, with clusters as units."""
    from scipy.stats import t

    mean = statistics.fmean(values.values())
    total: defaultdict[str, float] = defaultdict(float)
    for name, value in values.items():
        total[unit[name]] += value - mean
    count = len(total)
    error = math.sqrt(count / (count - 1) * sum(e**2 for e in total.values())) / len(values)
    half = float(t.ppf(0.975, count - 1)) * error
    return mean - half, mean + half


@pytest.mark.parametrize("known", [0.0, KNOWN])
def test_origins_are_the_units_and_source_items_are_not(known):
    pytest.importorskip("scipy", reason="needs the extra 'checks'")
    made, origins = families(), load("carb-seed").origins
    units = {
        "origins": {name: origins[sets[0].id] for name, sets in made.items()},
        "source items": {name: sets[0].source_item for name, sets in made.items()},
    }
    truth, missed = known + (1 - known) / 2, dict.fromkeys(units, 0)
    for run in range(RUNS):
        score = associations(random.Random(run), known)
        values = {name: place_win(sets, score) for name, sets in made.items()}
        for name, unit in units.items():
            low, high = interval(values, unit)
            missed[name] += not low <= truth <= high
    print(  # noqa: T201 - the session writes it down
        f"\nplace win rate, {len(made)} families, truth {truth:.3f}: intervals that miss it, "
        + ", ".join(
            f"units {name} ({len(set(units[name].values()))}) {count / RUNS:.3f}"
            for name, count in missed.items()
        )
    )
    assert 0.02 <= missed["origins"] / RUNS <= 0.085
    assert missed["source items"] / RUNS > 0.12
