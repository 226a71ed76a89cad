"""Speed and memory of carb-metrics. Each case runs in a process of its own.

Usage: python benchmarks/bench_metrics.py [CASE ...]

``report``: 25 scorers × 8,576 sets × 4 responses from Parquet: every breakdown with 10,000
bootstrap replicates and all 300 paired comparisons, against a bootstrap that resamples rows with
numpy for the same averages and differences. The latter takes minutes, so it is run with 100 of its
10,000 replicates and its time multiplied. ``import``: processor time of importing the package.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from carb_data import ScoreTable, cultures

SCORERS, SETS, RESPONSES, REPLICATES = 25, 8_576, 4, 10_000
FEW = 100
"""Replicates of the reference that are run."""
DOMAINS = ("commonsense", "values", "safety", "linguistics")


def peak_mb() -> float:
    """Peak resident memory of this process; ``ru_maxrss`` may still be that of the process that
    started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return (
            int(
                next(
                    line for line in status.read_text().splitlines() if line.startswith("VmHWM")
                ).split()[1]
            )
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def make(path: Path, scorers: int, sets: int) -> None:
    """Write scores of ``scorers`` that differ in skill on the same sets, scorer by scorer."""
    rng = np.random.default_rng(0)
    ids = [culture.id for culture in cultures]
    item, place = np.repeat(np.arange(sets), RESPONSES), np.tile(np.arange(RESPONSES), sets)
    columns = pl.DataFrame(
        {
            "item_id": pl.select(pl.lit("item-") + pl.Series(item).cast(pl.String)).to_series(),
            "response_id": pl.Series([f"r{k}" for k in range(RESPONSES)])[place],
            "role": pl.Series(["chosen", "rejected"])[np.minimum(place, 1)],
            "culture": pl.Series(ids)[item % len(ids)],
            "domain": pl.Series(DOMAINS)[item // len(ids) % len(DOMAINS)],
        }
    ).with_columns(
        language=pl.lit("en"),
        perturbation=pl.lit(None, dtype=pl.String),
        original=pl.lit(None, dtype=pl.String),
    )
    hard = rng.normal(size=sets)[item] * (place > 0)
    for scorer in range(scorers):
        skill = 0.6 + 0.04 * scorer
        score = pl.Series("score", rng.normal(size=len(item)) + skill * (place == 0) + 0.5 * hard)
        part = columns.with_columns(score, scorer=pl.lit(f"scorer-{scorer:02}"))
        part.select("scorer", pl.exclude("scorer")).write_parquet(
            path / f"{scorer:02}.parquet", row_group_size=500_000
        )


def report(folder: str) -> dict[str, float]:
    from carb_metrics import Scored, breakdown, rank

    table = ScoreTable(pl.read_parquet(f"{folder}/*.parquet"))
    wall, processor = seconds(lambda: (breakdown(table), rank(table)))
    again, _ = seconds(lambda: (breakdown(table), rank(table)))
    peak = peak_mb()
    sets = Scored.of(table).sets
    twins = table.frame.with_columns(
        source_item=pl.lit("q")
        + (pl.col("item_id").str.slice(5).cast(pl.Int64) // 4).cast(pl.String)
    )
    clustered = ScoreTable(twins)
    together, together_processor = seconds(lambda: (breakdown(clustered), rank(clustered)))
    reference, _ = seconds(lambda: resample_rows(sets))
    return {
        "report, s": wall,
        "report, processor s": processor,
        "report again, s": again,
        "report, peak MB": peak,
        "clustered report, s": together,
        "clustered report, processor s": together_processor,
        f"rows resampled with numpy, s (from {FEW} of {REPLICATES} replicates)": reference
        * REPLICATES
        / FEW,
        "ratio": reference * REPLICATES / FEW / wall,
    }


def resample_rows(sets: pl.DataFrame) -> None:
    """The plain bootstrap: rows drawn with replacement, for each group of each breakdown, and for
    each pair."""
    from carb_metrics.accuracy import describe

    rng = np.random.default_rng(0)
    groupings = [
        ["culture"],
        ["domain"],
        ["culture", "domain"],
        ["resource_class"],
        ["family"],
        ["script"],
    ]
    described = describe(sets, cultures)
    credits_ = []
    for _, mine in described.group_by("scorer", maintain_order=True):
        credits_.append(mine["credit"].to_numpy())
        for keys in groupings:
            means = []
            for _, group in mine.group_by(keys, maintain_order=True):
                credit = group["credit"].to_numpy()
                means.append(credit[rng.integers(0, len(credit), (FEW, len(credit)))].mean(1))
            np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    for i, a in enumerate(credits_):
        for b in credits_[i + 1 :]:
            difference = a - b
            draws = difference[rng.integers(0, len(difference), (FEW, len(difference)))].mean(1)
            np.quantile(draws, [0.025, 0.975])


def importing() -> dict[str, float]:
    code = (
        "import time; before = time.process_time(); import carb_metrics; "
        "print(time.process_time() - before)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in "12345"
    ]
    return {"import carb_metrics, processor s": min(runs)}


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--case"]:
        print(json.dumps(report(arguments[2])))
        return
    chosen = arguments or ["import", "report"]
    for case in chosen:
        if case == "import":
            found = importing()
        else:
            with tempfile.TemporaryDirectory(prefix="carb-bench-") as folder:
                make(Path(folder), SCORERS, SETS)
                command = [sys.executable, __file__, "--case", case, folder]
                found = json.loads(
                    subprocess.run(command, capture_output=True, check=True, text=True).stdout
                )
        for name, value in found.items():
            print(f"{case:8} {name:70} {value:12,.2f}", flush=True)


if __name__ == "__main__":
    main()
