"""The surface floor: nothing that reads only the surface may pass for understanding."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from carb_data import Dataset, Response, ScoreTable
from carb_data.table import COLUMNS
from carb_metrics import Scored, surface_floor
from carb_metrics.floor import ENOUGH
from sets_and_scores import a_set, scores_of

DOMAINS = ("values", "linguistics")


def world(sets: int = 160, seed: int = 0) -> Dataset:
    """Sets in which the right answer is in the prompt's language more often than chance: a
    shortcut."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(sets):
        own = rng.random() < 0.7
        languages = ["ko" if own else "en"] + [
            "ko" if rng.random() < 0.4 else "en" for _ in range(3)
        ]
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
        found.append(a_set(f"i{i:03}", "korean" if i % 2 else "thai", responses, language="ko"))
    return Dataset(found)


@pytest.fixture(scope="module")
def found():
    dataset = world()
    rng = np.random.default_rng(1)
    rules = {
        "baseline:language": lambda _, r: r.language == "ko",
        "reads_language": lambda _, r: (r.language == "ko") + 1e-6 * rng.random(),
        "understands": lambda _, r: 2 * (r.role.value == "chosen") + rng.normal(),
        "guesses": lambda *_: rng.random(),
        "failed": lambda *_: None,
    }
    return surface_floor(scores_of(dataset, rules), dataset)


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
    assert found.test("baseline:language") is found.test("failed") is None
    named = scores_of(world(), {"short": lambda _, r: r.language == "ko"})
    renamed = surface_floor(named, world(), by=(), baselines={"short": "baseline:language"})
    assert renamed.tests == ()
    cultures = [{"culture": "korean"}, {"culture": "thai"}]
    assert [row.group for row in found.rows] == [{}, *cultures, {"domain": "values"}]
    for test in found.tests:
        inside = test.difference.low <= 0 <= test.difference.high
        assert inside == (test.difference.p >= 0.05)


def test_the_same_sets_have_the_same_floor_whichever_scorers_ran():
    """Nor does a scorer's own test depend on another one, but for Holm's correction."""
    dataset, rng = world(), np.random.default_rng(1)
    rules = {
        "baseline:length": lambda _, r: len(r.text),
        "baseline:random": lambda *_: rng.random(),
        "short": lambda _, r: r.language == "ko",
        "understands": lambda _, r: 2 * (r.role.value == "chosen") + len(r.text) % 7,
        "guesses": lambda *_: rng.random(),
    }
    whole = surface_floor(
        scores_of(dataset, rules), dataset, baselines={"short": "baseline:language"}
    )
    one = scores_of(dataset, {"understands": rules["understands"]})
    alone = surface_floor(one, dataset)
    assert whole.rows == alone.rows
    assert {"baseline:length", "baseline:language", "baseline:label", "baseline:overlap"} < set(
        alone.overall.predictors
    )
    with_others, without = whole.test("understands"), alone.test("understands")
    assert with_others.difference == without.difference
    assert with_others.predictor == without.predictor


def test_a_scorer_with_a_number_of_its_own_for_each_question_is_copied_too():
    dataset, scores = mixture("length and language")
    shift = np.random.default_rng(2).normal(size=len(dataset)) * 1000
    number = {item.id: k for k, item in enumerate(dataset)}
    moved = scores.frame["score"].to_numpy() + shift[[number[i] for i in scores.frame["item_id"]]]
    moved = ScoreTable(scores.frame.with_columns(pl.Series("score", moved)))
    assert surface_floor(moved, dataset, by=()).test("mixes").above is False


def test_the_floor_of_a_choice_is_that_of_its_sets_alone():
    """Each culture and each domain: the same numbers as from those sets' credits."""
    dataset = Dataset(
        item.model_copy(
            update={
                "culture": ("spanish-mx", "spanish-ar", "thai")[i % 3],
                "domain": DOMAINS[i % 2],
            }
        )
        for i, item in enumerate(world())
    )
    scores = scores_of(dataset, {"baseline:language": lambda _, r: r.language == "ko"})
    whole = surface_floor(scores, dataset)
    credit = Scored.of(
        ScoreTable(scores.frame.filter(pl.col("scorer") == "baseline:language"))
    ).sets
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
    assert [row.group.get("culture") for row in whole.rows].count(
        "spanish"
    ) == 1  # its varieties count for it
    varieties = surface_floor(scores, dataset, by=["variety"])
    assert [row.group for row in varieties.rows[1:]] == [
        {"variety": v} for v in ("spanish-ar", "spanish-mx", "thai")
    ]


