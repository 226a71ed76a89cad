"""Rows of tokens that begin alike: their common beginning goes through the model once.

A causal model remembers a beginning by its keys and values. Scoring, rewards of criteria and
training read behind it.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from carb_scorers.models.source import hf_library

__all__ = ["dense_head", "outputs_behind"]
Tokens = Sequence[int]
Forward = Callable[..., Any]
"""A causal model of transformers, its body, or a function with its signature, such as a trainer's
own module."""


def outputs_behind(
    forward: Forward, rows: Sequence[tuple[Tokens, Tokens]], *, device: Any, **options: Any
) -> Any:
    """A model's output over the suffix of each row, with every different prefix computed once.

    Rows are padded on the left, so that the last position of the output is the last token of every
    row. A row alone is not padded. A model with a sliding window shorter than the padded rows must
    be given one row at a time.

    Args:
        forward: the model.
        rows: a prefix and a suffix of token ids for each row; a suffix is not empty.
        device: the device of the model.
        options: further arguments of the model, such as ``logits_to_keep``, which the prefixes are
            computed without.

    Returns:
        The model's output, with a line for each row in the order given.
    """
    if not all(prefix for prefix, _ in rows):
        rows = [((), (*prefix, *suffix)) for prefix, suffix in rows]
    keep = {}
    if "logits_to_keep" in options:
        keep = {"logits_to_keep": 1}
    prefixes = [prefix for prefix, _ in rows]
    known = PrefixCache(forward, prefixes, device=device, **keep)
    return known.outputs_behind(rows, last=True, **options)


class PrefixCache:
    """Prefixes that a model has read. Either all of them are empty, or none is."""

    def __init__(
        self, forward: Forward, prefixes: Sequence[Tokens], *, device: Any, **options: Any
    ) -> None:
        self._forward = forward
        self._device = device
        distinct = dict.fromkeys(map(tuple, prefixes))
        self._lines_of = {prefix: line for line, prefix in enumerate(distinct)}
        self._cache: Any = None
        if () not in self._lines_of:
            ids, self._mask = padded(list(self._lines_of), device)
            inputs = _inputs(ids, self._mask, 0)
            output = forward(**inputs, use_cache=True, **options)
            self._cache = output[_cache_name()]

    def outputs_behind(
        self, rows: Sequence[tuple[Tokens, Tokens]], *, last: bool = False, **options: Any
    ) -> Any:
        """The model's output over the suffix of each row. With ``last`` the cache is used up and
        not copied first."""
        torch = hf_library("torch")
        ids, mask = padded([suffix for _, suffix in rows], self._device)
        if self._cache is None:
            inputs = _inputs(ids, mask, 0)
            return self._forward(**inputs, use_cache=False, **options)
        known, before = self.lines([prefix for prefix, _ in rows], last=last)
        inputs = _inputs(ids, torch.cat([before, mask], dim=1), before.shape[1])
        return self._forward(**inputs, **known, use_cache=True, **options)

    def lines(
        self, prefixes: Sequence[Tokens], *, last: bool = False
    ) -> tuple[dict[str, Any], Any]:
        """The model's argument with a line of the cache for each prefix, and the mask of these
        lines."""
        which = [self._lines_of[tuple(prefix)] for prefix in prefixes]
        cache = self._cache
        if not last:
            cache = copy.deepcopy(self._cache)
        if which != list(range(len(self._lines_of))):
            cache.batch_select_indices(self._mask.new_tensor(which))
        return {_cache_name(): cache}, self._mask[which]


def dense_head(model: Any) -> None:
    """Give a model's head its states in one block: torch multiplies a slice of last positions line
    by line on a CPU."""
    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(lambda _, given: (given[0].contiguous(), *given[1:]))


def _cache_name() -> str:
    """The name of remembered keys and values in transformers: ``cache``, and ``past_key_values``
    before 5.24."""
    outputs = hf_library("transformers.modeling_outputs")
    if "cache" in outputs.CausalLMOutputWithPast.__dataclass_fields__:
        return "cache"
    return "past_key_values"


def common_prefix(rows: Sequence[Tokens]) -> int:
    """How many tokens all rows begin with, their last ones left out."""
    length = 0
    for column in zip(*(row[:-1] for row in rows), strict=False):
        if len(set(column)) > 1:
            break
        length += 1
    return length


def token_budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices so that a batch, padded to its longest row, stays within a budget.

    Rows are sorted by length, longest first. Padding stays small, and a batch that does not fit
    into memory fails at the start of a run. A row longer than the budget gets a batch of its own.

    Args:
        lengths: tokens in each row.
        budget: the upper bound of ``rows * longest`` in a batch, in tokens; at least 1.

    Returns:
        Lists of indices into ``lengths``; each index occurs exactly once.
    """
    if budget < 1:
        raise ValueError(f"the token budget must be at least 1, got {budget}")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


def padded(
    rows: Sequence[Tokens], device: Any, *, right: bool = False, token: int = 0
) -> tuple[Any, Any]:
    """Token ids and mask, padded with a token on the left, or on the right."""
    torch = hf_library("torch")
    width = max(map(len, rows))
    shape = (len(rows), width)
    ids = torch.full(shape, token, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for line, row in enumerate(rows):
        start = 0
        if not right:
            start = width - len(row)
        columns = slice(start, start + len(row))
        ids[line, columns] = torch.tensor(row, dtype=torch.long)
        mask[line, columns] = 1
    return ids.to(device), mask.to(device)


def _inputs(ids: Any, mask: Any, start: int) -> dict[str, Any]:
    """Arguments of a forward pass over ``ids``, which stand behind ``start`` positions of the mask.

    Positions leave out the padding. Without padding no mask is given, so that a model takes its
    fastest way.
    """
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    inputs = {"input_ids": ids, "position_ids": positions[:, start:]}
    if bool(mask.all()):
        return inputs
    return {**inputs, "attention_mask": mask}
