"""How sensitivity to perturbations differs between two scorers."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from carb_data import CarbError, ScoreTable
from carb_metrics import perturbation_sensitivity, sensitivity_change

ITEMS = 12
KINDS = ("CC", "RC", "CL", "RP")
SIZES = {"early": (1.0, 0.5, 2.0, 0.5), "late": (3.0, 0.5, 0.5, 0.5)}


def judged(scorer: str, sizes: tuple[float, ...], seed: int = 0, scale: float = 1.0) -> pl.DataFrame:
    """Sets of four, and of each chosen response one version a kind, moved by noise of that kind's size."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(ITEMS):
        scores = rng.normal(size=4)
        for place, score in enumerate(scores):
            rows.append((f"i{item}", f"r{place}", "chosen" if place == 0 else "rejected", None, None, scale * score))
        for kind, size in zip(KINDS, sizes, strict=True):
            moved = scores[0] + size * rng.normal()
            rows.append((f"i{item}", f"r0-{kind}", "chosen", kind, "r0", scale * moved))
    names = ["item_id", "response_id", "role", "perturbation", "original", "score"]
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    fixed = {"scorer": scorer, "culture": "thai", "domain": "values", "language": "en"}
    return ScoreTable(frame.with_columns(pl.lit(value).alias(name) for name, value in fixed.items())).frame


def both(seed: int = 0, scale: float = 1.0, **sizes: tuple[float, ...]) -> ScoreTable:
    sizes = {**SIZES, **sizes}
    return ScoreTable(
        pl.concat([judged("early", sizes["early"], seed), judged("late", sizes["late"], seed + 1, scale)])
    )


def rows_of(table: ScoreTable, before: str = "early", after: str = "late") -> dict[str, dict]:
    return {row["perturbation"]: row for row in map(dict, sensitivity_change(table, before, after).kinds)}


def test_values_are_those_of_perturbation_sensitivity_and_the_interval_that_of_a_plain_jackknife() -> None:
    table = both()
    found = rows_of(table)
    assert list(found) == [*KINDS, "CC/surface"]
    sides = perturbation_sensitivity(table)

    def spread(of: ScoreTable, scorer: str, kind: str) -> float:
        rows = perturbation_sensitivity(of).kinds
        return next(row.spread for row in rows if (row.scorer, row.perturbation) == (scorer, kind))

    for kind in KINDS:
        row = found[kind]
        assert row["n"] == ITEMS
        assert (row["before"], row["after"]) == pytest.approx(
            (spread(table, "early", kind), spread(table, "late", kind))
        )
        assert row["factor"] == pytest.approx(row["after"] / row["before"])
        left = []
        for item in range(ITEMS):
            part = ScoreTable(table.frame.filter(pl.col("item_id").cast(pl.String) != f"i{item}"))
            left.append(math.log(spread(part, "late", kind) / spread(part, "early", kind)))
        error = math.sqrt((ITEMS - 1) / ITEMS * np.sum((np.array(left) - np.mean(left)) ** 2))
        half = student.ppf(0.975, ITEMS - 1) * error
        assert row["factor_low"] == pytest.approx(row["factor"] * math.exp(-half))
        assert row["factor_high"] == pytest.approx(row["factor"] * math.exp(half))
    ratio = found["CC/surface"]
    assert (ratio["before"], ratio["after"]) == pytest.approx(
        (sides.ratio("early").estimate, sides.ratio("late").estimate)
    )
    assert ratio["factor"] == pytest.approx(ratio["after"] / ratio["before"])
    assert ratio["n"] == 4 * ITEMS


@given(seed=st.integers(0, 500), scale=st.floats(0.01, 100))
def test_scale_does_not_matter_and_swapping_inverts(seed: int, scale: float) -> None:
    plain, scaled = rows_of(both(seed)), rows_of(both(seed, scale))
    swapped = rows_of(both(seed), "late", "early")
    for kind, row in plain.items():
        assert scaled[kind]["factor"] == pytest.approx(row["factor"])
        assert scaled[kind]["factor_low"] == pytest.approx(row["factor_low"])
        assert swapped[kind]["factor"] == pytest.approx(1 / row["factor"])
        assert swapped[kind]["factor_low"] == pytest.approx(1 / row["factor_high"])


def test_a_scorer_does_not_differ_from_itself() -> None:
    own = judged("early", SIZES["early"])
    twin = own.with_columns(pl.lit("late").cast(own.schema["scorer"]).alias("scorer"))
    found = rows_of(ScoreTable(pl.concat([own, twin])))
    assert {(row["factor"], row["factor_low"], row["factor_high"]) for row in found.values()} == {(1.0, 1.0, 1.0)}


def test_intervals_hold_the_truth_at_their_level_where_the_truth_is_known() -> None:
    """Twelve items and a true factor of one: 300 tables, of which 95% should hold it."""
    alike = {"early": (1.0,) * 4, "late": (1.0,) * 4}
    rows = [rows_of(both(2 * seed, **alike))["CC"] for seed in range(300)]
    held = np.mean([row["factor_low"] <= 1 <= row["factor_high"] for row in rows])
    assert 0.91 <= held <= 0.99


def test_only_pairs_that_both_scored_count() -> None:
    table = both()
    lost = (pl.col("scorer") == "late") & (pl.col("item_id").cast(pl.String) == "i3")
    failed = ScoreTable(table.frame.with_columns(score=pl.when(~lost).then("score")))
    without = ScoreTable(table.frame.filter(pl.col("item_id").cast(pl.String) != "i3"))
    assert rows_of(failed) == rows_of(without)
    assert rows_of(failed)["CC"]["n"] == ITEMS - 1


def test_what_is_not_defined_is_null() -> None:
    still = judged("early", (0.0, 1.0, 1.0, 1.0))
    found = rows_of(ScoreTable(pl.concat([still, judged("late", SIZES["late"])])))
    assert found["CC"]["before"] == 0
    assert found["CC"]["factor"] is None
    plain = ScoreTable(both().frame.filter(pl.col("perturbation").is_null()))
    assert rows_of(plain) == {}
    with pytest.raises(CarbError, match="no scorer 'nobody' here; there are: early, late"):
        sensitivity_change(both(), "nobody", "late")