def mixture(kind: str, sets: int = 400, seed: int = 5) -> tuple[Dataset, ScoreTable]:
    """A scorer made of surface cues that no single weight of a feature is, and the data in which it
    is often right."""
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
        found.append(a_set(f"i{i:03}", culture, responses, language="ko"))
    dataset = Dataset(found)
    return dataset, scores_of(dataset, {"mixes": lambda _, r: scores[r.id]})


@pytest.mark.parametrize(
    "kind", ["a sign for each culture", "length and language", "the middle length"]
)
def test_a_mixture_of_surface_cues_is_no_understanding(kind):
    dataset, scores = mixture(kind)
    found = surface_floor(scores, dataset, by=())
    test = found.test("mixes")
    assert test.accuracy > 0.75
    assert found.overall.predictors["all surface features"] > 0.55
    assert test.above is False


def knows(share: float, sets: int, seed: int) -> tuple[Dataset, ScoreTable]:
    """A scorer that knows the right answer of a share of the sets, and guesses in the others."""
    rng, dataset = np.random.default_rng(seed), world(sets, seed)
    known = {item.id for item in dataset if rng.random() < share}

    def rule(s, r):
        return (s.id in known and r.role.value == "chosen") + rng.random()

    return dataset, scores_of(dataset, {"mixes": rule})


@pytest.mark.coverage
@pytest.mark.parametrize("sets", [11, 60, 120, 400])
def test_how_often_a_scorer_is_above_the_floor(sets, cell):
    """The level, of scorers that mix surface cues, and the power. A culture of 11 sets shows
    nothing."""
    rounds = 20 if sets >= ENOUGH else 2
    title = (
        "**The surface floor**: how often a scorer is called above it, of 20 (–: it cannot be "
        "shown here):"
    )
    for kind in (
        "a sign for each culture",
        "length and language",
        "the middle length",
        0.2,
        0.4,
        0.6,
    ):
        above = []
        for seed in range(rounds):
            made = knows(kind, sets, seed) if isinstance(kind, float) else mixture(kind, sets, seed)
            above.append(surface_floor(made[1], made[0], by=()).test("mixes").above)
        column = f"knows {kind:.0%}" if isinstance(kind, float) else f"only {kind}"
        cell(title, f"{sets} sets", column, above.count(True) / rounds if sets >= ENOUGH else "–")
        assert (set(above) == {None}) == (sets < ENOUGH)
        assert isinstance(kind, float) or above.count(True) / rounds <= 0.1
    assert sets < 400 or above.count(True) / rounds >= 0.8


def test_nothing_has_no_floor():
    dataset = world(4)
    assert surface_floor(ScoreTable(pl.DataFrame(schema=COLUMNS)), dataset) is None


def repeated(*, tied: bool) -> Dataset:
    """Forty questions asked six times, each with a length of its own for the right answer: what
    was learnt of one helps with the next, and is no surface of others."""
    rng = np.random.default_rng(0)
    found = []
    for question in range(40):
        lengths = question * 25 + rng.permutation([5, 11, 17, 23])
        for i in range(6):
            name = f"q{question:02}-{i}"
            responses = tuple(
                Response(
                    id=f"{name}-{k}",
                    text="".join(rng.choice(list("abcdefg"), lengths[k])),
                    role="rejected" if k else "chosen",
                    language="ko",
                    culture="korean",
                    generator="human",
                )
                for k in rng.permutation(4)
            )
            item = a_set(name, "korean", responses, language="ko")
            source = f"q{question}" if tied else name
            provenance = item.provenance.model_copy(update={"source_id": source})
            found.append(item.model_copy(update={"provenance": provenance}))
    return Dataset(found)


def test_folds_keep_origins_together():
    """Trees that saw a question's length elsewhere would know its right answer."""
    credit = {}
    for tied in (True, False):
        dataset = repeated(tied=tied)
        table = scores_of(dataset, {"guesses": lambda *_: 0.0})
        floor = surface_floor(table, dataset, by=()).overall
        credit[tied] = floor.predictors["all surface features"]
    assert credit[False] > 0.6
    assert credit[True] < 0.35
