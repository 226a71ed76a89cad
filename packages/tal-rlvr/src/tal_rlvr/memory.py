"""How much memory training needs on each device: computed before any weight is loaded."""

from __future__ import annotations

import os
import platform
from typing import Any, Literal

from carb_data import CarbError
from carb_data.extras import require
from carb_data.models import Frozen
from tal_rlvr.config import TrainConfig

__all__ = ["Hardware", "MemoryPlan", "ModelShape", "hardware", "memory_plan", "model_shape"]

GB = 1e9
ASSUMED_PROMPT = 1024
"""Tokens of the longest prompt where ``max_prompt_tokens`` does not say."""
_OPTIMIZER_BYTES = {"adafactor": 0.1, "sgd": 0.0, "8bit": 2.0, "4bit": 1.0}
"""Bytes of optimizer state for each trained parameter, by a part of the optimizer's name; AdamW has 8."""


class ModelShape(Frozen):
    """The size of a causal language model."""

    parameters: int
    layers: int
    hidden: int
    vocabulary: int
    lora_parameters: int = 0
    """Trained parameters of the adapters; 0 where all weights are trained."""


class Hardware(Frozen):
    """What a run is started on."""

    kind: Literal["gpu", "cpu"]
    devices: int
    """Processes; with ``gpu`` each has a device of its own, with ``cpu`` they share the memory."""
    bytes_each: int
    """Memory of a device."""
    sharding: Literal["none", "gradients", "full"] = "none"
    """``gradients``: DeepSpeed's ZeRO-2; ``full``: FSDP or ZeRO-3."""
    processor: str = ""
    """The GPU's name, or the CPU's instruction set and threads. Another kind does not repeat a run bit for bit."""


