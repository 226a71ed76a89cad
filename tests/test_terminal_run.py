"""``carb`` in a real pseudo-terminal: progress, Ctrl-C, going on, width, colour."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from carb_data import ScoreTable
from carb_scorers.testing import example_dataset

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)
from terminals import Terminal

PLUGIN = '''
import os, threading
import anyio, anyio.to_thread
from carb_scorers import ScoreResult, ScorerSpec, Usage

class Slow:
    """Scores two windows (of 64 requests), then waits as its target says, if asked to."""
    def __init__(self, name, target):
        self.spec = ScorerSpec(name=name, kind="slow", model=target)
        self.target, self.windows = target, 0

    async def score(self, requests):
        self.windows += 1
        if self.windows == 3 and "SLOW_WAITS" in os.environ:
            if self.target == "async":
                await anyio.sleep_forever()
            elif self.target == "thread":
                await anyio.to_thread.run_sync(threading.Event().wait)
            else:
                open(os.environ["SLOW_WAITS"], "rb").read()
        with open(os.environ["SLOW_LOG"], "a") as log:
            log.writelines(request.request_id + "\\n" for request in requests)
        return [ScoreResult(request_id=r.request_id, usage=Usage(input_tokens=10),
                            scores={c.id: float(len(c.text)) for c in r.candidates})
                for r in requests]

    async def aclose(self):
        pass

def open_slow(name, target, options):
    return Slow(name, target)
'''


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, str]:
    """An environment with a package that registers the kind ``slow``."""
    package = tmp_path / "plugin"
    meta = package / "slow-1.0.dist-info"
    meta.mkdir(parents=True)
    (package / "slow_scorer.py").write_text(PLUGIN)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[carb.scorers]\nslow = slow_scorer:open_slow\n")
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "SLOW_LOG": str(tmp_path / "log")}


SETS = 200


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "sets.jsonl"
    example_dataset(SETS, perturbed=False).save(path)
    return path


def command(data: Path, target: str, out: Path) -> list[object]:
    return ["run", "--data", data, "--scorer", f"slow:{target}", "--window", 64, "--out", out]


def asked(tmp_path: Path) -> Counter[str]:
    """How often each item was scored."""
    return Counter((tmp_path / "log").read_text().split())


@pytest.mark.parametrize("target", ["async", "fifo", "thread"])
def test_ctrl_c_ends_at_once_and_the_same_command_goes_on(
    plugin: dict[str, str], data: Path, tmp_path: Path, target: str
) -> None:
    """Whatever the scorer waits for."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    out = tmp_path / "run"
    terminal = Terminal(
        [*command(data, target, out), "--fresh"], environment={**plugin, "SLOW_WAITS": str(fifo)}
    )
    terminal.wait_for("128/200")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert "Traceback" not in terminal.plain
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l"), (
        "the cursor is shown again"
    )
    said = " ".join(terminal.plain.split())
    assert f"kept in {out}" in said
    again = re.search(r"again: (carb run .* --out \S+)", said)
    assert again is not None
    assert "--fresh" not in again[1], "that would throw away what was scored"
    assert len(asked(tmp_path)) == 128
    assert not (out / "run.json").exists()

    terminal = Terminal(command(data, target, out), environment=plugin)
    assert terminal.ended() == 0
    assert "200/200" in terminal.plain
    assert set(asked(tmp_path).values()) == {1}, "nothing is scored twice"
    assert len(asked(tmp_path)) == SETS
    assert ScoreTable.load(out / "scores.parquet").frame["score"].null_count() == 0
    assert json.loads((out / "run.json").read_text())["scorers"][0]["errors"] == 0


def test_ctrl_c_while_loading(plugin: dict[str, str], data: Path, tmp_path: Path) -> None:
    """Before scoring starts there is nothing to keep, and nothing to go on with."""
    fifo = tmp_path / "data.jsonl"
    os.mkfifo(fifo)
    terminal = Terminal(["data", "check", fifo])
    with fifo.open("wb"):  # it has opened its side, so it is reading
        terminal.press("\x03")
        assert terminal.ended() == 130
    assert "Interrupted" in terminal.plain
    assert "Traceback" not in terminal.plain
