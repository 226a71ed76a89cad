"""What a run needs, by arithmetic."""

from __future__ import annotations

import pytest

from carb_data import CarbError
from tal_rlvr.memory import LIBRARIES, Shape, check_fits, needed
from tal_rlvr.train_config import load_config, preset_needs

SMOLLM = Shape(134_515_008, 576, 1536, 30, 49_152)
SHAPES = {
    "demo-cpu": SMOLLM,
    "first-judge": Shape(338_304, 96, 192, 3, 600),
    "qwen2.5-1.5b": Shape(1_543_714_304, 1536, 8960, 28, 151_936),
    "qwen2.5-3b": Shape(3_085_938_688, 2048, 11_008, 36, 151_936),
    "qwen2.5-7b": Shape(7_615_616_512, 3584, 18_944, 28, 152_064),
    "qwen2.5-14b": Shape(14_770_033_664, 5120, 13_824, 48, 152_064),
    "qwen2.5-32b": Shape(32_763_876_352, 5120, 27_648, 64, 152_064),
}
"""From the models' published configurations; the first judge's is that of
``examples/first_judge.py``."""


def configured(name, **changes):
    given = {"model": "m", "out": "o", "mix": {"sources": [{"form": "carb", "path": "s"}]}}
    return load_config(name, {**given, **changes})


@pytest.mark.parametrize("name", SHAPES)
def test_a_preset_fits_what_it_says_it_needs(name):
    config, needs = configured(name), preset_needs()[name]
    vllm = config.grpo.get("vllm_gpu_memory_utilization", 0)
    prompt = config.max_prompt_tokens or 100  # the first judge's longest has 41
    need = needed(config, SHAPES[name], prompt, max(1, needs.gpus))
    assert need.total <= needs.memory_gb * 2**30 / 1e9 * (1 - vllm)


def test_the_stage_that_needs_the_most_is_counted():
    model = Shape(1000_000_000, 100, 200, 10, 1000)
    grpo = {"per_device_train_batch_size": 4, "max_steps": 1, "beta": 0.1}
    few = {"steps": 1, "batch_size": 2}
    config = configured("first-judge", grpo=grpo, warmup=few, max_new_tokens=50)
    need = needed(config, model, 150)
    # float32: weights, gradients, two moments, the reference
    assert (need.stage, need.weights) == ("grpo", pytest.approx(20.0))
    per_row = 200 * 10 * (8 * 100 + 2 * 200) * 4 + 3 * 4 * 1000 * 50
    assert need.batch == pytest.approx(4 * per_row / 1e9)
    assert need.total == LIBRARIES + need.weights + need.batch
    assert needed(config, model, 150, 4).weights == pytest.approx(5.0)
    many = configured("first-judge", grpo=grpo, warmup={"steps": 1, "batch_size": 100_000})
    assert needed(many, model, 150).stage == "warm-up"
    alone = configured("first-judge", grpo={"max_steps": 0}, warmup={"steps": 0})
    assert needed(alone, model, 150).total == LIBRARIES
    adapters = configured("first-judge", dtype="bfloat16", lora={"r": 4})
    assert needed(adapters, model, 150).weights == pytest.approx(2.0)


def test_what_does_not_fit_is_refused_with_the_option_that_helps():
    """The first demo: ten languages, prompts of up to 2,238 tokens, batches of 8."""
    config = configured("first-judge", warmup={"batch_size": 8}, max_new_tokens=48)
    need = needed(config, SMOLLM, 2238)
    with pytest.raises(CarbError, match=r"needs about .*2286 tokens.*8\.6 GB.*max_prompt"):
        check_fits(need, 8.6, "This machine")
    check_fits(need, need.total, "This machine")
    large = needed(configured("first-judge"), SHAPES["qwen2.5-7b"], 160)
    with pytest.raises(CarbError, match=r"\[lora\]"):
        check_fits(large, 80.0, "The GPU")
