"""Attention over packs on a CPU: each tail against the prefix and itself, instead of a mask over everything.

A dense mask costs the square of a pack's length, most of it hidden. transformers lets attention functions be
registered by name; this one does what its ``sdpa`` does, except while ``split`` says how a pass is laid out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from carb_data.extras import require
from carb_scorers.models.transformers.batching import Pack

NAME = "carb_split"

_pass = threading.local()


@contextmanager
def split(config: Any, packs: Sequence[Pack]) -> Iterator[None]:
    """Compute attention pack by pack in this thread meanwhile.

    Args:
        config: the configuration of the model's body; its choice of attention is ``sdpa`` and is put back.
        packs: the lines of the batch, padded on the right.
    """
    _register()
    before = config._attn_implementation
    config._attn_implementation = NAME
    _pass.layout = [
        (pack.prefix, [len(row.tokens) - pack.prefix for row in pack.rows if len(row.tokens) > pack.prefix])
        for pack in packs
    ]
    _pass.masks = {}
    try:
        yield
    finally:
        _pass.layout = None
        config._attn_implementation = before


def split_attention_forward(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
) -> tuple[Any, None]:
    """Attention function for transformers: ``(batch, heads, tokens, width)`` in, ``(batch, tokens, heads, width)`` out.

    ``attention_mask`` is not looked at while a pass is laid out.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    layout = getattr(_pass, "layout", None)
    if layout is None:
        sdpa = require("transformers", package="carb-scorers", extra="hf").integrations.sdpa_attention
        found: tuple[Any, None] = sdpa.sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return found
    out = torch.zeros((query.shape[0], query.shape[2], query.shape[1], value.shape[-1]), dtype=query.dtype)
    for line, (prefix, tails) in enumerate(layout):
        one = slice(line, line + 1)
        q, k, v = query[one], key[one], value[one]

        def attend(start: int, stop: int, keys: Any, values: Any, mask: Any, q: Any = q, one: Any = one) -> None:
            out[one, start:stop] = torch.nn.functional.scaled_dot_product_attention(
                q[:, :, start:stop],
                keys,
                values,
                attn_mask=mask,
                is_causal=mask is None,
                scale=options.get("scaling"),
                enable_gqa=q.shape[1] != keys.shape[1],
            ).transpose(1, 2)

        if prefix:
            attend(0, prefix, k[:, :, :prefix], v[:, :, :prefix], None)
        start = prefix
        for tail in tails:
            stop = start + tail
            keys, values = k[:, :, start:stop], v[:, :, start:stop]
            if prefix:
                keys = torch.cat([k[:, :, :prefix], keys], dim=2)
                values = torch.cat([v[:, :, :prefix], values], dim=2)
            attend(start, stop, keys, values, _mask(torch, prefix, tail, query.dtype) if prefix else None)
            start = stop
    return out, None


def _mask(torch: Any, prefix: int, tail: int, dtype: Any) -> Any:
    """A tail sees the prefix and what stands before it in itself.

    In numbers, made once in a pass: torch would make the same ones out of truth values in every layer.
    """
    key = prefix, tail, dtype
    if key not in _pass.masks:
        hidden = torch.ones((tail, prefix + tail), dtype=torch.bool).triu(prefix + 1)
        _pass.masks[key] = torch.zeros((1, 1, *hidden.shape), dtype=dtype).masked_fill(hidden, -torch.inf)
    return _pass.masks[key]


def _register() -> None:
    transformers = require("transformers", package="carb-scorers", extra="hf")
    functions = transformers.AttentionInterface()
    if NAME not in functions.valid_keys():
        masks = transformers.masking_utils
        masks.AttentionMaskInterface.register(NAME, masks.sdpa_mask)
        transformers.AttentionInterface.register(NAME, split_attention_forward)
