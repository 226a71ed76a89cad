"""The example for Ray on a local cluster of two workers, one of which is killed.

Runs where Ray is installed: ``nox -s ray``.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("ray", reason="needs Ray; run nox -s ray")

from carb_scorers.testing import example_dataset

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parents[1]

PLUGIN = '''
"""A scorer that says what it was asked, and dies or refuses once where it is told."""

import os
import signal
from pathlib import Path

from carb_data import CarbError
from carb_scorers import ScoreResult, ScorerSpec


class Told:
    def __init__(self, name, target, folder):
        self.spec = ScorerSpec(name=name, kind="told", model=target, comparative=True)
        self.folder = Path(folder)

    async def score(self, requests):
        results = []
        for request in requests:
            with open(self.folder / f"asked-{os.getpid()}", "a") as file:
                file.write(request.request_id + "\\n")
            if self.spec.model == "mortal" and request.request_id == "set-13" and self.first("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.spec.model == "refusing" and request.request_id == "set-13" and self.first("refused"):
                raise CarbError("the server is gone")
            scores = {c.id: len(c.text) / 7 for c in request.candidates}
            results.append(ScoreResult(request_id=request.request_id, scores=scores))
        return results

    def first(self, name):
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    async def aclose(self):
        pass


def open_told(name, target, options):
    return Told(name, target, options["folder"])
'''


REQUESTS = 72


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a package that registers the kind ``told``."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "told-1.0.dist-info").mkdir()
    (folder / "told_plugin.py").write_text(PLUGIN)
    (folder / "told-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
    entry = "[carb.scorers]\ntold = told_plugin:open_told\n"
    (folder / "told-1.0.dist-info" / "entry_points.txt").write_text(entry)
    example_dataset(24).save(folder / "data.jsonl")
    return folder


def call(place: Path, out: Path, *specs: str, ray: bool, options: tuple[str, ...] = ()) -> tuple[int, str]:
    command = [ROOT / "examples" / "on_ray.py", *options] if ray else ["-m", "carb_cli", "run", "--perturbed"]
    words = ["--data", place / "data.jsonl", "--scorer", *specs, "--out", out, "--window", "5"]
    path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, *map(str, (*command, *words))], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


TWO = ("--workers", "2")


def asked(folder: Path) -> list[Counter[str]]:
    """What each worker was asked since the last call of this."""
    found = []
    for path in folder.glob("asked-*"):
        found.append(Counter(path.read_text().splitlines()))
        path.unlink()
    return found


def same_table(folder: Path) -> bool:
    one, other = (pl.read_parquet(folder / name / "scores.parquet") for name in ("ray", "local"))
    return one.equals(other)


def test_the_table_is_that_of_a_local_run(place: Path, tmp_path: Path) -> None:
    specs = "baseline:random", f"told:plain?folder={tmp_path}"
    assert call(place, tmp_path / "ray", *specs, ray=True, options=TWO)[0] == 0
    workers = asked(tmp_path)
    assert len(workers) == 2
    assert set(sum(workers, Counter()).values()) == {1}
    assert sum(workers, Counter()).total() == REQUESTS
    assert call(place, tmp_path / "local", *specs, ray=False)[0] == 0
    assert same_table(tmp_path)


def test_a_worker_that_is_killed_costs_no_result(place: Path, tmp_path: Path) -> None:
    mortal = f"told:mortal?folder={tmp_path}"
    assert call(place, tmp_path / "ray", mortal, ray=True, options=TWO)[0] == 0
    assert (tmp_path / "killed").exists()
    twice = {key for key, times in sum(asked(tmp_path), Counter()).items() if times > 1}
    assert "set-13" in twice
    assert len(twice) <= 3  # the share of one window that the killed worker had
    assert call(place, tmp_path / "local", mortal, ray=False)[0] == 0
    assert same_table(tmp_path)


def test_mistakes_are_told(place: Path, tmp_path: Path) -> None:
    for spec, options, told in [
        (f"told:refusing?folder={tmp_path}", TWO, "the server is gone"),
        ("judge:/no/such/folder", (), "/no/such/folder"),
        ("baseline:random", ("--gpus", "64"), "no room"),
    ]:
        code, said = call(place, tmp_path / "out", spec, ray=True, options=options)
        assert code == 2
        assert told in said
        assert "Traceback" not in said
