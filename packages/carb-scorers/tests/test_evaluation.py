"""How scorers are fed: windows, requests in flight, and what happens when a scorer fails."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError
from carb_scorers import Progress, ScoreRequest, ScoreResult, ScorerSpec, evaluate, evaluate_async
from carb_scorers.evaluation import score_all, score_window
from carb_scorers.testing import example_dataset, example_requests


class Fake:
    """Scores by length; counts how often each item was asked for; fails where told."""

    def __init__(self, bad: Sequence[int] = (), *, name: str = "fake", comparative: bool = True) -> None:
        self.spec = ScorerSpec(name=name, kind="test", comparative=comparative)
        self.bad = {f"set-{number}" for number in bad}
        self.calls: list[list[str]] = []
        self.closed = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        self.calls.append([r.request_id for r in requests])
        if self.bad & set(self.calls[-1]):
            raise RuntimeError("this item is poison")
        return [
            ScoreResult(request_id=r.request_id, scores={c.id: float(len(c.text)) for c in r.candidates})
            for r in requests
        ]

    async def aclose(self) -> None:
        self.closed += 1


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
            for _ in range(int(requests[0].request_id[-1]) % 5):
                await anyio.lowlevel.checkpoint()
            return await super().score(requests)
        finally:
            self.now -= 1


REQUESTS = [r for r in example_requests(Fake(), 40) if "~" not in r.request_id]


def test_the_table_has_a_row_for_every_response() -> None:
    dataset = example_dataset(5)
    frame = evaluate(dataset, [Fake(), Fake(name="other", comparative=False)]).frame
    assert frame.height == 2 * 5 * 6
    texts = {r.id: r.text for item in dataset for r in (*item.responses, *item.perturbed)}
    assert all(len(texts[row["response_id"]]) == row["score"] for row in frame.iter_rows(named=True))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_both_event_loops(backend: str) -> None:
    if backend == "trio":
        pytest.importorskip("trio", reason="runs where trio is installed")
    for scorer in (Fake(), Slow()):
        table = anyio.run(evaluate_async, example_dataset(9, perturbed=False), [scorer], backend=backend)
        assert table.frame["score"].null_count() == 0


def test_a_bad_item_does_not_cost_its_neighbours_their_scores() -> None:
    scorer = Fake(bad=[7, 21])
    results = anyio.run(score_window, scorer, REQUESTS)
    assert [r.request_id for r in results] == [r.request_id for r in REQUESTS]
    failed = {r.request_id: r.error for r in results if r.error is not None}
    assert set(failed) == {"set-7", "set-21"}
    assert all(e.kind == "RuntimeError" and e.message == "this item is poison" for e in failed.values())


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


@pytest.mark.parametrize("scorer", [Fake(), Slow()], ids=["windows", "in flight"])
def test_a_mistake_while_keeping_results_is_passed_on_as_it_is(scorer: Fake) -> None:
    def refuse(_: Sequence[ScoreResult]) -> None:
        raise CarbError("the disk is full")

    async def go() -> None:
        await score_all(scorer, REQUESTS, refuse, window=8)

    with pytest.raises(CarbError, match="disk is full"):
        anyio.run(go)
    assert len(scorer.calls) < 40


def test_a_cancelled_evaluation_ends() -> None:
    async def go() -> list[ScoreResult]:
        found: list[ScoreResult] = []
        with anyio.CancelScope() as scope:

            def keep(part: Sequence[ScoreResult]) -> None:
                found.extend(part)
                if len(found) > 10:
                    scope.cancel()

            await score_all(Slow(), REQUESTS, keep)
        assert scope.cancelled_caught
        return found

    assert 10 < len(anyio.run(go)) < 40


@pytest.mark.parametrize(
    "answer",
    [None, [], "x", [None] * 3, [{"request_id": "set-0", "scores": {"1": 1.0}}] * 3, 7],
    ids=repr,
)
def test_nonsense_becomes_error_rows(answer: object) -> None:
    class Nonsense(Fake):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            return answer

    results = anyio.run(score_window, Nonsense(), REQUESTS[:3])
    assert all(r.error is not None for r in results)


def test_scores_that_are_no_numbers_are_error_rows() -> None:
    class Nan(Fake):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            return [
                ScoreResult(request_id=r.request_id, scores={c.id: math.nan for c in r.candidates}) for r in requests
            ]

    assert all(r.error is not None for r in anyio.run(score_window, Nan(), REQUESTS[:3]))


def test_progress_counts_items_and_errors() -> None:
    seen: list[Progress] = []
    evaluate(example_dataset(10, perturbed=False), [Fake(bad=[3])], window=4, on_progress=seen.append)
    assert [(p.done, p.errors) for p in seen] == [(4, 1), (8, 1), (10, 1)]
    assert all(p.total == 10 and p.scorer == "fake" for p in seen)


def test_names_are_unique_and_scorers_a_list() -> None:
    with pytest.raises(CarbError, match="Two scorers are named 'fake'"):
        evaluate(example_dataset(1), [Fake(), Fake()])
    with pytest.raises(CarbError, match="must be a list"):
        evaluate(example_dataset(1), "baseline:length")


def test_given_scorers_stay_open() -> None:
    scorer = Fake()
    evaluate(example_dataset(1), [scorer])
    assert scorer.closed == 0


def test_it_can_be_called_where_an_event_loop_runs():
    """As in a notebook, whose cells run inside asyncio."""
    dataset = example_dataset(3)

    async def cell():
        return evaluate(dataset, ["baseline:length"])

    assert asyncio.run(cell()).frame.equals(evaluate(dataset, ["baseline:length"]).frame)


@pytest.mark.parametrize("window", [0, -1])
@pytest.mark.parametrize("scorer", [Fake, Slow])
def test_a_window_holds_at_least_one_request(window: int, scorer: type[Fake]) -> None:
    with pytest.raises(CarbError, match=f"window .*at least 1, got {window}"):
        evaluate(example_dataset(), [scorer()], window=window)


@pytest.mark.parametrize("wrong", [5, None, Fake])
def test_what_is_no_scorer_is_named(wrong: Any) -> None:
    with pytest.raises(CarbError, match=rf"{type(wrong).__name__}.*baseline:length"):
        evaluate(example_dataset(), [wrong])
