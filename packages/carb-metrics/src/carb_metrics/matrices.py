"""Mirrored families as matrices: a row for each set, a column for each answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from carb_data import BonSet, Dataset
from carb_metrics.clusters import Bools, Ints, cluster_of

IMPLIED = "+implied"
"""Ending of a family's id whose questions imply the place (``carb_data.family``)."""

Cell = tuple[str, str]
"""A set's id and an answer's id."""


@dataclass(frozen=True)
class Matrices:
    """The families of a data set; every array numbers sets, families and cells from 0."""

    names: tuple[str, ...]
    """(families,) sorted."""
    sets: tuple[BonSet, ...]
    family: Ints
    """(sets,) the family of each set."""
    right: Ints
    """(sets,) the column of the right answer; columns are numbered over all families."""
    columns: Ints
    """(sets,) a number for the columns that a set shows: equal for the same ones."""
    width: Ints
    """(sets,) how many answers a set shows."""
    answers: Ints
    """(families,) different right answers."""
    cluster: Ints
    """(families,) families that a source item or a set connects have one number."""
    numbers: pl.DataFrame
    """``item_id`` and ``response_id`` of each ``cell``, in the order of its number."""
    key: Ints
    """(sets,) the cell of the right answer."""
    pairs: Ints
    """(pairs, 2) two sets of a family with different right answers that both show both."""
    compared: Ints
    """(pairs, 4) cells: the first set's right answer there and under the other set, then the second
    set's right answer there and under the first set."""

    @property
    def of_pair(self) -> Ints:
        """(pairs,) the family of each pair."""
        return self.family[self.pairs[:, 0]]

    def values(self, column: str) -> list[tuple[str | None, ...]]:
        """(families,) the values of a field that the sets of each family have, sorted."""
        found: list[set[str | None]] = [set() for _ in self.names]
        for number, item in zip(self.family, self.sets, strict=True):
            value = getattr(item, column)
            found[number].add(None if value is None else str(value))
        return [tuple(sorted(values, key=str)) for values in found]


def matrices(dataset: Dataset) -> Matrices:
    """The families of a data set as matrices."""
    sets = sorted((one for one in dataset if one.family is not None), key=lambda one: one.id)
    names = sorted({str(one.family) for one in sets})
    place = {name: number for number, name in enumerate(names)}
    columns = _columns(sets)
    cells = [(one.id, response.id) for one in sets for response in one.responses]
    cell_of = {cell: number for number, cell in enumerate(cells)}
    shown = [[columns[one.id, response.id] for response in one.responses] for one in sets]
    right = [columns[one.id, one.chosen.id] for one in sets]
    family = np.array([place[str(one.family)] for one in sets], dtype=np.int64)
    pairs, compared = _pairs(sets, columns, cell_of)
    distinct = np.unique(np.column_stack([family, right]).astype(np.int64), axis=0)
    kinds: dict[tuple[int, ...], int] = {}
    return Matrices(
        names=tuple(names),
        sets=tuple(sets),
        family=family,
        right=np.array(right, dtype=np.int64),
        columns=np.array(
            [kinds.setdefault(tuple(sorted(row)), len(kinds)) for row in shown], dtype=np.int64
        ),
        width=np.array([len(set(row)) for row in shown], dtype=np.int64),
        answers=np.bincount(distinct[:, 0], minlength=len(names)).astype(np.int64),
        cluster=_clusters(dataset, sets, family, len(names)),
        numbers=pl.DataFrame(
            cells, schema={"item_id": pl.String, "response_id": pl.String}, orient="row"
        ).with_row_index("cell"),
        key=np.array([cell_of[one.id, one.chosen.id] for one in sets], dtype=np.int64),
        pairs=pairs,
        compared=compared,
    )


def _columns(sets: Sequence[BonSet]) -> dict[Cell, int]:
    """The column of each cell.

    An answer has one id under every place. Where a family repeats a text under several ids, as
    files with an id for each row do, its answers are told apart by their texts.
    """
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for one in sets:
        for response in one.responses:
            ids[str(one.family), response.text].add(response.id)
    by_text = {family for (family, _), known in ids.items() if len(known) > 1}
    numbers: dict[tuple[str, str], int] = {}
    columns: dict[Cell, int] = {}
    for one in sets:
        family = str(one.family)
        for response in one.responses:
            answer = response.text if family in by_text else response.id
            columns[one.id, response.id] = numbers.setdefault((family, answer), len(numbers))
    return columns


def _pairs(
    sets: Sequence[BonSet], columns: dict[Cell, int], cell_of: dict[Cell, int]
) -> tuple[Ints, Ints]:
    """``Matrices.pairs`` and ``Matrices.compared``."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(sets):
        families[str(one.family)].append(number)
    cells = [{columns[one.id, r.id]: cell_of[one.id, r.id] for r in one.responses} for one in sets]
    right = [columns[one.id, one.chosen.id] for one in sets]
    pairs: list[tuple[int, int]] = []
    compared: list[tuple[int, int, int, int]] = []
    for members in families.values():
        for a, b in combinations(members, 2):
            mine, other = right[a], right[b]
            if mine != other and mine in cells[b] and other in cells[a]:
                pairs.append((a, b))
                compared.append((cells[a][mine], cells[b][mine], cells[b][other], cells[a][other]))
    return (
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        np.array(compared, dtype=np.int64).reshape(-1, 4),
    )


def _clusters(dataset: Dataset, sets: Sequence[BonSet], family: Ints, count: int) -> Ints:
    """(families,) the cluster of each family, numbered by name."""
    origin = dataset.origins
    frame = pl.DataFrame(
        [(one.id, origin[one.id], one.family) for one in sets],
        schema={"item_id": pl.String, "source_item": pl.String, "mirrors": pl.String},
        orient="row",
    )
    found = np.zeros(count, dtype=np.int64)
    found[family] = cluster_of(frame)
    return found


def complete(matrix: Matrices, scored: Bools) -> Bools:
    """(families,) whether the scored sets of a family show the same answers, each right in one.

    There a scorer that does not read the place has the right answer on top in exactly 1/N.
    """
    count = len(matrix.names)
    family = matrix.family[scored]

    def distinct(values: Ints) -> Ints:
        pairs = np.unique(np.column_stack([family, values[scored]]), axis=0)
        return np.bincount(pairs[:, 0], minlength=count).astype(np.int64)

    width = np.zeros(count, dtype=np.int64)
    width[family] = matrix.width[scored]
    several = distinct(matrix.right) > 1
    whole: Bools = several & (distinct(matrix.columns) == 1) & (distinct(matrix.right) == width)
    return whole
