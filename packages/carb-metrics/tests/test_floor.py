"""The surface floor: nothing that reads only the surface may pass for understanding."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_data import BonSet, CarbError, Dataset, Response, ScoreTable
from carb_data.table import COLUMNS
from carb_metrics import surface_floor
from carb_metrics.outcome import outcomes_of_frame

DOMAINS = ("values", "linguistics")


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
        (name, s.id, r.id, r.role.value, s.culture, s.domain, r.language, None, None, float(score(s, r)))
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
    assert found.test("reads_language").above is False
    assert found.test("guesses").above is False
    assert found.test("understands").above is True
    assert found.test("understands").p_adjusted < 0.001
    assert found.test("baseline:language") is None
    cultures = [{"culture": "korean"}, {"culture": "thai"}]
    both = [{**one, "domain": "values"} for one in cultures]
    assert [row.group for row in found.rows] == [{}, *cultures, {"domain": "values"}, *both]
    for test in found.tests:
        inside = test.difference.low <= 0 <= test.difference.high
        assert inside == (test.difference.p >= 0.05)


def test_the_floor_of_a_choice_is_that_of_its_sets_alone():
    """Each culture, each domain, and each culture within a domain: the same numbers as from those sets' credits."""
    dataset = Dataset(
        item.model_copy(update={"culture": ("spanish-mx", "spanish-ar", "thai")[i % 3], "domain": DOMAINS[i % 2]})
        for i, item in enumerate(world())
    )
    scores = table(dataset, baseline__language=lambda _, r: r.language == "ko")
    whole = surface_floor(scores, dataset)
    credit = outcomes_of_frame(scores.frame.filter(pl.col("scorer") == "baseline:language"), "shared")
    kept = {item.id: item for item in dataset}
    for row in whole.rows:
        chosen = [
            value
            for key, value in credit.select("item_id", "credit").iter_rows()
            if row.group.get("culture", "spanish" if "spanish" in kept[key].culture else "thai")
            == ("spanish" if "spanish" in kept[key].culture else "thai")
            and row.group.get("domain", kept[key].domain) == kept[key].domain
        ]
        assert row.floor.n == len(chosen)
        assert row.predictors["baseline:language"] == pytest.approx(np.mean(chosen))
        assert row.floor.accuracy == max(row.predictors.values())
    assert [row.group.get("culture") for row in whole.rows].count("spanish") == 3  # its varieties count for it
    varieties = surface_floor(scores, dataset, by=["variety"])
    assert [row.group for row in varieties.rows[1:]] == [{"variety": v} for v in ("spanish-ar", "spanish-mx", "thai")]


@pytest.mark.parametrize(
    ("by", "says"), [("culture", r"such as \['culture'\]"), (["colour"], "'colour' is not a column")]
)
def test_a_wrong_grouping_is_refused(by, says):
    dataset = world(8)
    with pytest.raises(CarbError, match=says):
        surface_floor(table(dataset, guesses=lambda _, r: len(r.text)), dataset, by=by)


def test_without_baselines_the_features_find_the_shortcut():
    dataset = world(seed=3)
    rng = np.random.default_rng(2)
    scores = table(dataset, reads_language=lambda _, r: (r.language == "ko") + 1e-6 * rng.random())
    found = surface_floor(scores, dataset, by=())
    assert found.overall.predictors["language of the question"] > 0.35
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
        floors.append(surface_floor(table(dataset, guesses=lambda *_: rng.random()), dataset, by=()).overall.floor)
    assert all(0.25 <= cell.accuracy < 0.38 for cell in floors)


def mixture(kind: str, sets: int = 400, seed: int = 5) -> tuple[Dataset, ScoreTable]:
    """A scorer made of surface cues that no single weight of a feature is, and the data in which it is often right."""
    rng, found, scores = np.random.default_rng(seed), [], {}
    for i in range(sets):
        culture = ("korean", "thai", "german", "french")[i % 4]
        lengths, own = rng.permutation([10, 25, 45, 70]), rng.random(4) < 0.5
        sign = 1 if i % 4 < 2 else -1
        value = {
            "a sign for each culture": sign * lengths,
            "length and language": np.where(own, lengths, -lengths),
            "the middle length": -np.abs(lengths - 32.0),
        }[kind]
        right = int(value.argmax()) if rng.random() < 0.8 else int(rng.integers(4))
        responses = tuple(
            Response(
                id=f"i{i:03}-{k}",
                text="".join(rng.choice(list("abcdefgh"), int(lengths[k]))),
                role="chosen" if k == right else "rejected",
                language="ko" if own[k] else "en",
            )
            for k in range(4)
        )
        scores |= {one.id: float(value[k]) + 1e-3 * rng.random() for k, one in enumerate(responses)}
        provenance = {"source": "test", "license": "CC0-1.0", "method": "authored"}
        item = {"id": f"i{i:03}", "culture": culture, "domain": "values", "language": "ko", "prompt": "?"}
        found.append(BonSet.model_validate({**item, "responses": responses, "provenance": provenance}))
    dataset = Dataset(found)
    return dataset, table(dataset, mixes=lambda _, r: scores[r.id])


@pytest.mark.parametrize("kind", ["a sign for each culture", "length and language", "the middle length"])
def test_a_mixture_of_surface_cues_is_no_understanding(kind):
    dataset, scores = mixture(kind)
    found = surface_floor(scores, dataset, by=())
    test = found.test("mixes")
    assert test.accuracy > 0.75
    assert found.overall.predictors["all surface features"] > 0.55
    assert test.above is False


@pytest.mark.coverage
@pytest.mark.parametrize("sets", [11, 50, 100, 200, 400, 800])
def test_how_much_of_a_mixture_the_floor_learns(sets, say):
    for kind in ("a sign for each culture", "length and language", "the middle length"):
        above, floors, own = 0, [], []
        for seed in range(5):
            dataset, scores = mixture(kind, sets, seed)
            found = surface_floor(scores, dataset, by=())
            above += bool(found.test("mixes").above)
            floors.append(found.overall.floor.accuracy)
            own.append(found.test("mixes").accuracy)
        say(f"{sets} sets, {kind}: floor {np.mean(floors):.2f}, the mixture {np.mean(own):.2f}, above in {above} of 5")
        assert above <= 1


def test_few_sets_say_that_nothing_can_be_shown_here():
    dataset = world(22)
    rng = np.random.default_rng(1)
    scores = table(dataset, understands=lambda _, r: 2 * (r.role.value == "chosen") + rng.normal())
    found = surface_floor(scores, dataset)
    assert not found.overall.learnable
    assert {test.above for test in found.tests} == {None}


def test_luck_is_no_predictor():
    """A random baseline that happens to be right is not what the surface reaches."""
    dataset = world(24)
    scores = table(dataset, baseline__random=lambda _, r: r.role.value == "chosen", guesses=lambda _, r: len(r.id))
    found = surface_floor(scores, dataset)
    assert all("baseline:random" not in row.predictors for row in found.rows)
    assert found.overall.floor.accuracy < 1
    assert found.test("baseline:random") is None


def test_nothing_has_no_floor():
    dataset = world(4)
    assert surface_floor(ScoreTable(pl.DataFrame(schema=COLUMNS)), dataset) is None
