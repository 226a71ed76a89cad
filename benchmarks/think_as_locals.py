"""The registered test of ``docs/experiments/think-as-locals.md``.

``python benchmarks/think_as_locals.py run --data FAMILIES --out RUNS [--seeds 3]``: all arms of seed 0, then of seed 1,
and so on, each by the pipeline of ``carb train``. A finished run is kept and an interrupted one goes on from its last
checkpoint, so the command may be stopped and given again at any time.

FAMILIES is what ``carb data build blend-families --source BLEND --out families.jsonl`` writes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

WARM_UP = 99
"""Seed of the one warm-up that every seed and arm starts from."""
STEPS = 10
OUTPUTS = 8
ARMS: dict[str, dict[str, Any]] = {
    "C": {"ablation": "no-criteria"},
    "C+A": {},
    "C+P": {"rewards": {"permuted": True}},
    "control": {"ablation": "no-criteria", "mix": {"shuffle_labels": True}},
    "supervised": {"warmup": {"steps": STEPS, "batch_size": OUTPUTS, "flipped": 0.0}, "grpo": {"max_steps": 0}},
}
"""What each arm changes in ``settings``."""


def settings(data: Path, seed: int, model: str, out: Path) -> dict[str, Any]:
    """The settings that all arms share, over the preset ``demo-cpu``."""
    return {
        "model": model,
        "out": str(out),
        "seed": seed,
        "max_new_tokens": 56,
        "max_prompt_tokens": 256,
        "mix": {"sources": [{"form": "carb", "path": str(data), "languages": ["en"]}], "held_out_limit": 40},
        "evaluation": {"decoding": ["greedy"], "on_contamination": "drop"},
        "warmup": {"steps": 0},
        "grpo": {
            "max_steps": STEPS,
            "per_device_train_batch_size": OUTPUTS,
            "learning_rate": 5e-5,
            "beta": 0.0,
            "save_steps": 5,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--data", type=Path, required=True)
    runner.add_argument("--out", type=Path, required=True)
    runner.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    run_all(arguments.data, arguments.out, arguments.seeds)


def run_all(data: Path, out: Path, seeds: int) -> None:
    from small_models import model_folder

    start = out / "start"
    warm = {"warmup": {"steps": 40}, "grpo": {"max_steps": 0}}
    run_one("warm-up", merged(settings(data, WARM_UP, str(model_folder("smollm2-135m")), start), warm))
    for seed in range(seeds):
        for name, change in ARMS.items():
            folder = out / f"seed-{seed}" / name
            # Every arm starts from the same model on the same pairs, which is evaluated once.
            before = folder / "held-out" / ("start-greedy.json" if name == "supervised" else "before-greedy.json")
            before.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(start / "held-out" / "before-greedy.json", before)
            run_one(name, merged(settings(data, seed, str(start / "warmup"), folder), change))


def run_one(name: str, values: dict[str, Any]) -> None:
    from tal_rlvr import load_config, run
    from tal_rlvr.train import CONFIG, RESULT

    out = Path(values["out"])
    if (out / RESULT).is_file():
        return
    wall, own = time.time(), time.process_time()
    result = run(load_config("demo-cpu", values), resume=(out / CONFIG).is_file(), on_log=said, on_note=print)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    spent = {"wall": round(time.time() - wall), "processor": round(time.process_time() - own)}
    (out / "seconds.json").write_text(json.dumps(spent))
    accuracy = {stage.name: stage.accuracy.mean for stage in result.stages}
    print(time.strftime("%H:%M:%S"), f"seed {result.seed}", name, accuracy, spent, flush=True)


def said(stage: str, step: int, values: Any) -> None:
    shown = {
        name: round(values[name], 3) for name in ("loss", "reward", "verdict_accuracy", "format_rate") if name in values
    }
    print(time.strftime("%H:%M:%S"), stage, step, shown, flush=True)


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, nested tables one by one."""
    out = dict(below)
    for key, value in above.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


if __name__ == "__main__":
    main()
