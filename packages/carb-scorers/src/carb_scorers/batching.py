"""Batches of similar length under a token budget."""

from __future__ import annotations

from collections.abc import Sequence


def token_budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices so that a batch, padded to its longest row, stays within a budget.

    Rows are sorted by length, longest first, so that padding is small and a batch that does not fit into memory
    fails at the start of a run rather than at its end. A row longer than the budget gets a batch of its own.

    Args:
        lengths: tokens in each row.
        budget: upper bound of ``rows * longest`` in a batch, in tokens; at least 1.

    Returns:
        Lists of indices into ``lengths``; each index occurs exactly once.
    """
    if budget < 1:
        raise ValueError(f"the token budget must be at least 1, got {budget}")
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
