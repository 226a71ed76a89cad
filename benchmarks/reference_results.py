"""Make the reference results that come with carb-cli, or finish those that are not there yet.

``python benchmarks/reference_results.py WORK`` puts runs into the folder WORK and entries into the package. The same
command goes on after any interruption. ``--only NAME`` makes one of them, ``--list`` says which there are.

WORK/models holds the models: ``CARB_MODEL_CACHE=WORK/models python tests/small_models.py gemma3-270m`` puts one there,
and the same with smollm2-135m the other. WORK/carb-open.jsonl holds the open sources, which no package ships:
``carb data build carb-open --out WORK/carb-open.jsonl`` makes it where ``carb data fetch`` got the sources.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = ROOT / "packages/carb-cli/src/carb_cli/results/reference"
BASELINES = ("baseline:random", "baseline:length", "baseline:language", "baseline:label")
OPEN = "carb-open.jsonl"
GEMMA_JUDGE = "Gemma 3 270M, judge=judge:models/gemma3-270m"
GEMMA_LIKELIHOOD = "Gemma 3 270M, likelihood=implicit:models/gemma3-270m?ref=none&packing=on"
SMOLLM_LIKELIHOOD = "SmolLM2 135M, likelihood=implicit:models/smollm2-135m?ref=none&packing=on"


@dataclass(frozen=True)
class Wanted:
    """A run, and what its entries say of it."""

    name: str
    scorers: tuple[str, ...]
    limit: int | None
    """Sets, in whole families spread evenly over cultures and domains; ``None``: all."""
    relationship: str = "independent"
    seconds: str = ""
    """Measured processor time of one core."""
    data: str = "carb-seed@2"
    cultures: tuple[str, ...] = ()
    """Cultures whose sets are scored; none: all."""


RUNS = (
    Wanted("baselines", BASELINES, None, seconds="13 s"),
    Wanted("gemma-judge", (GEMMA_JUDGE,), 240, seconds="0.7 s a set"),
    Wanted("smollm-judge", ("SmolLM2 135M, judge=judge:models/smollm2-135m",), 240, seconds="1.6 s a set"),
    Wanted("gemma-likelihood", (GEMMA_LIKELIHOOD,), 240, seconds="at most 2.1 s a set"),
    Wanted("smollm-likelihood", (SMOLLM_LIKELIHOOD,), 240, seconds="2.6 s a set"),
    Wanted("open-baselines", BASELINES, 1200, data=OPEN, seconds="10 s"),
    Wanted("open-gemma-judge", (GEMMA_JUDGE,), 240, data=OPEN, seconds="0.7 s a set"),
    Wanted("open-gemma-likelihood", (GEMMA_LIKELIHOOD,), 240, data=OPEN, seconds="at most 2.1 s a set"),
    Wanted("open-smollm-likelihood", (SMOLLM_LIKELIHOOD,), 240, data=OPEN, seconds="2.6 s a set"),
)  # fmt: skip


def make(wanted: Wanted, work: Path) -> None:
    """Run it, and add its entries."""
    some = ("--cultures", *wanted.cultures) if wanted.cultures else ()
    limit = () if wanted.limit is None else ("--limit", str(wanted.limit))
    out = f"runs/{wanted.name}"
    how = ("--window", "16")  # an interruption loses no more sets than a window holds
    run = ("carb", "run", "--data", wanted.data, "--scorer", *wanted.scorers, *some, *limit, *how, "--out", out)
    add = ("carb", "results", "add", out, "--out", str(PACKAGED), "--replace", "--trained-on", "no")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for command in ((*run, "--quiet"), (*add, "--relationship", wanted.relationship)):
        subprocess.run(command, cwd=work, check=True, env=environment)


def main() -> None:
    """Make the runs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, nargs="?", default=Path("runs/reference"))
    parser.add_argument("--only", choices=[wanted.name for wanted in RUNS])
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    for wanted in RUNS:
        if given.list:
            sets = " ".join((f"{wanted.limit or 'all'} sets of {wanted.data}", *wanted.cultures))
            print(f"{wanted.name}: {', '.join(wanted.scorers)}; {sets}; {wanted.seconds}")
        elif given.only in (None, wanted.name):
            given.work.mkdir(parents=True, exist_ok=True)
            make(wanted, given.work)


if __name__ == "__main__":
    main()
