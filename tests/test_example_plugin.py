"""A third-party package that registers a scorer: installed from its source, found by its entry
point, run by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

PLUGIN = Path(__file__).with_name("example_plugin")

CHECK = """
import anyio
from carb_scorers import open_scorer
from carb_scorers.spec import kinds, provider
from carb_scorers.testing import check_scorer

assert "overlap" in kinds()
assert provider("overlap") == "carb-example 1.0.0"
for spec in ("overlap:words", "overlap:letters?case=keep"):
    results = anyio.run(check_scorer, open_scorer(spec))
    assert all(0 <= score <= 1 for result in results for score in result.scores.values())
print("kept")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is installed."""
    pytest.importorskip("hatchling", reason="builds the example package")
    folder = tmp_path_factory.mktemp("site")
    options = [
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--disable-pip-version-check",
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        str(folder),
        str(PLUGIN),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def test_it_keeps_the_contract(installed: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=installed, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "kept"


def test_the_command_line_runs_it_by_name(installed: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("carb_cli")
    what = ["run", "--data", "carb-seed", "--limit", "20", "--quiet", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "carb_cli", *what]
    done = subprocess.run(
        [*command, "--scorer", "overlap:words"], env=installed, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    frame = pl.read_parquet(tmp_path / "scores.parquet")
    assert frame["scorer"].unique().to_list() == ["overlap:words"]
    assert frame["score"].null_count() == 0
    (scorer,) = json.loads((tmp_path / "run.json").read_text())["scorers"]
    assert scorer["spec"]["revision"] == "1.0.0"
    for spec, said in (
        ("overlap:sounds", "only of words"),
        ("overlap:words?cse=keep", "did you mean 'case'"),
    ):
        done = subprocess.run(
            [*command, "--scorer", spec, "--fresh"], env=installed, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
