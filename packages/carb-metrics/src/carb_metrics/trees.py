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
        inside: Bools = (value >= self.start[question]) & (value <= question)
        return inside

    def members(self, rows: Ints) -> Any:
        """(bins, rows) a sparse matrix that has 1 where a row is in a bin."""
        from scipy.sparse import csc_array

        held = self.values[:, rows].T
        count, features = held.shape
        ones = np.ones(held.size)
        ends = np.arange(0, held.size + 1, features)
        shape = (len(self.feature), count)
        return csc_array((ones, held.ravel(), ends), shape=shape).tocsr()


def binned(x: Floats, kinds: Ints) -> Bins:
    """Features in bins; those with one bin are left out.

    Args:
        x: (rows, columns) numbers.
        kinds: (rows, columns) categories, as numbers from 0.
    """
    inner = np.linspace(0, 1, BINS + 1)[1:-1]
    features = []
    for values in x.T:
        edges = np.unique(np.quantile(values, inner))
        features.append(np.searchsorted(edges, values))
    numbers = [codes for codes in features if codes.any()]
    categories = [codes for codes in kinds.T if codes.any()]
    every = [*numbers, *categories] or [np.zeros(len(x), dtype=np.int64)]
    width = np.array([int(codes.max(initial=0)) + 1 for codes in every])
    begin = np.cumsum(width) - width
    feature = np.repeat(np.arange(len(width)), width)
    return Bins(
        values=(np.stack(every) + begin[:, None]).astype(np.int32),
        feature=feature,
        start=np.where(feature < len(numbers), begin[feature], np.arange(len(feature))),
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
        predicted += (RATE * total / (size + SHRINK))[leaf]
    return predicted


def _leaves(bins: Bins, members: Any, held: Floats, residual: Floats, train: Ints) -> Ints:
    """(rows,) the leaf of each row, in a tree that is fitted to the residuals of ``train``.

    Args:
        members: as of ``Bins.members``, for the rows of ``train``.
        held: (bins,) how many of these each bin holds.
        residual: (train,)
    """
    leaf = np.zeros(bins.values.shape[1], dtype=np.int64)
    size = held[None]
    total = (members @ residual)[None]
    for level in range(1, DEPTH + 1):
        taken = bins.takes(_best_question(bins, size, total))
        if level < DEPTH:
            of_leaf = leaf[train] == np.arange(len(size))[:, None]
            inside = (of_leaf & taken[train]).astype(np.float64)
            size = _halved(size, [members @ rows for rows in inside])
            total = _halved(total, [members @ (rows * residual) for rows in inside])
        leaf = 2 * leaf + taken
    return leaf


def _halved(whole: Floats, taken: list[Floats]) -> Floats:
    """(2 · leaves, bins) each leaf's sums without the rows that a question takes, and with them
    alone."""
    with_them = np.stack(taken)
    both = np.stack([whole - with_them, with_them], axis=1)
    return both.reshape(-1, whole.shape[1])


def _best_question(bins: Bins, size: Floats, total: Floats) -> int:
    """The bin at which asking all leaves explains most of the squared residuals.

    Args:
        size: (leaves, bins) number of rows.
        total: (leaves, bins) their residuals.
    """
    size_taken, size_left = _asked(bins, size)
    total_taken, total_left = _asked(bins, total)
    explained = total_taken**2 / (size_taken + SHRINK) + total_left**2 / (size_left + SHRINK)
    return int(explained.sum(0).argmax())


def _asked(bins: Bins, sums: Floats) -> tuple[Floats, Floats]:
    """(leaves, bins) the sum over the rows that each question takes, and over the others."""
    up_to = np.cumsum(sums, axis=1)
    before = np.column_stack([np.zeros(len(sums)), up_to])[:, bins.start]
    taken = up_to - before
    whole = sums[:, bins.feature == 0].sum(axis=1, keepdims=True)
    return taken, whole - taken
