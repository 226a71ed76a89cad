"""Which short cuts give what a model's own forward pass gives, tried on a few tokens when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from carb_data.extras import require
from carb_scorers.models.transformers.batching import Pack, Row, order, shared_prefix
from carb_scorers.models.transformers.cores import Core, row_alone

PROBE = "What do people eat on New Year's Eve?", " Noodles, for a long life.", " A carp, and they keep one scale."
TOLERANCES = {"float64": 1e-6, "float32": 1e-3, "float16": 0.03, "bfloat16": 0.15}
"""Largest distance of two vectors, relative to the length of one, that passes for rounding. On Gemma 3 270M and
SmolLM2 135M a wrong mask or wrong positions are 0.23 to 0.55 away, rounding is 7e-6 (float32) and 0.07 (bfloat16)."""

FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError)
"""What a model raises that does not take what it is given."""


def probe_rows(tokenizer: Any) -> list[Row]:
    """Two rows of ordinary tokens with a common beginning and different lengths, read at their ends."""
    question, *answers = (tokenizer(text, add_special_tokens=False)["input_ids"] or [0] for text in PROBE)
    rows = [Row((*question, *answer), (len(question) + len(answer) - 1,)) for answer in answers]
    return sorted(rows, key=order)


def close(first: Any, second: Any) -> bool:
    """Whether the lines of two tensors agree within rounding; never where there is NaN."""
    if first.shape != second.shape:
        return False
    tolerance = max(TOLERANCES.get(str(t.dtype).removeprefix("torch."), 0.0) for t in (first, second))
    first, second = first.double(), second.double()
    return bool(((first - second).norm(dim=-1) <= tolerance * second.norm(dim=-1)).all())


def try_core(core: Core, rows: Sequence[Row], finish: Callable[[Any], Any], expected: Callable[[Row], Any]) -> bool:
    """Whether a core may be used for a model, and with which short cuts; the latter are switched off where wrong.

    A short cut that is switched off already is not tried, since a pass over few tokens takes long for what it does.

    A pack must give what its rows give alone, and the text of one row must not reach another at all: with the same
    shapes, what a mask hides is multiplied by exact zeros in any precision.

    Args:
        core: the core whose flags ``packable`` and ``paddable`` are set.
        rows: The rows that ``probe_rows`` gives.
        finish: the function from the core's states to outputs.
        expected: the outputs of the model's own forward pass over one row, ``(1, D)``.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    prefix = shared_prefix(rows[0].tokens, rows[1].tokens)
    with torch.inference_mode():
        try:
            alone = [core.states([row_alone(row)]) for row in rows]
            if not all(close(finish(state), expected(row)) for state, row in zip(alone, rows, strict=True)):
                return False
        except FAILURES:
            return False
        core.paddable = core.paddable and _agrees(core, [row_alone(row) for row in rows], alone)
        packs = [[Pack((rows[0], other), prefix)] for other in (rows[1], _altered(rows[1], prefix))]
        core.packable = core.packable and _packs(torch, core, packs, alone)
    return True


def _altered(row: Row, prefix: int) -> Row:
    """A row with its tail backwards."""
    return Row((*row.tokens[:prefix], *row.tokens[prefix:][::-1]), row.reads)


def _agrees(core: Core, packs: Sequence[Pack], alone: Sequence[Any]) -> bool:
    try:
        return _same(core.states(packs), alone)
    except FAILURES:
        return False


def _packs(torch: Any, core: Core, packs: Sequence[Sequence[Pack]], alone: Sequence[Any]) -> bool:
    """Whether a pack gives what its rows give alone, and its first row's state is the same to the last bit when only
    the second row's text differs."""
    try:
        found = core.states(packs[0])
        return _same(found, alone) and bool(torch.equal(found[0], core.states(packs[1])[0]))
    except FAILURES:
        return False


def _same(found: Any, alone: Sequence[Any]) -> bool:
    return all(close(found[line : line + 1], state) for line, state in enumerate(alone))
