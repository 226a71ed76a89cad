"""The surface floor: nothing that reads only the surface may pass for understanding."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_data.table import COLUMNS
from carb_metrics import surface_floor


def world(sets: int = 160, seed: int = 0) -> Dataset:
    """Sets in which the right answer is in the prompt's language more often than chance: a shortcut."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(sets):
        own = rng.random() < 0.7
        languages = ["ko" if own else "en"] + ["ko" if rng.random() < 0.4 else "en" for _ in range(3)]
        responses = tuple(
            Response(
                id=f"i{i:03}-{k}",
                text="".join(rng.choice(list("abcdefg "), 30)),
                role="rejected" if k else "chosen",
                language=languages[k],
                culture="korean",
                generator="human",
            )
            for k in rng.permutation(4)
        )
        found.append(
            BonSet(
                id=f"i{i:03}",
                culture="korean" if i % 2 else "thai",
                domain="values",
                language="ko",
                prompt="?",
                responses=responses,
                provenance={"source": "test", "license": "CC0-1.0", "method": "authored"},
            )
        )
    return Dataset(found)


def table(dataset: Dataset, **scorers) -> ScoreTable:
    rows = [
        (name, s.id, r.id, r.role.value, s.culture, "values", r.language, None, None, float(score(s, r)))
        for name, score in scorers.items()
        for s in dataset
        for r in s.responses
    ]
    frame = pl.DataFrame(rows, schema=list(COLUMNS), orient="row", schema_overrides=COLUMNS)
    return ScoreTable(frame.with_columns(scorer=pl.col("scorer").str.replace("__", ":")))


@pytest.fixture(scope="module")
def found():
    dataset = world()
    rng = np.random.default_rng(1)
    scores = table(
        dataset,
        baseline__language=lambda _, r: r.language == "ko",
        reads_language=lambda _, r: (r.language == "ko") + 1e-6 * rng.random(),
        understands=lambda _, r: 2 * (r.role.value == "chosen") + rng.normal(),
        guesses=lambda *_: rng.random(),
    )
    return surface_floor(scores, dataset)


def test_the_floor_shares_ties(found):
    assert found.overall.floor.accuracy > 0.35
    assert found.overall.predictors["baseline:language"] > 0.35
    assert found.overall.floor.low < found.overall.floor.accuracy < found.overall.floor.high
    assert found.overall.chance == 0.25


def test_a_scorer_that_reads_only_the_surface_is_not_above_it(found):
    assert not found.test("reads_language").above
    assert not found.test("guesses").above
    assert found.test("understands").above
    assert found.test("understands").p_adjusted < 0.001
    assert found.test("baseline:language") is None
    assert {row.group for row in found.rows} == {None, "korean", "thai"}
    for test in found.tests:
        inside = test.difference.low <= 0 <= test.difference.high
        assert inside == (test.difference.p >= 0.05)


def test_without_baselines_the_features_find_the_shortcut():
    dataset = world(seed=3)
    rng = np.random.default_rng(2)
    scores = table(dataset, reads_language=lambda _, r: (r.language == "ko") + 1e-6 * rng.random())
    found = surface_floor(scores, dataset, by=None)
    assert found.overall.predictors["language match"] > 0.35
    assert not found.test("reads_language").above


def test_without_a_shortcut_the_floor_is_near_chance():
    rng, floors = np.random.default_rng(4), []
    for seed in range(4):
        dataset = Dataset(
            item.model_copy(
                update={"responses": tuple(r.model_copy(update={"language": "ko"}) for r in item.responses)}
            )
            for item in world(120, seed)
        )
        floors.append(surface_floor(table(dataset, guesses=lambda *_: rng.random()), dataset, by=None).overall.floor)
    assert all(0.25 <= cell.accuracy < 0.38 for cell in floors)


def test_nothing_has_no_floor():
    dataset = world(4)
    assert surface_floor(ScoreTable(pl.DataFrame(schema=COLUMNS)), dataset) is None
