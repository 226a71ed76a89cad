"""Does R_appr help a judge that has to read the place? The arms and runs of README.md.

    python studies/open_book/study.py --dtype bfloat16 --model runs/start6 --out runs/open-book \\
        --arms C C+A

The task is that of ``pairs.py``, with every place named. Half of the topics are held out.
The model is one that ``start.py`` made: it writes the form and follows criteria. From
there each arm goes on:

    start           no further step, read as it is
    C               GRPO on R_corr and the form
    C+A             the same with R_appr
    control labels  C+A on labels that say nothing of the place
    supervised      targets that state the right place's fact, at the compute of C

"Criteria given" is an outcome of each: the right fact is written for the judge, and the verdict is
read behind it. It is the ceiling of what criteria can do for this judge. A run is one JSON file;
what is there is not run again, and what was begun goes on from its checkpoint. ``verdicts.csv`` is
what ``power.py`` reads.
"""

# ruff: noqa: T201 - a script, which prints

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from outcomes import Row, add_dtype, honest, measure, print_table
from pairs import pairs, read

from tal_rlvr import TrainConfig, TrainResult, train
from tal_rlvr.judge_prompts import PromptConfig
from tal_rlvr.scorer import ThinkSettings
from tal_rlvr.training import RESULT

ARMS: dict[str, dict[str, Any]] = {
    "C": {"criteria_weight": 0.0},
    "C+A": {"criteria_weight": 1.0},
    "control labels": {"criteria_weight": 1.0},
}
"""The rewards of each arm that is trained by reinforcement."""
NAMES = ("start", *ARMS, "supervised")
PROMPT = (
    "Judge by what people say of the place.\n{{ prompt }}\nAnswers:\n{{ first }} = A\n{{ "
    "second }} = B"
)
GRPO = {
    "lr_scheduler_type": "constant",
    "save_strategy": "steps",
    "save_steps": 10,
    "save_total_limit": 1,
    "bf16": False,
    "gradient_checkpointing": False,
}
"""How the arms of ``ARMS`` are trained. The last two make a GPU compute as a processor does: TRL's
own differ there."""

SUPERVISED_STEPS = 1.1
"""How many supervised steps cost as much as a step of C."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder of the start")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(8)))
    parser.add_argument(
        "--longest",
        type=int,
        default=360,
        help="characters of a question with both answers, at most",
    )
    parser.add_argument(
        "--mirrors", type=int, default=2, help="mirrors of each held-out topic, four rows each"
    )
    parser.add_argument("--steps", type=int, default=40, help="steps of GRPO")
    parser.add_argument("--outputs", type=int, default=16, help="outputs of a step")
    parser.add_argument("--group", type=int, default=4, help="outputs of a prompt in a step")
    parser.add_argument("--tokens", type=int, default=64, help="longest output")
    parser.add_argument(
        "--rate",
        type=float,
        default=1.5e-3,
        help="learning rate of supervised steps, 5 times GRPO's",
    )
    add_dtype(parser)
    given = parser.parse_args()
    parts = prepare(given)
    for seed in given.seeds:
        for arm in given.arms:
            file = given.out / f"{arm.replace(' ', '-')}-{seed}.json"
            if not file.is_file():
                found = {"arm": arm, "seed": seed, **run(given, arm, seed, parts)}
                file.with_suffix(".part").write_text(
                    json.dumps(found, ensure_ascii=False, indent=1)
                )
                file.with_suffix(".part").rename(file)
    print_table(given.out, NAMES)
    return 0


def prepare(given: argparse.Namespace) -> tuple[list[Row], list[Row]]:
    """Training rows, and held-out rows in whole mirrors: two places are asked about the same two
    answers."""
    facts, families = read("carb-seed", ["en"])
    shown = SimpleNamespace(places=2, named=True, seed=0)
    rows = [row for name, sets in families.items() for row in pairs(name, sets, facts, shown)]
    short = [
        r for r in rows if len(r["closed"]) + len(r["chosen"]) + len(r["rejected"]) <= given.longest
    ]
    topics = sorted({row["source_item"] for row in short}, key=by_chance)
    held = topics[: len(topics) // 2]
    test = whole_mirrors([row for row in short if row["source_item"] in held], given.mirrors)
    (given.out / "prompts").mkdir(parents=True, exist_ok=True)
    (given.out / "prompts" / "general-en.jinja").write_text(PROMPT)
    return [row for row in short if row["source_item"] not in held], test


def whole_mirrors(rows: Sequence[Row], most: int | None = None) -> list[Row]:
    """Both rows of every two answers, for each topic in turn those that come first by chance."""
    mirrors: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        answers = sorted([row["chosen"], row["rejected"]])
        mirrors[row["source_item"]]["\0".join([row["family"], *answers])].append(row)
    found: list[Row] = []
    for topic in sorted(mirrors, key=by_chance):
        own = mirrors[topic]
        whole = [own[name] for name in sorted(own, key=by_chance) if len(own[name]) == 2]
        found += itertools.chain.from_iterable(whole[:most])
    return found


def by_chance(name: str) -> bytes:
    """What orders topics and mirrors by chance, the same in every run."""
    return hashlib.sha256(name.encode()).digest()


def run(
    given: argparse.Namespace, arm: str, seed: int, parts: tuple[list[Row], list[Row]]
) -> dict[str, Any]:
    """Train one arm with one seed, read the judge, and give the weights up."""
    rows, held = parts
    begun = time.process_time()
    folder, steps, curve = (
        (given.model, 0, ()) if arm == "start" else trained(given, arm, seed, rows)
    )
    seconds = time.process_time() - begun
    begun = time.process_time()
    settings = ThinkSettings(prompts=prompts(given), max_new_tokens=given.tokens)
    outcomes = anyio.run(measure, folder, held, settings, given.dtype)
    shutil.rmtree(given.out / "runs" / f"{arm.replace(' ', '-')}-{seed}", ignore_errors=True)
    reading = time.process_time() - begun
    return {
        "steps": steps,
        "cpu_seconds": seconds,
        "reading_cpu_seconds": reading,
        "curve": curve,
        **outcomes,
    }


def trained(
    given: argparse.Namespace, arm: str, seed: int, rows: Sequence[Row]
) -> tuple[str, int, Any]:
    """The model's folder, its steps of GRPO and what they logged."""
    draw, name = random.Random(f"{seed}\0{arm}"), f"{arm.replace(' ', '-')}-{seed}"
    if arm == "supervised":
        steps = round(given.steps * SUPERVISED_STEPS)
        judge = stage(given, name, seed, rows, targets=targets(rows, seed, 0.0), steps=steps)
    else:
        labels = [
            _relabelled(row) if arm == "control labels" and draw.random() < 0.5 else row
            for row in rows
        ]
        judge = stage(given, name, seed, labels, rewards=ARMS[arm])
    return judge.model, judge.steps, judge.curve