class MemoryPlan(Frozen):
    """Bytes on each device, by what they are for."""

    hardware: Hardware
    parameters: int
    weights: float
    gradients: float
    optimizer: float
    reference: float
    """The model that the KL term compares with; 0 with adapters or ``beta = 0``."""
    activations: float
    rollouts: float
    """Reserved by a colocated vLLM."""
    rollout_weights: float
    """What of that vLLM's own copy of the weights takes, in 16 bits."""

    @property
    def total(self) -> float:
        """Bytes on each device."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.activations + self.rollouts

    def describe(self) -> str:
        """The plan in one sentence."""
        parts = {name: getattr(self, name) for name in _PARTS if getattr(self, name)}
        listed = ", ".join(f"{name} {value / GB:.1f}" for name, value in parts.items())
        where = f"each of {self.hardware.devices} {self.hardware.kind.upper()} processes"
        return (
            f"Memory for {self.parameters / 1e9:.2f} billion parameters on {where} of "
            f"{self.hardware.bytes_each / GB:.1f} GB: {self.total / GB:.1f} GB ({listed})."
        )

    def check(self) -> None:
        """Refuse what cannot fit.

        Raises:
            CarbError: the parts together, or vLLM's weights in its reservation, are more than there is.
        """
        if self.rollout_weights > 0.9 * self.rollouts and self.rollouts:
            raise CarbError(
                f"vLLM's copy of the weights takes {self.rollout_weights / GB:.1f} GB and needs room for its "
                f"cache, but {self.rollouts / GB:.1f} GB are reserved. Raise grpo.vllm_gpu_memory_utilization or "
                f"grpo.vllm_tensor_parallel_size. {self.describe()}"
            )
        if self.total > self.hardware.bytes_each:
            raise CarbError(
                f"This run does not fit. {self.describe()} Use more devices with full sharding (launch/fsdp.yaml, "
                f"launch/zero3.yaml), adapters ([lora]), a smaller per_device_train_batch_size or max_new_tokens, or a "
                f"lower grpo.vllm_gpu_memory_utilization."
            )


_PARTS = ("weights", "gradients", "optimizer", "reference", "activations", "rollouts")


def memory_plan(config: TrainConfig, shape: ModelShape, on: Hardware) -> MemoryPlan:
    """The memory that GRPO under this configuration needs on each device.

    TRL keeps weights, gradients, both moments of AdamW and the reference in 32 bits: 4 + 4 + 8 + 4 bytes for each
    parameter, divided by the number of devices where they are sharded (Rajbhandari et al. 2020, arXiv 1910.02054,
    section 3). Activations in 16 bits take ``2 s b h L`` bytes with checkpointing and ``34 s b h L`` without
    (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1, less the attention scores, which fused attention does not
    keep), and the logits of the completions ``2 * 4 b c V``. It is an estimate: a framework's buffers come on top.

    Args:
        config: the configuration of the run.
        shape: the model's sizes, from ``model_shape``.
        on: the devices, see ``hardware``.
    """
    grpo = config.grpo
    trained = shape.lora_parameters or shape.parameters
    full = on.devices if on.sharding == "full" else 1
    states = on.devices if on.sharding != "none" else 1
    bits = str((grpo.get("model_init_kwargs") or {}).get("dtype", "float32"))
    width = 2 if bits in ("bfloat16", "float16") else 4
    optimizer = str(grpo.get("optim", "adamw"))
    moments = next((size for name, size in _OPTIMIZER_BYTES.items() if name in optimizer), 2.0 * width)
    rows = int(grpo.get("per_device_train_batch_size", 8))
    tokens = config.max_new_tokens + (config.max_prompt_tokens or ASSUMED_PROMPT)
    factor = 2 if grpo.get("gradient_checkpointing", on.kind == "gpu") else 34
    precise = 2 if on.kind == "cpu" else 1  # 32 bits on a CPU
    activations = factor * precise * tokens * rows * shape.hidden * shape.layers
    logits = 2 * 4 * rows * config.max_new_tokens * shape.vocabulary
    colocated = bool(grpo.get("use_vllm")) and grpo.get("vllm_mode", "colocate") == "colocate" and on.kind == "gpu"
    share = float(grpo.get("vllm_gpu_memory_utilization", 0.3)) if colocated else 0.0
    parallel = int(grpo.get("vllm_tensor_parallel_size", 1))
    has_reference = float(grpo.get("beta", 0.04)) > 0 and not shape.lora_parameters
    return MemoryPlan(
        hardware=on,
        parameters=shape.parameters,
        weights=width * shape.parameters / full,
        gradients=width * trained / states,
        optimizer=moments * trained / states,
        reference=width * shape.parameters / full if has_reference else 0.0,
        activations=activations + logits,
        rollouts=share * on.bytes_each,
        rollout_weights=2 * shape.parameters / parallel if colocated else 0.0,
    )


def model_shape(config: TrainConfig) -> ModelShape:
    """Count a model's parameters from its configuration; no weight is loaded.

    Raises:
        CarbError: the configuration cannot be read.
    """
    transformers = require("transformers", package="tal-rlvr", extra="train")
    torch = require("torch", package="tal-rlvr", extra="train")
    try:
        found = transformers.AutoConfig.from_pretrained(config.model, revision=config.revision)
        with torch.device("meta"):  # of this thread alone: accelerate's init_empty_weights empties what others load too
            model: Any = transformers.AutoModelForCausalLM.from_config(found)
    except (OSError, ValueError) as error:
        raise CarbError(
            f"Cannot read the configuration of the model '{config.model}': {str(error).splitlines()[0]}"
        ) from None
    text = found.get_text_config()
    lora = 0
    if config.lora is not None:
        inner = (module for name, module in model.named_modules() if "lm_head" not in name)
        linear = [module for module in inner if hasattr(module, "in_features")]
        lora = sum(config.lora.r * (module.in_features + module.out_features) for module in linear)
    return ModelShape(
        parameters=model.num_parameters(),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        vocabulary=text.vocab_size,
        lora_parameters=lora,
    )


def hardware() -> Hardware:
    """The devices of this run, and how its launcher shards the model."""
    torch = require("torch", package="tal-rlvr", extra="train")
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    sharding: Literal["none", "gradients", "full"] = "none"
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":
        sharding = "full"
    elif os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
        sharding = "full" if stage == "3" else "gradients" if stage in ("1", "2") else "none"
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        memory, name = found.total_memory, found.name
        return Hardware(kind="gpu", devices=devices, bytes_each=int(memory), sharding=sharding, processor=name)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // here
    name = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    return Hardware(kind="cpu", devices=devices, bytes_each=int(memory), sharding=sharding, processor=name)
