"""Does a run fit into memory? Arithmetic over the model's shape and the longest batch, before
weights are read."""

from typing import NamedTuple

from carb_data import CarbError
from tal_rlvr.train_config import TrainConfig

LIBRARIES = 2.6
"""Gigabytes of Python, its libraries and their reserves. The CPU demo held 7.6 in all while it
trained all weights."""


class Shape(NamedTuple):
    """The sizes of a model that decide its memory."""

    parameters: int
    hidden: int
    intermediate: int
    layers: int
    vocabulary: int


class Needed(NamedTuple):
    """Gigabytes of one process at the peak of a stage."""

    stage: str
    weights: float
    """Weights, gradients, Adam's two moments, and the reference's weights."""
    batch: float
    """Activations and logits of the longest batch."""
    rows: int
    tokens: int
    """Tokens of a row of that batch."""

    @property
    def total(self) -> float:
        return LIBRARIES + self.weights + self.batch


def needed(config: TrainConfig, shape: Shape, longest_prompt: int, shards: int = 1) -> Needed:
    """The stage that needs the most.

    Args:
        config: the settings of the run.
        shape: the model's.
        longest_prompt: tokens of the longest prompt that is trained on.
        shards: processes that share the weights (FSDP, ZeRO).
    """
    size = 4
    if config.dtype == "bfloat16":
        size = 2
    tokens = longest_prompt + config.max_new_tokens
    grpo = config.grpo
    inside = shape.layers * shape.hidden
    if not grpo.get("gradient_checkpointing"):
        inside = shape.layers * (8 * shape.hidden + 2 * shape.intermediate)

    def stage(name: str, copies: int, rows: int, written: int) -> Needed:
        if config.lora is not None:
            copies = 1
        weights = shape.parameters * size * copies / shards
        activations = tokens * inside * size
        logits = 3 * 4 * shape.vocabulary * written
        batch = rows * (activations + logits)
        return Needed(name, weights / 1e9, batch / 1e9, rows, tokens)

    stages = []
    if config.warmup.steps or config.warmup.targets:
        stages.append(stage("warm-up", 4, config.warmup.batch_size, tokens))
    if grpo.get("max_steps") != 0:
        copies = 4
        if grpo.get("beta", 1):
            copies = 5
        rows = int(grpo.get("per_device_train_batch_size", 8))
        stages.append(stage("grpo", copies, rows, config.max_new_tokens))
    nothing = Needed("none", 0.0, 0.0, 0, tokens)
    return max(stages, key=lambda one: one.total, default=nothing)


def check_fits(need: Needed, available: float, where: str) -> None:
    """Refuse a run that does not fit.

    Args:
        need: from ``needed``.
        available: gigabytes.
        where: the name of what has them.

    Raises:
        CarbError: the run needs more; the message has the figures and the options that help.
    """
    if need.total <= available:
        return
    batch = "[grpo] per_device_train_batch_size"
    if need.stage == "warm-up":
        batch = "warmup.batch_size"
    remedies = {
        f"lower max_prompt_tokens or {batch}": need.batch,
        "train adapters ([lora]), take a smaller model, or shard it over more GPUs": need.weights,
    }
    raise CarbError(
        f"The stage {need.stage} needs about {need.total:.1f} GB: {need.weights:.1f} for weights "
        f"and optimizer, {need.batch:.1f} for {need.rows} rows of {need.tokens} tokens. {where} "
        f"has {available:.1f} GB. To help, {max(remedies, key=lambda one: remedies[one])}."
    )
