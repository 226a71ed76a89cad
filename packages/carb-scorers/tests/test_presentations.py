"""What judges were shown in a run, with the labels joined back."""

from pathlib import Path

import anyio
import polars as pl

from carb_scorers import ScoreRequest, ScoreResult
from carb_scorers.run import read_presentations, run
from carb_scorers.run.score_journal import SCHEMA
from carb_scorers.scorer import Presentation, failed
from carb_scorers.testing import example_dataset
from fake_scorer import FakeScorer

DATASET = example_dataset(6)


class FirstPlace(FakeScorer):
    """Likes a text for its length, and for standing first; shows both orders."""

    def result(self, request: ScoreRequest) -> ScoreResult:
        texts = {c.id: c.text for c in request.candidates}
        ids = tuple(texts)
        shown = tuple(
            Presentation(
                order=o,
                scores={
                    key: len(texts[key]) + 1000.0 * (place == 0) for place, key in enumerate(o)
                },
            )
            for o in (ids, ids[::-1])
        )
        return super().result(request).model_copy(update={"presentations": shown})


def test_every_order_of_every_set_has_its_responses_back(tmp_path: Path) -> None:
    async def score() -> None:
        await run(
            DATASET, [FirstPlace(name="first"), "baseline:length"], tmp_path, seed=3, window=4
        )

    anyio.run(score)
    frame = read_presentations(tmp_path)
    assert dict(frame.schema) == SCHEMA
    assert frame["scorer"].unique().to_list() == ["first"]
    lengths = {(item.id, r.id): len(r.text) for item in DATASET for r in item.responses}
    assert frame.height == 6 * 2 * 4  # sets as they are: nothing about perturbed texts
    for row in frame.iter_rows(named=True):
        assert row["score"] == lengths[row["item_id"], row["response_id"]] + 1000.0 * (
            row["position"] == 0
        )
    orders = frame.group_by("item_id", "order_id", maintain_order=True).agg(
        pl.col("response_id").sort_by("position")
    )
    one, other = (
        orders.filter(pl.col("order_id") == name)["response_id"].to_list() for name in "01"
    )
    assert one == [order[::-1] for order in other]
    assert (
        len({tuple(order.index(key) for key in sorted(order)) for order in one}) > 1
    )  # in random order


def test_single_candidates_and_sets_without_a_result_have_no_rows(tmp_path: Path) -> None:
    """The server went away before the last set; a pointwise judge shows one text at a time."""

    class Alone(FirstPlace):
        def result(self, request: ScoreRequest) -> ScoreResult:
            if request.prompt == DATASET[-1].prompt:
                return failed(request, "connection", "refused")
            result = super().result(request)
            alone = tuple(
                Presentation(order=(key,), scores={key: score})
                for key, score in result.scores.items()
            )
            both = (result.presentations[0], *alone)
            return result.model_copy(update={"presentations": both})

    async def score() -> None:
        await run(DATASET.without_perturbed(), [Alone(name="alone")], tmp_path)

    anyio.run(score)
    frame = read_presentations(tmp_path)
    assert frame["item_id"].unique().sort().to_list() == [item.id for item in DATASET[:-1]]
    assert frame.height == 5 * 4
