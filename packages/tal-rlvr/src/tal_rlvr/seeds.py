"""The same run with several seeds: does training help beyond the luck of a seed and of the held-out items?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from carb_data import CarbError
from carb_data.models import Frozen
from tal_rlvr.config import TrainConfig, load_config
from tal_rlvr.held_out import HeldOut, by_item
from tal_rlvr.train import RESULT, OnNote, TrainResult, read_result, train

__all__ = ["SeedRow", "crossed_interval", "seed_table", "train_seeds"]

Measure = Literal["accuracy", "accuracy_parsed", "with_masked"]


class SeedRow(Frozen):
    """One measure of one decoding over seeds and held-out items."""

    decoding: str
    measure: Measure
    seeds: int
    items: int
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    """95% interval of the change over seeds and items; null with one seed or one item."""
    p: float | None
    by_seed: tuple[float, ...]
    """The change of each seed, in order."""


def train_seeds(
    config: str | Path | TrainConfig,
    seeds: int,
    *,
    resume: bool = False,
    overrides: dict[str, Any] | None = None,
    on_note: OnNote | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[TrainResult]:
    """Train with the seeds 0, 1, ..., each in ``out/seed-N``; a finished run is read, not run again.

    The split into training and held-out items belongs to ``mix.seed`` and stays the same, so that the seeds can be
    compared item by item.

    Args:
        config: the configuration, in any form that ``load_config`` takes.
        seeds: number of runs; their seeds are 0, 1, and so on.
        resume: whether to go on with a run that was interrupted.
        overrides: the values that replace those of the file.
        on_note: a function that receives messages; ``OnNote`` explains it.
        progress: the function that is called with each seed before its run begins.

    Raises:
        CarbError: see ``run``; or fewer than one seed.
    """
    if seeds < 1:
        raise CarbError(f"There must be at least one seed, got {seeds}.")
    loaded = config if isinstance(config, TrainConfig) else load_config(config, overrides)
    results = []
    for seed in range(seeds):
        if progress is not None:
            progress(seed)
        own = loaded.model_copy(update={"seed": seed, "out": loaded.out / f"seed-{seed}"})
        begun = resume and (own.out / "config.json").is_file()
        done = (own.out / RESULT).is_file()
        results.append(read_result(own.out) if done else train(own, resume=begun, on_note=on_note))
    return results


def seed_table(results: Sequence[TrainResult]) -> list[SeedRow]:
    """What training changed on held-out items, by decoding and measure, over seeds and items.

    Raises:
        CarbError: the runs have no held-out items in common.
    """
    rows = []
    for decoding in results[0].changes:
        for measure in ("accuracy", "accuracy_parsed", "with_masked"):
            before, after = ([_by_item(r, stage, decoding, measure) for r in results] for stage in ("before", "after"))
            items = [item for item in before[0] if all(item in values for values in (*before, *after))]
            if not items:
                continue  # such as the accuracy of readable verdicts where none was
            table = [[late[i] - early[i] for i in items] for early, late in zip(before, after, strict=True)]
            change, low, high, p = crossed_interval(table)
            rows.append(
                SeedRow(
                    decoding=decoding,
                    measure=measure,
                    seeds=len(results),
                    items=len(items),
                    before=_mean([_mean([values[i] for i in items]) for values in before]),
                    after=_mean([_mean([values[i] for i in items]) for values in after]),
                    change=change,
                    low=low,
                    high=high,
                    p=p,
                    by_seed=tuple(map(_mean, table)),
                )
            )
    if not rows:
        raise CarbError("The runs have no held-out item in common; take runs of one mix.")
    return rows


def crossed_interval(
    table: Sequence[Sequence[float]], confidence: float = 0.95
) -> tuple[float, float | None, float | None, float | None]:
    """Mean of a table of seeds by items with its interval, both being random; and the two-sided p of a mean of 0.

    The variance of the mean in the crossed two-way layout without replication is
    ``(MS_seeds + MS_items - MS_rest) / (seeds * items)``; its degrees of freedom are Satterthwaite's (1946), as in the
    analysis of items and subjects of Clark (1973).

    Args:
        table: the (seeds, items) differences.
        confidence: level of the interval, between 0 and 1.

    Returns:
        Mean, low, high, p; the last three null with one seed or one item.
    """
    from scipy.special import stdtr, stdtrit

    seeds, items = len(table), len(table[0])
    mean = _mean([_mean(row) for row in table])
    if seeds < 2 or items < 2:
        return mean, None, None, None
    rows = [_mean(row) for row in table]
    columns = [_mean([row[i] for row in table]) for i in range(items)]
    by_seed = items * sum((value - mean) ** 2 for value in rows) / (seeds - 1)
    by_items = seeds * sum((value - mean) ** 2 for value in columns) / (items - 1)
    rest = sum((table[s][i] - rows[s] - columns[i] + mean) ** 2 for s in range(seeds) for i in range(items))
    rest /= (seeds - 1) * (items - 1)
    total = max(by_seed + by_items - rest, by_seed, by_items)  # an estimate below one part is an accident of sampling
    if total == 0:
        return mean, mean, mean, 1.0 if mean == 0 else 0.0
    spread = by_seed**2 / (seeds - 1) + by_items**2 / (items - 1) + rest**2 / ((seeds - 1) * (items - 1))
    freedom = max(1.0, total**2 / spread)
    error = math.sqrt(total / (seeds * items))
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return mean, mean - half, mean + half, float(2 * stdtr(freedom, -abs(mean) / error))


def _by_item(result: TrainResult, stage: str, decoding: str, measure: Measure) -> dict[str, float]:
    held = HeldOut.model_validate_json((Path(result.out) / "held-out" / f"{stage}-{decoding}.json").read_bytes())
    if measure == "with_masked":
        return by_item([(o.source_item, o.with_masked) for o in held.outcomes if o.with_masked is not None])
    kept = [o for o in held.outcomes if measure == "accuracy" or o.verdict is not None]
    return by_item([(o.source_item, o.right) for o in kept])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
