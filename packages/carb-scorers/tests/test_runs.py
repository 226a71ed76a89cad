"""Runs: the same call goes on after any interruption, and ends with the same table."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import polars as pl
import pytest
from filelock import FileLock

from carb_data import BonSet, CarbError, Dataset, Kind, cultures
from carb_data.table import COLUMNS
from carb_scorers import Scorer, ScoreRequest, ScoreResult, Usage, evaluate
from carb_scorers.blind import blind
from carb_scorers.evaluation import Progress
from carb_scorers.run import RunRecord, run
from carb_scorers.run.record import cost
from carb_scorers.run.score_journal import STOP_AFTER
from carb_scorers.scorer import before_call, failed
from carb_scorers.testing import example_dataset
from fake_scorer import FakeScorer

DATASET = example_dataset(10)
PLAIN = DATASET.without_perturbed()


class Counting(FakeScorer):
    """Scores by length, says what that cost, and fails where told."""

    def __init__(
        self, name: str = "counting", *, errors: Sequence[str] = (), stop_after: int | None = None
    ) -> None:
        super().__init__(name=name, parameters={"price_in": 2.0, "price_out": 10.0})
        self.errors = set(errors)
        self.stop_after = stop_after

    @property
    def asked(self) -> list[str]:
        return [request.request_id for request in self.requests]

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise CarbError("the server is gone")
        for _ in requests:
            before_call.get()()
        return await super().score(requests)

    def result(self, request: ScoreRequest) -> ScoreResult:
        usage = Usage(input_tokens=100, output_tokens=10, requests=1)
        if request.request_id in self.errors:
            return failed(request, "timeout", "no answer", usage)
        return super().result(request).model_copy(update={"usage": usage})


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that every table has, as plain texts and numbers."""
    return frame.select(*COLUMNS).cast(dict(COLUMNS))


def go(
    out: Path,
    *scorers: Scorer | str,
    dataset: Dataset = DATASET,
    window: int = 4,
    **options: object,
) -> RunRecord:
    async def score() -> RunRecord:
        return await run(dataset, scorers, out, window=window, **options)

    return anyio.run(score)


def table(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "scores.parquet")


def test_a_run_says_everything_needed_to_repeat_it(tmp_path: Path) -> None:
    record = go(
        tmp_path,
        Counting(),
        "baseline:random?seed=3",
        names=["example"],
        seed=7,
        command=["carb", "run"],
    )
    assert record == RunRecord.read(tmp_path)
    assert record.dataset.fingerprint == DATASET.fingerprint
    assert (record.dataset.sets, record.dataset.responses) == (10, 60)
    assert (record.seed, record.window, record.command) == (7, 4, ("carb", "run"))
    assert [s.spec.name for s in record.scorers] == ["counting", "baseline:random?seed=3"]
    assert record.versions["carb-scorers"]
    whole = evaluate(DATASET, [Counting(), "baseline:random?seed=3"], seed=7)
    assert plain(table(tmp_path)).equals(plain(whole.frame))
    assert Dataset.load(tmp_path / "dataset.parquet") == DATASET


@pytest.mark.parametrize("stop", [0, 1, 4, 17, 26])
def test_a_mistake_in_the_middle_is_mended_and_the_run_goes_on(tmp_path: Path, stop: int) -> None:
    first, second = Counting(stop_after=stop), Counting()
    with pytest.raises(CarbError, match="server is gone"):
        go(tmp_path, first)
    assert not (tmp_path / "run.json").exists()
    go(tmp_path, second)
    assert sorted(first.asked + second.asked) == sorted(set(first.asked) | set(second.asked))
    assert len(first.asked) + len(second.asked) == 30
    assert plain(table(tmp_path)).equals(plain(evaluate(DATASET, [Counting()]).frame))


def test_a_resumed_run_has_the_windows_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """Scores may differ in their last bits between windows, so these must be the same."""

    class Windows(Counting):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            self.windows = [*getattr(self, "windows", []), tuple(r.request_id for r in requests)]
            return await super().score(requests)

    whole = Windows()
    go(tmp_path / "whole", whole)
    first, second = Windows(stop_after=11), Windows()
    with pytest.raises(CarbError):
        go(tmp_path / "parts", first)
    (journal,) = (tmp_path / "parts" / "journal").glob("*.jsonl")
    journal.write_bytes(journal.read_bytes()[:-40])  # the last window was torn while it was written
    go(tmp_path / "parts", second)
    assert [*first.windows[:2], *second.windows] == whole.windows


