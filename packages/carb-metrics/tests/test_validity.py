"""Correlation, fit, influence, and the comparison of two benchmarks."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special, stats

from carb_data import CarbError
from carb_metrics import centred, correlate
from carb_metrics.coefficients import EXACT_RANKS, FEWEST, t_test
from carb_metrics.correlation import rival

value = st.integers(-6, 6).map(lambda v: v / 2)
points = st.lists(st.tuples(value, value), min_size=2, max_size=20)


def sample(n=17, seed=0, rho=0.7):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=n), rng


@pytest.mark.parametrize(
    ("r2", "p"), [(0.649, 9.43e-5), (0.680, 4.60e-5), (0.039, 0.445), (0.022, 0.569)]
)
def test_the_papers_table_has_17_scorers(r2, p):
    """r² and p of the table determine n: all four rows fit 17 reward models within the rounding of
    r²."""
    low, high = (t_test(math.sqrt(r2 + shift), 17 - 2) for shift in (0.0005, -0.0005))
    assert low < p < high
    assert (
        not t_test(math.sqrt(r2 + 0.0005), 14) < p < t_test(math.sqrt(r2 - 0.0005), 14) or r2 < 0.1
    )


@given(points)
def test_estimates_equal_scipy(pairs):
    x, y = np.array(pairs).T
    assume(np.ptp(x) > 0 and np.ptp(y) > 0 and len(x) > 2)
    found = correlate(x, y)
    expected = {
        "pearson": stats.pearsonr(x, y),
        "spearman": stats.spearmanr(x, y),
        "kendall": stats.kendalltau(x, y),
    }
    for name, reference in expected.items():
        part = getattr(found, name)
        assert part.estimate == pytest.approx(reference.statistic, abs=1e-10)
        if len(x) < FEWEST:
            assert part.p is None
        elif name != "spearman" or (len(x) > EXACT_RANKS and abs(part.estimate) < 0.99):
            assert part.p == pytest.approx(
                reference.pvalue, abs=1e-7 if abs(part.estimate) > 1 - 1e-9 else 1e-10
            )
        if part.low is not None:
            assert -1 <= part.low <= part.estimate <= part.high <= 1
    line = stats.linregress(x, y)
    assert (found.fit.slope, found.fit.intercept) == pytest.approx(
        (line.slope, line.intercept), abs=1e-10
    )
    assert found.fit.r2 == pytest.approx(line.rvalue**2, abs=1e-10)


def test_pearson_interval_equals_scipy():
    x, y, _ = sample()
    expected = stats.pearsonr(x, y).confidence_interval(0.9)
    found = correlate(x, y, confidence=0.9).pearson
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-10)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([], []),
        ([1], [2]),
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2, 3], [5, 5, 5]),
        ([0.1 + 0.2, 0.3], [1, 2]),
    ],
)
def test_degenerate_input_is_null(x, y):
    found = correlate(x, y, covariates=list(range(len(x))))
    for part in (
        found.pearson,
        found.spearman,
        found.kendall,
        found.partial.pearson,
        found.partial.spearman,
    ):
        assert (part.estimate, part.low, part.high, part.p) == (None, None, None, None)
    assert found.fit.p is None
    assert found.fit.r2 is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": [1, 2, 3], "y": [1, 2]}, "y has 2 values where 3"),
        ({"x": [1, None], "y": [1, 2]}, r"x\[1\] is missing"),
        ({"x": ["a", "b"], "y": [1, 2]}, "list of numbers"),
        ({"x": 3, "y": [1, 2]}, "list of numbers"),
        ({"x": [1, 2], "y": [1, 2], "x_error": [-1, 0]}, "negative"),
        ({"x": [1, 2], "y": [1, 2], "labels": ["a"]}, "labels"),
        ({"x": [1, 2], "y": [1, 2], "confidence": 2}, "confidence"),
    ],
)
def test_wrong_input_is_named(wrong, message):
    with pytest.raises(CarbError, match=message):
        correlate(**wrong)


def test_the_slope_equals_statsmodels():
    sm = pytest.importorskip("statsmodels.api", reason="reference implementation")
    x, y, _ = sample()
    model = sm.OLS(y, sm.add_constant(x)).fit()
    fit = correlate(x, y).fit
    assert (fit.slope_low, fit.slope_high) == pytest.approx(tuple(model.conf_int()[1]), abs=1e-10)
    assert fit.p == pytest.approx(model.pvalues[1], abs=1e-10)


def test_partial_correlation_equals_pingouin():
    pingouin = pytest.importorskip("pingouin", reason="reference implementation")
    import pandas as pd

    x, y, rng = sample(30)
    z = rng.normal(size=(30, 2)) + x[:, None]
    frame = pd.DataFrame({"x": x, "y": y, "a": z[:, 0], "b": z[:, 1]})
    found = correlate(x, y, covariates=z).partial
    assert found.covariates == 2
    for method in ("pearson", "spearman"):
        expected = pingouin.partial_corr(frame, "x", "y", ["a", "b"], method=method)
        part = getattr(found, method)
        assert part.estimate == pytest.approx(expected["r"].iloc[0], abs=1e-10)
        p = expected[next(c for c in expected.columns if c.startswith("p"))].iloc[0]
        assert part.p == pytest.approx(p, abs=1e-10)


def test_influence_is_the_correlation_of_the_others():
    x, y, _ = sample()
    found = correlate(x, y, labels=[f"m{i}" for i in range(17)]).influence
    assert found[3].label == "m3"
    assert found[3].pearson == pytest.approx(
        stats.pearsonr(np.delete(x, 3), np.delete(y, 3)).statistic
    )
    assert [row.pearson for row in correlate([1, 2], [1, 2], labels="ab").influence] == [None, None]


def test_published_examples_of_rivals():
    zou = rival(0.396, 0.179, 0.088, 66)
    assert (round(zou.difference.low, 3), round(zou.difference.high, 3)) == (-0.093, 0.517)
    steiger = rival(0.4, 0.5, 0.1, 103)
    assert round(steiger.williams_t, 2) == -0.89


def test_too_few_models_are_no_test_of_rivals():
    """Four once had an interval of width 0."""
    difference = rival(0.9, 0.5, 0.4, 4).difference
    assert difference.estimate == pytest.approx(0.4)
    assert (difference.low, difference.high, difference.p) == (None, None, None)


def covers(low, high, truth):
    return low is not None and low <= truth <= high


@pytest.mark.coverage
def test_coverage_of_analytic_intervals():
    rho, n, rounds = 0.6, 17, 1500
    truth = {
        "pearson": rho,
        "spearman": 6 / math.pi * math.asin(rho / 2),
        "kendall": 2 / math.pi * math.asin(rho),
    }
    hits = dict.fromkeys(truth, 0)
    slope = partial = 0
    for seed in range(rounds):
        x, y, rng = sample(n, seed, rho)
        found = correlate(x, y)
        for name, expected in truth.items():
            part = getattr(found, name)
            hits[name] += covers(part.low, part.high, expected)
        slope += covers(found.fit.slope_low, found.fit.slope_high, rho)
        z = rng.normal(size=n)
        given = correlate(x + z, y + z, covariates=z).partial.pearson
        partial += covers(given.low, given.high, rho)
    counts = {**hits, "slope": slope, "partial": partial}
    shares = {name: count / rounds for name, count in counts.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


@pytest.mark.coverage
def test_coverage_and_level_of_rivals():
    rng = np.random.default_rng(7)
    rounds, n, hits, rejected = 3000, 40, 0, 0
    for _ in range(rounds):
        y, shared = rng.normal(size=(2, n))
        a, b = (0.6 * y + 0.4 * shared + 0.7 * rng.normal(size=n) for _ in range(2))
        r = np.corrcoef([y, a, b])
        found = rival(r[0, 1], r[0, 2], r[1, 2], n)
        hits += covers(found.difference.low, found.difference.high, 0)
        rejected += found.difference.p < 0.05
    assert 0.93 <= hits / rounds <= 0.97
    assert abs(rejected / rounds - 0.05) < 0.015


def test_the_correction_is_spearmans():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=40)
    x, y = truth + rng.normal(size=40), 0.8 * truth + 0.6 * rng.normal(size=40)
    found = correlate(x, y, x_error=np.ones(40))
    r, reliability = np.corrcoef(x, y)[0, 1], 1 - 1 / x.var(ddof=1)
    assert (found.reliability_x, found.reliability_y) == (pytest.approx(reliability), None)
    assert found.corrected.estimate == pytest.approx(min(1.0, r / np.sqrt(reliability)))
    assert found.corrected.low == pytest.approx(found.pearson.low / np.sqrt(reliability))
    assert correlate(x, y).corrected is None
    assert correlate(range(6), range(6), x_error=[9.0] * 6).corrected.estimate is None


@pytest.mark.coverage
@pytest.mark.parametrize(("models", "each"), [(12, 2), (8, 3), (20, 1), (30, 2)])
def test_coverage_with_relatives_and_errors(models, each, cell):
    """Base models with correlated truth, children that share it, and errors of measurement in
    both."""
    rng, rounds = np.random.default_rng(1), 1_000
    base = np.repeat(np.arange(models), each)
    hits, width = np.zeros(2), 0.0
    for _ in range(rounds):
        parent = rng.normal(size=models)
        other = 0.7 * parent + np.sqrt(1 - 0.49) * rng.normal(size=models)
        x, y = (values[base] + rng.normal(size=len(base)) * 0.5 for values in (parent, other))
        errors = np.full(len(base), 0.5)
        found = correlate(x, y, x_error=errors, y_error=errors, bases=base.tolist())
        pairs = ((found.pearson, 0.7 / 1.25), (found.corrected, 0.7))
        hits += [covers(one.low, one.high, truth) for one, truth in pairs]
        width += found.pearson.high - found.pearson.low
    observed, corrected = hits / rounds
    title = (
        "**Correlation** over reward models that are made from common ones, both scores with "
        "errors (nominal .95):"
    )
    for column, value in (
        ("r", observed),
        ("r without the errors", corrected),
        ("width of r's interval", width / rounds),
    ):
        cell(title, f"{models} base models, {each} of each", column, value)
    assert observed >= 0.91
    assert corrected >= 0.9


def test_a_centred_scale_is_the_logistic_function_of_robust_spreads(make_table):
    scores = make_table([[10.0, 20.0, 29.0, 31.0], [40.0, 50.0]])
    values = np.array([-1e300, 10.0, 30.0, 31.0, 60.0, 1e300])
    spread = stats.median_abs_deviation([10, 20, 29, 31, 40, 50], scale="normal")
    scale = pickle.loads(pickle.dumps(centred(scores)))
    assert [scale(value) for value in values] == pytest.approx(
        special.expit((values - 30) / spread), rel=1e-4
    )
    with pytest.raises(CarbError, match=r"scorer='another' picks no scores.*those of judge"):
        centred(scores, "another")
    with pytest.raises(CarbError, match="no spread"):
        centred(make_table([[1.0, 1.0, 1.0, 2.0]]))


def test_related_models_have_no_limits_but_those_of_pearsons_r() -> None:
    rng = np.random.default_rng(0)
    base = np.repeat(np.arange(8), 3)
    x, y, other = rng.normal(size=(3, 24))
    found = correlate(x, y, other, bases=base.tolist(), against=other)
    assert found.pearson.p is not None
    untested = (
        found.spearman,
        found.kendall,
        found.partial.pearson,
        found.partial.spearman,
        found.rival.difference,
    )
    for one in untested:
        assert one.estimate is not None
        assert one.low is one.high is one.p is None
    assert found.fit.slope is not None
    assert found.fit.p is found.fit.slope_low is None
    alone = correlate(x, y, bases=[str(k) for k in range(24)])
    assert alone == correlate(x, y), "models of which none are related"


def test_pearsons_interval_holds_for_lognormal_pairs() -> None:
    """Fisher's covers .83 of them with 15 points."""
    rng = np.random.default_rng(1)
    true = (np.exp(0.6) - 1) / (np.e - 1)
    covered = 0
    for _ in range(400):
        x, noise = rng.normal(size=(2, 15))
        found = correlate(np.exp(x), np.exp(0.6 * x + 0.8 * noise)).pearson
        covered += found.low <= true <= found.high
    assert covered / 400 >= 0.93
