"""Writing judgements with a transformers model that is open already, such as one in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carb_data.extras import require
from carb_scorers.models import Writing
from carb_scorers.models.transformers.batching import token_budget_batches
from carb_scorers.models.transformers.generate import Written, write_rows

__all__ = ["Written", "write"]


def write(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float | None = None,
    seed: int = 0,
    budget: int = 8192,
) -> list[Written]:
    """Continue each prompt until the end of the turn, in evaluation mode; the mode from before is restored.

    Args:
        model: a causal language model.
        tokenizer: The tokenizer that belongs to the model.
        prompts: token ids of each prompt.
        max_new_tokens: longest output, in tokens.
        temperature: ``None`` is greedy. Each prompt is sampled by itself from this seed and its place.
        seed: The seed of sampling.
        budget: padded tokens, prompt and output, in one batch.

    Returns:
        One per prompt, in order, with the entropy of what was drawn from.
    """
    require("torch", package="tal-rlvr", extra="train")
    writing = Writing(max_new_tokens, temperature or 0.0)
    out: dict[int, Written] = {}
    training = model.training
    model.eval()
    try:
        for batch in token_budget_batches([len(prompt) + max_new_tokens for prompt in prompts], budget):
            seeds = [seed * len(prompts) + i for i in batch]
            rows = [prompts[i] for i in batch]
            out.update(zip(batch, write_rows(model, tokenizer, rows, seeds, writing, entropies=True), strict=True))
    finally:
        model.train(training)
    return [out[i] for i in range(len(prompts))]
