"""Position, order, repetition, length; calibration; judges against people."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_data import BonSet, CarbError, Dataset, ScoreTable
from carb_metrics import agreement, bon_accuracy, calibration, judge_bias, judge_vs_human
from carb_metrics.calibrated import logistic, reliability
from carb_metrics.rows import BiasRow

PRESENTED = {
    "scorer": pl.String,
    "item_id": pl.String,
    "order_id": pl.String,
    "response_id": pl.String,
    "position": pl.Int64,
    "score": pl.Float64,
}


def present(rows, scorer="judge"):
    """A frame from (item number, order id, [(response number, score), ...] as shown)."""
    spelled = [
        (scorer, f"item-{i}", order, f"item-{i}-{k}", place, score)
        for i, order, shown in rows
        for place, (k, score) in enumerate(shown)
    ]
    return pl.DataFrame(spelled, schema=PRESENTED, orient="row")


def test_a_judge_that_always_picks_the_first(make_table):
    rng = np.random.default_rng(0)
    rows = [
        (i, str(order), [(k, 1.0 - place) for place, k in enumerate(rng.permutation(3))])
        for i in range(60)
        for order in range(2)
    ]
    result = judge_bias(make_table([[1.0, 0.0, 0.5]] * 60), present(rows))
    row = result.scorers[0].model_dump()
    assert [row.share.estimate for row in result.positions] == [1, 0, 0]
    assert [row.expected for row in result.positions] == pytest.approx([1 / 3] * 3)
    assert row["position_p"] < 1e-6
    same = sum(a[2][0][0] == b[2][0][0] for a, b in zip(rows[::2], rows[1::2], strict=True))
    swapped = sum(
        [k for k, _ in a[2]] != [k for k, _ in b[2]]
        for a, b in zip(rows[::2], rows[1::2], strict=True)
    )
    assert row["swap_consistency"]["n"] == swapped
    assert row["self_agreement"]["n"] == 60 - swapped
    assert row["self_agreement"]["estimate"] == 1
    assert row["swap_consistency"]["estimate"] == pytest.approx(
        (same - row["self_agreement"]["n"]) / swapped
    )


def test_what_is_not_given_is_null(make_table):
    table = make_table([[1.0, 0.0]])
    assert judge_bias(table).scorers == (BiasRow(scorer="judge"),)
    row = judge_bias(table, present([])).scorers[0].model_dump()
    assert row["swap_consistency"]["estimate"] is None
    assert row["position_p"] is None
    assert judge_bias(ScoreTable(table.frame.clear()), present([])).scorers == ()
    with pytest.raises(CarbError, match="no scorer"):
        judge_bias(table).of("other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("position"), "lacks the columns"),
        (lambda f: f.with_columns(pl.col("position").cast(pl.Float64)), "whole numbers"),
        (lambda f: pl.concat([f, f]), "occurs twice"),
        (lambda f: f.with_columns(position=pl.lit(0)), "occurs twice"),
        (lambda f: f.with_columns(scorer=pl.lit("other")), "no response"),
    ],
)
def test_presentations_are_checked(make_table, change, message):
    with pytest.raises(CarbError, match=message):
        judge_bias(make_table([[1.0, 0.0]]), change(present([(0, "a", [(0, 1.0), (1, 0.0)])])))


def with_lengths(rng, make_table, weight, items=60):
    length = 60 + 10 * rng.normal(size=(items, 4))
    length[:, 0] += 10  # chosen is longer, and better for it being right
    scores = weight * length / 10 + rng.normal(size=(items, 4)) + np.array([2.0, 0, 0, 0])
    table = make_table(scores.tolist())
    given = {"culture": "arabic", "domain": "values", "language": "en", "prompt": "?"}
    given["provenance"] = {"source": "test", "license": "CC0-1.0", "method": "authored"}
    responses = table.frame.with_columns(
        text=pl.Series(["x" * max(1, round(n)) for n in length.ravel()])
    ).select("item_id", pl.struct("text", "role", "language", id="response_id").alias("response"))
    parts = responses.group_by("item_id").agg("response").rows()
    return table, Dataset(
        BonSet.model_validate({"id": item, "responses": own, **given}) for item, own in parts
    )


def test_length_bias_equals_pingouin(make_table):
    pingouin = pytest.importorskip("pingouin", reason="reference implementation")
    table, dataset = with_lengths(np.random.default_rng(2), make_table, 0.5)
    length = {one.id: len(one.text) for item in dataset for one in item.responses}
    data = table.frame.with_columns(
        own=pl.col("role") == "chosen",
        length=pl.col("response_id").cast(pl.String).replace_strict(length),
    )
    centred = data.select(
        pl.col(c) - pl.col(c).mean().over("item_id") for c in ("score", "length", "own")
    )
    pandas = pytest.importorskip("pandas", reason="reference implementation")
    frame = pandas.DataFrame({c: centred[c].to_numpy() for c in centred.columns})
    expected = pingouin.partial_corr(frame, "score", "length", "own")["r"].iloc[0]
    found = judge_bias(table, dataset=dataset).of("judge").length
    assert found.estimate == pytest.approx(expected, abs=1e-10)
    assert found.low < found.estimate < found.high
    assert found.p < 0.001


@pytest.mark.coverage
def test_coverage_of_length_bias(make_table):
    rng, rounds, hits, rejected = np.random.default_rng(3), 500, 0, 0
    for _ in range(rounds):
        table, dataset = with_lengths(rng, make_table, 0.5)
        found = judge_bias(table, dataset=dataset).of("judge").length
        hits += found.low <= 0.5 / math.sqrt(1.25) <= found.high
        table, dataset = with_lengths(rng, make_table, 0.0)
        rejected += judge_bias(table, dataset=dataset).of("judge").length.p < 0.05
    assert 0.93 <= hits / rounds <= 0.97
    assert 0.03 <= rejected / rounds <= 0.07


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_calibration_curve_equals_scikit_learn(cases):
    reference = pytest.importorskip("sklearn.calibration", reason="reference implementation")
    said, right = np.array([c for c, _ in cases]), np.array([float(r) for _, r in cases])
    found = reliability(said, right, np.arange(len(said)))
    accuracy, confidence = reference.calibration_curve(right, said, n_bins=10, strategy="quantile")
    edges = np.percentile(said, np.linspace(0, 100, 11))
    size = np.bincount(np.searchsorted(edges[1:-1], said), minlength=10)
    assert found.ece == pytest.approx(
        np.abs(accuracy - confidence) @ size[size > 0] / len(cases), abs=1e-10
    )


@pytest.mark.parametrize("steepness", [0.0, 1.0, 8.0, 200.0])
def test_the_curve_of_confidence_equals_scikit_learn(steepness):
    """Also where a margin separates right from wrong."""
    linear = pytest.importorskip("sklearn.linear_model", reason="reference implementation")
    rng = np.random.default_rng(5)
    lead = rng.exponential(size=300)
    right = (rng.random(300) < 1 / (1 + np.exp(-steepness * (lead - 0.7)))).astype(float)
    model = linear.LogisticRegression(C=100, tol=1e-10, max_iter=10_000)
    reference = model.fit(lead[:, None], right)
    expected = [reference.intercept_[0], reference.coef_[0, 0]]
    assert logistic(lead, right) == pytest.approx(expected, rel=1e-3)


def test_ece_by_hand():
    said = np.repeat([0.95, 0.55], 50)
    right = np.concatenate([np.ones(30), np.zeros(20), np.ones(30), np.zeros(20)])
    found = reliability(said, right, np.arange(100))
    assert found.ece == pytest.approx((0.35 + 0.05) / 2)
    assert found.p < 0.01


@pytest.mark.parametrize(("clusters", "each"), [(1000, 1), (100, 10), (1200, 2)])
def test_the_p_of_a_calibrated_judge_is_anything_between_0_and_1(clusters, each):
    """Many cases, few clusters, many clusters: each is simulated in a way of its own."""
    rng = np.random.default_rng(clusters)
    cluster = np.repeat(np.arange(clusters), each)
    p = []
    for _ in range(60):
        stated = np.repeat(rng.uniform(0.3, 0.9, clusters), each)
        right = np.repeat(rng.random(clusters), each) < stated
        p.append(reliability(stated, right.astype(float), cluster).p)
    assert 0.35 < np.mean(p) < 0.65
    assert 0.2 < np.std(p) < 0.4  # 0.29 for a uniform one


@pytest.mark.coverage
def test_calibrated_judges_are_rejected_as_rarely_as_promised():
    rng, rounds = np.random.default_rng(4), 300
    rejected = 0
    for seed in range(rounds):
        said = rng.beta(3, 2, 200)
        found = reliability(said, (rng.random(200) < said).astype(float), np.arange(200), seed=seed)
        rejected += found.p < 0.05
    assert 0.02 <= rejected / rounds <= 0.08


def test_clear_margins_of_a_good_scorer_are_right(make_table):
    rng = np.random.default_rng(7)
    sets = rng.normal(size=(400, 4)) + np.array([1.5, 0, 0, 0])
    (whole,) = calibration(make_table(sets))
    assert whole.n == 400
    assert whole.calibration.p > 0.01
    assert whole.coverage[0].accuracy.estimate > whole.coverage[-1].accuracy.estimate + 0.1
    assert whole.counted == "all"


def test_margins_are_in_units_of_the_spread_within_sets(make_table):
    """A factor of all scores, and another zero of each set, change no probability."""
    rng = np.random.default_rng(8)
    sets = rng.normal(size=(200, 4)) + np.array([1.5, 0, 0, 0])
    (plain,) = calibration(make_table(sets))
    (moved,) = calibration(make_table(1000 * sets + rng.normal(size=(200, 1)) * 10_000))
    assert moved.calibration.ece == pytest.approx(plain.calibration.ece, abs=1e-5)
    assert moved.calibration.p == pytest.approx(plain.calibration.p, abs=0.01)


@pytest.mark.parametrize(
    ("scores", "accuracy"), [([1.0, 1, 1, 1], 1 / 4), ([2.0, 1, 0, 0], 1), ([0.0, 1, 0, 0], 0)]
)
def test_sets_that_are_all_alike_have_no_calibration(make_table, scores, accuracy):
    """No margin tells right from wrong where all are right, or none is, as where all scores tie."""
    (row,) = calibration(make_table([scores] * 60))
    assert row.calibration is None
    assert row.coverage[-1].accuracy.estimate == pytest.approx(accuracy)


def test_coverage_shares_ties_as_an_accuracy_does(make_table):
    frame = make_table([[2.0, 2, 0], [2.0, 2, 2], [1.0, 0, 2], [3.0, 1, 0]]).frame
    table = ScoreTable(
        frame.with_columns(mirror=pl.col("item_id") == "item-3", kind=pl.lit(None, pl.String))
    )
    for mirrors in (False, True):
        (row,) = calibration(table, mirrors=mirrors)
        overall = bon_accuracy(table, mirrors=mirrors).overall
        assert row.coverage[-1].accuracy.estimate == pytest.approx(overall.accuracy)
        shared = [1 / 2, 1 / 3, 0, 1][: row.n]
        assert row.coverage[-1].accuracy.estimate == pytest.approx(np.mean(shared))


def test_a_set_counts_for_the_language_of_its_right_answer_in_any_order_of_rows(make_table):
    frame = make_table(np.eye(3)[[0, 0, 1, 0]]).frame
    chosen = pl.col("role") == "chosen"
    mixed = frame.with_columns(language=pl.when(chosen).then(pl.lit("th")).otherwise(pl.lit("en")))
    for rows in (mixed, mixed.reverse()):
        groups = bon_accuracy(ScoreTable(rows), by=("language",)).groups
        assert groups.select("language", "n").rows() == [("th", 4)]


def people(rows):
    spelled = [
        (f"item-{i}", f"r{j}", None if k is None else f"item-{i}-{k}")
        for i, picks in rows
        for j, k in enumerate(picks)
    ]
    return pl.DataFrame(
        spelled,
        schema={"item_id": pl.String, "rater": pl.String, "response_id": pl.String},
        orient="row",
    )


def test_judges_against_people(make_table):
    table = make_table([[3.0, 1, 0], [0.0, 1, 3], [3.0, 1, 0], [3.0, 0, 1]])
    human = people([(0, [0, 0, 1]), (1, [2, 2, 2]), (2, [1, 1, 0]), (3, [0, 1, None])])
    (row,) = judge_vs_human(table, human)
    assert (row.n, row.undecided) == (3, 1)
    expected = agreement([[1, 1], [3, 3], [1, 2]], categories=[1, 2, 3])
    assert row.percent.estimate == pytest.approx(2 / 3)
    assert row.ac1 == expected.gwet
    among = agreement([[1, 1, 2], [3, 3, 3], [2, 2, 1], [1, 2, None]])
    assert row.human_percent.estimate == pytest.approx(among.percent.estimate)
    assert row.human_alpha.estimate == pytest.approx(among.krippendorff.estimate)
    (tied,) = judge_vs_human(make_table([[1.0, 1.0, 0.0]]), people([(0, [0, 0, 0])]))
    assert (tied.n, tied.undecided, tied.percent.estimate) == (0, 1, None)
    assert judge_vs_human(table, human.clear()) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("rater"), "lacks the columns"),
        (lambda f: pl.concat([f, f]), "two rows"),
        (lambda f: f.with_columns(response_id=pl.lit("x")), "no response"),
    ],
)
def test_people_are_checked(make_table, change, message):
    with pytest.raises(CarbError, match=message):
        judge_vs_human(make_table([[1.0, 0.0]]), change(people([(0, [0, 0])])))
