"""The registered test of ``docs/experiments/think-as-locals.md``.

``python benchmarks/think_as_locals.py run --data FAMILIES --out RUNS [--seeds 3]``: all arms of seed 0, then of seed 1,
and so on, each by the pipeline of ``carb train``. A finished run is kept and an interrupted one goes on from its last
checkpoint, so the command may be stopped and given again at any time.

``python benchmarks/think_as_locals.py collect --out RUNS --file RAW.csv`` keeps every held-out verdict of the finished
runs, and ``python benchmarks/think_as_locals.py analyse --file RAW.csv`` prints the registered analysis as Markdown.

FAMILIES is what ``carb data build blend-families --source BLEND --out families.jsonl`` writes.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
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
    collector = commands.add_parser("collect")
    collector.add_argument("--out", type=Path, required=True)
    collector.add_argument("--file", type=Path, required=True)
    analyser = commands.add_parser("analyse")
    analyser.add_argument("--file", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run_all(arguments.data, arguments.out, arguments.seeds)
    elif arguments.command == "collect":
        collect(arguments.out, arguments.file)
    else:
        print(analyse(arguments.file))


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


def collect(out: Path, file: Path) -> None:
    """One line for each held-out verdict: of the shared start, and of every finished arm after it."""
    from tal_rlvr.held_out import HeldOut
    from tal_rlvr.train import RESULT

    lines = ["seed,arm,pair,source_item,label,verdict,well_formed,with_masked,without_criteria"]
    finished = sorted(path.parent for path in out.glob(f"seed-*/*/{RESULT}"))
    for folder in [out / "start", *finished]:
        held = HeldOut.model_validate_json((folder / "held-out" / "after-greedy.json").read_bytes())
        seed = "" if folder.name == "start" else folder.parent.name.removeprefix("seed-")
        for one in held.outcomes:
            values = [seed, folder.name, one.pair, one.source_item, one.label, one.verdict or "", int(one.well_formed)]
            numbers = [f"{one.with_masked:.4f}", f"{one.without_criteria:.4f}"]
            lines.append(",".join([*map(str, values), *numbers]))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def analyse(file: Path) -> str:
    """Means of every arm, and differences from C over the seeds that have both arms, by source item."""
    from tal_rlvr.held_out import by_item
    from tal_rlvr.seeds import crossed_interval

    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    runs: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        runs.setdefault((row["arm"], row["seed"]), []).append(row)
    measures: dict[str, Callable[[dict[str, str]], float]] = {
        "accuracy": lambda row: float(row["verdict"] == row["label"]),
        "well-formed": lambda row: float(row["well_formed"]),
        "says A": lambda row: float(row["verdict"] == "A"),
        "log π(verdict \\| masked z)": lambda row: float(row["with_masked"]),
    }

    def items(run: tuple[str, str], measure: str) -> dict[str, float]:
        return by_item([(row["source_item"], measures[measure](row)) for row in runs[run]])

    lines = ["| arm | seed | " + " | ".join(measures) + " |", "|---" * (len(measures) + 2) + "|"]
    for run in runs:
        means = [mean(items(run, measure).values()) for measure in measures]
        lines.append(f"| {run[0]} | {run[1] or '–'} | " + " | ".join(f"{value:.3f}" for value in means) + " |")
    lines += ["", "| difference | measure | seeds | items | mean | 95% interval | p |", "|---" * 7 + "|"]
    for arm, other in (("C+A", "C"), ("C+A", "C+P"), ("C+A", "control"), ("C+A", "supervised")):
        seeds = [seed for name, seed in runs if name == arm and (other, seed) in runs]
        for measure in measures if seeds else ():
            first, second = ([items((name, seed), measure) for seed in seeds] for name in (arm, other))
            table = [[a[item] - b[item] for item in a] for a, b in zip(first, second, strict=True)]
            value, low, high, p = crossed_interval(table)
            shown = "needs two seeds | –" if low is None else f"[{low:+.3f}, {high:+.3f}] | {p:.3f}"
            lines.append(f"| {arm} − {other} | {measure} | {len(seeds)} | {len(table[0])} | {value:+.3f} | {shown} |")
    return "\n".join(lines)


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, nested tables one by one."""
    out = dict(below)
    for key, value in above.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


if __name__ == "__main__":
    main()
