"""The judge's taskset in ``verifiers`` itself: its loader, its iteration, its scoring.

Runs where verifiers is installed: ``nox -s verifiers``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="needs verifiers, in an environment of its own; run nox -s verifiers")

import anyio
import verifiers.v1 as vf
from verifiers.v1.envs.single_agent.env import SingleAgentEnvConfig
from verifiers.v1.utils.loaders import load_environment, load_taskset

from tal_rlvr.judgement import write_judgement
from tal_rlvr.verifiers_judge import JudgeConfig

pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def taskset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin as the module's documentation writes it, over a small mix."""
    rows = [
        {"prompt": f"q {n}", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"} for n in range(20)
    ]
    rows[0]["rejected"] = "Verdict: A"
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "run.toml").write_text(
        f'preset = "demo-cpu"\nmodel = "none"\nout = "{tmp_path}/out"\n[mix]\nheld_out = 0.5\n'
        f'sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]\n'
    )
    (tmp_path / "tal_judge.py").write_text(
        'from tal_rlvr.verifiers_judge import JudgeTaskset\n\n__all__ = ["JudgeTaskset"]\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield load_taskset(JudgeConfig(id="tal-judge", config_file=str(tmp_path / "run.toml")))
    sys.modules.pop("tal_judge", None)


def scored(task: Any, output: str) -> tuple[float, dict[str, float]]:
    """What verifiers makes of an output: the whole reward, and the metrics."""
    agent = vf.AgentInfo(config=vf.AgentConfig())
    trace = vf.Trace(task=vf.TraceTask(type="JudgeTask", data=task.data), agent=agent, root_reply=output)
    anyio.run(task.score, trace)
    return trace.reward, trace.metrics


def test_verifiers_loads_every_pair_in_both_orders(taskset: Any) -> None:
    tasks = list(taskset)
    assert [task.data.idx for task in tasks] == list(range(len(tasks)))
    assert len({task.data.id for task in tasks}) == len(tasks)
    labels = [task.data.label for task in tasks]
    assert labels.count("A") == labels.count("B") > 3
    assert len(list(taskset.take(2))) == 2
    held = type(taskset)(taskset.config.model_copy(update={"held_out": True}))
    assert not {t.data.prompt for t in held} & {t.data.prompt for t in tasks}


def test_verifiers_loads_the_environment_that_a_trainer_asks_for(taskset: Any) -> None:
    """What its own trainer, evaluation and server call: the judge as the one agent that plays these tasks."""
    chat = vf.AgentConfig(harness={"id": "null"})
    environment = load_environment(SingleAgentEnvConfig(taskset=taskset.config, agent=chat))
    assert [task.data.prompt for task in environment.taskset] == [task.data.prompt for task in taskset]


def test_verifiers_scores_a_judgement_by_its_verdict(taskset: Any) -> None:
    task = next(task for task in taskset if task.data.label == "B" and not task.data.strict)
    right, wrong = (write_judgement([("fact", "known", 3, v)], "It fits.", v) for v in "BA")
    assert scored(task, right) == (1.0, {"well_formed": 1.0, "readable": 1.0})
    assert scored(task, wrong)[0] == -1.0
    assert scored(task, "**Verdict: B**") == (1.0, {"well_formed": 0.0, "readable": 1.0})
    assert scored(task, "no idea") == (-1.0, {"well_formed": 0.0, "readable": 0.0})
