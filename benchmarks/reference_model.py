"""Train the Bradley-Terry model of the reference results: SmolLM2 135M on English pairs of the first seed.

``python benchmarks/reference_model.py models/smollm2-135m models/bradley-terry``; some minutes of one core. The first
seed shares no topic with carb-seed 2, on which the model is scored; sets of which it holds a text are left out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from carb_data import load
from carb_data.contamination import check_contamination
from tal_rlvr import train_bradley_terry
from tal_rlvr.pairs import pairs_from_set
from tal_rlvr.students import StudentConfig

STEPS, BATCH = 24, 8


def main(model: str, out: str) -> None:
    """Train, and say what was done."""
    first = [item for item in load("carb-seed@1") if item.language == "en"]
    found = check_contamination(first, [item for item in load("carb-seed@2") if item.language == "en"])
    kept = [item for place, item in enumerate(first) if place not in found.train_positions]
    pairs = [pair for item in kept for pair in pairs_from_set(item)]
    print(
        f"{len(first)} sets, {len(first) - len(kept)} left out for a text of carb-seed 2; {len(pairs)} pairs",
        flush=True,
    )
    begin = time.process_time()
    done = train_bradley_terry(model, pairs, Path(out), StudentConfig(steps=STEPS, batch_size=BATCH))
    print(f"{done.pairs} pairs, {done.left_out} left out, {time.process_time() - begin:.0f} s of processor time")
    print("loss by step:", " ".join(f"{loss:.3f}" for loss in done.losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
