"""Writing judgements with a transformers model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from carb_data.extras import require
from carb_scorers.models.transformers.batching import token_budget_batches


class Written(NamedTuple):
    """What a judge wrote for one prompt."""

    ids: tuple[int, ...]
    """Sampled ids, the end of the turn included where it came."""
    text: str
    entropy: float
    """Mean entropy of the next-token distributions along the output, in nats."""


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
    """Continue each prompt until the end of the turn.

    Args:
        prompts: token ids.
        max_new_tokens: longest output.
        temperature: ``None`` is greedy; otherwise each batch is sampled from a generator with this seed.
        budget: padded tokens, prompt and output, in one batch.

    Returns:
        One per prompt, in order.
    """
    torch = require("torch", package="tal-rlvr", extra="train")
    out: list[Written | None] = [None] * len(prompts)
    device = next(model.parameters()).device
    eos = _ends(model, tokenizer)
    state = torch.random.get_rng_state()
    training = model.training
    model.eval()
    try:
        torch.manual_seed(seed)
        for batch in token_budget_batches([len(prompt) + max_new_tokens for prompt in prompts], budget):
            rows = [prompts[i] for i in batch]
            width = max(map(len, rows))
            ids = torch.zeros((len(rows), width), dtype=torch.long)
            mask = torch.zeros((len(rows), width), dtype=torch.long)
            for number, row in enumerate(rows):
                ids[number, width - len(row) :] = torch.tensor(list(row), dtype=torch.long)
                mask[number, width - len(row) :] = 1
            entropies: list[Any] = []
            with torch.no_grad():
                produced = model.generate(
                    input_ids=ids.to(device),
                    attention_mask=mask.to(device),
                    max_new_tokens=max_new_tokens,
                    do_sample=temperature is not None,
                    temperature=temperature,
                    top_k=None if temperature is None else 0,
                    top_p=None if temperature is None else 1.0,
                    eos_token_id=eos,
                    pad_token_id=eos[0],
                    logits_processor=[_Entropies(entropies, torch)],
                )[:, width:].cpu()
            steps = torch.stack(entropies).T.cpu()  # (rows, steps)
            for number, index in enumerate(batch):
                row = produced[number].tolist()
                length = next((place + 1 for place, token in enumerate(row) if token in eos), len(row))
                out[index] = Written(
                    tuple(row[:length]),
                    tokenizer.decode(row[:length], skip_special_tokens=True),
                    float(steps[number, :length].mean()),
                )
    finally:
        model.train(training)
        torch.random.set_rng_state(state)
    return [written for written in out if written is not None]


class _Entropies:
    """A logits processor that changes nothing and notes the entropy of each row."""

    def __init__(self, notes: list[Any], torch: Any) -> None:
        self._notes = notes
        self._torch = torch

    def __call__(self, _ids: Any, scores: Any) -> Any:
        logprobs = scores.float().log_softmax(-1)
        self._notes.append(-(logprobs.exp() * logprobs).nan_to_num(0.0).sum(-1))
        return scores


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends an output: the tokenizer's and those that the model's configuration names."""
    named = getattr(model.generation_config, "eos_token_id", None)
    named = [] if named is None else [named] if isinstance(named, int) else list(named)
    return list(dict.fromkeys([tokenizer.eos_token_id, *named]))
