"""Sources of verdict log-probabilities: a transformers model, or a trainer's live policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from carb_data.extras import require
from tal_rlvr.judge_rewards import VerdictRow
from tal_rlvr.verdict_tokens import VerdictTokens

BUDGET = 16_384
"""Tokens in one forward pass, padding included."""


class ModelVerdicts:
    """Verdict log-probabilities of a causal language model of transformers.

    The keys and values of a prompt are computed once for all rows that share it, and logits at the verdict's place
    alone. Results in float32 agree with an unbatched pass to 1e-5.
    """

    def __init__(self, model: Any, tokens: VerdictTokens, *, chunk: int = 16, share_prefix: bool = True) -> None:
        self.model = model
        self.tokens = tokens
        self.chunk = chunk
        self.share_prefix = share_prefix

    def __call__(self, rows: Sequence[VerdictRow]) -> list[tuple[float, float]]:
        with _evaluating(self.model):
            return verdict_logprobs(self.model, rows, self.tokens, chunk=self.chunk, share_prefix=self.share_prefix)


class PolicyVerdicts:
    """Verdict log-probabilities of the policy that a TRL trainer is training, as it is now.

    The trainer's own module is called, not an unwrapped one, so that FSDP and ZeRO-3 gather their shards; for the
    same reason every process runs the same number of forward passes.
    """

    def __init__(
        self,
        trainer: Any,
        tokens: VerdictTokens,
        *,
        chunk: int = 16,
        budget: int = BUDGET,
        share_prefix: bool = True,
    ) -> None:
        self.trainer = trainer
        self.tokens = tokens
        self.chunk = chunk
        self.budget = budget
        self.share_prefix = share_prefix

    def __call__(self, rows: Sequence[VerdictRow]) -> list[tuple[float, float]]:
        torch = require("torch", package="tal-rlvr", extra="train")
        accelerator = self.trainer.accelerator
        own = len(passes_of(rows, rows_at_most=self.chunk, budget=self.budget))
        local = torch.tensor([own], device=accelerator.device)
        passes = int(accelerator.gather(local).max())
        with _evaluating(self.trainer.model):
            return verdict_logprobs(
                self.trainer.model,
                rows,
                self.tokens,
                chunk=self.chunk,
                budget=self.budget,
                share_prefix=self.share_prefix and accelerator.num_processes == 1,
                passes=passes,
            )


def passes_of(rows: Sequence[VerdictRow], *, rows_at_most: int, budget: int) -> list[list[int]]:
    """Indices of the rows of each forward pass: rows of one prompt together, and no more tokens than the budget.

    Args:
        rows: the rows to measure.
        rows_at_most: largest number of rows in one forward pass.
        budget: tokens in one pass, padding included; a row that is longer has a pass of its own.
    """
    order = sorted(range(len(rows)), key=lambda i: (rows[i].prefix, -len(rows[i].suffix)))
    passes: list[list[int]] = []
    longest = 0
    for index in order:
        length = len(rows[index].prefix) + len(rows[index].suffix)
        longest = max(longest, length)
        if not passes or len(passes[-1]) == rows_at_most or longest * (len(passes[-1]) + 1) > budget:
            passes.append([])
            longest = length
        passes[-1].append(index)
    return passes


def verdict_logprobs(
    model: Any,
    rows: Sequence[VerdictRow],
    tokens: VerdictTokens,
    *,
    chunk: int,
    budget: int = BUDGET,
    share_prefix: bool = True,
    passes: int | None = None,
) -> list[tuple[float, float]]:
    """Full-vocabulary log-probabilities of both verdicts after each row, in the order given.

    Args:
        model: causal language model, in evaluation mode, under ``no_grad``.
        chunk: largest number of rows in one forward pass.
        budget: largest number of tokens, padding included, in one forward pass of several rows.
        share_prefix: whether to compute a prompt's keys and values once per chunk for all of its rows.
        passes: forward passes to run in any case (sharded training needs the same number everywhere); surplus ones
            repeat the first row. Only without ``share_prefix``.
    """
    torch = require("torch", package="tal-rlvr", extra="train")
    chunks = passes_of(rows, rows_at_most=chunk, budget=budget)
    out: list[tuple[float, float]] = [(0.0, 0.0)] * len(rows)
    device = next(model.parameters()).device
    for indices in chunks:
        batch = [rows[i] for i in indices]
        forward = _shared if share_prefix and len({row.prefix for row in batch}) < len(batch) else _whole
        with _verdict_logits(model, tokens, torch) as exact:
            logits = forward(model, batch, device, torch).float()
        letters = exact[-1] if exact else logits[:, [tokens.a, tokens.b]]
        picked = letters.double() - logits.logsumexp(-1, keepdim=True).double()
        for index, pair in zip(indices, picked.cpu().tolist(), strict=True):
            out[index] = (pair[0], pair[1])
    for _ in range((passes or 0) - len(chunks)):
        filler = [rows[0]] if rows else [VerdictRow((tokens.a,), (tokens.b,))]
        _whole(model, filler, device, torch)
    return out


_CHANGED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Settings of architectures that change a head's logits afterwards."""


