"""Boosted trees that ask all rows of one level the same question (oblivious trees; Prokhorenkova et
al. 2018, CatBoost, NeurIPS).

A report fits dozens of them over the same features, so the features are cut into bins once. A
library of trees bins them for each fit, and takes longer to import than a first report needs for
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_metrics.clusters import Bools, Ints
from carb_metrics.intervals import Floats

__all__ = ["Bins", "binned", "boosted"]

BINS = 128
"""Most bins of a number, of about equally many rows each."""
TREES = 30
DEPTH = 3
RATE = 0.3
"""Share of what a tree has learnt that is taken over."""
SHRINK = 5.0
"""Weight, in rows without any effect, in each leaf."""


@dataclass(frozen=True)
class Bins:
    """Features in bins. The bins of all features have numbers of their own, those of one feature
    after those of another."""

    values: npt.NDArray[np.int32]
    """(features, rows) the bin of each value."""
    feature: Ints
    """(bins,) the feature of each bin."""
    start: Ints
    """(bins,) the first bin that a question about a bin takes in: that of the feature for a number,
    the bin itself for a category."""

    def takes(self, question: int) -> Bools:
        """(rows,) whether a row has a bin from ``start`` to the one that the question is about."""
        value = self.values[self.feature[question]]
        from_start: Bools = value >= self.start[question]
        up_to: Bools = value <= question
        return from_start & up_to

    def members(self, rows: Ints) -> Any:
        """(bins, rows) a sparse matrix that has 1 where a row is in a bin; float32, which is enough
        to choose questions."""
        from scipy.sparse import csc_array

        held = self.values[:, rows].T
        count, features = held.shape
        ones = np.ones(held.size, dtype=np.float32)
        ends = np.arange(0, held.size + 1, features)
        shape = (len(self.feature), count)
        by_row = csc_array((ones, held.ravel(), ends), shape=shape)
        return by_row.tocsr()


def binned(x: Floats, kinds: Ints) -> Bins:
    """Features in bins; those with one bin are left out.

    Args:
        x: (rows, columns) numbers.
        kinds: (rows, columns) categories, as numbers from 0.
    """
    shares = np.linspace(0, 1, BINS + 1)
    inner = shares[1:-1]
    features = []
    for values in x.T:
        edges = np.unique(np.quantile(values, inner))
        features.append(np.searchsorted(edges, values))
    numbers = [codes for codes in features if codes.any()]
    categories = [codes for codes in kinds.T if codes.any()]
    nothing = np.zeros(len(x), dtype=np.int64)
    every = np.stack([*numbers, *categories] or [nothing])
    width = every.max(axis=1, initial=0) + 1
    begin = np.cumsum(width) - width
    values = every + begin[:, None]
    feature = np.repeat(np.arange(len(width)), width)
    itself = np.arange(len(feature))
    is_number = feature < len(numbers)
    return Bins(
        values=values.astype(np.int32),
        feature=feature,
        start=np.where(is_number, begin[feature], itself),
    )


def boosted(bins: Bins, target: Floats, train: Ints) -> Floats:
    """(rows,) ``target`` as trees predict it that learnt from the rows of ``train``."""
    members = bins.members(train)
    held = members.sum(axis=1)
    known = target[train]
    predicted = np.full(len(target), known.mean())
    for _ in range(TREES):
        residual = known - predicted[train]
        leaf = _leaves(bins, members, held, residual, train)
        of_known = leaf[train]
        size = np.bincount(of_known, minlength=2**DEPTH)
        total = np.bincount(of_known, residual, 2**DEPTH)
        effect = total / (size + SHRINK)
        predicted += RATE * effect[leaf]
    return predicted


def _leaves(
    bins: Bins,
    members: Any,
    held: Floats,
    residual: Floats,
    train: Ints,
) -> Ints:
    """(rows,) the leaf of each row, in a tree that is fitted to the residuals of ``train``.

    Args:
        members: as of ``Bins.members``, for the rows of ``train``.
        held: (bins,) how many of these each bin holds.
        residual: (train,)
    """
    leaf = np.zeros(bins.values.shape[1], dtype=np.int64)
    size = held[None]
    residual = residual.astype(np.float32)
    total = (members @ residual)[None]
    for level in range(1, DEPTH + 1):
        taken = bins.takes(_best_question(bins, size, total))
        if level < DEPTH:
            leaves = np.arange(len(size))
            of_leaf = leaf[train] == leaves[:, None]
            inside = of_leaf & taken[train]
            size = _halved(size, members, inside)
            total = _halved(total, members, inside * residual)
        leaf = 2 * leaf + taken
    return leaf


def _halved(
    whole: Floats,
    members: Any,
    taken: Floats | Bools,
) -> Floats:
    """(2 · leaves, bins) each leaf's sums without the rows that a question takes, and with them
    alone.

    Args:
        whole: (leaves, bins) the sums of all rows.
        taken: (leaves, train) what the rows that the question takes add.
    """
    # one vector after another: scipy takes twice as long for all at once
    of_leaf = [members @ values for values in taken.astype(np.float32)]
    inside = np.stack(of_leaf)
    both = np.stack([whole - inside, inside], axis=1)
    return both.reshape(-1, whole.shape[1])


def _best_question(bins: Bins, size: Floats, total: Floats) -> int:
    """The bin at which asking all leaves explains most of the squared residuals.

    Args:
        size: (leaves, bins) number of rows.
        total: (leaves, bins) their residuals.
    """
    size_taken, size_left = _asked(bins, size)
    total_taken, total_left = _asked(bins, total)
    of_taken = total_taken**2 / (size_taken + SHRINK)
    of_left = total_left**2 / (size_left + SHRINK)
    explained = (of_taken + of_left).sum(0)
    return int(explained.argmax())


def _asked(bins: Bins, sums: Floats) -> tuple[Floats, Floats]:
    """(leaves, bins) the sum over the rows that each question takes, and over the others."""
    up_to = np.cumsum(sums, axis=1)
    nothing = np.zeros(len(sums), dtype=sums.dtype)
    before = np.column_stack([nothing, up_to])
    taken = up_to - before[:, bins.start]
    first_feature = int((bins.feature == 0).sum())
    whole = before[:, [first_feature]]
    return taken, whole - taken
