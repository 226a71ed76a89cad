"""Does a benchmark predict what a reward model is worth downstream? A study of many scorers, as a
script.

Every scorer scores every benchmark (``carb run``) and picks among a policy's samples for every task
(``carb bon``). The correlations over scorers say which benchmark predicts which downstream result
(``carb validity``). The commands keep their work in folders below ``--out``: the same call goes on
after any interruption, and scores nothing twice.

    python examples/validity_study.py --out runs/study --limit 400 \
        --scorer short=baseline:length skywork=classifier:PATH judge=judge:PATH … \
        --benchmark seed=carb-seed mine=my-sets.jsonl \
        --policy gemma=hf:PATH --task uk='blend:PATH?places=UK&limit=200' --n 16

Errors of both measurements enter the correlation, and scorers that were made from one base model
count as relatives (``--base skywork=llama judge=llama``). With fewer than five scorers nothing is
tested.
"""

# ruff: noqa: S603, T201 - a script, which prints, and runs what it is told to run

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from carb_data import Dataset, ScoreTable
from carb_metrics import bon_accuracy, family_accuracy

CARB = (sys.executable, "-m", "carb_cli")
WIDTH = 2 * NormalDist().inv_cdf(0.975)
"""Width of a 95% interval in standard errors."""


@dataclass(frozen=True)
class Measured:
    """A result of one scorer, with its standard error."""

    value: float
    error: float


Column = dict[str, Measured]
"""The results of the scorers in one measurement, by the scorers' names."""


def main() -> int:
    """Measure, correlate, and print what predicts what; 1 where a part could not be measured."""
    given = arguments()
    benchmarks: dict[str, Column] = {}
    outcomes: dict[str, Column] = {}
    failed: list[str] = []
    for name, data in given.benchmark.items():
        run = given.out / "benchmarks" / name
        limit = [] if given.limit is None else ["--limit", str(given.limit)]
        if carb("run", "--data", data, "--scorer", *given.scorer, *limit, "--out", str(run)):
            benchmarks |= {f"{name} {what}": column for what, column in scored(run).items()}
        else:
            failed.append(f"benchmark {name}")
    for policy, spec in given.policy.items():
        for task, asked in given.task.items():
            out = given.out / "bon" / f"{policy}-{task}"
            sampled = (
                "--policy",
                spec,
                "--task",
                asked,
                "--n",
                str(given.n),
                "--scorer",
                *given.scorer,
            )
            if carb("bon", *sampled, "--out", str(out)):
                outcomes[f"{policy} {task}"] = picked(out)
            else:
                failed.append(f"best of {given.n}, {policy} on {task}")
    for outcome, downstream in outcomes.items():
        for benchmark, column in benchmarks.items():
            file = given.out / "points" / f"{benchmark}--{outcome}.csv".replace(" ", "-")
            write_points(file, column, downstream, given.base)
            print(f"\n{benchmark} against {outcome}: {file}", flush=True)
            carb("validity", str(file))
    for part in failed:
        print(f"not measured: {part}", file=sys.stderr)
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """What was asked for; pairs ``NAME=VALUE`` are dictionaries, scorers stay the specs that they
    are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--scorer", nargs="+", required=True, metavar="NAME=SPEC")
    parser.add_argument("--benchmark", nargs="+", required=True, type=pair, metavar="NAME=DATA")
    parser.add_argument("--policy", nargs="+", required=True, type=pair, metavar="NAME=SPEC")
    parser.add_argument("--task", nargs="+", required=True, type=pair, metavar="NAME=SPEC")
    parser.add_argument("--base", nargs="*", default=[], type=pair, metavar="SCORER=BASE")
    parser.add_argument("--limit", type=int, help="sets of each benchmark; all by default")
    parser.add_argument("--n", type=int, default=16, help="samples of each prompt")
    given = parser.parse_args()
    for name in ("benchmark", "policy", "task", "base"):
        setattr(given, name, dict(getattr(given, name)))
    return given


def pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE``; the value may hold further signs of equality."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def carb(*command: str) -> bool:
    """Run a command of carb; whether it did what it was asked for."""
    print(f"$ {shlex.join(('carb', *command))}", flush=True)
    return subprocess.run([*CARB, *command], check=False).returncode == 0


def scored(run: Path) -> dict[str, Column]:
    """The accuracies of a run's scorers with ties shared, and their place win rates where there
    are mirrored families."""
    table, dataset = (
        ScoreTable.load(run / "scores.parquet"),
        Dataset.load(run / "dataset.parquet", registry=None),
    )
    cells = bon_accuracy(table.with_items(dataset), by=("scorer",))
    names = cells.groups["scorer"].to_list()
    shares = [(name, cells.cell(name)) for name in names]
    found = {
        "accuracy": column((name, cell.accuracy, cell.low, cell.high) for name, cell in shares)
    }
    families = family_accuracy(table, dataset)
    if families is not None:
        rates = [(name, families.of(name).place_win) for name in names]
        found["place win rate"] = column(
            (name, rate.estimate, rate.low, rate.high) for name, rate in rates
        )
    return found


def picked(out: Path) -> Column:
    """The quality of what each scorer picked."""
    result = json.loads((out / "bon.json").read_text(encoding="utf-8"))
    return column(
        (one["scorer"], one["quality"], one["low"], one["high"]) for one in result["scorers"]
    )


def column(rows: Iterable[tuple[str, float | None, float | None, float | None]]) -> Column:
    """The rows ``(scorer, value, low, high)`` that have a value and limits."""
    return {
        name: Measured(value, (high - low) / WIDTH)
        for name, value, low, high in rows
        if value is not None and low is not None and high is not None
    }


def write_points(file: Path, benchmark: Column, downstream: Column, bases: dict[str, str]) -> None:
    """The scorers that have both results, in the form that ``carb validity`` reads."""
    rows = [
        (name, x.value, y.value, x.error, y.error, bases.get(name, name))
        for name, x in benchmark.items()
        if (y := downstream.get(name)) is not None
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as open_file:
        writer = csv.writer(open_file)
        writer.writerow(
            ("scorer", "benchmark", "downstream", "benchmark_se", "downstream_se", "base")
        )
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
