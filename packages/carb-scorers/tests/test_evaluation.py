"""How scorers are fed: windows, requests in flight, and what happens when a scorer fails."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable
from carb_scorers import ScoreRequest, ScoreResult, evaluate, evaluate_async
from carb_scorers.blind import blind
from carb_scorers.evaluation import score_all, score_window, windows
from carb_scorers.run import run
from carb_scorers.scorer import before_call, failed
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


def test_fewer_results_than_requests_give_no_score() -> None:
    """Whose score is missing cannot be known: none of the window counts."""

    class Short(Fake):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            return (await super().score(requests))[1:]

    errors = [result.error for result in anyio.run(score_window, Short(), REQUESTS[:3])]
    assert [error and error.kind for error in errors] == ["contract"] * 3
    assert all(error and "2 results for 3 requests" in error.message for error in errors)


class NotAsynchronous(Fake):
    def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:  # type: ignore[override]
        return [self.result(request) for request in requests]


class OutOfMemory(Fake):
    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        raise MemoryError("CUDA out of memory")


class NotANumber(Fake):
    def result(self, request: ScoreRequest) -> ScoreResult:
        scores = {candidate.id: float("nan") for candidate in request.candidates}
        return ScoreResult(request_id=request.request_id, scores=scores)


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        (NotAsynchronous(), r"'fake'.*async def score"),
        (OutOfMemory(), r"'fake'.*12 of 12.*MemoryError: CUDA out of memory"),
        (NotANumber(), r"'fake'.*12 of 12.*must be a finite number"),
    ],
    ids=["not async", "out of memory", "NaN"],
)
def test_a_scorer_that_scores_nothing_ends_it_with_the_reason(scorer: Fake, said: str) -> None:
    """It gave a table without scores, and an accuracy of None without a word."""
    with pytest.raises(CarbError, match=f"(?s){said}"):
        evaluate(example_dataset(4), [scorer])


def test_what_could_not_be_scored_is_reported_with_its_reason() -> None:
    data = example_dataset(5, perturbed=False)

    class Poisoned(Fake):
        def result(self, request: ScoreRequest) -> ScoreResult:
            if request.prompt == data[3].prompt:
                raise RuntimeError("this item is poison")
            return FakeScorer.result(self, request)

    with pytest.warns(UserWarning, match="'fake'.*1 of 5.*RuntimeError: this item is poison"):
        table = evaluate(data, [Poisoned()])
    with pytest.warns(UserWarning, match="'broken'.*5 of 5.*MemoryError"):
        both = evaluate(data, [Fake(), OutOfMemory(name="broken")])
    assert (table.frame["score"].null_count(), both.frame["score"].null_count()) == (4, 20)


def test_a_data_set_may_be_named_or_a_list_and_a_scorer_may_stand_alone(tmp_path: Path) -> None:
    data = example_dataset(3)
    data.save(tmp_path / "data.jsonl")
    whole = evaluate(data, ["baseline:length"])
    for same in (list(data), str(tmp_path / "data.jsonl"), tmp_path / "data.jsonl"):
        assert evaluate(same, "baseline:length").frame.equals(whole.frame)
    for wrong, said in ((["a set"], "BonSet.*str"), (7, "int"), ("no-such-data", "no-such-data")):
        with pytest.raises(CarbError, match=said):
            evaluate(wrong, ["baseline:length"])
    for wrong in (7, None, [None]):
        with pytest.raises(CarbError, match="no scorer"):
            evaluate(data, wrong)


KILLED = """
import os, signal, sys
from pathlib import Path
from carb_scorers import ScoreResult, ScorerSpec, evaluate

folder, left = Path(sys.argv[1]), int(sys.argv[2])

class Lengths:
    spec = ScorerSpec(name="lengths", kind="rule", revision="1", in_flight=sys.argv[3] or None)

    async def score(self, requests):
        global left
        for request in requests:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            with open(folder / "asked", "a") as file:
                print(request.request_id, file=file)
        return [
            ScoreResult(request_id=r.request_id, scores={c.id: len(c.text) for c in r.candidates})
            for r in requests
        ]

    async def aclose(self):
        pass

