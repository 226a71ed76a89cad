"""Boosted trees that ask all rows of one level the same question (oblivious trees; Prokhorenkova et
al. 2018, CatBoost, NeurIPS).

A report fits dozens of them over the same features, so the features are cut into bins once. A
library of trees bins them for each fit, and takes longer to import than a first report needs for
all of them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carb_metrics.clusters import Bools, Ints
from carb_metrics.intervals import Floats

BINS = 128
"""Most bins of a number, of about equally many rows each."""
TREES = 30
DEPTH = 3
RATE = 0.3
"""Share of a tree's prediction that is added (the learning rate)."""
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

    def of(self, rows: Ints) -> "Bins":
        """The same bins of some rows, in this order."""
        return replace(self, values=self.values[:, rows])

    def takes(self, questions: Ints) -> Bools:
        """(rows, fits) whether a row has a bin from ``start`` to the one that each fit's question
        is about."""
        value = self.values[self.feature[questions]].T
        from_start: Bools = value >= self.start[questions]
        up_to: Bools = value <= questions
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
        return csc_array((ones, held.ravel(), ends), shape=shape).tocsr()


def binned(x: Floats, kinds: Ints) -> Bins:
    """Features in bins; those with one bin are left out.

    Args:
        x: (rows, columns) numbers.
        kinds: (rows, columns) categories, as numbers from 0.
    """
    inner = np.linspace(0, 1, BINS + 1)[1:-1]
    numbers = []
    for values in x.T:
        edges = np.unique(np.quantile(values, inner))
        codes = np.searchsorted(edges, values)
        if codes.any():
            numbers.append(codes)
    categories = [codes for codes in kinds.T if codes.any()]
    nothing = np.zeros(len(x), dtype=np.int64)
    every = np.stack([*numbers, *categories] or [nothing])
    width = every.max(axis=1, initial=0) + 1
    begin = np.cumsum(width) - width
    values = every + begin[:, None]
    feature = np.repeat(np.arange(len(width)), width)
    itself = np.arange(len(feature))
    is_number = feature < len(numbers)
    start = np.where(is_number, begin[feature], itself)
    return Bins(
        values=values.astype(np.int32),
        feature=feature,
        start=start,
    )


def boosted(bins: Bins, target: Floats, taught: Bools) -> Floats:
    """(rows, fits) targets as trees predict them that learnt from some of the rows.

    All fits grow at once: what costs time is reading the bins of the rows, and it is the same for
    them all.

    Args:
        bins: features of the rows.
        target: (rows, fits) what to predict; one column if it is the same in all fits.
        taught: (rows, fits) the rows from which each fit learns; one column if all learn from the
            same.
    """
    target, taught = np.broadcast_arrays(target, taught)
    train = np.flatnonzero(taught.any(1))
    members = bins.members(train)
    teaches = taught[train]
    weight = teaches.astype(np.float32)
    known = target[train]
    columns = zip(known.T, teaches.T, strict=True)
    means = [values[of_fit].mean() for values, of_fit in columns]
    predicted = np.full(target.shape, means)
    held = members @ weight
    leaves = len(means) * 2**DEPTH
    first_leaf = np.arange(0, leaves, 2**DEPTH)
    for _ in range(TREES):
        away = known - predicted[train]
        residual = away * weight
        leaf = _leaves(bins, members, held, weight, residual, train)
        leaf = first_leaf + leaf
        of_known = leaf[train].ravel()
        size = np.bincount(of_known, weight.ravel(), leaves)
        total = np.bincount(of_known, residual.ravel(), leaves)
        shrunk = size + SHRINK
        effect = total / shrunk
        predicted += RATE * effect[leaf]
    return predicted


def _leaves(
    bins: Bins,
    members: Any,
    held: Floats,
    weight: Any,
    residual: Floats,
    train: Ints,
) -> Any:
    """(rows, fits) the leaf of each row, in trees that are fitted to the residuals of ``train``.

    Args:
        members: as of ``Bins.members``, for the rows of ``train``.
        held: (bins, fits) how many of the rows that teach a fit each bin holds.
        weight: (train, fits) 1 where a row teaches a fit, else 0.
        residual: (train, fits) 0 where it does not.
    """
    rows = bins.values.shape[1]
    leaf = np.zeros((rows, residual.shape[1]), dtype=np.uint8)
    short = residual.astype(np.float32)
    size = held[:, None]
    total = (members @ short)[:, None]
    values = np.stack([weight, short], axis=1)
    for level in range(1, DEPTH + 1):
        taken = bins.takes(_best_questions(bins, size, total))
        if level < DEPTH:
            of_leaf = leaf[train, None] == np.arange(size.shape[1])[:, None]
            inside = of_leaf & taken[train, None]
            added = values[:, :, None] * inside[:, None]
            sums = members @ added.reshape(len(train), -1)
            sums = sums.reshape(len(sums), *added.shape[1:])
            size = _halved(size, sums[:, 0])
            total = _halved(total, sums[:, 1])
        leaf = 2 * leaf + taken
    return leaf


def _halved(whole: Floats, inside: Floats) -> Floats:
    """(bins, 2 · leaves, fits) each leaf's sums without the rows that a question takes, and with
    them alone.

    Args:
        whole: (bins, leaves, fits) the sums of all rows.
        inside: (bins, leaves, fits) those of the rows that the question takes.
    """
    outside = whole - inside
    both = np.stack([outside, inside], axis=2)
    bins, _, fits = whole.shape
    return both.reshape(bins, -1, fits)


def _best_questions(
    bins: Bins,
    size: Floats,
    total: Floats,
) -> Ints:
    """(fits,) the bin at which asking all leaves explains most of the squared residuals.

    Args:
        size: (bins, leaves, fits) number of rows.
        total: (bins, leaves, fits) their residuals.
    """
    size_taken, size_left = _asked(bins, size)
    total_taken, total_left = _asked(bins, total)
    weight_taken = size_taken + SHRINK
    weight_left = size_left + SHRINK
    of_taken = total_taken**2 / weight_taken
    of_left = total_left**2 / weight_left
    explained = of_taken + of_left
    of_leaves = explained.sum(1)
    best: Ints = of_leaves.argmax(0)
    return best


def _asked(bins: Bins, sums: Floats) -> tuple[Floats, Floats]:
    """(bins, leaves, fits) the sum over the rows that each question takes, and over the others."""
    up_to = np.cumsum(sums, axis=0)
    before = np.concatenate([np.zeros_like(sums[:1]), up_to])
    taken = up_to - before[bins.start]
    is_first = bins.feature == 0
    return taken, before[int(is_first.sum())] - taken
