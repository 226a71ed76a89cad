"""Mirrored families: what a scorer earns that does not read the place, and what one earns that does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_metrics import bon_accuracy, breakdown, family_accuracy, main_sets
from carb_metrics.clusters import is_clustered
from carb_metrics.outcomes import set_outcomes

PLACES = ("german-de", "german-at", "german-ch", "spanish-es", "french", "danish", "japanese", "korean")


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
        sets.append(
            BonSet(
                id=f"f{number}-{place}",
                culture=PLACES[place % len(PLACES)],
                domain="commonsense",
                language="de",
                prompt=f"What is usual in place {place}?",
                responses=responses,
                family=f"f{number}",
                provenance={"source": "test", "license": "CC0-1.0", "method": "authored"},
            )
        )
    return sets


def scored(dataset: Dataset, score, scorer: str = "s") -> ScoreTable:
    rows = [
        {
            "scorer": scorer,
            "item_id": item.id,
            "response_id": response.id,
            "role": response.role.value,
            "culture": item.culture,
            "domain": item.domain.value,
            "language": response.language,
            "perturbation": None,
            "original": None,
            "score": score(item, response),
        }
        for item in dataset
        for response in item.responses
    ]
    import polars as pl

    from carb_data.table import COLUMNS

    return ScoreTable(pl.DataFrame(rows, schema=COLUMNS))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(2, 5), st.integers(1, 3)), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 20), st.integers(-2, 2)),
)
def test_a_scorer_that_does_not_read_the_place_earns_exactly_chance(shapes, taste):
    dataset = Dataset(item for i, (answers, again) in enumerate(shapes) for item in family(i, answers, again))
    found = family_accuracy(scored(dataset, lambda _, r: float(taste.get(sum(map(ord, r.text)) % 21, 0))), dataset)
    row = found.of("s")
    assert row.accuracy.estimate == pytest.approx(np.mean([1 / answers for answers, _ in shapes]), abs=1e-12)
    assert row.accuracy.estimate == pytest.approx(row.chance)
    assert row.accuracy.p == 1.0
    assert row.still.estimate == 1.0
    assert row.accuracy.low <= row.accuracy.estimate <= row.accuracy.high


def test_a_scorer_that_knows_the_place_is_told_from_one_that_likes_the_answer():
    dataset = Dataset(item for i in range(30) for item in family(i))
    knows = family_accuracy(scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset).of("s")
    assert knows.accuracy.estimate == 1.0
    assert knows.accuracy.low > 0.85
    assert (knows.still.estimate, knows.main, knows.liked, knows.knows.estimate) == (0.0, 1.0, 0.0, 1.0)
    assert knows.main_sets == 90  # three of four places speak German
    likes = family_accuracy(scored(dataset, lambda _, r: float(r.text.startswith("answer 0"))), dataset).of("s")
    assert likes.main == pytest.approx(1 / 3)
    assert likes.knows.estimate == 0.0
    assert likes.knows.p == 1.0


def test_families_are_the_units_of_the_interval():
    rng = np.random.default_rng(0)
    dataset = Dataset(item for i in range(12) for item in family(i))
    known = {f"f{i}": bool(rng.random() < 0.5) for i in range(12)}
    table = scored(dataset, lambda s, r: float(known[s.family] and r.role.value == "chosen"))
    row = family_accuracy(table, dataset, by="domain").of("s", "commonsense")
    assert row.families == 12
    assert row.accuracy.high - row.accuracy.low > 0.3
    with_items = table.with_items(dataset)
    assert is_clustered(set_outcomes(with_items))
    together = bon_accuracy(with_items, ties="shared").overall
    apart = bon_accuracy(table, ties="shared").overall
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_the_interval_leaves_chance_out_where_the_test_does():
    """Few families move, all the same way: the test settles it where an interval that allows for 0 and 1 does not."""
    dataset = Dataset(item for i in range(60) for item in family(i))

    def score(item, response):
        number, place, answer = map(int, response.id.removeprefix("f").split("-"))
        return float(answer == (number < 7 and place == 0))  # the first answer everywhere, but not where it is right

    row = family_accuracy(scored(dataset, score), dataset).of("s")
    assert row.accuracy.p == pytest.approx(2 / 2**7 - 1 / 2**7)
    for level in (0.5, 0.9, 0.95, 0.99):
        mine = family_accuracy(scored(dataset, score), dataset, confidence=level).of("s").accuracy
        assert (mine.p < 1 - level) == (not mine.low <= row.chance <= mine.high)


def test_mirrors_do_not_count_for_a_culture():
    dataset = Dataset(item for i in range(3) for item in family(i))
    table = scored(dataset, lambda _, r: float(r.role.value == "chosen")).with_items(dataset)
    assert set(main_sets(table).frame["culture"]) == {"german-de", "german-at", "german-ch"}
    parts = breakdown(table)
    assert parts.overall.n == 9
    assert parts.by_culture.groups["culture"].to_list() == ["german"]


def test_a_failed_set_earns_nothing_and_hides_no_family():
    dataset = Dataset(item for i in range(3) for item in family(i))
    table = scored(dataset, lambda s, r: None if s.id == "f0-0" else float(r.role.value == "chosen"))
    row = family_accuracy(table, dataset).of("s")
    assert (row.errors, row.families) == (1, 3)
    assert row.accuracy.estimate == pytest.approx((0.75 + 1 + 1) / 3)


def test_data_without_families_have_no_family_accuracy():
    dataset = Dataset(family(0)[:1])
    assert family_accuracy(scored(dataset, lambda *_: 1.0), dataset) is None


@settings(max_examples=40)
@given(st.integers(2, 5), st.integers(1, 4), st.lists(st.integers(0, 4), min_size=1), st.permutations(range(5)))
def test_a_family_that_lacks_the_set_of_an_answer_is_left_out(answers, keep, dropped, taste):
    """There a scorer that likes an answer which is right nowhere earns 0, not 1/N."""
    broken = [item for item in family(1, answers) if int(item.id[-1]) not in dropped][:keep]
    dataset = Dataset([*family(0), *family(2), *broken])
    table = scored(dataset, lambda _, r: float(taste[int(r.id[-1])]))
    row = family_accuracy(table, dataset).of("s")
    whole = len(broken) == answers
    assert (row.families, row.incomplete) == (2 + whole, int(0 < len(broken) < answers))
    assert row.sets == 8 + answers * whole
    assert row.accuracy.estimate == pytest.approx(row.chance)
    assert row.accuracy.p == 1.0


def test_a_family_whose_sets_show_different_answers_is_left_out():
    """A scorer that likes the answer which one set does not show is right in two of four."""
    short = [
        item.model_copy(update={"responses": tuple(r for r in item.responses if n != 1 or int(r.id[-1]) != 0)})
        for n, item in enumerate(family(1))
    ]
    dataset = Dataset([*family(0), *short])
    row = family_accuracy(scored(dataset, lambda _, r: -float(r.id[-1])), dataset).of("s")
    assert (row.families, row.incomplete, row.accuracy.estimate) == (1, 1, 0.25)


def test_where_every_family_is_incomplete_nothing_is_said_of_chance():
    dataset = Dataset(item for i in range(3) for item in family(i)[:2])
    found = family_accuracy(scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset, by="domain")
    for row in (found.of("s"), found.of("s", "commonsense")):
        assert (row.families, row.incomplete, row.sets, row.errors, row.main_sets) == (0, 3, 0, 0, 0)
        assert (row.chance, row.accuracy.estimate, row.accuracy.p, row.still.estimate) == (None,) * 4
        assert (row.main, row.liked, row.knows.estimate) == (None,) * 3


def test_a_failed_set_makes_no_family_incomplete():
    dataset = Dataset(item for i in range(2) for item in family(i))
    row = family_accuracy(scored(dataset, lambda s, _: None if s.id == "f0-0" else 1.0), dataset).of("s")
    assert (row.families, row.incomplete, row.errors) == (2, 0, 1)
