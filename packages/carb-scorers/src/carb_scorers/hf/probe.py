"""Which short cuts give what a model's own forward pass gives, tried on a few tokens when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from carb_data.extras import require
from carb_scorers.batching import Pack, Row, shared_prefix
from carb_scorers.hf.cores import Core, row_alone

PROBE = "What do people eat on New Year's Eve?", " Noodles, for a long life.", " A carp, and they keep one scale."
TOLERANCES = {"float32": 1e-4, "float64": 1e-8, "bfloat16": 5e-2, "float16": 1e-2}
"""Largest difference of outputs, relative to the largest output, that passes for rounding."""


def probe_rows(tokenizer: Any) -> list[Row]:
    """Two rows of ordinary tokens with a common beginning and different lengths, read at their ends."""
    question, *answers = (tokenizer(text, add_special_tokens=False)["input_ids"] or [0] for text in PROBE)
    rows = [Row((*question, *answer), (len(question) + len(answer) - 1,)) for answer in answers]
    return sorted(rows, key=lambda row: row.tokens)


def same(first: Any, second: Any) -> bool:
    """Whether two tensors agree within rounding of their (lower) precision."""
    if first.shape != second.shape:
        return False
    tolerance = max(TOLERANCES.get(str(t.dtype).removeprefix("torch."), 0.0) for t in (first, second))
    first, second = first.double(), second.double()
    scale = max(float(second.abs().max()), 1e-3)
    return bool((first - second).abs().max() <= tolerance * scale)  # False for NaN


def try_core(core: Core, rows: Sequence[Row], finish: Callable[[Any], Any], expected: Callable[[Row], Any]) -> bool:
    """Whether a core may be used for a model, and with which short cuts; the latter are switched off where wrong.

    Args:
        core: its flags ``packable`` and ``paddable`` are set.
        rows: as ``probe_rows`` gives them.
        finish: from the core's states to outputs.
        expected: the outputs of the model's own forward pass over one row, ``(1, D)``.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    with torch.inference_mode():
        own = [expected(row) for row in rows]

        def agrees(packs: Sequence[Pack], wanted: Sequence[Any]) -> bool:
            try:
                return same(finish(core.states(packs)), torch.cat(list(wanted)))
            except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError):
                return False

        if not agrees([row_alone(rows[0])], own[:1]):
            return False
        core.paddable = core.paddable and agrees([row_alone(row) for row in rows], own)
        if core.packable:
            prefix = shared_prefix(rows[0].tokens, rows[1].tokens)
            core.packable = agrees([Pack(tuple(rows), prefix)], own)
    return True