def test_one_scorer_that_fails_does_not_cost_the_others(tmp_path: Path) -> None:
    after = Counting("after")
    with pytest.raises(CarbError) as caught:
        go(
            tmp_path,
            Counting("before"),
            Counting("bad", stop_after=6),
            after,
            "judge:/no/such/folder",
        )
    assert "2 of 4 scorers stopped" in str(caught.value)
    assert "bad: the server is gone" in str(caught.value)
    assert "judge:/no/such/folder" in str(caught.value)
    assert f"2 are kept in {tmp_path}" in str(caught.value)
    with pytest.raises(CarbError) as caught:
        go(tmp_path / "none", Counting("bad", stop_after=6), "judge:/no/such/folder")
    assert str(tmp_path) not in str(caught.value)
    assert len(after.asked) == 30
    again = [Counting("before"), Counting("bad"), Counting("after")]
    go(tmp_path, *again)
    assert [len(s.asked) for s in again] == [0, 22, 0]
    assert set(table(tmp_path)["scorer"]) == {"before", "bad", "after"}


def test_a_scorer_that_raises_gives_error_rows(tmp_path: Path) -> None:
    class Raises(Counting):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            raise RuntimeError("a bug")

    record = go(tmp_path, Raises("bug"), Counting())
    assert [(s.errors, s.items) for s in record.scorers] == [(30, 30), (0, 30)]
    rows = [json.loads(line) for line in (tmp_path / "errors.jsonl").read_text().splitlines()]
    assert len(rows) == 30
    assert rows[0] == {
        "scorer": "bug",
        "item_id": "set-0",
        "response_id": None,
        "kind": "RuntimeError",
        "message": "a bug",
    }
    assert table(tmp_path).filter(pl.col("scorer") == "bug")["score"].null_count() == 60


def test_errors_are_kept_until_they_are_to_be_retried(tmp_path: Path) -> None:
    bad = [
        next(blind(DATASET[number], seed=0, comparative=True)).request.request_id
        for number in (2, 5)
    ]
    record = go(tmp_path, Counting(errors=bad))
    assert record.scorers[0].errors == 2
    again = Counting()
    assert go(tmp_path, again).scorers[0].errors == 2
    assert again.asked == []
    retried = Counting(errors=bad[1:])
    assert go(tmp_path, retried, retry_errors=True).scorers[0].errors == 1
    assert retried.asked == bad
    last = go(tmp_path, Counting(), retry_errors=True).scorers[0]
    assert last.errors == 0
    assert last.usage.requests == 30 + 2 + 1
    assert plain(table(tmp_path)).equals(plain(evaluate(DATASET, [Counting()]).frame))


def test_calls_that_a_kill_loses_are_recorded(tmp_path: Path) -> None:
    """What was asked and not answered was paid for, and stood nowhere."""

    class Killed(Counting):
        def result(self, request: ScoreRequest) -> ScoreResult:
            if len(self.asked) > 8:
                raise KeyboardInterrupt
            return super().result(request)

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, Killed())
    scorer = go(tmp_path, Counting()).scorers[0]
    assert scorer.lost == 4
    assert scorer.usage.requests == 30
    assert go(tmp_path, Counting()).scorers[0].lost == 4
    assert go(tmp_path, Counting(), fresh=True).scorers[0].lost == 0


def test_a_server_that_dies_near_the_end_leaves_no_lasting_errors(tmp_path: Path) -> None:
    """Fewer failures than stop a run were kept as results, and never asked again."""
    many = example_dataset(2 * STOP_AFTER, perturbed=False)

    class Dies(Counting):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            if len(self.asked) >= 2 * STOP_AFTER - 8:
                return [failed(r, "connection", "refused") for r in requests]
            return await super().score(requests)

    record = go(tmp_path, Dies(), dataset=many).scorers[0]
    assert (record.errors, record.unanswered) == (8, 8)
    again = Counting()
    record = go(tmp_path, again, dataset=many).scorers[0]
    assert (record.errors, record.unanswered, len(again.asked)) == (0, 0, 8)


