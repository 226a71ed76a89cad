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
    torch = require("torch", package="carb-scorers", extra="hf")
    masks: dict[tuple[int, int], Any] = {}
    layout = []
    for pack in packs:
        tails = [len(row.tokens) - pack.prefix for row in pack.rows]
        for tail in tails:
            if pack.prefix and (pack.prefix, tail) not in masks:
                before = torch.ones((tail, pack.prefix), dtype=torch.bool)
                own = torch.ones((tail, tail), dtype=torch.bool).tril()
                masks[pack.prefix, tail] = torch.cat([before, own], dim=1)[None, None]
        layout.append((pack.prefix, [tail for tail in tails if tail]))
    before = config._attn_implementation
    config._attn_implementation = NAME
    _pass.layout, _pass.masks = layout, masks
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
            attend(start, stop, keys, values, _pass.masks.get((prefix, tail)))
            start = stop
    return out, None


def _register() -> None:
    transformers = require("transformers", package="carb-scorers", extra="hf")
    functions = transformers.AttentionInterface()
    if NAME not in functions.valid_keys():
        masks = transformers.masking_utils
        masks.AttentionMaskInterface.register(NAME, masks.sdpa_mask)
        transformers.AttentionInterface.register(NAME, split_attention_forward)
