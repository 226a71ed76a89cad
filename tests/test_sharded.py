"""A whole run under ZeRO-3 over two processes on a CPU, evaluated after training: ``nox -s gpu``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("deepspeed", reason="needs DeepSpeed, in an environment of its own; run nox -s gpu")

import torch
from safetensors.torch import load_file

from tal_tiny import make_tiny

LAUNCH = """
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: "no"
use_cpu: true
num_machines: 1
num_processes: 2
deepspeed_config:
  zero_stage: 3
  zero3_init_flag: true
  zero3_save_16bit_model: true
  offload_optimizer_device: none
  offload_param_device: none
"""


@pytest.mark.parametrize("adapters", [False, True], ids=["all-weights", "adapters"])
def test_a_sharded_run_is_evaluated_and_saved_whole(tmp_path, adapters):
    tiny = make_tiny(tmp_path / "tiny")
    rows = [{"prompt": f"{n * 7919}?", "chosen": f"rice {n}", "rejected": f"tea {n}", "source_item": f"s{n}",
             "culture": "thai"}
            for n in range(30)]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "zero3.yaml").write_text(LAUNCH)
    (tmp_path / "run.toml").write_text(
        f"""
preset = "demo-cpu"
model = "{tiny}"
out = "{tmp_path}/out"
max_new_tokens = 36
[mix]
sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]
held_out_limit = 3
[warmup]
steps = 2
[evaluation]
decoding = ["greedy"]
on_contamination = "drop"
[grpo]
max_steps = 2
save_strategy = "no"
{"[lora]" if adapters else ""}
"""
    )
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(tmp_path / "zero3.yaml")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [*command, "-m", "tal_rlvr", str(tmp_path / "run.toml")],
        env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-5000:]
    out = tmp_path / "out"
    result = json.loads((out / "result.json").read_text())
    assert [stage["name"] for stage in result["stages"]] == ["before", "after"]
    outcomes = json.loads((out / "held-out" / "after-greedy.json").read_text())["outcomes"]
    assert len(outcomes) == 6
    assert len({outcome["pair"] for outcome in outcomes}) == 3
    before, after = load_file(tiny / "model.safetensors"), load_file(out / "model" / "model.safetensors")
    assert {name: w.shape for name, w in after.items()} == {name: w.shape for name, w in before.items()}
    assert any(not torch.equal(before[name], after[name]) for name in before)