def test_cost_is_tokens_times_price(tmp_path: Path) -> None:
    scorer = go(tmp_path, Counting()).scorers[0]
    assert scorer.usage == Usage(input_tokens=3000, output_tokens=300, requests=30)
    assert scorer.cost == pytest.approx((3000 * 2.0 + 300 * 10.0) / 1e6)
    assert cost(FakeScorer().spec, Usage(input_tokens=5)) is None


@pytest.mark.parametrize(
    ("change", "revision", "said"),
    [
        ({"dataset": example_dataset(9)}, "1", "(another data set|10 sets, .* 9 .*--limit)"),
        ({"seed": 1}, "1", "another seed"),
        ({}, "r", "another scorer"),
    ],
)
def test_a_changed_run_is_refused_unless_fresh(
    tmp_path: Path, change: dict[str, object], revision: str, said: str
) -> None:
    go(tmp_path, Counting())
    scorer = Counting()
    scorer.spec = scorer.spec.model_copy(update={"revision": revision})
    for told_by in ("the record", "the journal"):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
        with pytest.raises(CarbError, match=f"{tmp_path} holds results of {said}.*--fresh"):
            go(tmp_path, scorer, **change)
        assert {path: path.read_bytes() for path in before} == before, told_by
        (tmp_path / "run.json").unlink(missing_ok=True)
    assert scorer.asked == []
    go(tmp_path, scorer, fresh=True, **change)
    assert scorer.asked


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (DATASET, PLAIN, "with their perturbed texts; to resume them give --perturbed"),
        (PLAIN, DATASET, "without their perturbed texts; to resume them leave out --perturbed"),
    ],
)
def test_only_perturbed_texts_differ(
    tmp_path: Path, first: Dataset, then: Dataset, said: str
) -> None:
    go(tmp_path, Counting(), dataset=first)
    with pytest.raises(CarbError, match=said):
        go(tmp_path, Counting(), dataset=then)
    (tmp_path / "run.json").unlink()
    with pytest.raises(CarbError, match="--perturbed"):
        go(tmp_path, Counting(), dataset=then)


def test_a_folder_keeps_the_scorers_of_earlier_runs(tmp_path: Path) -> None:
    counting = Counting()
    go(tmp_path, counting, Counting("other"), seed=3)
    whole = table(tmp_path)
    record = go(tmp_path, "baseline:length", seed=3)
    assert [scorer.spec.name for scorer in record.scorers] == [
        "counting",
        "other",
        "baseline:length",
    ]
    assert table(tmp_path).filter(pl.col("scorer") != "baseline:length").equals(whole)
    again = go(tmp_path, counting, seed=3)
    assert sorted(scorer.spec.name for scorer in again.scorers) == [
        "baseline:length",
        "counting",
        "other",
    ]
    assert table(tmp_path).height == 3 * whole.height // 2
    assert len(counting.asked) == len(set(counting.asked)), "nothing was asked twice"


def test_a_changed_version_is_refused_unless_fresh(
    tmp_path: Path, kind: Callable[..., None]
) -> None:
    def opener(name: str, *_: object) -> Scorer:
        scorer = Counting(name)
        scorer.spec = scorer.spec.model_copy(update={"kind": "versioned"})
        return scorer

    kind("versioned", opener)
    go(tmp_path / "run", "versioned:x")
    kind("versioned", opener, version=2)
    with pytest.raises(CarbError, match="another version of the scorer's package"):
        go(tmp_path / "run", "versioned:x")
    go(tmp_path / "run", "versioned:x", fresh=True)


class Failing(Counting):
    """Fails every request, until it is told not to."""

    broken = True

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        if self.broken:
            return [failed(r, "http", "404: an HTML login page") for r in requests]
        return list(await super().score(requests))


