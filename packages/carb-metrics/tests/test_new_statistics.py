"""Pooling, items, reliability, equivalence, sequential evidence, planning, prediction-powered means, draws, leads."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import integrate, stats

from carb_data import CarbError, ScoreTable
from carb_metrics import (
    agreement,
    benchmark_reliability,
    bon_accuracy,
    calibration,
    compare,
    correlate,
    correlate_uncertain,
    dependent_correlations,
    draws_of,
    equivalence,
    item_analysis,
    margin_calibration,
    margins,
    mean_interval,
    paired_difference,
    pooled_accuracy,
    prediction_powered,
    rater_reliability,
    region_gap,
    sampling_variance,
    sequential,
    sets_needed,
    short_form,
    simulate_power,
    wilson,
)
from carb_metrics.clusters import numbered
from carb_metrics.consistency import calibrate_k

WON, LOST = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]


def won(flags):
    return [WON if flag else LOST for flag in flags]


def many(make_table, credit, **options):
    """A table of scorers (rows) and items (columns)."""
    return ScoreTable.concat(
        [make_table(won(row), scorer=f"s{i:02}", **options) for i, row in enumerate(np.asarray(credit))]
    )


def rasch(rng, scorers, items):
    ability, hard = rng.normal(0, 1, scorers), rng.normal(0, 1, items)
    return rng.random((scorers, items)) < 1 / (1 + np.exp(-(ability[:, None] - hard)))


def test_pooled_cells_lie_between_their_own_accuracy_and_the_others(make_table):
    cultures = ["thai"] * 3 + ["german"] * 40 + ["korean"] * 40
    flags = [1, 1, 1] + [1] * 20 + [0] * 20 + [1] * 18 + [0] * 22
    found = pooled_accuracy(make_table(won(flags), cultures=cultures), by="culture")
    cells = {row.key[0]: row for row in found.rows}
    assert cells["thai"].raw == 1.0
    assert 0.45 < cells["thai"].accuracy < 0.85
    assert cells["thai"].pooling > cells["german"].pooling
    assert abs(cells["german"].accuracy - 0.5) < 0.03
    assert all(row.low < row.accuracy < row.high for row in found.rows)


def test_pooled_intervals_cover_cells_that_vary():
    from carb_metrics.pooling import _posterior

    rng, hits, total = np.random.default_rng(0), 0, 0
    for _ in range(25):
        p, n = rng.beta(6, 4, 20), rng.integers(3, 30, 20).astype(float)
        drawn, _, _ = _posterior(rng.binomial(n.astype(int), p).astype(float), n, rng)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        hits, total = hits + ((low <= p) & (p <= high)).sum(), total + 20
    assert 0.92 <= hits / total <= 0.98


def test_alpha_equals_pingouin(make_table):
    pingouin = pytest.importorskip("pingouin", reason="reference implementation")
    import pandas as pd

    credit = rasch(np.random.default_rng(1), 15, 40)
    found = benchmark_reliability(many(make_table, credit))
    alpha, interval = pingouin.cronbach_alpha(data=pd.DataFrame(credit.astype(float)))
    assert found.alpha.estimate == pytest.approx(alpha)
    assert (found.alpha.low, found.alpha.high) == pytest.approx(tuple(interval), abs=6e-4)  # given to three digits
    assert found.phi < found.alpha.estimate
    assert found.items_for(found.alpha.estimate) == 40
    assert benchmark_reliability(make_table([WON, LOST])).alpha.estimate is None


def test_items_are_analysed_and_flagged(make_table):
    rng = np.random.default_rng(2)
    credit = rasch(rng, 12, 60)
    order = np.argsort(credit.mean(1))
    credit[:, 0], credit[:, 1] = False, True
    credit[order[:6], 2], credit[order[6:], 2] = True, False  # only bad scorers win it
    found = item_analysis(many(make_table, credit, cultures=["thai", "german"]))
    items = {item.item_id: item for item in found.items}
    assert "missed by all" in items["item-0"].flags
    assert items["item-0"].discrimination is None
    assert "won by all" in items["item-1"].flags
    assert {"negative discrimination", "good scorers prefer a wrong answer"} <= set(items["item-2"].flags)
    rest = (credit.sum(1) - credit[:, 5]) / 59
    assert items["item-5"].discrimination == pytest.approx(np.corrcoef(credit[:, 5], rest)[0, 1])
    assert items["item-5"].difficulty == credit[:, 5].mean()
    assert sum(pick.share for pick in items["item-5"].picks) == pytest.approx(1)
    assert len(found.functioning) == 24


def test_a_scorer_that_fails_one_culture_functions_differently(make_table):
    credit = rasch(np.random.default_rng(3), 8, 120)
    credit[0, ::2] = False
    found = item_analysis(many(make_table, credit, cultures=["thai", "german"])).functioning
    worst = min(found, key=lambda row: row.p_adjusted)
    assert worst.scorer == "s00"
    assert worst.p_adjusted < 0.01
    assert sum(row.p_adjusted < 0.05 for row in found if row.scorer != "s00") <= 1


def test_a_short_form_says_what_it_costs(make_table):
    rng = np.random.default_rng(4)
    credit = rasch(rng, 24, 120)
    credit[:, 60:] = rng.random((24, 60)) < 0.5  # items that tell nothing
    table = many(make_table, credit, cultures=["thai", "german"])
    for goal in ("accuracy", "order"):
        found = short_form(table, 30, by=("culture",), goal=goal)
        assert len(found.items) == len(set(found.items)) == 30
        assert [row.method for row in found.methods] == ["information", "discrimination", "random"]
        best = {
            "accuracy": min(found.methods, key=lambda r: r.error),
            "order": max(found.methods, key=lambda r: r.rank_agreement),
        }
        assert found.chosen == best[goal]
        assert found.chosen.rank_agreement > 0.5
    for method in ("information", "discrimination"):
        chosen = short_form(table, 30, by=("culture",), method=method).items
        assert sum(int(item[5:]) < 60 for item in chosen) > 20
    with pytest.raises(CarbError, match="by information needs at least 16"):
        short_form(many(make_table, credit[:9]), 5, method="information")
    with pytest.raises(CarbError, match="at least 8 scorers"):
        short_form(many(make_table, rasch(np.random.default_rng(4), 3, 20)), 5)
    with pytest.raises(CarbError, match="between 2 and"):
        short_form(table, 500)


def test_equivalence_needs_evidence(make_table):
    rng = np.random.default_rng(5)
    base = rng.random(800) < 0.7
    twin = np.where(rng.random(800) < 0.05, ~base, base)
    a, b = make_table(won(base), scorer="a"), make_table(won(twin), scorer="b")
    assert equivalence(a, b, 0.05).equivalent
    few = make_table(won(base[:40]), scorer="a"), make_table(won(twin[:40]), scorer="b")
    assert not equivalence(*few, 0.05).equivalent
    worse = make_table(won(base & (rng.random(800) < 0.8)), scorer="b")
    assert equivalence(a, worse, 0.05).not_worse
    assert not equivalence(worse, a, 0.05).not_worse
    found = equivalence(a, b, 0.05)
    assert (abs(found.difference.low) < 0.05 and found.difference.high < 0.05) == found.equivalent
    with pytest.raises(CarbError, match="margin"):
        equivalence(a, b, 0)


def test_looking_after_every_set_keeps_the_level(make_table):
    from carb_metrics.equivalent import _log_evidence

    rng, false, true = np.random.default_rng(6), 0, 0
    n = np.arange(1.0, 301)
    for _ in range(400):
        false += _log_evidence(np.cumsum(rng.random(300) < 0.5), n).max() > math.log(20)
        true += _log_evidence(np.cumsum(rng.random(300) < 0.65), n).max() > math.log(20)
    assert false / 400 <= 0.05
    assert true / 400 > 0.9
    by_integral = 2**10 * integrate.quad(lambda share: stats.binom.pmf(7, 10, share) / math.comb(10, 7), 0, 1)[0]
    assert math.exp(_log_evidence(np.array(7.0), np.array(10.0))) == pytest.approx(by_integral)
    a, b = make_table(won([1] * 40), scorer="a"), make_table(won([0] * 12 + [1] * 28), scorer="b")
    found = sequential(a, b)
    assert (found.n, found.discordant, found.better) == (40, 12, "a")
    assert found.p == pytest.approx(1 / found.e_value)
    assert sequential(a, a).e_value == 1.0


def test_simulated_power_agrees_with_the_formula_and_falls_with_clusters():
    from carb_metrics import sets_needed

    n = sets_needed(0.08, 0.25)
    plain = simulate_power(0.08, 0.25, [n])[0]
    assert plain.low - 0.03 <= 0.8 <= plain.high + 0.03
    together = simulate_power(0.08, 0.25, [n], cluster=5, alike=0.6, simulations=400)[0]
    assert together.power < plain.power - 0.1
    cultures = simulate_power(0.08, 0.25, [n], cultures=10, comparisons=10, simulations=500)[0]
    assert cultures.each_culture < cultures.power < plain.power
    with pytest.raises(CarbError, match="discordance"):
        simulate_power(0.3, 0.2, [100])


def test_prediction_powered_means_equal_their_formula_and_cover():
    rng = np.random.default_rng(7)
    people = (rng.random(60) < 0.6).astype(float)
    judge = np.concatenate([np.where(rng.random(60) < 0.8, people, 1 - people), (rng.random(900) < 0.6)]).astype(float)
    frame = pl.DataFrame({"judge": judge, "people": [*people, *[None] * 900]})
    row = prediction_powered(frame, bounded=False)[0]
    weight = np.cov(people, judge[:60])[0, 1] / ((1 + 60 / 900) * judge.var(ddof=1))
    mean = weight * judge[60:].mean() + (people - weight * judge[:60]).mean()
    error = math.sqrt(weight**2 * judge[60:].var(ddof=1) / 900 + (people - weight * judge[:60]).var(ddof=1) / 60)
    half = stats.t.ppf(0.975, 59) * error
    assert (row.weight, row.estimate.estimate) == pytest.approx((weight, mean))
    assert (row.estimate.low, row.estimate.high) == pytest.approx((mean - half, mean + half))
    assert row.estimate.high - row.estimate.low < row.people_alone.high - row.people_alone.low
    hits = 0
    for _ in range(150):
        truth = (rng.random(500) < 0.6).astype(float)
        said = np.where(rng.random(500) < 0.6, truth, 1.0)  # a judge that errs to one side
        table = pl.DataFrame({"judge": said, "people": [*truth[:50], *[None] * 450]})
        found = prediction_powered(table)[0].estimate
        hits += found.low <= 0.6 <= found.high
    assert hits / 150 >= 0.92


def test_prediction_powered_groups_and_mistakes():
    frame = pl.DataFrame({"judge": [1, 0, 1, 1], "people": [1, None, None, 0], "culture": ["a", "a", "b", "b"]})
    rows = prediction_powered(frame, by="culture")
    assert [(row.group, row.labelled, row.judged) for row in rows] == [(None, 2, 2), ("a", 1, 1), ("b", 1, 1)]
    assert rows[1].estimate.estimate is None
    with pytest.raises(CarbError, match="lacks"):
        prediction_powered(frame.drop("people"))
    with pytest.raises(CarbError, match="no label of the judge"):
        prediction_powered(frame.with_columns(judge=pl.lit(None, pl.Int64)))


def test_draws_are_told_from_items():
    rng = np.random.default_rng(8)
    chance = rng.beta(2, 2, 300)
    credit = rng.random((300, 4)) < chance[:, None]
    frame = pl.DataFrame(
        {"scorer": "s", "item_id": np.repeat(np.arange(300), 4), "credit": credit.ravel().astype(float)}
    )
    row = sampling_variance(frame)[0]
    assert (row.items, row.draws) == (300, 4)
    assert row.between == pytest.approx(0.05, abs=0.02)  # of beta(2, 2)
    assert row.within == pytest.approx(0.2, abs=0.02)
    assert row.drawing_error == pytest.approx(math.sqrt(row.within / 4 / 300))
    assert row.accuracy.low < 0.5 < row.accuracy.high
    with pytest.raises(CarbError, match="between 0 and 1"):
        sampling_variance(frame.with_columns(credit=pl.lit(2.0)))


def test_leads_tell_the_chance_of_being_right(make_table):
    rng = np.random.default_rng(9)
    table = make_table(rng.normal(size=(400, 4)) + np.array([1.2, 0, 0, 0]), cultures=["thai", "german"])
    whole, german, thai = margin_calibration(table)
    assert (whole.group, german.group, thai.group, whole.n) == (None, "german", "thai", 400)
    assert whole.slope > 0.5
    assert whole.calibration.p > 0.01
    assert whole.coverage[0].accuracy.estimate > whole.coverage[-1].accuracy.estimate + 0.1
    assert whole.coverage[-1].coverage == 1.0
    assert whole.area < 1 - whole.coverage[-1].accuracy.estimate
    clear = margins(table)
    assert len(clear) == 400
    assert np.mean([value > 0 for value in clear.values()]) == whole.coverage[-1].accuracy.estimate


def test_one_paired_interval_for_any_values():
    rng = np.random.default_rng(10)
    a, b = rng.normal(1, 1, 40), rng.normal(0.5, 1, 40)
    found = paired_difference(a, b, bounded=False)
    expected = stats.ttest_rel(a, b).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.p_exact is None
    assert paired_difference([], []).estimate is None
    assert paired_difference([1, 0, 1], [0, 0, 1], clusters=["q", "q", None]).n == 3
    with pytest.raises(CarbError, match="same length"):
        paired_difference([1], [1, 0])
    with pytest.raises(CarbError, match="between 0 and 1"):
        paired_difference([2.0], [1.0])


@pytest.mark.parametrize("values", [[0.25] * 30, [0.0] * 8, [1.0], [0.2, 0.9, 0.4]])
def test_a_mean_of_shares_is_never_certain(values):
    found = mean_interval(values)
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.high > found.low


def test_presentations_of_a_whole_set_are_draws(make_table):
    table = make_table(won([1, 0, 1]), scorer="s")
    shown = [
        ("s", item, order, f"{item}-{k}", place, score)
        for item, orders in {"item-0": [[2, 0, 0, 1], [0, 1, 0, 0]], "item-1": [[1, 1, 0, 0], [1, 0, 0, 0]]}.items()
        for order, scores in enumerate(orders)
        for place, (k, score) in enumerate(zip(range(4), map(float, scores), strict=True))
    ]
    columns = ["scorer", "item_id", "order_id", "response_id", "position", "score"]
    frame = pl.DataFrame(shown, schema=columns, orient="row")
    found = draws_of(table, frame)
    assert sorted(found.select("item_id", "credit").rows()) == [
        ("item-0", 0.0),
        ("item-0", 1.0),
        ("item-1", 0.5),
        ("item-1", 1.0),
    ]
    assert sampling_variance(found)[0].stable == 0
    pairs = frame.filter(pl.col("position") < 2)  # a part of the set says nothing of its credit
    assert not draws_of(table, pairs).height
    assert not draws_of(table, frame.filter(pl.col("order_id") == 0)).height
    assert sampling_variance(found.clear()) == ()


def _of_clusters(clusters):
    """What each function that takes clusters finds in the same 40 values."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(0, 2, (2, 40)).astype(float)
    frame = pl.DataFrame({"scorer": "s", "item_id": [f"i{k}" for k in range(40)], "credit": a, "judge": a})
    frame = frame.with_columns(people=pl.Series([*b[:20], *[None] * 20]), cluster=pl.Series(clusters, dtype=pl.String))
    return [
        paired_difference(a, b, clusters),
        mean_interval(a, clusters),
        agreement(np.column_stack([a, b]), clusters=clusters, resamples=200),
        calibration(np.full(40, 0.6), a, clusters=clusters).brier,
        correlate_uncertain(rng.normal(size=40), a, bases=clusters),
        prediction_powered(frame),
        sampling_variance(frame),
    ]


