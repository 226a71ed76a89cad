"""Strengths against known answers, their own optimality, and penalised logistic regression elsewhere."""

from itertools import combinations, product

import pytest

from carb_scorers.judge.bradley_terry import strengths


def test_who_wins_always_stays_finite_and_ahead() -> None:
    s = strengths([[0, 2, 2, 2], [0, 0, 2, 2], [0, 0, 0, 2], [0, 0, 0, 0]])
    assert s == sorted(s, reverse=True)
    assert max(map(abs, s)) < 10
    assert s[0] == pytest.approx(-s[3])


def test_nobody_and_one_and_no_games() -> None:
    assert strengths([]) == []
    assert strengths([[0]]) == [0]
    assert strengths([[0, 0], [0, 0]]) == [0, 0]


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
