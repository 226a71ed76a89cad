"""Which tokens go through a model together: rows that share a beginning, packs, and batches under a budget.

Nothing here knows torch. A *row* is one text to score. A *pack* holds rows of one item in one sequence: their
common beginning once, then what is left of each row, beside one another and hidden from one another by a mask. A
*pass* is a batch of packs, padded on the right to the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["token_budget_batches"]


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids, and the places whose final hidden states (or logits) are wanted."""

    tokens: tuple[int, ...]
    reads: tuple[int, ...]
    """Ascending indices into ``tokens``."""
    targets: tuple[int, ...] = ()
    """The token of each read whose log-probability is wanted there; empty where something else is read."""

    def __post_init__(self) -> None:
        if not self.tokens or not self.reads or not 0 <= self.reads[0] <= self.reads[-1] < len(self.tokens):
            raise ValueError(f"a row needs tokens, and reads within them; got {len(self.tokens)} and {self.reads}")


def order(row: Row) -> tuple[tuple[int, ...], ...]:
    """Sorting key of rows: by content alone, so that equal beginnings stand together."""
    return row.tokens, row.reads, row.targets


@dataclass(frozen=True)
class Pack:
    """Rows in one sequence: the first ``prefix`` tokens of all of them once, then the tail of each."""

    rows: tuple[Row, ...]
    prefix: int

    @cached_property
    def length(self) -> int:
        """Tokens in the sequence."""
        return self.prefix + sum(len(row.tokens) - self.prefix for row in self.rows)

    def layout(self) -> tuple[list[int], list[int], list[int]]:
        """Token ids, the position of each token in its own row, and its segment: 0 in the prefix, k in tail k."""
        tokens = list(self.rows[0].tokens[: self.prefix])
        positions = list(range(self.prefix))
        segments = [0] * self.prefix
        for number, row in enumerate(self.rows, 1):
            tokens.extend(row.tokens[self.prefix :])
            positions.extend(range(self.prefix, len(row.tokens)))
            segments.extend([number] * (len(row.tokens) - self.prefix))
        return tokens, positions, segments

    def places(self) -> list[int]:
        """Where the reads of all rows stand in the sequence, row after row."""
        found: list[int] = []
        start = self.prefix
        for row in self.rows:
            found.extend(place if place < self.prefix else start + place - self.prefix for place in row.reads)
            start += len(row.tokens) - self.prefix
        return found


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pass costs, in units of one token through the linear layers.

    A plain causal sequence of ``w`` tokens costs ``overhead + w + attention * w²``. For a pack the last term is
    ``2 * attention`` times the pairs of tokens that attention looks at: all of them under a mask, since kernels do
    not skip what a mask hides; or with ``split`` those of the prefix, and of each tail with the prefix and itself.
    """

    attention: float = 0.0003
    overhead: float = 32.0
    split: bool = False

    def of(self, prefix: int, lengths: Sequence[int]) -> float:
        """Cost of a sequence that holds rows of some lengths and their common prefix once."""
        if len(lengths) == 1:
            return self.overhead + lengths[0] + self.attention * lengths[0] ** 2
        width = prefix + sum(lengths) - prefix * len(lengths)
        split = prefix**2 / 2 + sum((length - prefix) * length for length in lengths)
        return self.overhead + width + 2 * self.attention * (split if self.split else width**2)


def shared_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two rows have in common from the start."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))


def pack_group(rows: Sequence[Row], *, cost: Cost, longest: int) -> list[Pack]:
    """Divide the rows of one item into packs so that computing them costs least.

    The outcome depends on the set of rows alone, not on their order, so that the arithmetic of a row, down to its
    rounding, is the same wherever its item stands.

    Args:
        rows: The rows of one item; equal rows must have been merged.
        cost: the cost model (``Cost``) that decides between packing and padding.
        longest: tokens that a pack of several rows may have at most.

    Returns:
        Packs over all rows; contiguous runs of the sorted rows.
    """
    ordered = sorted(rows, key=order)
    n = len(ordered)
    common = [shared_prefix(ordered[i].tokens, ordered[i + 1].tokens) for i in range(n - 1)]
    best: list[tuple[float, int]] = [(0.0, 0)]
    prefix = 0
    for end in range(1, n + 1):
        options: list[tuple[float, int]] = []
        lengths: list[int] = []
        for start in range(end - 1, -1, -1):
            lengths.append(len(ordered[start].tokens))
            prefix = lengths[0] if len(lengths) == 1 else min(prefix, common[start])
            if len(lengths) > 1 and prefix + sum(lengths) - prefix * len(lengths) > longest:
                break
            options.append((best[start][0] + cost.of(prefix, lengths), start))
        best.append(min(options))
    packs: list[Pack] = []
    end = n
    while end:
        start = best[end][1]
        members = tuple(ordered[start:end])
        alone = len(members) == 1
        packs.append(Pack(members, len(members[0].tokens) if alone else min(common[start : end - 1])))
        end = start
    return packs[::-1]


def token_budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices so that a batch, padded to its longest row, stays within a budget.

    Rows are sorted by length, longest first, so that padding is small and a batch that does not fit into memory
    fails at the start of a run rather than at its end. A row longer than the budget gets a batch of its own.

    Args:
        lengths: tokens in each row.
        budget: the upper bound of ``rows * longest`` in a batch, in tokens; at least 1.

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


def plan_passes(
    groups: Sequence[Sequence[Row]],
    divide: Callable[[Sequence[Row]], list[Pack]],
    *,
    budget: int,
    merge: bool,
    together: bool,
) -> list[list[tuple[int, Pack]]]:
    """The passes that compute some items.

    Args:
        groups: the rows of each item.
        divide: the function that makes packs of one item's rows.
        budget: padded tokens in one pass of several packs.
        merge: whether packs of different items may share a pass. Without it the shape of every pass, and so the
            rounding of every score, depends on one item alone.
        together: whether packs of one item share passes when items do not.

    Returns:
        For each pass its packs, each with the number of its item.
    """
    packs = [[(number, pack) for pack in divide(rows)] for number, rows in enumerate(groups)]
    if merge:
        packs = [[entry for own in packs for entry in own]]
    elif not together:
        return [[entry] for own in packs for entry in own]
    return [
        [own[i] for i in batch]
        for own in packs
        for batch in token_budget_batches([pack.length for _, pack in own], budget)
    ]