def test_a_value_without_a_cluster_stands_alone():
    for tied in (["q", "q", "r", "r"], []):
        missing, named = ([*tied, *rest][:40] for rest in ([None] * 40, [f"alone-{k}" for k in range(40)]))
        for found, expected in zip(_of_clusters(missing), _of_clusters(named), strict=True):
            assert found == expected
    assert numbered(["q", None, math.nan, "q", None, 1], 6).tolist() == [0, 1, 2, 0, 3, 4]
    assert numbered(np.array([7, 3, 7]), 3).tolist() == [1, 0, 1]


def _judged(judge, people):
    return pl.DataFrame({"judge": [0.5, 1.0, judge], "people": [1.0, 0.0, people]})


def _draws(credit):
    return pl.DataFrame({"scorer": "s", "item_id": ["i", "i", "j"], "credit": credit})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([1, None, 0, 1], [0, 0, 1, 0]), r"a\[1\] is missing"),
        (lambda: paired_difference([1, math.inf], [0, 0], bounded=False), r"a\[1\] is missing, NaN or infinite"),
        (lambda: mean_interval([1, math.nan, 0]), r"values\[1\] is missing"),
        (lambda: mean_interval([5, 6, 7]), "between 0 and 1; for others give bounded=False"),
        (lambda: mean_interval([1, 0, 1], ["a", "b"]), "clusters has 2 entries for 3 values"),
        (lambda: dependent_correlations(math.nan, 0.5, 0.5, 20), "No data has"),
        (lambda: dependent_correlations(0.5, math.nan, 0.5, 20), "No data has"),
        (
            lambda: prediction_powered(pl.DataFrame({"judge": [0.5, math.nan], "people": [1.0, None]}), bounded=False),
            "must be finite",
        ),
        (lambda: sampling_variance(_draws([1.0, None, 0.0])), "in every row"),
        (lambda: wilson(None, 10), "successes must lie between 0 and n; got nan of 10"),
        (lambda: wilson(5, math.inf), "got 5 of inf"),
        (lambda: wilson([1, 2], [3, math.nan]), "got 2 of nan"),
        (lambda: calibrate_k([1, math.nan]), r"differences\[1\] is missing"),
    ],
)
def test_a_missing_or_infinite_number_is_a_mistake(call, message):
    with pytest.raises(CarbError, match=message):
        call()