def prompts(given: argparse.Namespace) -> PromptConfig:
    """How a judge is asked; training writes it beside the model, too."""
    return PromptConfig(style=str(given.out / "prompts"), chat="no")


def _relabelled(row: Row) -> Row:
    return {**row, "chosen": row["rejected"], "rejected": row["chosen"]}


def stage(
    given: argparse.Namespace,
    name: str,
    seed: int,
    rows: Sequence[Row],
    *,
    targets: Sequence[Row] = (),
    steps: int = 0,
    rewards: Mapping[str, Any] | None = None,
) -> TrainResult:
    """A supervised stage, or one of GRPO where rewards are given; gone on with where it was
    begun."""
    out = given.out / "runs" / name
    if (out / RESULT).is_file():
        return TrainResult.model_validate_json((out / RESULT).read_bytes())
    out.mkdir(parents=True, exist_ok=True)
    for kind, content in (("pairs", rows), ("targets", targets)):
        (out / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    config = {
        "model": given.model,
        "out": out,
        "seed": seed,
        "dtype": given.dtype,
        "max_new_tokens": given.tokens,
        "prompts": prompts(given),
        "mix": {
            "sources": [{"form": "preference", "path": str(out / "pairs.jsonl")}],
            "held_out": 0.0,
        },
        "warmup": {
            "targets": str(out / "targets.jsonl"),
            "steps": steps,
            "batch_size": 8,
            "learning_rate": given.rate,
        },
        "lora": {"target_modules": r".*layers\..*_proj"},
        "grpo": {"max_steps": 0},
    }
    if rewards is not None:
        own = {
            "num_generations": given.group,
            "per_device_train_batch_size": given.outputs,
            "max_steps": given.steps,
        }
        config |= {
            "warmup": {},
            "rewards": rewards,
            "grpo": {**GRPO, **own, "learning_rate": given.rate / 5},
        }
    return train(TrainConfig.model_validate(config), resume=True, on_log=tell)


def tell(stage: str, step: int, values: Mapping[str, float]) -> None:
    shown = {
        name: values[name]
        for name in ("loss", "reward", "verdict_accuracy", "step_time")
        if name in values
    }
    print(
        stage,
        step,
        *(f"{name} {value:.3f}" for name, value in shown.items()),
        file=sys.stderr,
        flush=True,
    )


def targets(rows: Sequence[Row], seed: int, wrong: float) -> list[Row]:
    """Judgements that state the fact of the place, or for a share of them that of the other place,
    and judge by it."""
    draw = random.Random(f"{seed}\0targets")
    made = []
    for row in rows:
        for first, second in itertools.permutations((row["chosen"], row["rejected"])):
            told = _relabelled(row) | {"fact": row["other_fact"]} if draw.random() < wrong else row
            verdict = "A" if told["chosen"] == first else "B"
            text = honest(told["fact"], told["chosen"], told["rejected"], verdict)
            made.append(
                {"prompt": row["prompt"], "first": first, "second": second, "judgement": text}
            )
    return made


if __name__ == "__main__":
    sys.exit(main())
