"""The draw of carb-open: neither words nor what the question shares with an answer give the right one away."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from carb_data.models import BonSet
from carb_data.sources.carb_open import balanced, excess_over_chance
from small_sets import small_set

WORDS = [f"{start}{end}" for start in ("sto", "riv", "clou", "bre") for end in ("ma", "lo", "ri", "tu")]


def drawn(items: list[BonSet], most: int = 1000) -> list[BonSet]:
    units = [[item] for item in items]
    return [item for unit, fits in balanced(units, excess_over_chance(items), most) for item in unit if fits]


def plain_sets(count: int) -> list[BonSet]:
    draw = random.Random(0)
    return [
        small_set(str(n), [f"{a} {b}" for a, b in zip(*[iter(draw.sample(WORDS, 8))] * 2, strict=True)])
        for n in range(count)
    ]


def test_a_word_that_stands_in_right_answers_alone_leaves_hardly_a_set():
    marked = [
        small_set(str(n), [f"{i.chosen.text} indeed", *(r.text for r in i.rejected)])
        for n, i in enumerate(plain_sets(60))
    ]
    ahead = excess_over_chance(marked)
    assert all(words == 0.75 for _, words in ahead.values())
    assert len(drawn(marked)) == 1


@given(st.lists(st.tuples(st.sampled_from([0.75, -0.25, 0.25]), st.sampled_from([0.5, -0.5, 0.0])), max_size=40))
def test_no_attack_is_ever_more_than_a_set_ahead(rows):
    items = [small_set(str(n), ["a", "b", "c", "d"]) for n in range(len(rows))]
    ahead = {item.id: row for item, row in zip(items, rows, strict=True)}
    totals = [0.0, 0.0]
    given_back = []
    for unit, fits in balanced([[item] for item in items], ahead, 30):
        given_back.append(unit[0].id)
        for place in (0, 1) if fits else ():
            totals[place] += ahead[unit[0].id][place]
            assert totals[place] <= 1 or ahead[unit[0].id][place] <= 0
    assert sorted(given_back) == sorted(ahead)


def test_a_family_counts_as_a_whole_and_mirrors_for_nothing():
    items = plain_sets(8)
    ahead = {items[0].id: (0.75, 0.75), items[1].id: (-0.25, -0.25)}
    got = list(balanced([items[:4], items[4:]], ahead, 10))
    assert [fits for _, fits in got] == [True, True]
    assert [fits for _, fits in balanced([[items[0]]] * 4, ahead, 10)] == [True, False, False, False]
