"""The memory plan: arithmetic that can be checked by hand, and refusal before any weight is loaded."""

from __future__ import annotations

import json
import threading

import pytest

from carb_data import CarbError
from tal_rlvr import load_config, run
from tal_rlvr.memory import Hardware, ModelShape, memory_plan, model_shape

GB = 10**9
SHAPES = {  # of Qwen2.5-Instruct, from the models' configurations
    "qwen2.5-7b": ModelShape(parameters=7_615_616_512, layers=28, hidden=3584, vocabulary=152_064),
    "qwen2.5-14b": ModelShape(parameters=14_770_033_664, layers=48, hidden=5120, vocabulary=152_064),
    "qwen2.5-32b": ModelShape(parameters=32_763_876_352, layers=64, hidden=5120, vocabulary=152_064),
}


def preset(name, **overrides):
    return load_config(
        name, {"model": "m", "out": "o", "mix": {"sources": [{"form": "carb", "path": "x"}]}, **overrides}
    )


def gpus(count, sharding, each=80):
    return Hardware(kind="gpu", devices=count, bytes_each=each * GB, sharding=sharding)


def test_all_weights_of_32b_need_82_gb_a_device_before_vllm():
    plan = memory_plan(preset("qwen2.5-32b", lora=None), SHAPES["qwen2.5-32b"], gpus(8, "full"))
    states = plan.weights + plan.gradients + plan.optimizer + plan.reference
    assert states == pytest.approx(20 * 32_763_876_352 / 8)  # 4 + 4 + 8 + 4 bytes
    assert states / GB == pytest.approx(82, abs=0.1)
    with pytest.raises(CarbError, match=r"does not fit.*8 GPU processes of 80\.0 GB: 111\.\d GB.*optimizer 32\.8"):
        plan.check()
    memory_plan(preset("qwen2.5-32b", lora=None), SHAPES["qwen2.5-32b"], gpus(16, "full")).check()


@pytest.mark.parametrize("name", SHAPES)
def test_the_presets_fit_on_eight_devices_of_80_gb_when_they_are_sharded(name):
    config = preset(name)
    adapters = {} if config.lora is None else {"lora_parameters": 600_000_000}
    shape = SHAPES[name].model_copy(update=adapters)
    memory_plan(config, shape, gpus(8, "full")).check()
    with pytest.raises(CarbError, match="does not fit"):
        memory_plan(config, shape, gpus(8, "none")).check()


def test_each_part_follows_its_rule():
    shape = ModelShape(parameters=10**9, layers=10, hidden=100, vocabulary=1000)
    config = preset("qwen2.5-7b", max_new_tokens=100, max_prompt_tokens=100)
    plan = memory_plan(config, shape, gpus(4, "gradients"))
    assert (plan.weights, plan.gradients, plan.optimizer, plan.reference) == (4e9, 1e9, 2e9, 4e9)
    assert plan.activations == 2 * 200 * 8 * 100 * 10 + 2 * 4 * 8 * 100 * 1000
    assert (plan.rollouts, plan.rollout_weights) == (24e9, 2e9)
    grpo = {"beta": 0.0, "optim": "adamw_8bit", "model_init_kwargs": {"dtype": "bfloat16"}, "use_vllm": False}
    plan = memory_plan(preset("qwen2.5-7b", grpo=grpo), shape, gpus(1, "none"))
    assert (plan.weights, plan.optimizer, plan.reference, plan.rollouts) == (2e9, 2e9, 0, 0)


def test_vllm_needs_room_for_its_own_weights():
    config = preset("qwen2.5-14b", grpo={"vllm_tensor_parallel_size": 1})
    with pytest.raises(CarbError, match=r"vLLM's copy of the weights takes 29\.5 GB.*24\.0 GB are reserved"):
        memory_plan(config, SHAPES["qwen2.5-14b"], gpus(8, "full")).check()


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft uses the old name
def test_a_model_is_counted_without_its_weights(tiny_folder, tiny_model):
    config = preset("demo-cpu", model=str(tiny_folder))
    shape = model_shape(config)
    assert (shape.parameters, shape.layers, shape.hidden) == (tiny_model.num_parameters(), 2, 32)
    from peft import LoraConfig, get_peft_model

    peft = get_peft_model(tiny_model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    adapted = model_shape(preset("demo-cpu", model=str(tiny_folder), lora={"r": 4}))
    assert adapted.lora_parameters == peft.get_nb_trainable_parameters()[0]
    with pytest.raises(CarbError, match="Cannot read the configuration"):
        model_shape(preset("demo-cpu", model=str(tiny_folder.parent / "none")))


def test_counting_a_model_leaves_alone_what_another_thread_builds(tiny_folder, monkeypatch):
    import torch
    import transformers

    built = []
    original = transformers.AutoModelForCausalLM.from_config

    def from_config(config):
        other = threading.Thread(target=lambda: built.append(torch.nn.Linear(2, 2)))
        other.start()
        other.join()
        model = original(config)
        built.append(model)
        return model

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_config", from_config)
    model_shape(preset("demo-cpu", model=str(tiny_folder)))
    assert [{weight.device.type for weight in model.parameters()} for model in built] == [{"cpu"}, {"meta"}]


def test_a_run_that_cannot_fit_is_refused_before_anything_is_read(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tal_rlvr.pipeline.hardware", lambda: Hardware(kind="cpu", devices=1, bytes_each=1000))
    notes = []
    overrides = {
        "model": str(tiny_folder),
        "out": str(tmp_path / "out"),
        "mix": {"sources": [{"form": "carb", "path": "?"}]},
    }
    with pytest.raises(CarbError, match="does not fit"):
        run("demo-cpu", overrides=overrides, on_note=notes.append)
    assert notes[0].startswith("Memory for 0.00 billion parameters on each of 1 CPU processes")
    assert json.loads((tmp_path / "out" / "memory.json").read_text())["hardware"]["bytes_each"] == 1000
    assert not (tmp_path / "out" / "mix.json").exists()


DEEPSPEED = {"WORLD_SIZE": "4", "ACCELERATE_USE_DEEPSPEED": "true"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (1, "none")),
        ({"WORLD_SIZE": "8", "ACCELERATE_USE_FSDP": "true"}, (8, "full")),
        ({**DEEPSPEED, "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}, (4, "full")),
        ({**DEEPSPEED, "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}, (4, "gradients")),
    ],
)
def test_the_launcher_says_how_the_model_is_sharded(monkeypatch, environment, expected):
    pytest.importorskip("torch", reason="needs tal-rlvr[train]")
    from tal_rlvr.memory import hardware

    for name in ("WORLD_SIZE", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = hardware()
    assert (found.devices, found.sharding) == expected
    assert found.bytes_each > GB
    assert found.processor.endswith(" threads") or found.kind == "gpu"
