"""The registered test of ``docs/experiments/think-as-locals.md``.

``python benchmarks/think_as_locals.py run --data FAMILIES --out RUNS [--seeds 3]``: all arms of seed 0, then of seed 1,
and so on, each by the pipeline of ``carb train``. A finished run is kept and an interrupted one goes on from its last
checkpoint, so the command may be stopped and given again at any time. The first runs that are kept were made with the
packages of commit c7f246a (``git checkout c7f246a -- packages``); since then R_appr is masked and measured differently.

``python benchmarks/think_as_locals.py collect --out RUNS --file RAW.csv`` keeps every held-out verdict of the finished
runs, and ``python benchmarks/think_as_locals.py analyse --file RAW.csv`` prints the registered analysis as Markdown.
``compare --file RAW.csv --again OTHER.csv`` says where runs that were made again differ from those that are kept.

``python benchmarks/think_as_locals.py perturbed --out RUNS --file RAW.csv`` lets the start and every finished run of C
and C+A (``--arms``) score the English perturbed sets of carb-seed@2 (outcome 4), one set after the other, and goes on
where it stopped; ``sensitivity --file RAW.csv`` prints what each perturbation moves.

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
from itertools import zip_longest
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
    runner.add_argument(
        "--only", nargs="+", metavar="SEED/ARM", help="the runs to make, such as 1/C 1/C+A; default: all"
    )
    collector = commands.add_parser("collect")
    collector.add_argument("--out", type=Path, required=True)
    collector.add_argument("--file", type=Path, required=True)
    analyser = commands.add_parser("analyse")
    analyser.add_argument("--file", type=Path, required=True)
    analyser.add_argument("--seeds", type=int, help="analyse seeds below this number only; default: all in the file")
    comparer = commands.add_parser("compare")
    comparer.add_argument("--file", type=Path, required=True)
    comparer.add_argument("--again", type=Path, required=True)
    perturber = commands.add_parser("perturbed")
    perturber.add_argument("--out", type=Path, required=True)
    perturber.add_argument("--file", type=Path, required=True)
    perturber.add_argument("--sets", type=int, help="how many sets, the domains in turns; default: all")
    perturber.add_argument(
        "--arms", nargs="+", choices=ARMS, default=["C", "C+A"], help="the arms that score beside the start"
    )
    reader = commands.add_parser("sensitivity")
    reader.add_argument("--file", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run_all(arguments.data, arguments.out, arguments.seeds, arguments.only)
    elif arguments.command == "collect":
        collect(arguments.out, arguments.file)
    elif arguments.command == "compare":
        print(compare(arguments.file, arguments.again))
    elif arguments.command == "perturbed":
        perturbed(judge_folders(arguments.out, arguments.arms), arguments.file, arguments.sets)
    elif arguments.command == "sensitivity":
        print(sensitivity(arguments.file))
    else:
        print(analyse(arguments.file, arguments.seeds))


def run_all(data: Path, out: Path, seeds: int, only: list[str] | None = None) -> None:
    from small_models import model_folder

    start = out / "start"
    warm = {"warmup": {"steps": 40}, "grpo": {"max_steps": 0}}
    run_one("warm-up", merged(settings(data, WARM_UP, str(model_folder("smollm2-135m")), start), warm))
    for seed in range(seeds):
        for name, change in ARMS.items():
            if only is not None and f"{seed}/{name}" not in only:
                continue
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


def analyse(file: Path, seeds: int | None = None) -> str:
    """Means of every arm, and differences from C+A, over the (first) seeds with all arms, by source item."""
    from tal_rlvr.held_out import by_item
    from tal_rlvr.seeds import crossed_interval

    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    runs: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        if seeds is None or not row["seed"] or int(row["seed"]) < seeds:
            runs.setdefault((row["arm"], row["seed"]), []).append(row)
    finished: dict[str, list[str]] = {}
    for arm, seed in runs:
        finished.setdefault(seed, []).append(arm)
    left_out = {seed: arms for seed, arms in finished.items() if seed and set(arms) != set(ARMS)}
    runs = {run: own for run, own in runs.items() if run[1] not in left_out}
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
        both = [seed for name, seed in runs if name == arm and (other, seed) in runs]
        for measure in measures if both else ():
            first, second = ([items((name, seed), measure) for seed in both] for name in (arm, other))
            table = [[a[item] - b[item] for item in a] for a, b in zip(first, second, strict=True)]
            value, low, high, p = crossed_interval(table)
            shown = "needs two seeds | –" if low is None else f"[{low:+.3f}, {high:+.3f}] | {p:.3f}"
            lines.append(f"| {arm} − {other} | {measure} | {len(both)} | {len(table[0])} | {value:+.3f} | {shown} |")
    lines += ["", "| arm | seed | readable verdicts | right | accuracy among them |", "|---" * 5 + "|"]
    for (arm, seed), own in runs.items():
        readable = [row for row in own if row["verdict"]]
        right = sum(row["verdict"] == row["label"] for row in readable)
        share = f"{right / len(readable):.3f}" if readable else "–"
        lines.append(f"| {arm} | {seed or '–'} | {len(readable)} of {len(own)} | {right} | {share} |")
    if left_out:
        named = "; ".join(f"seed {seed} ({', '.join(arms)})" for seed, arms in left_out.items())
        lines += ["", f"Left out, since an arm is not finished: {named}."]
    return "\n".join(lines)


def compare(kept: Path, again: Path) -> str:
    """For each run that is in both files: verdicts and forms that are the same, and the largest change of a number."""
    runs: list[dict[tuple[str, str], list[dict[str, str]]]] = []
    for file in (kept, again):
        found: dict[tuple[str, str], list[dict[str, str]]] = {}
        with file.open(encoding="utf-8", newline="") as opened:
            for row in csv.DictReader(opened):
                found.setdefault((row["arm"], row["seed"]), []).append(row)
        runs.append(found)
    lines = ["| arm | seed | rows | same row | same verdict | same form | largest change of a log-probability |"]
    lines.append("|---" * 7 + "|")
    for run in runs[1]:
        pairs = list(zip(runs[0][run], runs[1][run], strict=True))

        def same(*names: str, pairs: list[tuple[dict[str, str], dict[str, str]]] = pairs) -> int:
            return sum(all(one[name] == other[name] for name in names) for one, other in pairs)

        numbers = ("with_masked", "without_criteria")
        moved = max(abs(float(one[name]) - float(other[name])) for one, other in pairs for name in numbers)
        counts = [same("pair", "label"), same("verdict"), same("well_formed")]
        lines.append(f"| {run[0]} | {run[1] or '–'} | {len(pairs)} | {' | '.join(map(str, counts))} | {moved:.4f} |")
    return "\n".join(lines)


def judge_folders(out: Path, arms: list[str]) -> dict[str, Path]:
    """Name and folder of the start and of every finished run of ``arms``."""
    from tal_rlvr.train import RESULT

    models = {"start": out / "start" / "warmup"}
    for path in sorted(out.glob(f"seed-*/*/{RESULT}")):
        if path.parent.name in arms:
            models[f"{path.parent.name}, seed {path.parent.parent.name.removeprefix('seed-')}"] = path.parent / "model"
    return models


def perturbed(models: dict[str, Path], file: Path, limit: int | None) -> None:
    """Add the scores of each judge on the perturbed sets, as rows of a score table."""
    from carb_data import Dataset, load
    from carb_data.table import COLUMNS
    from carb_scorers import evaluate
    from tal_rlvr import judge_as_scorer

    by_domain: dict[str, list[Any]] = {}
    for item in load("carb-seed@2").filter(lambda item: bool(item.perturbed), languages=["en"]):
        by_domain.setdefault(item.domain.value, []).append(item)
    sets = [item for turn in zip_longest(*by_domain.values()) for item in turn if item is not None]
    done: set[tuple[str, str]] = set()
    if file.is_file():
        with file.open(encoding="utf-8", newline="") as opened:
            done = {(row["scorer"], row["item_id"]) for row in csv.DictReader(opened)}
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    judges = {name: asked_once(judge_as_scorer(folder, name=name)) for name, folder in models.items()}
    for number, item in enumerate(sets[:limit], 1):
        for name, judge in judges.items():
            if (name, item.id) in done:
                continue
            begin = time.process_time()
            frame = evaluate(Dataset([item]), [judge]).frame
            with file.open("a", encoding="utf-8") as opened:
                opened.write(frame.write_csv(include_header=False))
            lost = frame["score"].null_count()
            print(time.strftime("%H:%M:%S"), f"set {number}, {name}: {lost} of {len(frame)} texts without a score,",
                  f"{time.process_time() - begin:.0f} s", flush=True)  # fmt: skip


def asked_once(judge: Any) -> Any:
    """The judge with all requests of a set at once and each prompt written once: those of a set share many pairs."""
    from carb_scorers.models.protocol import plain_text

    write, known = judge._model.generate, {}

    async def generate(prompts: Any, writing: Any) -> list[Any]:
        new = {plain_text(prompt): prompt for prompt in prompts if plain_text(prompt) not in known}
        known.update(zip(new, await write(list(new.values()), writing), strict=True))
        return [known[plain_text(prompt)] for prompt in prompts]

    judge._model.generate = generate
    judge.spec = judge.spec.model_copy(update={"in_flight": None})
    return judge


def sensitivity(file: Path) -> str:
    """What each perturbation moves in each judge, and C+A against C of the same seed, as Markdown."""
    import polars as pl

    from carb_data import ScoreTable
    from carb_data.table import COLUMNS
    from carb_metrics import perturbation_sensitivity, sensitivity_change

    scores = ScoreTable(pl.read_csv(file, schema=COLUMNS))

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    names = list(dict.fromkeys(scores.frame["scorer"].cast(str)))
    found = perturbation_sensitivity(scores)
    kinds = ("CC", "RC", "CL", "RP")
    lines = ["| judge | sets | texts without a score | " + " | ".join(kinds) + " | CC / surface |"]
    lines.append("|---" * (4 + len(kinds)) + "|")
    for name in names:
        own = scores.frame.filter(pl.col("scorer").cast(str) == name)
        cells = []
        for kind in kinds:
            row = next((r for r in found.kinds if (r.scorer, r.perturbation) == (name, kind)), None)
            cells.append(
                "–" if row is None else f"{shown(row.spread)} [{shown(row.spread_low)}, {shown(row.spread_high)}]"
            )
        ratio = found.ratio(name)
        cells.append(f"{shown(ratio.estimate)} [{shown(ratio.low)}, {shown(ratio.high)}]")
        lost = own["score"].null_count()
        lines.append(f"| {name} | {own['item_id'].n_unique()} | {lost} of {len(own)} | {' | '.join(cells)} |")
    lines += ["", "| C+A against C | perturbation | pairs | C | C+A | C+A / C |", "|---" * 6 + "|"]
    for name in names:
        other = name.replace("C+A,", "C,")
        if other == name or other not in names:
            continue
        for row in sensitivity_change(scores, other, name).kinds:
            factor = f"{shown(row.factor)} [{shown(row.factor_low)}, {shown(row.factor_high)}]"
            seed = name.partition(", ")[2]
            lines.append(
                f"| {seed} | {row.perturbation} | {row.n} | {shown(row.before)} | {shown(row.after)} | {factor} |"
            )
    return "\n".join(lines)


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``, nested tables one by one."""
    out = dict(below)
    for key, value in above.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


if __name__ == "__main__":
    main()
