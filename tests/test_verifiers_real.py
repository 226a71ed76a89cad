"""The judge's environment in ``verifiers`` itself: its loader, its iteration, its scoring, its rollouts and command.

Runs where verifiers is installed: ``nox -s verifiers``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="needs verifiers, in an environment of its own; run nox -s verifiers")

import anyio
import torch
import verifiers.v1 as vf
from transformers import AutoModelForCausalLM, AutoTokenizer
from verifiers.v1.utils.loaders import load_environment, load_taskset, resolve_env_config
from verifiers.v1.utils.trace_store import read_episodes

from tal_rlvr import verifiers_judge
from tal_rlvr.judgement import write_judgement
from tal_rlvr.other_trainers import judged
from tal_rlvr.verifiers_judge import JudgeConfig, JudgeData
from tal_tiny import make_tiny
from tiny_server import TinyServer, greedy
from tiny_server import row as logits_of

pytestmark = [pytest.mark.filterwarnings("ignore")]
DOCUMENTED = verifiers_judge.__doc__
WRITES = {"judgement": write_judgement([("fact", "people there know it", 3, "A")], "A fits daily life there.", "A")}
WRITES["spaced"] = "\u3000" + WRITES["judgement"]  # readable, but not well-formed
"""What models were trained to write whatever they are asked, by name: right in one order of a pair alone."""


@pytest.fixture
def taskset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin as the module's documentation writes it, over a small mix."""
    rows = [
        {"prompt": f"q {n}", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}"} for n in range(10)
    ]
    for row in rows[::2]:
        row["rejected"] = "Verdict: A"
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "run.toml").write_text(
        f'preset = "demo-cpu"\nmodel = "none"\nout = "{tmp_path}/out"\n[mix]\nheld_out = 0.5\n'
        f'sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]\n'
    )
    (tmp_path / "tal_judge.py").write_text(dedent(DOCUMENTED.split("::\n")[1].split("\nand ")[0]))
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


def test_verifiers_scores_a_judgement_by_its_verdict(taskset: Any) -> None:
    task = next(task for task in taskset if task.data.label == "B" and not task.data.strict)
    right, wrong = (write_judgement([("fact", "known", 3, v)], "It fits.", v) for v in "BA")
    assert scored(task, right) == (1.0, {"well_formed": 1.0, "readable": 1.0})
    assert scored(task, wrong)[0] == -1.0
    assert scored(task, "**Verdict: B**") == (1.0, {"well_formed": 0.0, "readable": 1.0})
    assert scored(task, "no idea") == (-1.0, {"well_formed": 0.0, "readable": 0.0})


class Server(TinyServer):
    """Keeps what it wrote to each prompt; has vLLM's endpoint for tokens as well, which trainers ask."""

    def __init__(self, folder: Path, prompts: list[str]) -> None:
        super().__init__({}, AutoTokenizer.from_pretrained(folder))
        self.written: dict[str, str] = {}
        asked = [self.ids(self.shown(prompt)) for prompt in prompts]
        for name, text in WRITES.items():
            model = self._models[name] = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            said = [*self.ids(text), self._tokenizer.eos_token_id]
            optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
            for ids in asked * 15:
                model(torch.tensor([ids + said]), labels=torch.tensor([[-100] * len(ids) + said])).loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    def shown(self, prompt: str) -> str:
        message = [{"role": "user", "content": prompt}]
        return str(self._tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))

    def chat_completions(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = super().chat_completions(body)
        (message,) = body["messages"]
        (choice,) = answer["choices"]
        self.written[self.shown(message["content"])] = choice["message"]["content"]
        form = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return {**form, "choices": [{"index": 0, **choice}]}  # verifiers insists on every field

    def inference_v1_generate(self, body: dict[str, Any]) -> dict[str, Any]:
        ids, model = body["token_ids"], self._models[body["model"]]
        out = greedy(model, ids, body["sampling_params"]["max_tokens"], self._tokenizer.eos_token_id)
        logprobs = logits_of(model, [*ids, *out])[len(ids) - 1 : -1].log_softmax(-1)
        content = [{"token": f"token_id:{t}", "logprob": float(v[t])} for t, v in zip(out, logprobs, strict=True)]
        self.written[self._tokenizer.decode(ids)] = self._tokenizer.decode(out, skip_special_tokens=True)
        return {"choices": [{"token_ids": out, "logprobs": {"content": content}, "finish_reason": "stop"}]}


@pytest.fixture
def server(taskset: Any, tmp_path: Path) -> Iterator[Server]:
    server = Server(make_tiny(tmp_path / "tiny"), [task.data.prompt for task in taskset])
    yield server
    server.close()


def check(episodes: list[Any], taskset: Any, server: Server) -> dict[Any, float]:
    """Every task was shown as it is, and rewarded for the very text that was written; rewards by label and strict."""
    found = {episode.task.data.idx: episode.traces[0] for episode in episodes}
    rewards = {}
    for data in (task.data for task in taskset):
        trace = found[data.idx]
        assert trace.ok, trace.errors
        text = server.written[server.shown(data.prompt)]
        assert trace.last_reply == text.strip()
        assert {"R_corr": trace.reward, **trace.metrics} == judged(text, data.label, strict=data.strict)
        rewards[data.label, data.strict] = trace.reward
    assert len(server.written) == len(episodes) == len(found)
    return rewards


@pytest.mark.parametrize("client", ["eval", "train"])
def test_verifiers_plays_every_task_against_a_server(taskset: Any, server: Server, tmp_path: Path, client: str) -> None:
    """What its trainers and its evaluation call, over HTTP: the judge as the one agent that plays these tasks."""
    environment = load_environment(resolve_env_config({"taskset": taskset.config.model_dump()}))
    kind = vf.EvalClientConfig if client == "eval" else vf.TrainClientConfig
    more = {} if client == "eval" else {"renderer_model_name": str(tmp_path / "tiny")}
    asked = kind(base_url=server.url, **more)

    async def play(model: str, tasks: Any) -> list[Any]:
        context = vf.ModelContext(model=model, client=asked, sampling=vf.SamplingConfig(max_tokens=80))
        async with environment.serving():
            slots = [slot for task in tasks for slot in environment.slots(task)]
            return [await environment.run_slot(slot, context) for slot in slots]

    rewards = check(anyio.run(play, "judgement", environment.taskset), taskset, server)
    assert rewards == {("A", False): 1.0, ("A", True): 1.0, ("B", False): -1.0, ("B", True): -1.0}
    (failed,) = anyio.run(play, "no such model", taskset.take(1))
    assert not failed.ok
    assert failed.traces[0].errors
    assert not failed.traces[0].rewards


def test_the_documented_command_judges_every_task(taskset: Any, server: Server, tmp_path: Path) -> None:
    names = {"MODEL": "spaced", "URL": server.url}
    command = [names.get(word, word) for word in shlex.split(re.search("``(vf-eval .*?)``", DOCUMENTED, re.DOTALL)[1])]
    script = Path(sys.executable).parent / command.pop(0)
    more = ["--sampling.max-tokens", "80", "--no-rich", "--output-dir", "runs", "--run.name", "one"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [script, *command, *more], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True, timeout=300
    )
    episodes = read_episodes(tmp_path / "runs" / "one", vf.Trace[JudgeData, vf.State, vf.AgentConfig])
    rewards = check(episodes, taskset, server)
    assert rewards == {("A", False): 1.0, ("A", True): -1.0, ("B", False): -1.0, ("B", True): -1.0}
