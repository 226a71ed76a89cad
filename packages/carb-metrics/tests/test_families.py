"""Mirrored families: what a scorer earns that does not read the place, and what one earns that
does."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import BonSet, Dataset, Response, ScoreTable
from carb_metrics import (
    Scored,
    bon_accuracy,
    breakdown,
    compare,
    family_accuracy,
    place_gap,
    rank,
)
from carb_metrics.clusters import cluster_of
from carb_metrics.families import BLIND
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


def place_win(dataset: Dataset, score):
    return family_accuracy(scored(dataset, score), dataset).of("s").place_win


def numbers_of(item, response) -> tuple[int, int, int]:
    """Family, place and answer."""
    return tuple(map(int, response.id.removeprefix("f").split("-")))


SHAPES = st.lists(st.tuples(st.integers(2, 5), st.integers(1, 3)), min_size=1, max_size=5)
SCALES = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])


@settings(max_examples=60)
@given(SHAPES, st.data(), SCALES, SCALES)
def test_a_liking_for_answers_and_one_for_places_win_exactly_half(shapes, data, one, other):
    """f(answer) + g(place) at any two scales, in families of any shape, of which sets are missing
    and scores have failed."""
    sets = [item for i, (answers, again) in enumerate(shapes) for item in family(i, answers, again)]
    lost = data.draw(st.sets(st.integers(0, len(sets) - 1), max_size=len(sets) // 3))
    failed = data.draw(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 14), st.integers(0, 4))))
    taste = data.draw(st.lists(st.integers(-99, 99), min_size=25, max_size=25))
    liked = data.draw(st.lists(st.integers(-99, 99), min_size=15, max_size=15))
    dataset = Dataset(item for n, item in enumerate(sets) if n not in lost)

    def score(item, response):
        number, place, answer = numbers_of(item, response)
        if (number, place, answer) in failed:
            return None
        return one * taste[number * 5 + answer] + other * liked[place]

    found = family_accuracy(scored(dataset, score), dataset)
    if found is not None and found.of("s").place_win.estimate is not None:
        assert found.of("s").place_win.estimate == 0.5


@settings(max_examples=60)
@given(
    SHAPES,
    st.integers(0, 10**6),
    st.sampled_from([np.exp, np.cbrt, np.arctan, lambda x: x**3, lambda x: 3e6 * x - 7]),
)
def test_a_strictly_increasing_map_changes_nothing(shapes, seed, scale):
    sets = [item for i, (answers, again) in enumerate(shapes) for item in family(i, answers, again)]
    dataset, drawn = Dataset(sets), np.random.default_rng(seed).integers(-9, 9, (5, 15, 5)) / 4
    before, after = (
        family_accuracy(
            scored(dataset, lambda s, r, f=f: float(f(drawn[numbers_of(s, r)]))), dataset
        ).of("s")
        for f in (lambda x: x, scale)
    )
    assert before.place_win == after.place_win


def test_no_scorer_is_better_than_its_own_scores_on_another_scale():
    """Identical picks on each set: the place effect told them apart by the shape of the scale."""
    dataset = Dataset(item for i in range(40) for item in family(i))
    drawn = np.random.default_rng(0).normal(size=(40, 4, 4)) * 3 + np.eye(4)
    plain = scored(dataset, lambda s, r: float(drawn[numbers_of(s, r)]), "plain")
    curved = scored(
        dataset, lambda s, r: float(-np.logaddexp(0, -3 * drawn[numbers_of(s, r)])), "curved"
    )
    found = compare(plain, curved, dataset=dataset)
    assert found.place_win.difference.estimate == 0.0
    assert found.place_win.difference.p == 1.0
    assert (found.place_win.better, found.better) == (None, None)


def test_better_is_who_reads_the_place_where_there_are_families():
    """The first knows every family; the second likes the answers of the main sets, and so is right
    on as many main sets."""
    dataset = Dataset(item for i in range(20) for item in family(i))
    knows = scored(dataset, lambda _, r: float(r.role == "chosen"), "knows")
    likes = scored(dataset, lambda s, r: -float(numbers_of(s, r)[2]), "likes")
    found = compare(likes, knows, dataset=dataset)
    assert (found.place_win.a, found.place_win.b, found.better) == (0.5, 1.0, "b")
    assert compare(likes, knows, dataset=None).better == "b"
    main = compare(likes.with_items(dataset), likes.with_items(dataset), dataset=dataset)
    assert main.better is None


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e155, 1.7e308])
def test_scores_of_any_size_are_read(scale):
    dataset = Dataset(item for i in range(8) for item in family(i))
    found = place_win(dataset, lambda _, r: scale if r.role == "chosen" else -scale)
    assert (found.estimate, found.n) == (1.0, 8)


def test_the_rate_equals_its_definition():
    """By hand, three places: own place above another one, ties half."""
    scores = np.array([[3.0, 1.0, 0.0], [2.0, 2.5, 0.0], [3.5, 1.0, 1.0]])
    # answer 0: 3 > 2, 3 < 3.5; answer 1: 2.5 > 1 twice; answer 2: 1 > 0 twice
    dataset = Dataset(family(0, 3))
    row = family_accuracy(
        scored(dataset, lambda s, r: float(scores[numbers_of(s, r)[1:]])), dataset
    ).of("s")
    assert row.place_win.estimate == pytest.approx(5 / 6)
    assert (row.comparisons, row.families, row.clusters) == (6, 1, 1)
    tied = np.eye(3)
    tied[2, 0] = 1.0
    assert place_win(dataset, lambda s, r: float(tied[numbers_of(s, r)[1:]])).estimate == (5.5 / 6)


def test_a_scorer_that_knows_the_place_is_told_from_one_that_likes_the_answer():
    dataset = Dataset(item for i in range(30) for item in family(i))
    knows = family_accuracy(
        scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset
    ).of("s")
    for found in (knows.place_win, knows.row):
        assert (found.estimate, found.high, found.n) == (1.0, 1.0, 30)
        assert found.low > 0.85
        assert found.p < 0.001

    def drowned(_, response):
        return 5.0 * int(response.id[-1]) + (response.role.value == "chosen")

    row = family_accuracy(scored(dataset, drowned), dataset).of("s")
    assert row.row.estimate == 0.25  # by rows there is nothing to see
    assert row.place_win.estimate == 1.0


def test_an_interval_has_a_width_where_every_family_sits_at_chance():
    dataset = Dataset(item for i in range(20) for item in family(i))
    likes = family_accuracy(scored(dataset, lambda _, r: float(r.id[-1])), dataset).of("s")
    assert likes.place_win.estimate == 0.5
    assert likes.place_win.low < 0.47 < 0.53 < likes.place_win.high
    assert (likes.place_win.p, likes.note) == (1.0, None)
    assert likes.row.low < 0.25 < likes.row.high


def test_only_a_baseline_that_is_blind_by_construction_is_a_point():
    dataset = Dataset(item for i in range(20) for item in family(i))
    for name in BLIND:
        table = scored(dataset, lambda _, r: float(r.id[-1]), name)
        row = family_accuracy(table, dataset).of(name)
        assert (row.place_win.low, row.place_win.estimate, row.place_win.high) == (0.5, 0.5, 0.5)
        assert "construction" in row.note
    table = scored(dataset, lambda _, r: float(r.id[-1]), "long")
    assert family_accuracy(table, dataset, blind=["long"]).of("long").place_win.low == 0.5


def test_below_six_clusters_there_is_no_interval_and_the_row_says_why():
    def read(dataset):
        return family_accuracy(scored(dataset, lambda _, r: float(r.role == "chosen")), dataset).of(
            "s"
        )

    few = read(Dataset(item for i in range(5) for item in family(i)))
    assert few.place_win.model_dump() == {
        "estimate": 1.0,
        "low": None,
        "high": None,
        "p": None,
        "n": 5,
    }
    assert "too few" in few.note
    assert read(Dataset(item for i in range(6) for item in family(i))).note is None


def of_source(item: BonSet, source: str) -> BonSet:
    about = item.provenance.model_copy(update={"source_id": source})
    return item.model_copy(update={"provenance": about})


def test_one_cluster_with_most_families_counts_for_little():
    """20 of 34 families of one source item are worth three clusters."""
    sets = [item for i in range(34) for item in family(i)]
    tied = [of_source(s, "one") if int(s.family[1:]) < 20 else s for s in sets]
    dataset = Dataset(tied)
    row = family_accuracy(scored(dataset, lambda _, r: float(r.role == "chosen")), dataset).of("s")
    assert (row.families, row.clusters, row.place_win.low) == (34, 15, None)
    assert "too few" in row.note


def test_families_of_a_source_item_are_one_unit():
    """Four families an item that are all alike say no more than one each."""
    sets = [item for i in range(24) for item in family(i)]
    tied = [of_source(item, str(int(item.family[1:]) // 4)) for item in sets]
    drawn = np.random.default_rng(0).normal(size=(6, 4, 4)) + 0.5 * np.eye(4)

    def score(item, response):
        number, place, answer = numbers_of(item, response)
        return float(drawn[number // 4, place, answer])

    dataset = Dataset(tied)
    together = family_accuracy(scored(dataset, score), dataset).of("s")
    one = Dataset(item for item in tied if int(item.family[1:]) % 4 == 0)
    alone = family_accuracy(scored(one, score), one).of("s")
    assert (together.families, together.clusters) == (24, 6)
    assert_alike(together, alone)


def assert_alike(one, other):
    for name in ("row", "place_win"):
        first, second = (getattr(row, name).model_dump(exclude={"n"}) for row in (one, other))
        assert first == pytest.approx(second)


def test_a_family_that_is_copied_under_other_names_says_no_more_than_once():
    sets = [item for i in range(7) for item in family(i)]
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
    drawn = np.random.default_rng(0).normal(size=(7, 4, 4)) + 0.5 * np.eye(4)

    def score(item, response):
        return float(drawn[numbers_of(item, response)])

    alone, many = (
        family_accuracy(scored(data, score), data).of("s")
        for data in (Dataset(sets), Dataset(copied))
    )
    assert (many.families, many.clusters) == (70, 7)
    assert_alike(many, alone)


def test_families_are_the_units_of_the_interval():
    rng = np.random.default_rng(0)
    dataset = Dataset(item for i in range(12) for item in family(i))
    known = {f"f{i}": bool(rng.random() < 0.5) for i in range(12)}
    table = scored(dataset, lambda s, r: float(known[s.family] and r.role.value == "chosen"))
    row = family_accuracy(table, dataset, by="domain").of("s", "commonsense")
    assert row.families == 12
    assert row.row.high - row.row.low > 0.3
    with_items = table.with_items(dataset)
    assert Scored.of(with_items).clusters["cluster"].n_unique() == 12
    together = bon_accuracy(with_items).overall
    apart = bon_accuracy(table).overall
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(6, 12), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_an_interval_leaves_chance_out_where_the_test_does(seed, families, level):
    rng = np.random.default_rng(seed)
    dataset = Dataset(item for i in range(families) for item in family(i))
    table = scored(
        dataset,
        lambda _, r: float(rng.integers(0, 3) + 2 * rng.random() * (r.role.value == "chosen")),
    )
    row = family_accuracy(table, dataset, confidence=level).of("s")
    for found, null in ((row.place_win, 0.5), (row.row, row.chance)):
        assert (found.p < 1 - level) == (not found.low <= null <= found.high)
        assert found.low <= found.estimate <= found.high


def test_mirrors_do_not_count_for_a_culture():
    dataset = Dataset(item for i in range(3) for item in family(i))
    table = scored(dataset, lambda _, r: float(r.role.value == "chosen")).with_items(dataset)
    assert set(Scored.of(table).main.frame["culture"]) == {"german-de", "german-at", "german-ch"}
    parts = breakdown(table)
    assert parts.overall.n == 9
    assert parts.by_culture.groups["culture"].to_list() == ["german"]


def test_a_failed_set_loses_its_comparisons_and_no_family():
    dataset = Dataset(item for i in range(7) for item in family(i))
    table = scored(
        dataset, lambda s, r: None if s.id == "f0-0" else float(r.role.value == "chosen")
    )
    row = family_accuracy(table, dataset).of("s")
    assert (row.errors, row.families, row.comparisons, row.failed) == (1, 7, 84, 6)
    assert row.row.estimate == pytest.approx((0.75 + 6) / 7)
    assert row.place_win.estimate == pytest.approx((0.75 + 6) / 7)
    assert row.place_win_if_lost.estimate == pytest.approx((0.5 + 6) / 7)
    silent = family_accuracy(scored(dataset, lambda *_: None), dataset).of("s")
    assert (silent.failed, silent.place_win.estimate, silent.row.estimate) == (84, None, None)
    assert (silent.place_win.n, silent.row.n) == (0, 0)


def test_failing_where_it_would_lose_lifts_the_rate_but_not_the_one_with_failures_lost():
    """A scorer without knowledge that fails on one set of each pair that it would lose."""
    families = [item for i in range(400) for item in family(i, answers=2)]
    dataset = Dataset(families)
    drawn = np.random.default_rng(0).normal(size=(400, 2, 2))
    right = np.array([[0, 1]])
    own = drawn[:, right[0], right[0]]
    lost = (own < drawn[:, 1 - right[0], right[0]]).all(1)

    def score(item, response):
        number, place, _ = index = numbers_of(item, response)
        return None if lost[number] and place == 0 else float(drawn[index])

    row = family_accuracy(scored(dataset, score), dataset).of("s")
    assert row.failed == 2 * lost.sum() > 150
    assert row.place_win.low > 0.55
    assert (
        row.place_win_if_lost.estimate
        == place_win(dataset, lambda s, r: float(drawn[numbers_of(s, r)])).estimate
    )
    assert row.place_win_if_lost.low < 0.5 < row.place_win_if_lost.high


def test_failing_where_it_would_lose_makes_no_scorer_better_and_no_rank():
    """A scorer without knowledge that fails on every set of which it would lose a comparison,
    beside its twin that does not fail and one that knows a little."""
    dataset = Dataset(item for i in range(200) for item in family(i, answers=2))
    rng = np.random.default_rng(0)
    twin, weak = rng.normal(size=(2, 200, 2, 2))
    weak[:, [0, 1], [0, 1]] += 0.3
    right = twin[:, [0, 1], [0, 1]]
    loses = (right < twin[:, [1, 0], [0, 1]]).any(1)
    table = scores_of(
        dataset,
        {
            "twin": lambda s, r: float(twin[numbers_of(s, r)]),
            "weak": lambda s, r: float(weak[numbers_of(s, r)]),
            "cheat": lambda s, r: (
                None if loses[int(s.family[1:])] else float(twin[numbers_of(s, r)])
            ),
        },
    )
    alone = {name: ScoreTable(part) for (name,), part in table.frame.group_by("scorer")}
    before = compare(alone["twin"], alone["weak"], dataset=dataset).place_win
    found = compare(alone["cheat"], alone["weak"], dataset=dataset).place_win
    assert found.a > found.b > before.a
    assert (found.failed_a, found.failed_b) == (loses.mean(), 0.0)
    assert found.better is None
    assert found.difference.p == 1.0
    assert found.difference.low < before.difference.estimate < found.difference.high
    assert found.turned() == compare(alone["weak"], alone["cheat"], dataset=dataset).place_win
    ranks = {row.scorer: row.standing for row in rank(table, dataset=dataset).scorers}
    assert [ranks[name].rank for name in ("weak", "twin", "cheat")] == [1, 2, 3]
    assert (ranks["cheat"].low, ranks["cheat"].high) == (1, 3), "nothing is settled"


def test_no_failure_leaves_one_rate():
    dataset = Dataset(item for i in range(7) for item in family(i))
    rows = family_accuracy(
        scores_of(dataset, {"never": lambda *_: 0.0, "always": lambda *_: None}), dataset
    ).rows
    assert [row.place_win_if_lost for row in rows] == [None, None]


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
    found = compare(sure, guesses, dataset=dataset).place_win
    assert found.families == 20
    for side, table, name in ((found.a, sure, "sure"), (found.b, guesses, "guesses")):
        assert side == pytest.approx(family_accuracy(table, dataset).of(name).place_win.estimate)
        assert side == 0.75
    assert (found.difference.estimate, found.difference.p, found.better) == (0.0, 1.0, None)
    assert (
        compare(scored(dataset, lambda *_: None, "silent"), guesses, dataset=dataset).place_win
        is None
    )


def test_a_family_that_lacks_the_set_of_an_answer_counts_by_its_pairs():
    """Two sets of four are one pair; in rows, where an answer is right nowhere, they do not
    count."""
    dataset = Dataset([*family(0), *family(1)[:2], *family(2)[:1]])
    row = family_accuracy(
        scored(dataset, lambda _, r: float(r.role.value == "chosen")), dataset
    ).of("s")
    assert (row.families, row.incomplete, row.comparisons, row.sets) == (2, 1, 14, 6)
    assert (row.place_win.n, row.row.n, row.chance) == (2, 1, 0.25)


def test_a_family_whose_sets_show_different_answers_counts_where_both_are_shown():
    """A scorer that likes the answer which one set does not show is right in two of four."""
    short = [
        item.model_copy(
            update={"responses": tuple(r for r in item.responses if n != 1 or int(r.id[-1]) != 0)}
        )
        for n, item in enumerate(family(1))
    ]
    dataset = Dataset([*family(0), *short])
    row = family_accuracy(scored(dataset, lambda _, r: -float(r.id[-1])), dataset).of("s")
    assert (row.families, row.incomplete, row.row.estimate) == (2, 1, 0.25)
    assert (row.place_win.estimate, row.comparisons) == (0.5, 22)


def test_answers_are_those_of_one_id_though_their_texts_are_bent_to_the_place():
    sets = []
    for place in range(4):
        answers = tuple(
            Response(
                id=f"a{k}",
                text=f"answer {k} as they say it in place {place}",
                role="chosen" if k == place else "rejected",
                language="de",
                culture=PLACES[k],
                generator="human",
            )
            for k in range(4)
        )
        sets.append(a_set(f"f-{place}", PLACES[place], answers, family="f", prompt=f"? {place}"))
    dataset = Dataset(sets)
    row = family_accuracy(scored(dataset, lambda _, r: float(r.role == "chosen")), dataset).of("s")
    assert (row.families, row.incomplete, row.comparisons) == (1, 0, 12)


def test_a_name_that_tells_all_is_a_gap_between_the_two_wordings():
    named = [item.model_copy(update={"place": "named"}) for i in range(12) for item in family(i)]
    told = [
        item.model_copy(
            update={
                "id": f"{item.id}i",
                "family": f"by cues of {item.family}",
                "place": "implied",
                "wording_of": item.family,
            }
        )
        for item in named[:40]
    ]
    dataset = Dataset([*named, *told])
    table = scored(dataset, lambda s, r: float(r.role == "chosen" and s.place == "named"))
    gap = place_gap(table, dataset)["s"]
    assert (gap.families, gap.a, gap.b, gap.better) == (10, 1.0, 0.5, "a")
    assert gap.difference.estimate == 0.5
    assert place_gap(table, Dataset(named)) == {}
    alone = Dataset(
        item.model_copy(update={"family": f"{item.family}+implied", "wording_of": None})
        if item.place == "implied"
        else item
        for item in dataset
    )
    assert place_gap(table, alone) == {}  # a field says it, and no id


def test_clusters_are_numbered_by_name_whatever_was_read_before():
    names = ["b", "a", "c"]
    first = cluster_of(pl.DataFrame({"item_id": names}))
    pl.Series(["z", "c", "b", "a"]).cast(pl.Categorical)  # numbers of the process so far
    assert cluster_of(pl.DataFrame({"item_id": names})).tolist() == first.tolist() == [1, 0, 2]
