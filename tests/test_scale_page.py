"""The Python of docs/scale.md runs, and its arithmetic is right."""

from pathlib import Path
from typing import Any

import anyio
import polars as pl
import pytest

from carb_data import Dataset, ScoreTable
from carb_metrics import bon_accuracy
from carb_scorers.runs import run
from carb_scorers.testing import example_dataset
from readme_examples import example

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def test_shards_and_their_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example_dataset(25).save("items.parquet")
    exec(example("shards", PAGE).replace("200_000", "10"), {})
    shards = sorted(Path("shards").iterdir())
    assert [len(Dataset.load(path)) for path in shards] == [10, 10, 5]

    async def score() -> None:
        for path in shards:
            await run(Dataset.load(path), ["baseline:random", "baseline:length"], Path("results") / path.stem)

    anyio.run(score)
    names: dict[str, Any] = {}
    exec(example("scan_parquet", PAGE), names)
    assert "baseline:random" in capsys.readouterr().out
    found = names["sets"].group_by("scorer").agg(pl.col("right").mean()).collect().sort("scorer")
    whole = ScoreTable(pl.read_parquet("results/*/scores.parquet"))
    wanted = bon_accuracy(whole, by=("scorer",)).groups.sort("scorer")
    assert found["right"].to_list() == pytest.approx(wanted["accuracy"].to_list())


def test_the_arithmetic() -> None:
    n, t, p, f, u, g, d, t0, s = 1e8, 1200, 8e9, 989e12, 0.4, 64, 8, 120, 2e5
    r = u * f / (2 * p)
    assert round(r, -2) == 24_700
    seconds = n * t / (g * r)
    assert round(seconds, -3) == 76_000
    assert round(seconds / 3600) == 21
    assert round(g * 21, -1) == 1340
    shard = t0 + s * t / (d * r)
    assert round(t0 / shard, 2) == 0.09
    assert round(shard / 60) == 22
    assert round(n / s / (g / d) * shard / 3600) == 23
    assert t0 / (t0 + 1e6 * t / (d * r)) < 0.02
    assert -(-s // 4096) == 49
    assert round(4096 * t / r) == 199
    assert round(n / 64 / 1e6, 1) == 1.6
    assert round(g * 21 / 50_000, 2) == 0.03
    assert round((t0 + 100) / 36_000, 3) == 0.006
    assert round(n / 10_000 / 60 / 24) == 7
    assert n * (t * 2 + 200 * 8) / 1e6 == 400_000
