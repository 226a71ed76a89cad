"""Mirrored families as matrices: a row for each set, a column for each answer."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
import polars as pl

from carb_data import BonSet, Dataset
from carb_metrics.clusters import Bools, Ints

Cell = tuple[str, str]
"""A set's id and an answer's id."""

CELL = {"item_id": pl.String, "response_id": pl.String}


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

    def values(
        self,
        column: str,
    ) -> list[tuple[str | None, ...]]:
        """(families,) the values of a field that the sets of each family have, sorted."""
        values: defaultdict[int, set[str | None]] = defaultdict(set)
        for family, item in zip(self.family, self.sets, strict=True):
            value = getattr(item, column)
            if value is not None:
                value = str(value)
            values[family].add(value)
        return [tuple(sorted(values[family], key=str)) for family in range(len(self.names))]


def matrices(dataset: Dataset) -> Matrices:
    """The families of a data set as matrices."""
    sets = [item for item in dataset if item.family is not None]
    sets.sort(key=lambda item: item.id)
    families = [str(item.family) for item in sets]
    names, family = np.unique(families, return_inverse=True)
    columns = _columns(sets)
    cells_of_set = [_cells(item) for item in sets]
    cells = list(chain.from_iterable(cells_of_set))
    cell_of = {cell: number for number, cell in enumerate(cells)}
    keys = [_key(item) for item in sets]
    right = _ints(columns[key] for key in keys)
    shown = []
    for of_set in cells_of_set:
        row = sorted(columns[cell] for cell in of_set)
        shown.append(tuple(row))
    numbers = pl.DataFrame(cells, schema=CELL, orient="row")
    pairs, compared = _pairs(sets, columns, cell_of)
    return Matrices(
        names=tuple(names.tolist()),
        sets=tuple(sets),
        family=family,
        right=right,
        columns=_numbered(shown),
        width=_ints(len(set(row)) for row in shown),
        answers=_distinct(family, right, len(names)),
        cluster=_clusters(dataset, sets, family, len(names)),
        numbers=numbers.with_row_index("cell"),
        key=_ints(cell_of[key] for key in keys),
        pairs=pairs,
        compared=compared,
    )


def _ints(values: Iterable[int | tuple[int, ...]]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _cells(item: BonSet) -> list[Cell]:
    """The cells of a set, in the order of its answers."""
    return [(item.id, response.id) for response in item.responses]


def _key(item: BonSet) -> Cell:
    """The cell of the right answer of a set."""
    return (item.id, item.chosen.id)


def _numbered(rows: list[tuple[int, ...]]) -> Ints:
    """(rows,) a number for each row: equal for equal ones."""
    distinct = dict.fromkeys(rows)
    numbers = {row: number for number, row in enumerate(distinct)}
    return _ints(numbers[row] for row in rows)


def _distinct(family: Ints, values: Ints, count: int) -> Ints:
    """(families,) the number of different values of a family's sets."""
    pairs = np.unique(np.column_stack([family, values]), axis=0)
    return np.bincount(pairs[:, 0], minlength=count)


def _columns(sets: Sequence[BonSet]) -> dict[Cell, int]:
    """The column of each cell.

    An answer has one id under every place. Files with an id for each row repeat a text under
    several ids. There the texts tell the answers of a family apart.
    """
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for item in sets:
        for response in item.responses:
            answer = (str(item.family), response.text)
            ids[answer].add(response.id)
    by_text = {family for (family, _), known in ids.items() if len(known) > 1}
    numbers: dict[tuple[str, str], int] = {}
    columns: dict[Cell, int] = {}
    for item in sets:
        family = str(item.family)
        for response in item.responses:
            name = response.id
            if family in by_text:
                name = response.text
            column = numbers.setdefault((family, name), len(numbers))
            columns[item.id, response.id] = column
    return columns


def _pairs(
    sets: Sequence[BonSet],
    columns: dict[Cell, int],
    cell_of: dict[Cell, int],
) -> tuple[Ints, Ints]:
    """``Matrices.pairs`` and ``Matrices.compared``."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    cells: list[dict[int, int]] = []
    for number, item in enumerate(sets):
        families[str(item.family)].append(number)
        by_column = {columns[cell]: cell_of[cell] for cell in _cells(item)}
        cells.append(by_column)
    right = [columns[_key(item)] for item in sets]
    pairs: list[tuple[int, int]] = []
    compared: list[tuple[int, int, int, int]] = []
    for members in families.values():
        for a, b in combinations(members, 2):
            of_a = right[a]
            of_b = right[b]
            both_shown = of_a in cells[b] and of_b in cells[a]
            if of_a == of_b or not both_shown:
                continue
            pairs.append((a, b))
            four = (
                cells[a][of_a],
                cells[b][of_a],
                cells[b][of_b],
                cells[a][of_b],
            )
            compared.append(four)
    return _ints(pairs).reshape(-1, 2), _ints(compared).reshape(-1, 4)


def _clusters(
    dataset: Dataset,
    sets: Sequence[BonSet],
    family: Ints,
    count: int,
) -> Ints:
    """(families,) the cluster of each family, numbered by name: its sets have one origin."""
    origins = [dataset.origins[item.id] for item in sets]
    _, origin = np.unique(origins, return_inverse=True)
    cluster = np.zeros(count, dtype=np.int64)
    cluster[family] = origin
    return cluster


def complete(matrix: Matrices, scored: Bools) -> Bools:
    """(families,) whether the scored sets of a family show the same answers, each right in one.

    There a scorer that does not read the place has the right answer on top in exactly 1/N.
    """
    count = len(matrix.names)
    family = matrix.family[scored]
    right = _distinct(family, matrix.right[scored], count)
    kinds = _distinct(family, matrix.columns[scored], count)
    width = np.zeros(count, dtype=np.int64)
    width[family] = matrix.width[scored]
    several: Bools = right > 1
    same_answers: Bools = kinds == 1
    each_right: Bools = right == width
    return several & same_answers & each_right
