"""Means over families keep their level and coverage where origins are the units, on the seed's own
families, for a scorer whose associations with a fact are the same in every language."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from carb_data import BonSet, load
from carb_metrics.families import chance_variance
from carb_metrics.interval import Interval
from carb_metrics.means import clustered_mean

pytestmark = pytest.mark.coverage

RUNS = 400
TITLE = (
    "**Facts shared over languages**: how often the 95% interval of the place win rate holds the "
    "true rate. The scorer's associations with a fact are the same in every language; the families "
    "are the complete named ones of carb-seed:"
)
PLACES = 4
Keep = Callable[[str, str, str, float | str], None]
"""Takes the title of a table, a row, a column and a value."""
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


def interval(values: Mapping[str, float], unit: Mapping[str, str]) -> Interval:
    """The 95% interval of the place win rate, with clusters as units."""
    numbers = {name: number for number, name in enumerate(sorted(set(unit.values())))}
    cluster = np.array([numbers[unit[name]] for name in values])
    places = np.full(len(values), PLACES)
    half, variance = np.full(len(values), 0.5), chance_variance(places)
    known = np.array(list(values.values()))
    return clustered_mean(known, half, variance, cluster, 0.95, (0.0, 1.0))


@pytest.mark.parametrize("known", [0.0, KNOWN])
def test_origins_are_the_units_and_source_items_are_not(known: float, cell: Keep) -> None:
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
            found = interval(values, unit)
            missed[name] += not found.low <= truth <= found.high
    for name, count in missed.items():
        clusters = f"{name} as units ({len(set(units[name].values()))})"
        cell(TITLE, clusters, f"knows {known:.0%} of the facts", 1 - count / RUNS)
    assert 0.915 <= 1 - missed["origins"] / RUNS <= 0.98
    assert 1 - missed["source items"] / RUNS < 0.88