@contextmanager
def _verdict_logits(model: Any, tokens: VerdictTokens, torch: Any) -> Iterator[list[Any]]:
    """Collect the logits of A and B of each pass, ``(rows, 2)``, as float32 products of the last hidden states.

    Logits in bfloat16 lie on a lattice of 1/16 to 1/8 nat, which is as wide as what criteria move. A hook on the head
    sees its weights where sharded training has gathered them. Nothing is collected where a head is more than a product
    (an adapter on it, soft caps): there the model's own logits count.
    """
    head, kept = model.get_output_embeddings(), list[Any]()
    config = model.config.get_text_config()
    plain = hasattr(head, "weight") and not hasattr(head, "base_layer")
    if not plain or any(getattr(config, name, None) not in (None, 1, 1.0) for name in _CHANGED):
        yield kept
        return

    def keep(module: Any, given: Any) -> None:
        states = given[0][:, -1]
        with torch.autocast(device_type=states.device.type, enabled=False):
            letters = [tokens.a, tokens.b]
            logits = states.float() @ module.weight[letters].float().T
            kept.append(logits if getattr(module, "bias", None) is None else logits + module.bias[letters].float())

    handle = head.register_forward_pre_hook(keep)
    try:
        yield kept
    finally:
        handle.remove()


def _whole(model: Any, rows: Sequence[VerdictRow], device: Any, torch: Any) -> Any:
    """Logits after each row, ``(rows, vocabulary)``."""
    ids, mask = _left_padded([[*row.prefix, *row.suffix] for row in rows], device, torch)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return model(input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False).logits[
        :, -1
    ]


def _shared(model: Any, rows: Sequence[VerdictRow], device: Any, torch: Any) -> Any:
    """As ``_whole``, with one pass over the distinct prefixes and one over the suffixes."""
    distinct = list(dict.fromkeys(row.prefix for row in rows))
    ids, mask = _left_padded(distinct, device, torch)
    cached = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        logits_to_keep=1,
        use_cache=True,
    ).past_key_values
    which = torch.tensor([distinct.index(row.prefix) for row in rows], device=device)
    cached.batch_select_indices(which)
    suffixes, suffix_mask = _left_padded([row.suffix for row in rows], device, torch)
    full = torch.cat([mask[which], suffix_mask], dim=1)
    positions = (full.cumsum(-1) - 1).clamp(min=0)[:, mask.shape[1] :]
    return model(
        input_ids=suffixes,
        attention_mask=full,
        position_ids=positions,
        past_key_values=cached,
        logits_to_keep=1,
        use_cache=True,
    ).logits[:, -1]


def _left_padded(rows: Sequence[Sequence[int]], device: Any, torch: Any) -> tuple[Any, Any]:
    width = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[number, width - len(row) :] = 1
    return ids.to(device), mask.to(device)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; the mode from before is restored."""
    torch = require("torch", package="tal-rlvr", extra="train")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
