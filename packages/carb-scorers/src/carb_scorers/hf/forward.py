"""Forward passes whose result for a row does not depend on its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carb_data.extras import require
from carb_scorers.batching import token_budget_batches

LOGIT_FLOATS = 2**27
"""Upper bound of logits held at once, in floats (0.5 GiB in float32); vocabularies reach 262k entries."""


def pad(rows: Sequence[Sequence[int]], *, side: str, to: int, torch: Any) -> tuple[Any, Any]:
    """Token ids and mask, both ``(rows, to)``; padding is token 0, which the mask hides."""
    ids = torch.zeros((len(rows), to), dtype=torch.long)
    mask = torch.zeros((len(rows), to), dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(0, len(row)) if side == "right" else slice(to - len(row), to)
        ids[number, place] = torch.tensor(row, dtype=torch.long)
        mask[number, place] = 1
    return ids, mask


def positions(mask: Any) -> Any:
    """Position of each token within its own row, ``(rows, columns)``: padding does not shift a row."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def next_token_logits(model: Any, rows: Sequence[Sequence[int]], wanted: Sequence[int], budget: int) -> Any:
    """Logits of some tokens at the place after each row.

    Args:
        model: causal language model.
        rows: token ids of each prompt.
        wanted: the vocabulary entries to return.
        budget: padded tokens in one forward pass.

    Returns:
        float32 tensor ``(len(rows), len(wanted))`` on the CPU. Only the last position's logits are computed.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    out = torch.empty((len(rows), len(wanted)))
    with torch.inference_mode():
        for batch in token_budget_batches([len(row) for row in rows], budget):
            chosen = [rows[i] for i in batch]
            ids, mask = pad(chosen, side="left", to=len(chosen[0]), torch=torch)
            ids, mask = ids.to(model.device), mask.to(model.device)
            logits = model(
                input_ids=ids, attention_mask=mask, position_ids=positions(mask), logits_to_keep=1, use_cache=False
            ).logits
            out[batch] = logits[:, -1, list(wanted)].float().cpu()
    return out


def continuation_logprobs(
    model: Any, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]], budget: int
) -> list[Any]:
    """Log-probability of every token of each continuation given its prefix.

    Rows are aligned on the border between prefix and continuation (prefixes padded on the left, continuations
    on the right), so that logits are computed for continuation tokens alone.

    Args:
        model: causal language model.
        prefixes: token ids, at least one in each.
        continuations: token ids, at least one in each.
        budget: padded tokens in one forward pass.

    Returns:
        For each row a float64 tensor of its continuation's length on the CPU, natural logarithms.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    lengths = [len(p) + len(c) for p, c in zip(prefixes, continuations, strict=True)]
    most = max(1, LOGIT_FLOATS // int(model.config.get_text_config().vocab_size))
    out: list[Any] = [None] * len(lengths)
    with torch.inference_mode():
        for batch in _border_batches(prefixes, continuations, lengths, budget, most):
            before = [prefixes[i] for i in batch]
            after = [continuations[i] for i in batch]
            wide = max(len(row) for row in after)
            left, left_mask = pad(before, side="left", to=max(len(row) for row in before), torch=torch)
            right, right_mask = pad(after, side="right", to=wide, torch=torch)
            ids = torch.cat([left, right], dim=1).to(model.device)
            mask = torch.cat([left_mask, right_mask], dim=1).to(model.device)
            logits = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions(mask),
                logits_to_keep=wide + 1,
                use_cache=False,
            ).logits[:, :-1]
            target = right.to(model.device)
            picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1).double()
            logprobs = (picked - logits.float().logsumexp(-1).double()).cpu()
            for place, index in enumerate(batch):
                out[index] = logprobs[place, : len(continuations[index])]
    return out


def _border_batches(
    prefixes: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]],
    lengths: Sequence[int],
    budget: int,
    most_logits: int,
) -> list[list[int]]:
    """As ``token_budget_batches``, counting both paddings, and with a bound on continuation tokens."""
    batches: list[list[int]] = []
    widths = (0, 0)
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        here = len(prefixes[index]), len(continuations[index])
        wider = max(widths[0], here[0]), max(widths[1], here[1])
        rows = len(batches[-1]) + 1 if batches else 1
        if batches and sum(wider) * rows <= budget and (wider[1] + 1) * rows <= most_logits:
            batches[-1].append(index)
            widths = wider
        else:
            batches.append([index])
            widths = here
    return batches
