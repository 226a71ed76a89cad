"""Which tokens are computed together: every row once, within bounds, the same whatever the order."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_scorers.models.transformers.batching import (
    Cost,
    Pack,
    Row,
    order,
    pack_group,
    plan_passes,
    shared_prefix,
    token_budget_batches,
)

lengths = st.lists(st.integers(1, 50), max_size=40)


@settings(deadline=None)
@given(lengths, st.integers(1, 200))
def test_batches_hold_every_row_once_within_the_budget(sizes: list[int], budget: int) -> None:
    batches = token_budget_batches(sizes, budget)
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= budget


def test_batches_start_with_the_longest() -> None:
    assert token_budget_batches([1, 5, 3, 4], 8) == [[1], [3, 2], [0]]


def test_budget_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        token_budget_batches([1], 0)


def row(tokens: tuple[int, ...]) -> Row:
    return Row(tokens, (len(tokens) - 1,))


tokens = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)
groups = st.lists(tokens, min_size=1, max_size=6, unique=True).map(lambda rows: [row(r) for r in rows])
costs = st.builds(
    Cost,
    attention=st.sampled_from([0.0, 0.01, 0.2]),
    overhead=st.sampled_from([0.0, 3.0, 30.0]),
    split=st.booleans(),
)


@pytest.mark.parametrize(("tokens", "reads"), [((), (0,)), ((1, 2), ()), ((1, 2), (2,)), ((1, 2), (-1,))])
def test_rows_without_tokens_or_reads_within_them_are_refused(tokens: tuple[int, ...], reads: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a row needs tokens"):
        Row(tokens, reads)


@settings(deadline=None)
@given(groups, costs, st.integers(1, 60), st.randoms(use_true_random=False))
def test_packs_hold_every_row_once_in_any_order(rows: list[Row], cost: Cost, longest: int, draw: object) -> None:
    packs = pack_group(rows, cost=cost, longest=longest)
    assert sorted((r for p in packs for r in p.rows), key=order) == sorted(rows, key=order)
    assert all(len(pack.rows) == 1 or pack.length <= longest for pack in packs)
    shuffled = list(rows)
    draw.shuffle(shuffled)
    assert pack_group(shuffled, cost=cost, longest=longest) == packs


@settings(deadline=None)
@given(groups, costs)
def test_packs_cost_least(rows: list[Row], cost: Cost) -> None:
    """Against all ways to cut the sorted rows into runs."""
    ordered = sorted(rows, key=order)

    def run_cost(run: list[Row]) -> float:
        first = len(run[0].tokens)
        prefix = min((shared_prefix(a.tokens, b.tokens) for a, b in itertools.pairwise(run)), default=first)
        return cost.of(prefix, [len(r.tokens) for r in run])

    def cut(places: tuple[int, ...]) -> list[list[Row]]:
        return [ordered[a:b] for a, b in itertools.pairwise((0, *places, len(ordered)))]

    inner = range(1, len(ordered))
    ways = [cut(places) for n in range(len(ordered)) for places in itertools.combinations(inner, n)]
    best = min(sum(map(run_cost, way)) for way in ways)
    packs = pack_group(rows, cost=cost, longest=10**6)
    assert sum(cost.of(p.prefix, [len(r.tokens) for r in p.rows]) for p in packs) == pytest.approx(best)


@settings(deadline=None)
@given(groups)
def test_a_token_of_a_pack_sees_exactly_its_own_row(rows: list[Row]) -> None:
    """Reading off what each tail may see gives the row back, in order, at its own positions."""
    for pack in pack_group(rows, cost=Cost(attention=0.0, overhead=100.0), longest=10**6):
        ids, positions, segments = pack.layout()
        assert len(ids) == len(positions) == len(segments) == pack.length
        reads = iter(pack.places())
        for number, packed in enumerate(pack.rows, 1):
            seen = [i for i in range(pack.length) if segments[i] in (0, number)]
            assert tuple(ids[i] for i in seen) == packed.tokens
            assert [positions[i] for i in seen] == list(range(len(packed.tokens)))
            assert [seen[place] for place in packed.reads] == [next(reads) for _ in packed.reads]


def test_a_row_that_begins_another_shares_all_of_it() -> None:
    short, long = row((1, 2)), row((1, 2, 3))
    (pack,) = pack_group([long, short], cost=Cost(), longest=100)
    assert (pack.prefix, pack.length, pack.places()) == (2, 3, [1, 2])


def test_items_share_passes_only_when_merged() -> None:
    items = [[row((i, 1)), row((i, 2))] for i in range(3)]

    def alone(rows: list[Row]) -> list[Pack]:
        return [Pack((r,), len(r.tokens)) for r in rows]

    def shape(*, merge: bool, together: bool) -> list[list[int]]:
        passes = plan_passes(items, alone, budget=100, merge=merge, together=together)
        return [[item for item, _ in one] for one in passes]

    assert shape(merge=True, together=False) == [[0, 0, 1, 1, 2, 2]]
    assert shape(merge=False, together=True) == [[0, 0], [1, 1], [2, 2]]
    assert shape(merge=False, together=False) == [[0], [0], [1], [1], [2], [2]]


def test_costs() -> None:
    """By counting pairs: a tail of 2 behind a prefix of 3 looks at 2 x 5, the prefix at half of 3 x 3."""
    assert Cost(attention=1.0, overhead=0.0).of(4, [4]) == 4 + 16
    assert Cost(attention=1.0, overhead=0.0).of(3, [5, 5]) == 7 + 2 * 49
    assert Cost(attention=1.0, overhead=0.0, split=True).of(3, [5, 5]) == 7 + 2 * (4.5 + 10 + 10)