table = evaluate(folder / "data.jsonl", Lengths(), folder=folder / "kept")
table.save(folder / "scores.parquet")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="only where a process can be killed so")
@pytest.mark.parametrize(("in_flight", "kept"), [("", 64), ("1", 100)], ids=["windows", "one each"])
def test_a_killed_process_goes_on_from_its_folder(
    tmp_path: Path, in_flight: str, kept: int
) -> None:
    """Nothing that was kept is asked again, and the table is that of a process that lived."""
    data = example_dataset(200, perturbed=False)
    data.save(tmp_path / "data.jsonl")
    asked = tmp_path / "asked"

    def call(most: int) -> int:
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(most), in_flight]
        return subprocess.run(command, timeout=120, check=False).returncode

    assert call(100) == -signal.SIGKILL
    first = asked.read_text().split()
    asked.unlink()
    assert call(1000) == 0
    then = asked.read_text().split()
    assert (len(first), len(then)) == (100, 200 - kept)
    assert not {*first[:kept]} & {*then}
    whole = evaluate(data, FakeScorer(name="lengths"))
    assert ScoreTable.load(tmp_path / "scores.parquet") == whole


def test_a_folder_is_kept_for_what_decides_a_score(tmp_path: Path) -> None:
    data = example_dataset(6, perturbed=False)
    first = FakeScorer(comparative=False)
    table = evaluate(data, first, folder=tmp_path)
    again = FakeScorer(comparative=False)
    assert evaluate(data, again, folder=str(tmp_path)) == table
    assert anyio.run(partial(evaluate_async, data, again, folder=tmp_path)) == table
    assert (len(first.requests), len(again.requests)) == (6, 0)
    changed = FakeScorer(comparative=False, revision="2")
    for sets, scorer, seed, said in (
        (example_dataset(5, perturbed=False), again, 0, "another data set"),
        (data, again, 1, "another seed"),
        (data, changed, 0, "another scorer"),
        (data, FakeScorer(revision=None), 0, "'fake'.*revision"),
    ):
        with pytest.raises(CarbError, match=said):
            evaluate(sets, scorer, seed=seed, folder=tmp_path)
    assert not again.requests
    assert not changed.requests


def test_a_run_and_a_call_from_python_share_a_folder(tmp_path: Path) -> None:
    """``carb report`` needs a finished run: the same scorers in the command end one at once."""
    data = example_dataset(6, perturbed=False)
    table = evaluate(data, FakeScorer(), folder=tmp_path)
    later = FakeScorer()
    anyio.run(run, data, [later], tmp_path)
    assert not later.requests
    assert ScoreTable.load(tmp_path / "scores.parquet").with_items(data) == table


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_scores_before_a_server_is_gone_are_not_lost(tmp_path: Path, in_memory: bool) -> None:
    data = example_dataset(80, perturbed=False)

    class Dies(FakeScorer):
        def result(self, request: ScoreRequest) -> ScoreResult:
            if len(self.calls) > 40:
                return failed(request, "connection", "refused")
            return super().result(request)

    dies = Dies(in_flight=1)
    if in_memory:
        with pytest.warns(UserWarning, match="'fake'.*40 of 80.*connection.*refused"):
            table = evaluate(data, dies)
        assert table.frame["score"].null_count() == 40 * 4
    else:
        with pytest.raises(CarbError, match="in a row"):
            evaluate(data, dies, folder=tmp_path)
        revived = FakeScorer(in_flight=1)
        assert evaluate(data, revived, folder=tmp_path) == evaluate(data, FakeScorer())
        assert len(revived.requests) == 40
    assert len(dies.requests) < 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where a process can fork")
def test_a_forked_process_is_refused_in_a_sentence_where_it_would_hang() -> None:
    code = """
import os, sys
from carb_data import CarbError
from carb_scorers import evaluate
from carb_scorers.testing import example_dataset
evaluate(example_dataset(2), ["baseline:length"])
child = os.fork()
if child == 0:
    try:
        evaluate(example_dataset(2), ["baseline:length"])
    except CarbError as error:
        os._exit(3 if "spawn" in str(error) else 4)
    os._exit(5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 3


def test_a_finished_run_counts_no_later_call(tmp_path: Path) -> None:
    """A caller's next request in the same task would count as one that this run had lost."""
    data = example_dataset(2, perturbed=False)

    async def go() -> None:
        await evaluate_async(data, "baseline:length", folder=tmp_path)
        before_call.get()()

    anyio.run(go)
    assert [file.stat().st_size for file in tmp_path.rglob("*.asked")] in ([], [0])
