"""Mirrored families: what a scorer earns that does not read the place, and what one earns that
does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_metrics import bon_accuracy, breakdown, compare, family_accuracy, main_sets, place_gap
from carb_metrics.clusters import cluster_of
from carb_metrics.families import read_matrices
from carb_metrics.outcome import set_outcomes
from sets_and_scores import a_set, scores_of

PLACES = (
    "german-de",
    "german-at",
    "german-ch",
    "spanish-es",
    "french",
    "danish",
    "japanese",
    "korean",
)


def family(number: int, answers: int = 4, again: int = 1) -> list[BonSet]:
    """One set per place; answer k is right in place k, and each answer in ``again`` places."""
    sets = []
    for place in range(answers * again):
        responses = tuple(
            Response(
                id=f"f{number}-{place}-{k}",
                text=f"answer {k} of {number}",
                role="chosen" if k == place % answers else "rejected",
                language="de",
                culture=PLACES[k],
                generator="human",
            )
            for k in range(answers)
        )
        about = {
            "domain": "commonsense",
            "language": "de",
            "prompt": f"What is usual in place {place}?",
        }
        culture = PLACES[place % len(PLACES)]
        sets.append(a_set(f"f{number}-{place}", culture, responses, family=f"f{number}", **about))
    return sets


def scored(dataset: Dataset, score, scorer: str = "s") -> ScoreTable:
    return scores_of(dataset, {scorer: score})


READINGS = ("row", "column", "matching")


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(2, 5), st.integers(1, 3)), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 20), st.integers(-9000, 9000).map(lambda k: k / 1000)),
    st.floats(-1e-12, 1e-12),
)
def test_a_scorer_that_does_not_read_the_place_earns_exactly_chance(shapes, taste, noise):
    """Whatever it likes, whatever ties, and with a little floating noise that depends on the
    place."""
    dataset = Dataset(
        item for i, (answers, again) in enumerate(shapes) for item in family(i, answers, again)
    )

    def score(item, response):
        return (1 + noise * int(item.id[-1])) * taste.get(sum(map(ord, response.text)) % 21, 0.0)

    row = family_accuracy(scored(dataset, score), dataset).of("s")
    assert row.chance == pytest.approx(np.mean([1 / answers for answers, _ in shapes]), abs=1e-12)
    for name in READINGS:
        found = getattr(row, name)
        assert found.estimate == pytest.approx(row.chance, abs=1e-12)
        assert found.p == 1.0
        assert found.low <= found.estimate <= found.high
    assert (row.place_effect.estimate, row.place_effect.p) == (0.0, 1.0)


MATRICES = st.integers(2, 5).flatmap(
    lambda n: arrays(np.float64, (3, n, n), elements=st.integers(-20, 20).map(lambda k: k / 4))
)


@given(MATRICES, st.randoms(use_true_random=False), st.floats(0.1, 10))
def test_what_is_liked_and_the_scale_change_no_place_effect(scores, random, factor):
    """Any number added to all scores of an answer or of a place, and a positive factor of a
    family."""
    size = scores.shape[-1]
    answers, places = (
        np.array([random.randint(-40, 40) / 4 for _ in range(size)]) for _ in range(2)
    )
    before, after = (
        read_matrices(scores),
        read_matrices(factor * (scores + answers + places[:, None])),
    )
    assert after[:, 2] == pytest.approx(before[:, 2], abs=1e-6)
    assert after[:, 1] == pytest.approx(before[:, 1], abs=1e-12)
    alone = read_matrices(factor * (scores + answers))
    assert alone[:, 0] == pytest.approx(before[:, 0], abs=1e-12)


def test_readings_equal_their_definitions():
    """By hand: double centring, standard deviation, and every matching."""
    scores = np.array([[3.0, 1.0, 0.0], [2.0, 2.5, 0.0], [3.5, 1.0, 1.0]])
    left = scores - scores.mean(0) - scores.mean(1)[:, None] + scores.mean()
    column, matching, effect = read_matrices(scores[None])[0]
    assert effect == pytest.approx(np.diag(left).mean() / left.std())
    assert column == pytest.approx(2 / 3)  # the first answer scores highest under the third place
    assert matching == pytest.approx(1.0)  # 3 + 2.5 + 1
    tied = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert read_matrices(tied[None])[0, 1] == pytest.approx(
        (3 + 1) / 2 / 3
    )  # two matchings of the same sum share


def test_a_scorer_that_knows_the_place_is_told_from_one_that_likes_the_answer():
    dataset = Dataset(item for i in range(30) for item in family(i))
    knows = family_accuracy(
        scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset
    ).of("s")
    for name in READINGS:
        found = getattr(knows, name)
        assert (found.estimate, found.low > 0.85, found.high) == (1.0, True, 1.0)
    assert knows.place_effect.estimate == pytest.approx(np.sqrt(3))
    assert knows.place_effect.p < 0.001

    def drowned(_, response):
        return 5.0 * int(response.id[-1]) + (response.role.value == "chosen")

    row = family_accuracy(scored(dataset, drowned), dataset).of("s")
    assert row.row.estimate == 0.25  # by rows there is nothing to see
    assert (row.column.estimate, row.matching.estimate) == (1.0, 1.0)
    assert row.place_effect.estimate == pytest.approx(np.sqrt(3))


def test_families_of_a_source_item_are_one_unit():
    """Four families an item that are all alike say no more than one each."""
    sets = [item for i in range(24) for item in family(i)]
    tied = [
        item.model_copy(
            update={
                "provenance": item.provenance.model_copy(
                    update={"source_id": str(int(item.family[1:]) // 4)}
                )
            }
        )
        for item in sets
    ]
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(6, 4, 4)) + 0.5 * np.eye(4)

    def score(item, response):
        number, place, answer = map(int, response.id.removeprefix("f").split("-"))
        return float(drawn[number // 4, place, answer])

    dataset = Dataset(tied)
    together = family_accuracy(scored(dataset, score), dataset).of("s")
    one = Dataset(item for item in tied if int(item.family[1:]) % 4 == 0)
    alone = family_accuracy(scored(one, score), one).of("s")
    assert (together.families, together.clusters) == (24, 6)
    for name in (*READINGS, "place_effect"):
        assert getattr(together, name).model_dump() == pytest.approx(
            getattr(alone, name).model_dump()
        )


def test_a_family_that_is_copied_under_other_names_says_no_more_than_once():
    sets = [item for i in range(3) for item in family(i)]
    copied = [*sets]
    for n in range(9):
        for item in sets:
            forged = item.provenance.model_copy(update={"source_id": f"forged {n} {item.family}"})
            prompt = f" {item.prompt.upper()}!"
            changes = {
                "id": f"{item.id}/{n}",
                "family": f"{item.family}/{n}",
                "provenance": forged,
                "prompt": prompt,
            }
            copied.append(item.model_copy(update=changes))
    drawn = np.random.default_rng(0).normal(size=(3, 4, 4)) + 0.5 * np.eye(4)

    def score(item, response):
        return float(drawn[tuple(map(int, response.id.removeprefix("f").split("-")))])

    alone, many = (
        family_accuracy(scored(data, score), data).of("s")
        for data in (Dataset(sets), Dataset(copied))
    )
    assert (many.families, many.clusters) == (30, 3)
    for name in (*READINGS, "place_effect"):
        assert getattr(many, name).model_dump() == pytest.approx(getattr(alone, name).model_dump())


def test_families_are_the_units_of_the_interval():
    rng = np.random.default_rng(0)
    dataset = Dataset(item for i in range(12) for item in family(i))
    known = {f"f{i}": bool(rng.random() < 0.5) for i in range(12)}
    table = scored(dataset, lambda s, r: float(known[s.family] and r.role.value == "chosen"))
    row = family_accuracy(table, dataset, by="domain").of("s", "commonsense")
    assert row.families == 12
    assert row.row.high - row.row.low > 0.3
    with_items = table.with_items(dataset)
    assert len(np.unique(cluster_of(set_outcomes(with_items)))) == 12
    together = bon_accuracy(with_items, ties="shared").overall
    apart = bon_accuracy(table, ties="shared").overall
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_an_interval_leaves_chance_out_where_the_test_does(seed, families, level):
    rng = np.random.default_rng(seed)
    dataset = Dataset(item for i in range(families) for item in family(i))
    table = scored(
        dataset,
        lambda _, r: float(rng.integers(0, 3) + 2 * rng.random() * (r.role.value == "chosen")),
    )
    row = family_accuracy(table, dataset, confidence=level).of("s")
    for name in (*READINGS, "place_effect"):
        found = getattr(row, name)
        null = 0.0 if name == "place_effect" else row.chance
        assert (found.p < 1 - level) == (not found.low <= null <= found.high)
        assert found.low <= found.estimate <= found.high


def test_mirrors_do_not_count_for_a_culture():
    dataset = Dataset(item for i in range(3) for item in family(i))
    table = scored(dataset, lambda _, r: float(r.role.value == "chosen")).with_items(dataset)
    assert set(main_sets(table).frame["culture"]) == {"german-de", "german-at", "german-ch"}
    parts = breakdown(table)
    assert parts.overall.n == 9
    assert parts.by_culture.groups["culture"].to_list() == ["german"]


def test_a_failed_set_earns_nothing_and_hides_no_family():
    dataset = Dataset(item for i in range(3) for item in family(i))
    table = scored(
        dataset, lambda s, r: None if s.id == "f0-0" else float(r.role.value == "chosen")
    )
    row = family_accuracy(table, dataset).of("s")
    assert (row.errors, row.families, row.judged) == (1, 3, 2)
    assert row.row.estimate == pytest.approx((0.75 + 1 + 1) / 3)
    assert (row.column.estimate, row.matching.estimate) == pytest.approx((2 / 3, 2 / 3))
    assert row.place_effect.estimate == pytest.approx(2 / 3 * np.sqrt(3))
    silent = family_accuracy(scored(dataset, lambda *_: None), dataset).of("s")
    assert (silent.judged, silent.place_effect.estimate, silent.column.estimate) == (0, None, None)


def test_who_fails_where_it_is_unsure_is_no_better_in_a_comparison_than_alone():
    """A scorer that knows half of the families and fails on the rest, beside one that knows the
    same half and guesses the rest: neither is better."""
    dataset = Dataset(item for i in range(20) for item in family(i))
    sure = scored(
        dataset, lambda s, r: float(r.role == "chosen") if int(s.family[1:]) % 2 else None, "sure"
    )
    guesses = scored(
        dataset, lambda s, r: float(r.role == "chosen" and int(s.family[1:]) % 2), "guesses"
    )
    found = compare(sure, guesses, dataset=dataset).place_effect
    assert found.families == 20
    for side, table, name in ((found.a, sure, "sure"), (found.b, guesses, "guesses")):
        assert side == pytest.approx(family_accuracy(table, dataset).of(name).place_effect.estimate)
        assert side == pytest.approx(np.sqrt(3) / 2)
    assert (found.difference.estimate, found.difference.p, found.better) == (0.0, 1.0, None)
    assert (
        compare(scored(dataset, lambda *_: None, "silent"), guesses, dataset=dataset).place_effect
        is None
    )


@settings(max_examples=40)
@given(
    st.integers(2, 5),
    st.integers(1, 4),
    st.lists(st.integers(0, 4), min_size=1),
    st.permutations(range(5)),
)
def test_a_family_that_lacks_the_set_of_an_answer_is_left_out(answers, keep, dropped, taste):
    """There a scorer that likes an answer which is right nowhere earns 0, not 1/N."""
    broken = [item for item in family(1, answers) if int(item.id[-1]) not in dropped][:keep]
    dataset = Dataset([*family(0), *family(2), *broken])
    table = scored(dataset, lambda _, r: float(taste[int(r.id[-1])]))
    row = family_accuracy(table, dataset).of("s")
    whole = len(broken) == answers
    assert (row.families, row.incomplete) == (2 + whole, int(0 < len(broken) < answers))
    assert row.sets == 8 + answers * whole
    assert row.row.estimate == pytest.approx(row.chance)
    assert row.row.p == 1.0


def test_a_family_whose_sets_show_different_answers_is_left_out():
    """A scorer that likes the answer which one set does not show is right in two of four."""
    short = [
        item.model_copy(
            update={"responses": tuple(r for r in item.responses if n != 1 or int(r.id[-1]) != 0)}
        )
        for n, item in enumerate(family(1))
    ]
    dataset = Dataset([*family(0), *short])
    row = family_accuracy(scored(dataset, lambda _, r: -float(r.id[-1])), dataset).of("s")
    assert (row.families, row.incomplete, row.row.estimate) == (1, 1, 0.25)


def test_a_name_that_tells_all_is_a_gap_between_the_two_wordings():
    named = [item.model_copy(update={"place": "named"}) for i in range(12) for item in family(i)]
    told = [
        item.model_copy(
            update={"id": f"{item.id}i", "family": f"{item.family}+implied", "place": "implied"}
        )
        for item in named[:40]
    ]
    dataset = Dataset([*named, *told])
    table = scored(dataset, lambda s, r: float(r.role == "chosen" and s.place == "named"))
    gap = place_gap(table, dataset)["s"]
    assert (gap.families, gap.b, gap.better) == (10, 0.0, "a")
    assert gap.a == gap.difference.estimate == pytest.approx(np.sqrt(3))
    assert place_gap(table, Dataset(named)) == {}


def test_where_every_family_is_incomplete_nothing_is_said_of_chance():
    dataset = Dataset(item for i in range(3) for item in family(i)[:2])
    found = family_accuracy(
        scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset, by="domain"
    )
    for row in (found.of("s"), found.of("s", "commonsense")):
        assert (row.families, row.incomplete, row.judged, row.clusters, row.sets, row.errors) == (
            0,
            3,
            0,
            0,
            0,
            0,
        )
        assert (row.chance, row.row.estimate, row.row.p, row.place_effect.estimate) == (None,) * 4
