"""The Ray engine on a local cluster of two workers, one of which is killed.

Runs where Ray is installed: ``nox -s ray``.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import polars as pl
import pytest

pytest.importorskip("ray", reason="needs the extra carb-scorers[ray]; run nox -s ray")

import ray

from carb_data import CarbError
from carb_scorers.run import Engine, RunRecord, run
from carb_scorers.testing import example_dataset

# What Ray warns of is not ours to change.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

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
            if self.spec.model == "buggy" and request.request_id == "set-13":
                raise RuntimeError("a bug")
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


DATASET = example_dataset(24)
REQUESTS = 72


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "told-1.0.dist-info").mkdir()
    (folder / "told_plugin.py").write_text(PLUGIN)
    (folder / "told-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
    entry = "[carb.scorers]\ntold = told_plugin:open_told\n"
    (folder / "told-1.0.dist-info" / "entry_points.txt").write_text(entry)
    return folder


@pytest.fixture(scope="module", autouse=True)
def two_workers(plugin: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(plugin), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("CARB_RAY_WORKERS", "2")
        patch.syspath_prepend(plugin)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()


def go(out: Path, *specs: str, engine: Engine = "local") -> RunRecord:
    async def score() -> RunRecord:
        return await run(DATASET, specs, out, window=5, engine=engine)

    return anyio.run(score)


def asked(folder: Path) -> list[Counter[str]]:
    """What each worker was asked since the last call of this."""
    found = []
    for path in folder.glob("asked-*"):
        found.append(Counter(path.read_text().splitlines()))
        path.unlink()
    return found


def table(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "scores.parquet")


def test_the_table_is_that_of_a_local_run(tmp_path: Path) -> None:
    told = f"told:plain?folder={tmp_path}"
    record = go(tmp_path / "ray", "baseline:random", told, engine="ray")
    workers = asked(tmp_path)
    assert len(workers) == 2
    assert set(sum(workers, Counter()).values()) == {1}
    assert sum(workers, Counter()).total() == REQUESTS
    local = go(tmp_path / "local", "baseline:random", told)
    assert (record.engine, local.engine) == ("ray", "local")
    assert table(tmp_path / "ray").equals(table(tmp_path / "local"))
    assert [s.spec for s in record.scorers] == [s.spec for s in local.scorers]


def test_a_worker_that_is_killed_costs_no_result(tmp_path: Path) -> None:
    mortal = f"told:mortal?folder={tmp_path}"
    record = go(tmp_path / "ray", mortal, engine="ray")
    assert (tmp_path / "killed").exists()
    assert record.scorers[0].errors == 0
    twice = {key for key, times in sum(asked(tmp_path), Counter()).items() if times > 1}
    assert "set-13" in twice
    assert len(twice) <= 3  # the share of one window that the killed worker had
    go(tmp_path / "local", mortal)
    assert table(tmp_path / "ray").equals(table(tmp_path / "local"))


def test_mistakes_are_told_and_a_bug_costs_one_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CarbError, match="the server is gone"):
        go(tmp_path / "stopped", f"told:refusing?folder={tmp_path}", engine="ray")
    with pytest.raises(CarbError, match="/no/such/folder"):
        go(tmp_path / "absent", "judge:/no/such/folder", engine="ray")
    record = go(tmp_path / "buggy", f"told:buggy?folder={tmp_path}", engine="ray")
    assert (record.scorers[0].errors, record.scorers[0].items) == (1, REQUESTS)
    monkeypatch.setenv("CARB_RAY_GPUS", "1")
    with pytest.raises(CarbError, match="no room"):
        go(tmp_path / "large", "baseline:random", engine="ray")
