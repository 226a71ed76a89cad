"""How often the tests of families keep their level, and what they find: simulations, in a session
of their own."""

from __future__ import annotations

import numpy as np
import pytest

from carb_metrics.families import READINGS, _estimates, read_matrices

LEVEL = "**Families, level**: how often p < .05 for a scorer that does not read the place:"
POWER = "**Families, power**: how often p < .05 with a planted knowledge of δ standard deviations:"

pytestmark = pytest.mark.coverage

RUNS = 1_000


def readings(scores: np.ndarray) -> np.ndarray:
    """(families, 4) row and the other readings; without ties."""
    row = (scores.argmax(2) == np.arange(scores.shape[-1])).mean(1)
    return np.column_stack([row, read_matrices(scores)])


def rejected(sizes: list[int], delta: float, shared: float, rng: np.random.Generator) -> np.ndarray:
    """(4,) whether each reading is told from chance at 0.05.

    Args:
        sizes: families of each source item.
        delta: what a right cell has more, in standard deviations of the noise of a cell.
        shared: share of that noise's variance that the families of an item have in common.
    """
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    common = rng.normal(size=(len(sizes), 4, 4))[cluster]
    own = rng.normal(size=(len(cluster), 4, 4))
    taste = 3 * rng.normal(size=(len(cluster), 1, 4))
    scores = np.sqrt(shared) * common + np.sqrt(1 - shared) * own + taste + delta * np.eye(4)
    found = _estimates(readings(scores), np.full(len(cluster), 4), cluster, 0.95)
    return np.array([one.p < 0.05 for one in found])


DESIGNS = {
    "60 items of 1": [1] * 60,
    "12 items of 1": [1] * 12,
    "20 items of 4": [4] * 20,
    "10 items of 4 to 8": [4, 5, 6, 7, 8] * 2,
    "8 items, one large": [20, *[2] * 7],
}


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_a_scorer_that_reads_no_place_is_rarely_told_from_chance(name, shared, cell):
    rng = np.random.default_rng(0)
    share = np.mean([rejected(DESIGNS[name], 0.0, shared, rng) for _ in range(RUNS)], 0)
    for reading, value in zip(READINGS, share, strict=True):
        cell(LEVEL, f"{name}, scores share {shared:.1f}", reading.replace("_", " "), value)
    assert (share < 0.08).all()


@pytest.mark.parametrize("families", [16, 40, 150, 574])
def test_planted_knowledge_is_found(families, cell):
    rng = np.random.default_rng(1)
    lines = []
    for delta in (0.1, 0.2, 0.4, 0.8):
        share = np.mean([rejected([1] * families, delta, 0.0, rng) for _ in range(200)], 0)
        lines.append((delta, *share))
    for delta, *share in lines:
        for reading, value in zip(READINGS, share, strict=True):
            cell(POWER, f"{families} families, δ = {delta}", reading.replace("_", " "), value)
    assert lines[-1][-1] > 0.7
    assert all(
        line[-1] >= line[1] - 0.05 for line in lines
    )  # the place effect finds at least what rows find
