"""Presets and launchers for GPUs, read by the libraries that would run them; and a sharded run on a
CPU.

Runs in an environment of its own, with the versions that ``tal-rlvr[gpu]`` resolves to: ``nox -s
gpu``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip(
    "deepspeed", reason="needs DeepSpeed, in an environment of its own; run nox -s gpu"
)

import torch
import transformers
import trl
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from packaging.requirements import Requirement
from packaging.version import Version
from safetensors.torch import load_file

from tal_rlvr import load_config, presets
from tal_rlvr.judge_prompts import prompt_folder
from tal_rlvr.trainer import paper_config
from tal_tiny import make_tiny

ROOT = Path(__file__).parent.parent
LAUNCH = prompt_folder().parent / "launch"
EXTRAS = tomllib.loads((ROOT / "packages/tal-rlvr/pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
GPU = {one.name: one.specifier for one in map(Requirement, EXTRAS["gpu"])}
PRESETS = [name for name in presets() if name.startswith("qwen")]


def test_this_environment_is_what_the_extra_asks_for():
    for library in (trl, transformers):
        assert Version(library.__version__) in GPU[library.__name__]


def test_the_extra_resolves(tmp_path):
    packages = [path for path in (ROOT / "packages").iterdir() if path.name != "carb-cli"]
    members = [
        f"{path.name}{'[gpu]' if path.name == 'tal-rlvr' else ''} @ {path.as_uri()}"
        for path in packages
    ]
    (tmp_path / "all.in").write_text("\n".join(members))
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--python-platform",
        "x86_64-manylinux_2_28",
    ]
    found = subprocess.run(
        [*command, str(tmp_path / "all.in")], capture_output=True, text=True, check=True
    ).stdout
    assert {"vllm", "trl", "transformers", "deepspeed"} <= {
        line.partition("==")[0] for line in found.splitlines()
    }


@pytest.mark.parametrize("name", PRESETS)
def test_trl_takes_every_setting_of_a_preset(name, tmp_path):
    needed = {"out": str(tmp_path), "mix": {"sources": [{"form": "carb", "path": "carb-seed"}]}}
    config = load_config(name, needed)
    cpu = {
        "use_cpu": True,
        "output_dir": str(tmp_path),
        "max_completion_length": config.max_new_tokens,
    }
    arguments = paper_config(**{**config.grpo, **cpu})
    settings = {
        key: value for key, value in config.grpo.items() if key != "report_to"
    }  # "none" becomes an empty list
    assert {key: getattr(arguments, key) for key in settings} == settings
    assert arguments.gradient_checkpointing is True
    assert (arguments.loss_type, arguments.beta) == ("grpo", config.grpo["beta"])


@pytest.mark.parametrize("path", sorted(LAUNCH.glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_takes_every_launcher(path, monkeypatch):
    command = ["--num_processes", "8", "--config_file", str(path), "-m", "tal_rlvr", "qwen2.5-7b"]
    arguments, defaults, _ = _validate_launch_command(launch_command_parser().parse_args(command))
    assert arguments.num_processes == 8
    assert arguments.mixed_precision == "bf16"
    zero = {"zero2": 2, "zero3": 3}.get(path.stem)
    if zero is not None:
        arguments.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
        _, environment = prepare_deepspeed_cmd_env(arguments)
    else:
        environment = prepare_multi_gpu_env(arguments)
    for name in [name for name in os.environ if name.startswith(("ACCELERATE_", "FSDP_"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if zero is not None:
        assert DeepSpeedPlugin().zero_stage == zero
    elif path.stem == "fsdp":
        plugin = FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == 2
        assert plugin.reshard_after_forward is True
        assert "FULL" in str(plugin.state_dict_type)


ZERO3 = """
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
    """Under ZeRO-3 over two processes."""
    tiny = make_tiny(tmp_path / "tiny")
    answers = [{"chosen": f"rice {n}", "rejected": f"tea {n}"} for n in range(30)]
    about = [
        {"prompt": f"{n * 7919}?", "source_item": f"s{n}", "culture": "thai"} for n in range(30)
    ]
    rows = [{**one, **other} for one, other in zip(about, answers, strict=True)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "zero3.yaml").write_text(ZERO3)
    (tmp_path / "run.toml").write_text(
        f"""
preset = "first-judge"
model = "{tiny}"
out = "{tmp_path}/out"
max_new_tokens = 36
[mix]
sources = [{{ form = "preference", path = "{tmp_path}/pairs.jsonl" }}]
held_out_limit = 3
[warmup]
steps = 2
batch_size = 4
[evaluation]
decoding = ["greedy"]
[grpo]
max_steps = 2
per_device_train_batch_size = 8
num_generations = 4
save_strategy = "no"
{"[lora]" if adapters else ""}
"""
    )
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(tmp_path / "zero3.yaml"),
    ]
    command += ["-m", "tal_rlvr", str(tmp_path / "run.toml")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "HF_HUB_OFFLINE": "1",
    }
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr[-5000:]
    out = tmp_path / "out"
    result = json.loads((out / "result.json").read_text())
    assert [stage["name"] for stage in result["stages"]] == ["before", "after"]
    outcomes = json.loads((out / "held-out" / "after-greedy.json").read_text())["outcomes"]
    assert len(outcomes) == 6
    assert len({outcome["pair"] for outcome in outcomes}) == 3
    before, after = (
        load_file(tiny / "model.safetensors"),
        load_file(out / "model" / "model.safetensors"),
    )
    assert {name: w.shape for name, w in after.items()} == {
        name: w.shape for name, w in before.items()
    }
    assert any(not torch.equal(before[name], after[name]) for name in before)
