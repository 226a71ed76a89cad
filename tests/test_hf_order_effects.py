"""Order effects of a real judge, from the run to the measured bias."""

from __future__ import annotations

from pathlib import Path

import anyio
import polars as pl
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import tiny_models
from carb_data import ScoreTable
from carb_metrics import judge_bias
from carb_scorers.run import read_presentations, run
from carb_scorers.testing import example_dataset


@pytest.mark.parametrize(
    ("options", "orders", "shown", "swaps"),
    [
        ("mode=listwise&orders=both", 2, 4, 1),
        ("mode=listwise&orders=rotated", 4, 4, 6),
        ("mode=pairwise", 12, 2, 6),
    ],
)
def test_a_judge_that_is_shown_several_orders_is_measured(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, options: str, orders: int, shown: int, swaps: int
) -> None:
    folder = tiny_models.folder(tmp_path_factory.getbasetemp() / "tiny", "llama", "CausalLM")
    spec = f"judge:{folder}?{options}&least_mass=0"

    async def go() -> None:
        await run(example_dataset(8, perturbed=False), [spec], tmp_path)

    anyio.run(go)
    frame = read_presentations(tmp_path)
    counts = frame.group_by("item_id", "order_id").len()
    assert (counts.height, set(counts["len"])) == (8 * orders, {shown})
    table = ScoreTable(pl.read_parquet(tmp_path / "scores.parquet"))
    bias = judge_bias(table, frame)
    row = bias.scorers[0].model_dump()
    assert row["presentations"] == 8 * orders
    assert row["position_p"] is not None
    assert 0 <= row["swap_consistency"] <= 1
    assert row["swap_pairs"] == 8 * swaps  # of the same candidates in different orders
    assert [one.position for one in bias.positions] == list(range(shown))
    if options == "mode=listwise&orders=both":  # a score is the mean of what the orders said
        means = frame.group_by("item_id", "response_id").agg(pl.col("score").mean().alias("mean"))
        joined = table.frame.join(means, on=["item_id", "response_id"])
        assert joined.height == 32
        assert (joined["score"] - joined["mean"]).abs().max() < 1e-9
