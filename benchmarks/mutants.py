"""Changes the code one operator, number or branch at a time, and counts what the tests notice.

Usage: python benchmarks/mutants.py [--sample N] [--seed S] [GROUP ...]

cosmic-ray lists the mutations; a random sample of them runs, since all take days. A mutation is
killed when a test fails or time runs out. Survivors are printed with file, line and operator.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from carb_metrics.intervals import wilson

ROOT = Path(__file__).parents[1]
PACKAGES = ("carb-data", "carb-metrics", "carb-scorers")
SECONDS = 300
"""A mutation that takes longer counts as killed: it hangs."""
SKIPPED_OPERATORS = ("core/RemoveDecorator", "core/ReplaceBinaryOperator_BitOr_")
"""They break imports, or change annotations alone."""


class Group(NamedTuple):
    """Modules that are changed, and the tests that should notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


SOURCES = "packages/carb-scorers/src/carb_scorers"
TESTS = "packages/carb-scorers/tests/test_"
ABOUT_RUNS = ("blind", "contract", "evaluation", "presentations", "runs", "score_journal", "told")
GROUPS = {
    "metrics": Group(
        ("packages/carb-metrics/src/carb_metrics",),
        ("packages/carb-metrics/tests", "tests/test_golden.py"),
    ),
    "scorers": Group(
        (f"{SOURCES}/blind.py", f"{SOURCES}/evaluation.py", f"{SOURCES}/run"),
        tuple(f"{TESTS}{name}.py" for name in ABOUT_RUNS),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], default=[*GROUPS])
    parser.add_argument("--sample", type=int, default=100, help="mutations of each group")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.groups:
        with TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            kept = shutil.ignore_patterns(".*", "runs", "dist", "__pycache__")
            shutil.copytree(ROOT, tree, ignore=kept)
            measure(name, GROUPS[name], tree, options.sample, options.seed)


def measure(name: str, group: Group, tree: Path, sample: int, seed: int) -> None:
    """Run a sample of the mutations of a group; prints the share killed and the survivors."""
    session = tree / "mutants.sqlite"
    config = tree / "mutants.toml"
    tests = " ".join(group.tests)
    modules = ", ".join(f'"{module}"' for module in group.modules)
    config.write_text(
        "[cosmic-ray]\n"
        f"module-path = [{modules}]\n"
        f"timeout = {SECONDS}\n"
        "excluded-modules = []\n"
        f'test-command = "{sys.executable} -m pytest -q -x -p no:cacheprovider {tests}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    sources = [str(tree / f"packages/{one}/src") for one in PACKAGES]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*sources, os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    tool = [sys.executable, "-m", "cosmic_ray.cli"]

    def call(*arguments: str | Path) -> None:
        subprocess.run([*tool, *map(str, arguments)], cwd=tree, env=environment, check=True)

    call("init", config, session)
    total = draw(session, sample, seed)
    call("baseline", config)
    call("exec", config, session)
    report(name, session, total)


def draw(session: Path, sample: int, seed: int) -> int:
    """Keep one mutation at each of a random sample of spots; returns how many spots there are."""
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(
            "SELECT job_id, operator_name, module_path, start_pos_row, start_pos_col, occurrence "
            "FROM mutation_specs ORDER BY module_path, start_pos_row, start_pos_col, operator_name"
        ).fetchall()
        spots: defaultdict[tuple[str, int, int], list[str]] = defaultdict(list)
        for job, operator, *spot, _ in rows:
            if not operator.startswith(SKIPPED_OPERATORS):
                spots[tuple(spot)].append(job)
        chosen = random.Random(seed)
        drawn = chosen.sample(sorted(spots), min(sample, len(spots)))
        kept = {chosen.choice(spots[spot]) for spot in drawn}
        dropped = [(job,) for job, *_ in rows if job not in kept]
        for table in ("mutation_specs", "work_items"):
            database.executemany(f"DELETE FROM {table} WHERE job_id = ?", dropped)
        database.commit()
    return len(spots)


def report(name: str, session: Path, total: int) -> None:
    query = (
        "SELECT module_path, start_pos_row, operator_name, test_outcome FROM mutation_specs "
        "JOIN work_results USING (job_id) ORDER BY module_path, start_pos_row"
    )
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(query).fetchall()
    alive = [row for row in rows if "SURVIVED" in str(row[3]).upper()]
    killed = len(rows) - len(alive)
    low, high = map(float, wilson(killed, len(rows)))
    print(
        f"{name}: {killed} of {len(rows)} mutations killed "
        f"({100 * killed / len(rows):.0f}% [{100 * low:.0f}, {100 * high:.0f}]), "
        f"at as many of {total:,} spots"
    )
    for path, line, operator, _ in alive:
        print(f"  alive: {path}:{line} {operator}")


if __name__ == "__main__":
    main()
