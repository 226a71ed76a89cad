"""Paired comparison, ranking, corrections and planning."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from carb_data import CarbError, ScoreTable
from carb_metrics import adjust, bon_accuracy, compare, minimum_detectable_difference, rank, sets_needed
from carb_metrics.paired import difference_interval, mcnemar, sign_flip

WON, LOST, TIED, FAILED = [2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 0.0, 1.0], [2.0, 2.0, 0.0, 2.0], [None, 1.0, 2.0, 3.0]
small = st.integers(0, 60)


@given(small, small)
def test_mcnemar_equals_scipy(a, b):
    exact, mid = mcnemar(a, b)
    n, few = a + b, min(a, b)
    assert exact == pytest.approx(stats.binomtest(few, n).pvalue if n else 1.0, abs=1e-10)
    assert mid == pytest.approx(2 * stats.binom.cdf(few, n, 0.5) - stats.binom.pmf(few, n, 0.5), abs=1e-10)
    assert 0 <= mid <= exact <= 1


def test_mcnemar_equals_statsmodels():
    tables = pytest.importorskip("statsmodels.stats.contingency_tables", reason="reference implementation")
    for a, b in [(0, 0), (1, 0), (5, 12), (40, 41), (300, 250)]:
        expected = tables.mcnemar([[10, a], [b, 10]], exact=True).pvalue
        assert mcnemar(a, b)[0] == pytest.approx(expected, abs=1e-10)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_sign_flip_equals_all_signs_spelled_out(differences):
    d = np.array(differences, dtype=float)
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(d))).reshape(len(d), -1)
    sums = np.abs(signs.T @ np.abs(d))
    beyond, at = (sums > abs(d.sum()) + 0.5).mean(), (np.abs(sums - abs(d.sum())) < 0.5).mean()
    mid = beyond + at / 2 if d.sum() else 1.0
    exact, found = sign_flip(d)
    assert exact == pytest.approx(beyond + at, abs=1e-12)
    assert found == pytest.approx(mid, abs=1e-12)


def test_tiny_tails_keep_their_digits():
    sizes = [1] * 70 + [2] * 41 + [3] * 17 + [4] * 9
    d = np.array(sizes) * np.where(np.arange(len(sizes)) % 11 == 0, -1.0, 1.0)
    ways = {0: 1}  # sums of signs times sizes, in whole numbers
    for size in sizes:
        added: dict[int, int] = {}
        for total, count in ways.items():
            for sign in (-size, size):
                added[total + sign] = added.get(total + sign, 0) + count
        ways = added
    observed = int(d.sum())
    beyond, at = sum(count for total, count in ways.items() if total > observed), ways[observed]
    exact, mid = sign_flip(d)
    assert mid < 1e-12
    assert exact == pytest.approx(float(Fraction(2 * (beyond + at), 2 ** len(sizes))), rel=1e-12)
    assert mid == pytest.approx(float(Fraction(2 * beyond + at, 2 ** len(sizes))), rel=1e-12)


def test_sign_flip_of_fractions_is_exact():
    d = np.array([0.5, 1 / 3, -0.25, 1.0])  # shared ties
    assert sign_flip(d) == pytest.approx((4 / 16, 3 / 16))
    many = np.tile(d, 30)
    assert sign_flip(many)[0] == sign_flip(many * 12)[0]


def test_sign_flip_of_many_sizes_uses_the_normal():
    d = np.random.default_rng(0).normal(0.1, 1, 100)
    assert sign_flip(d)[0] is None
    assert sign_flip(d)[1] == pytest.approx(2 * stats.norm.sf(d.sum() / np.sqrt((d**2).sum())), abs=1e-12)


@given(st.lists(st.floats(0, 1), max_size=8), st.sampled_from(["holm", "bh"]))
def test_adjusted_p_values_equal_scipy_and_never_shrink(p, method):
    found = adjust(p, method)
    assert (found >= np.array(p) - 1e-12).all()
    assert (found <= 1).all()
    if p and method == "bh":
        assert np.allclose(found, stats.false_discovery_control(p), atol=1e-10)


@pytest.mark.parametrize(("method", "name"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_adjusted_p_values_equal_statsmodels(method, name):
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="reference implementation")
    p = np.random.default_rng(0).uniform(0, 0.1, 40)
    assert np.allclose(adjust(p, method), multitest.multipletests(p, method=name)[1], atol=1e-10, rtol=0)


def test_adjust_keeps_gaps_and_checks_input():
    assert np.isnan(adjust([0.01, math.nan])[1])
    assert adjust([0.01, math.nan])[0] == 0.01
    for wrong in ({"p": [2.0]}, {"p": [0.1], "method": "bonferoni"}):
        with pytest.raises(CarbError):
            adjust(**wrong)


def test_compare_counts_pairs(make_table):
    a = make_table([WON, WON, WON, LOST, TIED], scorer="a")
    b = make_table([WON, LOST, LOST, WON, FAILED], scorer="b")
    result = compare(a, b)
    assert (result.a, result.b, result.n, result.unpaired) == ("a", "b", 5, 0)
    assert (result.only_a, result.only_b) == (2, 1)
    assert result.difference == pytest.approx(0.2)
    assert result.p_exact == 1.0
    assert result.discordance == 0.6
    assert -1 <= result.low <= result.difference <= result.high <= 1
    assert compare(a, b, errors="exclude").n == 4
    assert compare(a, b, ties="shared").accuracy_a == pytest.approx(3 / 5 + 1 / 3 / 5)


def test_compare_is_antisymmetric_and_independent_of_row_order(make_table):
    rng = np.random.default_rng(1)
    a = make_table(rng.normal(size=(40, 4)), scorer="a")
    b = make_table(rng.normal(size=(40, 4)), scorer="b")
    there, back = compare(a, b), compare(b, a)
    assert there.p == back.p
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-12)
    assert compare(ScoreTable(a.frame.reverse()), b) == there


def test_compare_by_group(make_table):
    a = make_table([WON, WON, LOST, WON], scorer="a", cultures=["thai", "german"])
    b = make_table([LOST, WON, LOST, LOST], scorer="b", cultures=["thai", "german"])
    result = compare(a, b, by="culture")
    assert [group.difference for group in result.groups] == [0.5, 0.5]
    assert result.macro.estimate == 0.5
    assert [(group.key, group.n) for group in result.groups] == [("german", 2), ("thai", 2)]
    both = compare(a, b, by=["culture", "domain"]).groups
    assert [group.key for group in both] == ["german/values", "thai/values"]
    assert compare(a, b).groups == ()


def test_compare_uses_common_sets_and_says_so(make_table):
    a = make_table([WON, WON, LOST], scorer="a")
    b = ScoreTable(make_table([LOST, WON, LOST], scorer="b").frame.filter(pl.col("item_id") != "item-0"))
    assert (compare(a, b).n, compare(a, b).unpaired) == (2, 1)
    c = ScoreTable(b.frame.with_columns(item_id=pl.lit("x") + pl.col("item_id")))
    with pytest.raises(CarbError, match="no set in common"):
        compare(a, c)


def test_compare_of_nothing_or_no_difference(make_table):
    table = make_table([WON, LOST])
    same = compare(table, table)
    assert (same.difference, same.p, same.more_sets, same.detectable) == (0, 1, None, None)
    assert same.low < 0 < same.high
    empty = ScoreTable(table.frame.clear())
    assert compare(empty, empty).difference is None
    assert compare(empty, empty).n == 0


def test_compare_and_rank_refuse_nonsense(make_table):
    table = make_table([WON, LOST])
    two = ScoreTable.concat([table, make_table([WON], scorer="b")])
    with pytest.raises(CarbError, match="one scorer each"):
        compare(two, table)
    with pytest.raises(CarbError, match="each key must"):
        compare(table, table, by="colour")
    with pytest.raises(CarbError, match="method must"):
        rank(two, correction="none")


def test_clusters_widen_the_interval_and_weaken_the_test(make_table):
    sources = [f"q{i // 8}" for i in range(80)]
    good = [WON if (i // 8) % 5 else LOST for i in range(80)]
    bad = [WON if (i // 8) % 2 else LOST for i in range(80)]
    apart = compare(make_table(good, scorer="a"), make_table(bad, scorer="b"), by="culture")
    a, b = make_table(good, scorer="a", sources=sources), make_table(bad, scorer="b", sources=sources)
    together = compare(a, b, by="culture")
    assert together.difference == apart.difference
    assert together.high - together.low > 1.5 * (apart.high - apart.low)
    assert together.p > 10 * apart.p
    (ranked,) = rank(ScoreTable.concat([a, b])).pairs
    assert ranked.p == together.p
    assert (ranked.low, ranked.high) == pytest.approx((together.low, together.high))


def test_rank_orders_scorers_and_bounds_ranks(make_table):
    best = make_table([WON] * 60, scorer="best")
    worst = make_table([LOST] * 60, scorer="worst")
    middle = make_table([WON, LOST] * 30, scorer="middle")
    twin = make_table([WON, LOST] * 30, scorer="twin")
    result = rank(ScoreTable.concat([worst, twin, best, middle]))
    assert [row.scorer for row in result.scorers] == ["best", "middle", "twin", "worst"]
    assert [row.place.text for row in result.scorers] == ["1 [1–1]", "2 [2–3]", "2 [2–3]", "4 [4–4]"]
    assert len(result.pairs) == 6
    row = next(pair for pair in result.pairs if (pair.a, pair.b) == ("best", "middle"))
    pair = compare(best, middle)
    assert (row.p, row.difference, row.low) == (pair.p, pair.difference, pytest.approx(pair.low))


def test_rank_agrees_with_accuracy_and_handles_gaps(make_table):
    a = make_table([WON, LOST, TIED, WON], scorer="a")
    b = ScoreTable(make_table([WON, TIED, LOST, FAILED], scorer="b").frame.filter(pl.col("item_id") != "item-0"))
    result = rank(ScoreTable.concat([a, b]), ties="shared", errors="exclude")
    assert [pair.n for pair in result.pairs] == [2]
    groups = bon_accuracy(ScoreTable.concat([a, b]), by="scorer", ties="shared", errors="exclude").groups
    assert {row.scorer: row.cell.accuracy for row in result.scorers} == dict(groups.select("scorer", "accuracy").rows())


@pytest.mark.parametrize("errors", ["wrong", "exclude"])
def test_a_scorer_without_a_score_has_no_rank(make_table, errors):
    tables = [make_table(sets * 6, scorer=name) for name, sets in (("a", [WON]), ("b", [LOST]), ("gone", [FAILED]))]
    result = rank(ScoreTable.concat(tables), errors=errors)
    assert [row.scorer for row in result.scorers] == ["a", "b", "gone"]
    assert dict(result.of("gone").place) == {"rank": None, "low": None, "high": None}
    assert [row.place.high for row in result.scorers[:2]] == [1, 2]  # the third is no place that they could have
    assert [(pair.a, pair.b) for pair in result.pairs] == [("a", "b")]
    alone = rank(tables[2], errors=errors)
    assert [row.place.rank for row in alone.scorers] == [None]
    assert alone.pairs == ()
    with pytest.raises(CarbError, match="no scorer 'b' here; there are: gone"):
        alone.of("b")


def test_rank_of_one_or_none(make_table):
    table = make_table([WON, LOST])
    assert [row.place.text for row in rank(table).scorers] == ["1 [1–1]"]
    assert rank(table).pairs == ()
    assert rank(ScoreTable(table.frame.clear())).scorers == ()


def test_difference_interval_equals_bonett_and_price():
    d = np.repeat([1.0, -1.0, 0.0], [12, 5, 33])
    p12, p21 = 13 / 52, 6 / 52
    half = stats.norm.ppf(0.975) * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / 52)
    assert difference_interval(d) == pytest.approx((p12 - p21 - half, p12 - p21 + half), abs=1e-12)


def test_planning_inverts_itself():
    for discordance in (0.1, 0.3):
        for n in (50, 500, 8576):
            delta = minimum_detectable_difference(n, discordance)
            if delta is not None:
                assert sets_needed(delta, discordance) == n
                assert sets_needed(-delta, discordance) == n
    assert minimum_detectable_difference(3, 0.1) is None
    assert sets_needed(0.0, 0.2) is None
    assert sets_needed(0.01, 0.3) > sets_needed(0.05, 0.3)


def test_planned_sets_give_the_promised_power():
    delta, discordance = 0.08, 0.3
    n = sets_needed(delta, discordance)
    rng = np.random.default_rng(0)
    only_a, only_b, _ = rng.multinomial(n, [0.19, 0.11, 0.7], size=20_000).T
    assert 0.78 <= (mcnemar(only_a, only_b)[1] < 0.05).mean() <= 0.82


@pytest.mark.parametrize(
    "wrong",
    [
        {"difference": 0.3, "discordance": 0.2},
        {"difference": 0.1, "discordance": 0.2, "power": 0.01},
        {"difference": 0.1, "discordance": 0.2, "alpha": 2},
    ],
)
def test_planning_checks_its_input(wrong):
    with pytest.raises(CarbError):
        sets_needed(**wrong)
    with pytest.raises(CarbError):
        minimum_detectable_difference(0, 0.2)
