"""Perturbation sensitivity and cross-lingual consistency."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import CarbError, ScoreTable
from carb_metrics import cross_lingual_consistency, perturbation_sensitivity
from carb_metrics.languages import calibrate_k


def perturb(
    table: ScoreTable, changes: dict[str, object], scorer: str = "judge", language: str = "de"
) -> ScoreTable:
    """Add perturbed versions of ``chosen``; a change is a function of the score, or a list with one
    per item."""
    chosen = table.frame.filter(pl.col("role") == "chosen")
    parts = [table.frame]
    for kind, change in changes.items():
        scores = chosen["score"].to_list()
        new = [change(s) for s in scores] if callable(change) else change
        parts.append(
            chosen.with_columns(
                original=pl.col("response_id"),
                response_id=pl.col("response_id") + f"-{kind}",
                perturbation=pl.lit(kind),
                language=pl.lit(language if kind == "CL" else "en"),
                score=pl.Series(new, dtype=pl.Float64),
            )
        )
    return ScoreTable(pl.concat(parts))


SETS = [[4.0, 1.0, 2.0, 3.0], [5.0, 2.0, 3.0, 4.0], [2.0, 3.0, 1.0, 0.0]]


def test_changes_by_hand(make_table):
    table = perturb(
        make_table(SETS), {"CC": lambda s: s - 3, "RP": lambda s: s + 0.5, "CL": lambda s: s * 0.9}
    )
    result = perturbation_sensitivity(table)
    rows = {row["perturbation"]: row for row in map(dict, result.kinds)}
    assert list(rows) == ["CC", "CL", "RP"]
    spread = math.sqrt(sum(np.var(s, ddof=1) for s in SETS) / 3)
    assert rows["CC"]["spread"].estimate == pytest.approx(3 / spread)
    assert rows["CC"]["relative"].estimate == pytest.approx(np.mean([3 / 4, 3 / 5, 3 / 2]))
    assert rows["CL"]["relative"].estimate == pytest.approx(0.1)
    assert (rows["CC"]["flips"].estimate, rows["CC"]["judged"]) == (2 / 3, 3)
    assert rows["RP"]["flips"].estimate == 0
    assert result.scorers[0].spread == pytest.approx(spread)
    surface = (np.mean([0.4, 0.5, 0.2]) + 0.5) / 2
    assert result.of("judge").ratio.estimate == pytest.approx(3 / surface)


@pytest.mark.parametrize(("near_0", "relative"), [(1, (3 / 5 + 3 / 2 + 3 / 4) / 3), (2, None)])
def test_a_relative_change_is_null_where_half_of_the_scores_are_near_0(
    make_table, near_0, relative
):
    """A change over a score near 0 is as large as one likes, and so is a mean with it."""
    sets = [[5.0, 2.0, 3.0, 4.0], [2.0, 3.0, 1.0, 0.0], [4.0, 1.0, 2.0, 3.0], [4.0, 1.0, 2.0, 3.0]]
    for values in sets[4 - near_0 :]:
        values[0] = 1e-3
    table = perturb(make_table(sets), {"CC": lambda s: s - 3})
    (row,) = perturbation_sensitivity(table).kinds
    assert row.undefined == near_0
    assert row.relative.estimate == (None if relative is None else pytest.approx(relative))


def test_degenerate_sensitivity_is_null(make_table):
    assert perturbation_sensitivity(make_table(SETS)).kinds == ()
    assert perturbation_sensitivity(make_table(SETS)).of("judge").ratio.estimate is None
    assert perturbation_sensitivity(ScoreTable(make_table(SETS).frame.clear())).scorers == ()
    flat = perturb(make_table([[0.0, 0.0]] * 3), {"CC": lambda _: 1.0, "RP": lambda s: s})
    row = perturbation_sensitivity(flat).kinds[0]
    assert (row.spread.estimate, row.relative.estimate, row.undefined) == (None, None, 3)
    failed = perturb(make_table(SETS), {"CC": [None] * 3})
    row = perturbation_sensitivity(failed).kinds[0]
    assert (row.n, row.errors, row.judged) == (0, 3, 0)
    assert row.spread.estimate is None
    assert row.flips.estimate is None
    one = perturb(make_table(SETS[:1]), {"CC": lambda s: s - 1, "RP": lambda s: s - 0.5})
    ratio = perturbation_sensitivity(one).of("judge").ratio
    assert (ratio.estimate, ratio.low) == (2, None)


def test_a_perturbed_row_needs_its_original(make_table):
    table = perturb(make_table(SETS), {"CC": lambda s: s})
    lonely = ScoreTable(table.frame.filter(pl.col("perturbation").is_not_null()))
    with pytest.raises(CarbError, match="no original"):
        perturbation_sensitivity(lonely)
    with pytest.raises(CarbError, match="twice, in rows"):
        perturbation_sensitivity(ScoreTable(pl.concat([table.frame, table.frame])))


def simulate(rng, make_table, items=60):
    sets = rng.normal(size=(items, 4))
    base = sets[:, 0]
    changes = {"CC": base + rng.normal(size=items), "RP": base + 0.25 * rng.normal(size=items)}
    return perturb(make_table(sets.tolist()), {k: v.tolist() for k, v in changes.items()})


@pytest.mark.coverage
def test_coverage_of_sensitivity(make_table):
    rng, rounds = np.random.default_rng(0), 400
    truth = {"spread": math.sqrt(2 / math.pi), "ratio": 4.0}
    hits = dict.fromkeys(truth, 0)
    for _ in range(rounds):
        result = perturbation_sensitivity(simulate(rng, make_table))
        spread = result.kinds[0].spread
        hits["spread"] += spread.low <= truth["spread"] <= spread.high
        hits["ratio"] += (
            result.scorers[0].ratio.low <= truth["ratio"] <= result.scorers[0].ratio.high
        )
    assert all(0.93 <= count / rounds <= 0.97 for count in hits.values()), hits


def consistent(make_table, deltas, **kwargs):
    """CL versions in German and French of each chosen, moved by these differences."""
    table = perturb(
        make_table(SETS[: len(deltas)]),
        {"CL": [s[0] + d for s, d in zip(SETS, deltas, strict=False)]},
    )
    third = table.frame.filter(pl.col("perturbation") == "CL").with_columns(
        response_id=pl.lit("fr-") + pl.col("response_id"),
        language=pl.lit("fr"),
        score=pl.col("score") + 1,
    )
    return ScoreTable(pl.concat([table.frame, third]))


def test_consistency_by_hand(make_table):
    result = cross_lingual_consistency(consistent(make_table, [1.0, -2.0]), k=0.5)
    unit = result.scorers[0].spread
    pairs = {("de", "en"): [1, 2], ("de", "fr"): [1, 1], ("en", "fr"): [2, 1]}
    expected = {pair: np.exp(-0.5 * np.array(d) / unit).mean() for pair, d in pairs.items()}
    row = result.scorers[0]
    assert row.consistency.estimate == pytest.approx(np.mean(list(expected.values())))
    assert (row.consistency.n, row.k) == (6, 0.5)


def test_degenerate_consistency_is_null(make_table):
    for table in (
        make_table(SETS),
        perturb(make_table([[1.0, 1.0]]), {"CL": lambda s: s}),
        make_table([]),
    ):
        result = cross_lingual_consistency(table)
        assert all(row.consistency.estimate is None for row in result.scorers)
    with pytest.raises(CarbError, match="no scorer"):
        result.of("nobody")


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": -1.0}, {"k": math.nan}, {"confidence": 0}])
def test_consistency_checks_its_options(make_table, wrong):
    with pytest.raises(CarbError):
        cross_lingual_consistency(make_table(SETS), **wrong)


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=20))
def test_calibrated_k_reaches_its_target(differences):
    k = calibrate_k(np.array(differences))
    assert np.exp(-k * np.array(differences)).mean() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.coverage
def test_coverage_of_consistency(make_table):
    rng, rounds, hits = np.random.default_rng(1), 400, 0
    truth = math.exp(0.5) * math.erfc(math.sqrt(0.5))  # mean of exp(-|z|)
    for _ in range(rounds):
        sets = rng.normal(size=(80, 2))
        table = perturb(
            make_table(sets.tolist()), {"CL": (sets[:, 0] + rng.normal(size=80)).tolist()}
        )
        spread = cross_lingual_consistency(table, 1.0).scorers[0].spread
        # steepness 1 for each unit of scores
        found = cross_lingual_consistency(table, spread).scorers[0].consistency
        hits += found.low <= truth <= found.high
    assert 0.93 <= hits / rounds <= 0.97
