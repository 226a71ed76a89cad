"""How scorers are fed: windows, requests in flight, and what happens when a scorer fails."""

import itertools
from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_scorers import ScoreRequest, ScoreResult, evaluate, evaluate_async
from carb_scorers.blind import blind
from carb_scorers.evaluation import score_all, score_window, windows
from carb_scorers.testing import example_dataset
from fake_scorer import FakeScorer


class Fake(FakeScorer):
    """Scores by length; fails where told."""

    def __init__(
        self, bad: Sequence[int] = (), *, name: str = "fake", comparative: bool = True
    ) -> None:
        super().__init__(name=name, comparative=comparative)
        self.bad = {f"set-{number}" for number in bad}

    def result(self, request: ScoreRequest) -> ScoreResult:
        if request.request_id in self.bad:
            raise RuntimeError("this item is poison")
        return super().result(request)


class Slow(Fake):
    """Answers one request at a time, each when it is let go, as a server does."""

    def __init__(self, bad: Sequence[int] = ()) -> None:
        super().__init__(bad)
        self.spec = self.spec.model_copy(update={"in_flight": 3})
        self.now = self.most = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        assert len(requests) == 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(int(requests[0].request_id[-1], 16) % 5):
                await anyio.lowlevel.checkpoint()
            return await super().score(requests)
        finally:
            self.now -= 1


REQUESTS = [
    blinded.request.model_copy(update={"request_id": item.id})
    for item in example_dataset(40, perturbed=False)
    for blinded in blind(item, seed=0, comparative=True)
]


def test_the_table_has_a_row_for_every_response() -> None:
    dataset = example_dataset(5)
    frame = evaluate(dataset, [Fake(), Fake(name="other", comparative=False)]).frame
    assert frame.height == 2 * 5 * 6
    texts = {r.id: r.text for item in dataset for r in (*item.responses, *item.perturbed)}
    assert all(
        len(texts[row["response_id"]]) == row["score"] for row in frame.iter_rows(named=True)
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_both_event_loops(backend: str) -> None:
    if backend == "trio":
        pytest.importorskip("trio", reason="runs where trio is installed")
    for scorer in (Fake(), Slow()):
        table = anyio.run(
            evaluate_async, example_dataset(9, perturbed=False), [scorer], backend=backend
        )
        assert table.frame["score"].null_count() == 0


def test_a_bad_item_does_not_cost_its_neighbours_their_scores() -> None:
    scorer = Fake(bad=[7, 21])
    results = anyio.run(score_window, scorer, REQUESTS)
    assert [r.request_id for r in results] == [r.request_id for r in REQUESTS]
    failed = {r.request_id: r.error for r in results if r.error is not None}
    assert set(failed) == {"set-7", "set-21"}
    assert all(
        e.kind == "RuntimeError" and e.message == "this item is poison" for e in failed.values()
    )


@given(st.sets(st.integers(0, 39), max_size=6), st.integers(1, 50), st.booleans())
@settings(deadline=None, max_examples=40)
def test_every_request_gets_one_result(bad: set[int], window: int, slow: bool) -> None:
    scorer = Slow(sorted(bad)) if slow else Fake(sorted(bad))
    found: list[ScoreResult] = []

    async def go() -> None:
        await score_all(scorer, REQUESTS, found.extend, window=window)

    anyio.run(go)
    assert sorted(r.request_id for r in found) == sorted(r.request_id for r in REQUESTS)
    failed = {r.request_id for r in found if r.error is not None}
    assert {f"set-{b}" for b in bad} == failed


class Clock:
    """Time that passes only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0.0, 60.0), min_size=1, max_size=300), st.integers(1, 80))
def test_windows_hold_all_work_once_and_grow_only_while_it_is_quick(
    costs: list[float], largest: int
) -> None:
    clock = Clock()
    parts: list[Sequence[float]] = []
    for part in windows(costs, largest=largest, clock=clock):
        parts.append(part)
        clock.now += sum(part)
    assert [cost for part in parts for cost in part] == costs
    assert max(map(len, parts)) <= largest
    assert [*map(len, windows(costs, largest))][:-1] == [largest] * ((len(costs) - 1) // largest), (
        "a given size is kept"
    )
    for before, after in itertools.pairwise(parts):
        assert (
            len(after) <= 4 * len(before)
            if sum(before) <= 5
            else len(after) <= max(1, len(before) // 4)
        )
        assert len(after) <= len(before) or 4 * sum(before) <= 5.1


@pytest.mark.parametrize(("each", "most"), [(0.001, 64), (0.1, 16), (1.0, 4), (3.0, 1), (40.0, 1)])
def test_a_kill_costs_at_most_ten_seconds_of_a_slow_scorer(each: float, most: int) -> None:
    clock = Clock()
    sizes = []
    for part in windows(range(300), clock=clock):
        sizes.append(len(part))
        clock.now += each * len(part)
    assert sizes[:4] == [min(size, most) for size in (1, 4, 16, 64)]
    assert max(sizes) == most
    assert most == 1 or each * most <= 10


def test_requests_in_flight_are_bounded_and_kept_as_they_come() -> None:
    scorer = Slow()
    sizes: list[int] = []

    async def go() -> None:
        await score_all(scorer, REQUESTS, lambda part: sizes.append(len(part)))

    anyio.run(go)
    assert scorer.most == 3
    assert sum(sizes) == 40
    assert max(sizes) <= 3


def test_what_was_scored_is_kept_when_a_mistake_or_ctrl_c_ends_it() -> None:
    class Stops(Slow):
        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error = error

        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            if len(self.calls) >= 20:
                raise self.error
            return await super().score(requests)

    for error in (CarbError("the key is wrong"), KeyboardInterrupt()):
        scorer = Stops(error)
        found: list[ScoreResult] = []

        async def go(scorer: Stops = scorer, found: list[ScoreResult] = found) -> None:
            await score_all(scorer, REQUESTS, found.extend)

        with pytest.raises((CarbError, BaseExceptionGroup, KeyboardInterrupt)) as caught:
            anyio.run(go)
        assert caught.value is error or not isinstance(error, CarbError)
        assert sorted(r.request_id for r in found) == sorted(key for (key,) in scorer.calls)


ROW = {"request_id": "set-0", "scores": {"1": 1.0}}


@pytest.mark.parametrize("answer", [None, [], "x", [None] * 3, [ROW] * 3, 7], ids=repr)
def test_nonsense_becomes_error_rows(answer: object) -> None:
    class Nonsense(Fake):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            return answer

    results = anyio.run(score_window, Nonsense(), REQUESTS[:3])
    assert all(r.error is not None for r in results)
