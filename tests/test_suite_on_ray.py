"""``carb run --suite`` on a real Ray cluster of two machines, both on this one, and a worker that
is killed.

Runs where Ray is installed: ``nox -s ray``.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs Ray; run nox -s ray")

from ray.cluster_utils import Cluster

from carb_scorers.testing import example_dataset

pytestmark = pytest.mark.ray

PLUGIN = '''
"""A scorer that says what it was asked and which GPUs it saw.

The mortal one kills once the process that began it.
"""

import os
import signal
from pathlib import Path

from carb_scorers import ScoreResult, ScorerSpec

HERE = Path(__file__).parent


class Told:
    def __init__(self, name, target, options):
        self.spec = ScorerSpec(name=name, kind="told", model=target, comparative=True)

    async def score(self, requests):
        (HERE / f"{self.spec.name}.gpus").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
        with open(HERE / f"{self.spec.name}.asked", "a") as file:
            file.writelines(f"{request.request_id}\\n" for request in requests)
        killed = HERE / "killed"
        asked = len((HERE / f"{self.spec.name}.asked").read_text().splitlines())
        if self.spec.model == "mortal" and asked > 13 and not killed.exists():
            killed.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        scores = [{c.id: len(c.text) / 7 for c in request.candidates} for request in requests]
        return [
            ScoreResult(request_id=r.request_id, scores=s)
            for r, s in zip(requests, scores, strict=True)
        ]

    async def aclose(self):
        pass
'''
SUITE = """
model = [
    {name = "both", spec = "told:plain", gpus = 2, memory_gb = 38.5},
    {name = "mortal", spec = "told:mortal", gpus = 0},
    {name = "chance", spec = "baseline:random"},
]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, a suite, a package that registers the kind ``told``, and a machine of two
    GPUs."""
    about, tool = tmp_path / "told-1.0.dist-info", tmp_path / "bin" / "nvidia-smi"
    about.mkdir()
    tool.parent.mkdir()
    (tmp_path / "told_plugin.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[carb.scorers]\ntold = told_plugin:Told\n")
    tool.write_text(
        "#!/bin/sh\n" + "".join(f"echo '{n}, GPU-{n}, Test GPU, 20000, 24000'\n" for n in range(2))
    )
    tool.chmod(0o755)
    example_dataset(24).save(tmp_path / "data.jsonl")
    (tmp_path / "suite.toml").write_text(SUITE)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return tmp_path


@pytest.fixture
def cluster(place: Path) -> Iterator[str]:
    """The address of a cluster whose machines began in that environment."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
    made.add_node(num_cpus=2, num_gpus=2)
    yield made.address
    made.shutdown()


def call(place: Path, out: str, **more: str) -> tuple[int, dict[str, str | None]]:
    """Run the suite from that folder: the exit code, and why each model was not scored."""
    command = [
        "carb_cli",
        "run",
        "--data",
        "data.jsonl",
        "--suite",
        "suite.toml",
        "--out",
        out,
        "--window",
        "5",
    ]
    words = [sys.executable, "-m", *command, "--json"]
    done = subprocess.run(
        words, cwd=place, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, {
        model["name"]: model["why"] for model in json.loads(done.stdout)["models"]
    }


def test_a_suite_on_a_cluster(place: Path, cluster: str) -> None:
    """Its tables are those of one machine, byte by byte; a model whose worker died goes on with the
    same command."""
    code, why = call(place, "ray", RAY_ADDRESS=cluster)
    assert (code, why["both"], why["chance"]) == (1, None, None)
    assert "Ray: The worker died" in str(why["mortal"])
    assert (place / "both.gpus").read_text() == "0,1"

    assert call(place, "ray", RAY_ADDRESS=cluster)[0] == 0
    asked = Counter((place / "mortal.asked").read_text().split())
    assert len(asked) == 24
    assert sum(asked.values()) - len(asked) <= 5, (
        "no more than the window that was under way is asked again"
    )

    assert call(place, "local")[0] == 0
    for name in ("both", "mortal", "chance"):
        one, other = (place / out / name / "scores.parquet" for out in ("ray", "local"))
        assert one.read_bytes() == other.read_bytes()
