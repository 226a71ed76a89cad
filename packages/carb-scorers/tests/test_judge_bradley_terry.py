"""Strengths against known answers, their own optimality, and penalised logistic regression elsewhere."""

import math
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carb_scorers.judge.bradley_terry import PRIOR_PRECISION, strengths

win_tables = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.floats(0, 5), min_size=n, max_size=n), min_size=n, max_size=n).map(
        lambda rows: [[0.0 if i == j else w for j, w in enumerate(row)] for i, row in enumerate(rows)]
    )
)


def gradient(wins: list[list[float]], s: list[float], precision: float) -> list[float]:
    def p(i: int, j: int) -> float:
        return 1 / (1 + math.exp(s[j] - s[i]))

    places = range(len(s))
    return [sum(wins[i][j] - (wins[i][j] + wins[j][i]) * p(i, j) for j in places) - precision * s[i] for i in places]


@settings(deadline=None)
@given(win_tables, st.sampled_from([0.01, PRIOR_PRECISION, 1.0]))
def test_the_optimum_is_reached(wins: list[list[float]], precision: float) -> None:
    s = strengths(wins, precision)
    assert max(map(abs, gradient(wins, s, precision))) < 1e-9
    assert abs(sum(s)) < 1e-8


def test_two_candidates_have_the_log_odds_of_their_wins() -> None:
    s = strengths([[0, 3], [1, 0]], precision=1e-9)
    assert s[0] - s[1] == pytest.approx(math.log(3), abs=1e-6)


def test_who_wins_always_stays_finite_and_ahead() -> None:
    s = strengths([[0, 2, 2, 2], [0, 0, 2, 2], [0, 0, 0, 2], [0, 0, 0, 0]])
    assert s == sorted(s, reverse=True)
    assert max(map(abs, s)) < 10
    assert s[0] == pytest.approx(-s[3])


def test_nobody_and_one_and_no_games() -> None:
    assert strengths([]) == []
    assert strengths([[0]]) == [0]
    assert strengths([[0, 0], [0, 0]]) == [0, 0]


@settings(deadline=None)
@given(win_tables)
def test_more_wins_of_one_never_make_it_weaker(wins: list[list[float]]) -> None:
    if len(wins) < 2:
        return
    before = strengths(wins)
    wins[0][1] += 1
    assert strengths(wins)[0] >= before[0] - 1e-9


def test_against_ridge_logistic_regression() -> None:
    """The same model written as a generalised linear model: one row per ordered pair, +1 and -1 as features."""
    linear = pytest.importorskip("sklearn.linear_model", reason="the reference implementation is scikit-learn")
    numpy = pytest.importorskip("numpy")
    wins = [[0, 3, 1.5, 0.2], [1, 0, 2, 2], [2.5, 0, 0, 1], [0.8, 1, 0, 0]]
    pairs = [(i, j) for i in range(4) for j in range(4) if wins[i][j]]
    features = numpy.zeros((2 * len(pairs), 4))
    weights = numpy.zeros(2 * len(pairs))
    labels = numpy.array([1, 0] * len(pairs))
    for row, (i, j) in enumerate(pairs):  # a win, and the same game mirrored, each with half the weight
        features[2 * row, [i, j]] = 1, -1
        features[2 * row + 1, [i, j]] = -1, 1
        weights[2 * row : 2 * row + 2] = wins[i][j] / 2
    model = linear.LogisticRegression(C=1 / PRIOR_PRECISION, fit_intercept=False, tol=1e-12, max_iter=10_000)
    model.fit(features, labels, sample_weight=weights)
    assert strengths(wins) == pytest.approx(model.coef_[0].tolist(), abs=1e-5)


def test_against_statsmodels() -> None:
    """Unpenalised maximum likelihood by a binomial GLM, with the first strength fixed at 0."""
    api = pytest.importorskip("statsmodels.api", reason="the reference implementation is statsmodels")
    numpy = pytest.importorskip("numpy")
    wins = [[0, 3, 1], [1, 0, 2], [2, 2, 0]]
    rows, counts = [], []
    for i in range(3):
        for j in range(i + 1, 3):
            rows.append([float(k == i) - float(k == j) for k in (1, 2)])
            counts.append([wins[i][j], wins[j][i]])
    fit = api.GLM(numpy.array(counts), numpy.array(rows), family=api.families.Binomial()).fit(tol=1e-12)
    s = strengths(wins, precision=1e-9)
    assert [s[1] - s[0], s[2] - s[0]] == pytest.approx(fit.params.tolist(), abs=1e-6)


def test_candidates_with_the_same_wins_have_the_same_strength() -> None:
    """Rounding, which depends on where a candidate stands, must not decide what metrics compare exactly."""
    for outcomes in product((0.0, 0.5, 1.0), repeat=6):
        wins = [[0.0] * 4 for _ in range(4)]
        for (i, j), share in zip(combinations(range(4), 2), outcomes, strict=True):
            wins[i][j], wins[j][i] = 2 * share, 2 * (1 - share)
        s = strengths(wins)
        totals = [sum(row) for row in wins]  # with equal numbers of games they decide the strength
        for i, j in combinations(range(4), 2):
            assert (s[i] == s[j]) == (totals[i] == totals[j])
            assert (s[i] > s[j]) == (totals[i] > totals[j])
