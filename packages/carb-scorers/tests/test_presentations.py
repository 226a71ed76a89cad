"""What judges were shown in a run, with the labels joined back."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import polars as pl
import pytest

from carb_data import CarbError
from carb_scorers import Presentation, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.run import read_presentations, run
from carb_scorers.run.presentations import SCHEMA
from carb_scorers.scorer import failed
from carb_scorers.testing import example_dataset

DATASET = example_dataset(6)


class FirstPlace:
    """Likes a text for its length, and for standing first; shows both orders."""

    def __init__(self, name: str = "first", *, comparative: bool = True, single: bool = False, fails: str = "") -> None:
        self.spec = ScorerSpec(name=name, kind="test", comparative=comparative)
        self._single = single
        self._fails = fails

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return [failed(r, "parse", "no") if r.request_id == self._fails else self._result(r) for r in requests]

    def _result(self, request: ScoreRequest) -> ScoreResult:
        texts = {c.id: c.text for c in request.candidates}
        ids = tuple(texts)
        orders = [(key,) for key in ids] if self._single else [ids, ids[::-1]]
        shown = tuple(
            Presentation(order=o, scores={key: len(texts[key]) + 1000.0 * (place == 0) for place, key in enumerate(o)})
            for o in orders
        )
        scores = {key: float(len(text)) for key, text in texts.items()}
        return ScoreResult(request_id=request.request_id, scores=scores, presentations=shown)

    async def aclose(self) -> None:
        pass


def go(out: Path, *scorers: object, seed: int = 3) -> pl.DataFrame:
    async def score() -> None:
        await run(DATASET, scorers, out, seed=seed, window=4)

    anyio.run(score)
    return read_presentations(out)


def test_every_order_of_every_set_has_its_responses_back(tmp_path: Path) -> None:
    frame = go(tmp_path, FirstPlace(), "baseline:length")
    assert dict(frame.schema) == SCHEMA
    assert frame["scorer"].unique().to_list() == ["first"]
    lengths = {(item.id, r.id): len(r.text) for item in DATASET for r in item.responses}
    assert frame.height == 6 * 2 * 4  # sets as they are: nothing about perturbed texts
    for row in frame.iter_rows(named=True):
        assert row["score"] == lengths[row["item_id"], row["response_id"]] + 1000.0 * (row["position"] == 0)
    orders = frame.group_by("item_id", "order_id", maintain_order=True).agg(pl.col("response_id").sort_by("position"))
    one, other = (orders.filter(pl.col("order_id") == name)["response_id"].to_list() for name in "01")
    assert one == [order[::-1] for order in other]
    assert len({tuple(order.index(key) for key in sorted(order)) for order in one}) > 1  # in random order


def test_failed_sets_and_single_candidates_have_no_order(tmp_path: Path) -> None:
    frame = go(tmp_path, FirstPlace(fails="set-2"), FirstPlace("rates", comparative=False, single=True))
    assert frame["scorer"].unique().to_list() == ["first"]
    assert "set-2" not in frame["item_id"].to_list()
    assert frame["item_id"].n_unique() == 5


def test_retried_and_torn_journals_count_once(tmp_path: Path) -> None:
    go(tmp_path, FirstPlace(fails="set-2"))

    async def again() -> None:
        await run(DATASET, [FirstPlace()], tmp_path, seed=3, window=4, retry_errors=True)

    anyio.run(again)
    whole = read_presentations(tmp_path)
    assert whole.height == 6 * 2 * 4
    (journal,) = (tmp_path / "journal").glob("*.jsonl")
    content = journal.read_bytes()
    journal.write_bytes(content + b'[{"request_id": "set-1"')  # torn by an interruption
    assert read_presentations(tmp_path).equals(whole)
    journal.write_bytes(b"[1]\n" + content)
    with pytest.raises(CarbError, match="does not say what the file holds"):
        read_presentations(tmp_path)


def test_a_run_that_is_not_finished_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CarbError, match="no finished run"):
        read_presentations(tmp_path)