@pytest.mark.parametrize("sets", [4, 2 * STOP_AFTER])
def test_a_server_that_never_answers_failed_on_every_set_and_is_asked_again(
    tmp_path: Path, sets: int
) -> None:
    many = example_dataset(sets, perturbed=False)
    record = go(tmp_path, Failing("silent"), dataset=many)
    assert (record.scorers[0].scored, record.scorers[0].errors) == (0, sets)
    assert "login page" in (tmp_path / "errors.jsonl").read_text(encoding="utf-8")
    healthy = Counting("silent")
    assert go(tmp_path, healthy, dataset=many).scorers[0].errors == 0
    assert len(healthy.asked) == sets


def test_a_server_that_dies_in_the_middle_stops_the_run_and_its_errors_are_not_kept(
    tmp_path: Path,
) -> None:
    """It filled the rest with permanent error rows, and the run ended with 0."""
    many = example_dataset(3 * STOP_AFTER, perturbed=False)
    scorer = Failing("dies")

    async def score(requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        scorer.broken = len(scorer.asked) >= STOP_AFTER
        return await Failing.score(scorer, requests)

    stopping = Counting("dies")
    stopping.score = score  # type: ignore[method-assign]  # of this one alone
    with pytest.raises(CarbError, match="in a row"):
        go(tmp_path, stopping, dataset=many)
    again = Counting("dies")
    record = go(tmp_path, again, dataset=many)
    assert record.scorers[0].errors == 0
    assert len(again.asked) == 2 * STOP_AFTER


class Served(FakeScorer):
    """Is answered by a server that gives its model's name, and dies after some requests."""

    def __init__(self, model: str = "one 1f", *, lasts: int = 1000) -> None:
        super().__init__(name="served")
        self.model, self.lasts = model, lasts

    def result(self, request: ScoreRequest) -> ScoreResult:
        if len(self.calls) > self.lasts:
            return failed(request, "connection", "refused")
        usage = Usage(requests=1, served=(self.model,))
        return super().result(request).model_copy(update={"usage": usage})


def test_another_model_behind_an_address_stops_the_run(tmp_path: Path) -> None:
    """``run.json`` alone had both names, and the table one number for two models."""
    assert go(tmp_path, Served(lasts=3), window=1).scorers[0].errors > 0
    with pytest.raises(CarbError, match=r"\btwo\b.*\bone\b.*--fresh"):
        go(tmp_path, Served("two 1f"), window=1)
    record = go(tmp_path, Served("one 2f"), window=1)  # another machine of the same model
    assert record.scorers[0].errors == 0


@pytest.fixture
def renamed() -> Iterator[Callable[[], None]]:
    """Gives every culture of the sets another name, until the test ends."""
    before = [cultures[name] for name in {item.culture for item in DATASET}]

    def rename() -> None:
        for culture in before:
            cultures.add(culture.model_copy(update={"name": f"people of {culture.id}"}))

    yield rename
    cultures.add(*before)


def test_another_name_of_a_place_is_another_run_for_those_who_are_told(
    tmp_path: Path, renamed: Callable[[], None]
) -> None:
    told, blind_to_it = (
        lambda: FakeScorer(name="told", parameters={"tell": "culture"}),
        lambda: FakeScorer(name="other"),
    )
    go(tmp_path / "told", told())
    go(tmp_path / "other", blind_to_it())
    renamed()
    with pytest.raises(CarbError, match=r"place names for 'told'.*--fresh"):
        go(tmp_path / "told", told())
    again = blind_to_it()
    go(tmp_path / "other", again)
    assert again.calls == []


def test_a_clock_in_a_template_is_the_reason_for_another_scorer(tmp_path: Path) -> None:
    def at(revision: str) -> Scorer:
        scorer = Counting()
        scorer.spec = scorer.spec.model_copy(update={"revision": revision})
        return scorer

    go(tmp_path / "clock", at("a+clock:2026-11-27"))
    with pytest.raises(CarbError, match=r"another scorer.*2026-11-28.*chat_template_kwargs="):
        go(tmp_path / "clock", at("a+clock:2026-11-28"))
    go(tmp_path / "plain", at("a"))
    with pytest.raises(CarbError, match="another scorer") as caught:
        go(tmp_path / "plain", at("b"))
    assert "chat_template" not in str(caught.value)


def test_a_second_process_is_refused_and_may_come_later(tmp_path: Path) -> None:
    other = FileLock(tmp_path / ".lock")
    with other, pytest.raises(CarbError, match=f"Another process is writing into {tmp_path}"):
        go(tmp_path, Counting())
    assert go(tmp_path, Counting()).scorers[0].errors == 0


def test_fresh_discards_all_files_before_anything_is_asked(tmp_path: Path) -> None:
    """A run that stops after --fresh leaves no table of the run before."""
    go(tmp_path, Counting())
    (tmp_path / ".partial-x").write_text("torn")
    with pytest.raises(CarbError, match="server is gone"):
        go(tmp_path, Counting(stop_after=0), fresh=True)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [".lock"]


def test_results_that_cannot_be_discarded_are_refused_with_their_folder(tmp_path: Path) -> None:
    (tmp_path / "scores.parquet").mkdir()
    scorer = Counting()
    with pytest.raises(CarbError, match=f"Cannot discard the results in {tmp_path}"):
        go(tmp_path, scorer, fresh=True)
    assert scorer.asked == []


def test_a_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scorer = Counting()
    with pytest.raises(CarbError, match=r"Cannot write into .*file.* Choose another folder"):
        go(tmp_path / "file" / "run", scorer)
    assert scorer.asked == []


def test_other_sets_with_other_perturbed_texts_are_another_data_set(tmp_path: Path) -> None:
    go(tmp_path, Counting(), dataset=PLAIN)
    with pytest.raises(CarbError, match="another data set") as caught:
        go(tmp_path, Counting(), dataset=example_dataset(9))
    assert "--perturbed" not in str(caught.value)


def test_a_mistake_in_a_baseline_is_found_before_any_scorer_works(tmp_path: Path) -> None:
    scorer = Counting()
    with pytest.raises(CarbError, match="nonsense"):
        go(tmp_path, scorer, "baseline:nonsense")
    assert scorer.asked == []


def test_the_machine_is_recorded(tmp_path: Path) -> None:
    machine = go(tmp_path, Counting()).machine
    assert (machine.system, machine.cores) == (platform.system(), os.cpu_count())


def test_retries_are_not_lost_calls(tmp_path: Path) -> None:
    bad = [next(blind(DATASET[2], seed=0, comparative=True)).request.request_id]
    go(tmp_path, Counting(errors=bad))
    assert go(tmp_path, Counting(errors=bad), retry_errors=True).scorers[0].lost == 0
    (count,) = (tmp_path / "journal").glob("*.asked")
    count.write_bytes(b"...")  # fewer than there are results
    assert go(tmp_path, Counting()).scorers[0].lost == 0
    count.unlink()  # as in a folder of an earlier version
    assert go(tmp_path, Counting()).scorers[0].lost == 0


def test_a_count_that_cannot_be_written_stops_before_the_first_request(tmp_path: Path) -> None:
    go(tmp_path, Counting())
    (count,) = (tmp_path / "journal").glob("*.asked")
    count.unlink()
    count.mkdir()
    for path in (tmp_path / "journal").glob("*.jsonl"):
        path.unlink()
    scorer = Counting()
    with pytest.raises(CarbError, match=count.name):
        go(tmp_path, scorer)
    assert scorer.asked == []


def test_progress_counts_what_lacks_a_score(tmp_path: Path) -> None:
    bad = [next(blind(DATASET[2], seed=0, comparative=True)).request.request_id]
    reports: list[Progress] = []
    go(tmp_path, Counting(errors=bad), on_progress=reports.append)
    assert (reports[-1].done, reports[-1].total, reports[-1].errors) == (30, 30, 1)
    assert reports[-1].tokens == 30 * 110
    go(tmp_path, Counting(), on_progress=reports.append)
    assert (reports[-1].done, reports[-1].errors, reports[-1].tokens) == (30, 1, 0)


def test_a_stopped_scorer_reports_its_last_error(tmp_path: Path) -> None:
    class Gone(Counting):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            if self.asked:
                return [failed(r, "http", f"502 of {r.request_id}") for r in requests]
            return await super().score(requests)

    many = example_dataset(2 * STOP_AFTER, perturbed=False)
    last = next(blind(many[STOP_AFTER + 3], seed=0, comparative=True)).request.request_id
    with pytest.raises(CarbError, match=f"{STOP_AFTER} requests in a row.*http: 502 of {last}"):
        go(tmp_path, Gone(), dataset=many)


def files_of(out: Path) -> dict[str, tuple[bytes, int]]:
    """Content and identity of each file of results."""
    names = ("scores.parquet", "errors.jsonl", "dataset.parquet")
    paths = [out / name for name in names] + [*(out / "journal").glob("*.jsonl")]
    return {path.name: (path.read_bytes(), path.stat().st_ino) for path in paths}


def test_a_finished_run_called_again_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made every request and every file again, for two minutes of a million sets."""
    first = go(tmp_path, Counting(), "baseline:length", command=["first"])
    before = files_of(tmp_path)
    monkeypatch.setattr("carb_scorers.run.execute.blind", None)
    again = go(tmp_path, Counting(), "baseline:length", command=["again"])
    assert files_of(tmp_path) == before
    assert again.scorers == first.scorers
    assert again == RunRecord.read(tmp_path)
    assert (again.command, again.contents) == (("again",), first.contents)


def cut_journal(out: Path) -> None:
    (path,) = (out / "journal").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])


def edit_record(out: Path, old: str, new: str) -> None:
    text = (out / "run.json").read_text(encoding="utf-8")
    assert old in text
    (out / "run.json").write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    "damage",
    [
        lambda out: (out / "scores.parquet").write_bytes(b"PAR1"),
        lambda out: (out / "errors.jsonl").unlink(),
        lambda out: (out / "dataset.parquet").write_bytes(b""),
        lambda out: edit_record(out, '"errors": 2', '"errors": 0'),
        lambda out: edit_record(out, '"carb-scorers": "', '"carb-scorers": "0.'),
        lambda out: edit_record(out, '"contents": "', '"contents": "0'),
        cut_journal,
    ],
    ids=["table", "errors", "sets", "counts", "version", "contents", "journal"],
)
def test_what_is_kept_of_a_finished_run_is_believed_only_as_it_was_written(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    bad = [one.request_id for one in blind(DATASET[2], seed=0, comparative=True)][:2]
    first = go(tmp_path, Counting(errors=bad))
    scores = table(tmp_path)
    damage(tmp_path)
    again = go(tmp_path, Counting(errors=bad))
    one, other = first.scorers[0], again.scorers[0]
    assert (other.items, other.errors, other.scored) == (one.items, one.errors, one.scored)
    assert table(tmp_path).equals(scores)
    assert Dataset.load(tmp_path / "dataset.parquet") == DATASET
    assert len((tmp_path / "errors.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert again.versions["carb-scorers"] == first.versions["carb-scorers"]


def with_headings(item: BonSet) -> BonSet:
    return item.changed(kind=Kind.WORD, place="named", form="reply")


def with_answers_turned(item: BonSet) -> BonSet:
    return item.changed(responses=item.responses[::-1])


@pytest.mark.parametrize(
    "changed",
    [
        Dataset(reversed([*DATASET])),
        Dataset(map(with_headings, DATASET)),
        Dataset(map(with_answers_turned, DATASET)),
    ],
    ids=["order", "headings", "answers"],
)
def test_sets_with_the_same_fingerprint_are_written_as_they_are_now(
    tmp_path: Path, changed: Dataset
) -> None:
    assert changed.fingerprint == DATASET.fingerprint
    go(tmp_path, Counting())
    again = Counting()
    go(tmp_path, again, dataset=changed)
    assert again.asked == []
    assert Dataset.load(tmp_path / "dataset.parquet") == changed
    assert plain(table(tmp_path)).equals(plain(evaluate(changed, [Counting()]).frame))


def test_a_finished_run_has_the_prices_of_the_last_call(tmp_path: Path) -> None:
    first = go(tmp_path, Counting()).scorers[0]
    dearer = Counting()
    dearer.spec = dearer.spec.changed(parameters={"price_in": 4.0, "price_out": 20.0})
    again = go(tmp_path, dearer).scorers[0]
    assert first.cost is not None
    assert again.cost == pytest.approx(2 * first.cost)
    assert again.spec == dearer.spec
    assert dearer.asked == []