def test_clusters_of_a_mean_are_labels_of_any_kind():
    assert mean_interval([1, 0, 1], ["a", "b", "b"]) == mean_interval([1, 0, 1], np.array([0, 1, 1]))
    assert np.isnan(wilson(0, 0)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: agreement([[1, 1], [0, 1]], resamples=0), "resamples must be at least 1; got 0"),
        (lambda t: correlate(range(9), range(9), interval="bca", resamples=0), "resamples must be at least 1"),
        (lambda t: region_gap([["a", "a"]], ["n", "n", "s", "s"]), r"picks\[0\] has 2 entries for the 4 people"),
        (lambda t: rater_reliability([["y", ["n"]]], ["p", "q"], ["y", "n"]), "ratings must be"),
        (lambda t: rater_reliability([["y", "n"]], ["p", "q"], ["y", "n", "y"]), "all different"),
        (lambda t: bon_accuracy(t.frame), "ScoreTable, not DataFrame"),
        (lambda t: compare(t.frame, t.frame), "ScoreTable, not DataFrame"),
        (lambda t: simulate_power(0.1, 0.2, [50], alpha=1), "alpha must lie between 0 and 1, for example 0.05; got 1"),
        (lambda t: sets_needed(0.1, 0.2, alpha=1), "alpha must lie between 0 and 1"),
        (lambda t: sequential(t, t, alpha=0), "alpha must lie between 0 and 1"),
        (lambda t: equivalence(t, t, 0.1, alpha=0.6), "alpha must lie between 0 and 0.5, for example 0.05; got 0.6"),
    ],
)
def test_a_mistake_is_named_in_the_words_of_the_caller(make_table, call, message):
    with pytest.raises(CarbError, match=message):
        call(make_table(won([1, 0, 1]), scorer="s"))
