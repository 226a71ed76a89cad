"""A table that is read once gives the same numbers as one that is read again and again."""

from __future__ import annotations

from zlib import crc32

import polars as pl
import pytest

from carb_data import CarbError, Dataset, Kind, Response, ScoreTable
from carb_metrics import Scored, bon_accuracy, breakdown, calibration, family_accuracy, rank
from carb_metrics.clusters import cluster_of
from sets_and_scores import a_set, scores_of


def dataset_of(sets: int, kind: str = "custom") -> Dataset:
    return Dataset(
        a_set(
            f"s{n}",
            "thai",
            [
                Response(
                    id=f"{n}-{k}",
                    text=f"{'abcd'[k] * 9} {n * 7919 % 1000}",
                    role="rejected" if k else "chosen",
                    language="th",
                    generator="human",
                )
                for k in range(4)
            ],
            language="th",
            prompt=f"{n * 104729 % 9999} is which of these things, of kind {n % 7}?",
            kind=kind,
        )
        for n in range(sets)
    )


def table_of(dataset: Dataset) -> ScoreTable:
    rules = {
        name: (lambda s, r, m=m: float(crc32(f"{m}{r.id}".encode()) % 7 + 2 * (r.role == "chosen")))
        for m, name in enumerate(("one", "two", "three"))
    }
    return scores_of(dataset, rules)


def test_every_metric_gives_the_same_numbers() -> None:
    dataset = dataset_of(40)
    table = table_of(dataset).with_items(dataset)
    kept = Scored(table_of(dataset), dataset)
    assert bon_accuracy(kept, "scorer") == bon_accuracy(table, "scorer")
    assert breakdown(kept) == breakdown(table)
    assert calibration(kept) == calibration(table)
    assert rank(kept, dataset=dataset) == rank(table, dataset=dataset)
    assert family_accuracy(kept, dataset) == family_accuracy(table, dataset)


def test_a_part_keeps_the_clusters_of_the_whole() -> None:
    dataset = dataset_of(6)
    kept = Scored(table_of(dataset), dataset)
    part = kept.where(pl.col("item_id") == "s3")
    assert part.clusters is kept.clusters
    assert part.with_items(dataset) is part
    assert part.sets.height == 3


def test_families_need_a_data_set() -> None:
    with pytest.raises(CarbError, match=r"Scored\(scores, dataset\)"):
        _ = Scored(table_of(dataset_of(2))).families


def test_controls_are_no_main_sets() -> None:
    """A control has no culture; counted in, it moves the accuracy of a culture."""
    sets = [*dataset_of(3), *(s.model_copy(update={"id": f"c{s.id}"}) for s in dataset_of(2))]
    marked = [
        s.model_copy(update={"kind": Kind.CONTROL}) if s.id.startswith("c") else s for s in sets
    ]
    dataset = Dataset(marked)
    rules = {"s": lambda s, r: float((r.role == "chosen") != s.id.startswith("c"))}
    table = scores_of(dataset, rules).with_items(dataset)
    for scores in (table, Scored(scores_of(dataset, rules), dataset)):
        cell = bon_accuracy(scores).overall
        assert (cell.n, cell.accuracy) == (3, 1.0)
        assert bon_accuracy(scores, mirrors=True).overall.n == 5


def test_a_chain_of_ties_is_one_cluster():
    """Set n shares a source item with n + 1 where n is even, and a family where it is odd."""
    names = [f"i{n:03}" for n in range(200)]
    sets = pl.DataFrame(
        {
            "item_id": names,
            "source_item": [f"s{n // 2}" for n in range(200)],
            "mirrors": [f"f{(n + 1) // 2}" for n in range(200)],
        }
    )
    assert cluster_of(sets.sample(fraction=1, shuffle=True, seed=0)).tolist() == [0] * 200
    apart = sets.filter(pl.col("item_id") != "i100")
    assert cluster_of(apart).tolist() == [0] * 100 + [1] * 99
