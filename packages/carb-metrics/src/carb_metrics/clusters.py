"""Sets that stem from one source item, or from one family of mirrored sets, are not independent."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError
from carb_metrics.frames import text

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TIES = ("source_item", "mirrors")
"""Columns whose values tie sets together."""

CLUSTER = "_cluster"
"""Column of ``Scored.sets`` with the number of each set's cluster."""


def number(
    frame: pl.DataFrame,
    keys: tuple[str, ...],
) -> tuple[Ints, pl.DataFrame]:
    """Number the groups of rows that agree in ``keys``; null is a value like any other.

    Returns:
        (rows,) the group of each row, and a frame with a row per group, ordered by the keys as
        text.
    """
    if not keys:
        one_group = np.zeros(frame.height, dtype=np.int64)
        return one_group, frame.head(1).select()
    numbered = frame.select(keys).with_row_index("_row")
    groups = numbered.group_by(keys).agg("_row")
    groups = groups.sort(text(*keys))
    rows = groups["_row"]
    group = np.repeat(np.arange(groups.height), rows.list.len().to_numpy())
    of_row = np.empty(frame.height, dtype=np.int64)
    of_row[rows.explode().to_numpy()] = group
    return of_row, groups.drop("_row")


def is_missing(value: Any) -> bool:
    """Is a value None, NaN, or the NA of pandas?"""
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return value is None or type(value).__name__ == "NAType"


def numbered(
    labels: Sequence[Any] | npt.NDArray[Any] | None,
    count: int,
    owner: str = "",
) -> Ints:
    """(count,) the cluster of each value, as a number from 0; without labels each value is its own
    cluster.

    Args:
        labels: (count,) the label of each value's cluster; a value without one is its own cluster.
            Null if all are.
        count: the number of values.
        owner: what the values are, for the message about a wrong number of labels.

    Raises:
        CarbError: there are more or fewer labels than values.
    """
    if labels is None:
        return np.arange(count)
    if len(labels) != count:
        raise CarbError(f"clusters has {len(labels)} entries for {count} {owner}.")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        return np.unique(labels, return_inverse=True)[1]
    numbers: dict[Any, int] = {}
    cluster = []
    for label in labels:
        key = label
        if is_missing(label):
            key = object()
        cluster.append(numbers.setdefault(key, len(numbers)))
    return np.array(cluster, dtype=np.int64)


def cluster_of(sets: pl.DataFrame) -> Ints:
    """(sets,) the cluster of each set: all that a source item or a family connects, or the set
    itself without either.

    A family may hold several source items, and a source item sets of several families: what is
    connected is one.
    """
    item = codes(sets["item_id"])
    ties = [_tie(sets, item, kind) for kind in TIES]
    items = int(item.max(initial=-1)) + 1
    return connected(items, ties)[item]


def connected(
    count: int,
    ties: Iterable[tuple[Ints, Ints]],
) -> Ints:
    """Group items: two items with the same value of a tie are in one group.

    Args:
        count: the number of items.
        ties: two arrays of one length for each kind of tie: the item and its value, by number.

    Returns:
        (count,) the number of each item's group.
    """
    kinds = [*ties]
    least = np.arange(count)
    while True:  # the least item that each is known to be tied to
        before = least
        least = least[least]
        for items, values in kinds:
            distinct = int(values.max(initial=-1)) + 1
            of_value = np.full(distinct, count)
            np.minimum.at(of_value, values, least[items])
            np.minimum.at(least, items, of_value[values])
        if (least == before).all():
            break
    return np.unique(least, return_inverse=True)[1]


def _tie(
    sets: pl.DataFrame,
    item: Ints,
    kind: str,
) -> tuple[Ints, Ints]:
    """Items and the values of one kind that they have, as numbers. The same value in ``kind`` and
    in ``kind_b`` is the same origin."""
    items = np.empty(0, dtype=np.int64)
    values = pl.Series(dtype=pl.String)
    for name in (kind, f"{kind}_b"):
        if name in sets.columns:
            column = sets[name].cast(pl.String)
            known = column.is_not_null().to_numpy()
            items = np.concatenate([items, item[known]])
            values.append(column.drop_nulls())
    return items, codes(values)


def codes(column: pl.Series) -> Ints:
    """Numbers of the distinct values of a column, in their order as text."""
    texts = column.cast(pl.String)
    values = pl.Enum(texts.unique().sort())
    numbers = texts.cast(values).to_physical().to_numpy()
    return numbers.astype(np.int64)
