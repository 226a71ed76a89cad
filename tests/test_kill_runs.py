"""Runs survive anything: kill -9 at random points, Ctrl-C, a full disk, two processes at once.

Real processes of the real command line are interrupted. Random points are lines of the run engine,
counted while it runs, so that a failure can be repeated. A scorer registered by a small plugin
writes into a side file what it was asked, which shows whether anything is scored twice.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from filelock import FileLock

from carb_scorers.testing import example_dataset

PLUGIN = '''
"""Scorers that say what they were asked: each request is a line in the file named by ASKED."""

import os

from carb_scorers import ScoreResult, ScorerSpec


class Told:
    def __init__(self, name, comparative, in_flight=None):
        self.spec = ScorerSpec(name=name, kind="told", comparative=comparative, in_flight=in_flight)

    async def score(self, requests):
        results = []
        for request in requests:
            with open(os.environ["ASKED"], "a") as file:
                file.write(request.request_id + "\\n")
            scores = {c.id: len(c.text) / 7 for c in request.candidates}
            result = ScoreResult(request_id=request.request_id, scores=scores, rationale="x" * 200)
            results.append(result)
        return results

    async def aclose(self):
        pass


def open_told(name, target, options):
    return Told(name, comparative=True, in_flight=3 if target == "served" else None)
'''

RUN_AND_DIE = """
import os, signal, sys
from carb_cli import main

left = int(sys.argv.pop(1))
engine = ("execute.py", "journal.py", "evaluation.py", "record.py")

def count(frame, event, argument):
    global left
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return count

def trace(frame, event, argument):
    name = frame.f_code.co_filename
    ours = "carb_scorers" in name or "carb_data" in name
    return count if ours and name.endswith(engine) else None

before = left
sys.settrace(trace)
code = main(sys.argv[1:])
sys.settrace(None)
print("LINES", before - left)
sys.exit(code)
"""

SCORERS = ["--scorer", "told:window", "--scorer", "baseline:length", "--scorer", "told:served"]
SETS = 12


class Place:
    """A folder with the plugin and data, and a way to run the command there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plugin = folder / "plugin"
        (plugin / "told-1.0.dist-info").mkdir(parents=True)
        (plugin / "told_plugin.py").write_text(PLUGIN)
        (plugin / "told-1.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: told\nVersion: 1.0\n"
        )
        entry = "[carb.scorers]\ntold = told_plugin:open_told\n"
        (plugin / "told-1.0.dist-info" / "entry_points.txt").write_text(entry)
        example_dataset(SETS).save(folder / "data.jsonl")
        self.asked_file = folder / "asked"

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(
            [str(self.folder / "plugin"), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        return {**os.environ, "PYTHONPATH": path, "ASKED": str(self.asked_file)}

    def arguments(self, out: str, *more: str) -> list[str]:
        data = ["--data", str(self.folder / "data.jsonl"), "--quiet"]
        return ["run", *data, *SCORERS, "--perturbed", "--out", str(self.folder / out), *more]

    def run(self, out: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "carb_cli", *self.arguments(out, *more)]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True)

    def run_and_die(self, out: str, line: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RUN_AND_DIE, str(line), *self.arguments(out)]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True)

    def asked(self) -> Counter[str]:
        """Requests since the last call of this, with how often each was asked."""
        lines = self.asked_file.read_text().splitlines() if self.asked_file.exists() else []
        self.asked_file.unlink(missing_ok=True)
        return Counter(lines)

    def journaled(self, out: str, scorer: str) -> set[str]:
        found: set[str] = set()
        for path in (self.folder / out / "journal").glob(f"told_{scorer}-*.jsonl"):
            for line in path.read_bytes().splitlines(keepends=True)[1:]:
                if line.endswith(b"\n"):
                    found |= {result["request_id"] for result in json.loads(line)}
        return found

    def table(self, out: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder / out / "scores.parquet")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    pytest.importorskip("carb_cli")
    place = Place(tmp_path_factory.mktemp("kill"))
    whole = place.run_and_die("whole", 10**9)
    assert whole.returncode == 0, whole.stderr
    place.lines = int(whole.stdout.split("LINES")[1])
    assert set(place.asked().values()) == {2}  # each request by each of the two scorers, once
    return place


def test_kill_9_at_random_points(place: Place) -> None:
    """Kills at random lines of the engine, in as many runs as that takes, each resumed until it is
    done.

    Twelve kills by default; ``CARB_KILLS`` and ``CARB_KILL_SEED`` ask for more, and for others.
    """
    draw = random.Random(int(os.environ.get("CARB_KILL_SEED", "20")))
    kills = rounds = 0
    while kills < int(os.environ.get("CARB_KILLS", "12")):
        rounds += 1
        out = f"killed-{rounds}"
        while True:
            known = {name: place.journaled(out, name) for name in ("window", "served")}
            result = place.run_and_die(out, draw.randint(1, place.lines))
            asked = place.asked()
            for key, times in asked.items():
                allowed = sum(key not in journaled for journaled in known.values())
                assert times <= allowed, f"{key} was asked again although it was in the journal"
            if result.returncode == 0:
                break
            assert result.returncode == -signal.SIGKILL, result.stderr
            kills += 1
        assert place.table(out).equals(place.table("whole"))
        assert not list((place.folder / out).glob(".partial*"))
        assert (
            json.loads((place.folder / out / "run.json").read_text())["scorers"][0]["errors"] == 0
        )


def test_two_processes_cannot_write_one_run(place: Place) -> None:
    before = place.table("whole")
    with FileLock(place.folder / "whole" / ".lock"):  # as a process holds it that writes the run
        for more in ([], ["--fresh"]):
            second = place.run("whole", *more)
            assert second.returncode == 2
            assert "Another process is writing" in second.stderr
    assert place.table("whole").equals(before)
    assert place.run("whole").returncode == 0
    place.asked()
