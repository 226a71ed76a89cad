"""Item response theory: against girth, against the likelihood written out, and by recovery."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from carb_data import CarbError, ScoreTable
from carb_metrics import item_response
from carb_metrics.response_curves import FEWEST_2PL, FEWEST_RASCH, fit_curves


def logistic(x):
    return 1 / (1 + np.exp(-x))


def drawn(rng, scorers, items, spread=0.4):
    ability, slope, hard = rng.normal(0, 1, scorers), np.exp(rng.normal(0, spread, items)), rng.normal(0, 1, items)
    credit = rng.random((scorers, items)) < logistic(slope * (ability[:, None] - hard))
    return credit.astype(float), ability, slope, hard


def table_of(make_table, credit):
    sets = [[[1.0, 0.0] if won else [0.0, 1.0] for won in row] for row in credit]
    return ScoreTable.concat([make_table(part, scorer=f"s{i:02}") for i, part in enumerate(sets)])


def test_many_scorers_give_the_parameters_of_girth():
    """Printed by ``onepl_mml`` and ``twopl_mml`` of girth 0.8.0, which have no priors of the items."""
    rng = np.random.default_rng(7)
    ability, slope = rng.normal(0, 1, 400), np.exp(rng.normal(0, 0.4, 12))
    credit = (rng.random((400, 12)) < logistic(slope * (ability[:, None] - np.linspace(-1.5, 1.5, 12)))).astype(float)
    one = fit_curves(credit, "rasch", easiness_spread=np.inf, close=1e-7)
    assert one.slope == pytest.approx([1.0625] * 12, abs=0.002)
    difficulty = [-1.4151, -1.1434, -0.8179, -0.6781, -0.3033, 0.1045]
    difficulty += [0.1511, 0.5181, 0.8049, 0.4578, 2.0042, 1.9403]
    assert -one.intercept / one.slope == pytest.approx(difficulty, abs=0.005)
    two = fit_curves(credit, "2pl", easiness_spread=np.inf, slope_spread=1e3, close=1e-7)
    slopes = [0.8369, 1.2016, 1.0566, 1.2099, 1.3106, 0.8788, 0.8327, 1.5651, 1.1964, 0.4507, 1.6699, 1.4361]
    difficulty = [-1.6855, -1.0545, -0.821, -0.6231, -0.2656, 0.1196, 0.18, 0.4116, 0.7448, 0.9186, 1.5261, 1.6023]
    assert two.slope == pytest.approx(slopes, abs=0.005)
    assert -two.intercept / two.slope == pytest.approx(difficulty, abs=0.007)


def test_rasch_maximises_the_marginal_likelihood():
    credit, *_ = drawn(np.random.default_rng(3), 60, 5, spread=0)
    nodes, mass = np.polynomial.hermite_e.hermegauss(61)
    mass = mass / mass.sum()

    def minus_log_likelihood(parameters):
        p = logistic(np.exp(parameters[0]) * nodes[:, None] + parameters[1:])
        each = np.where(credit[:, None, :] == 1, p, 1 - p).prod(2)
        return -np.log(each @ mass).sum()

    best = optimize.minimize(minus_log_likelihood, np.zeros(6), tol=1e-10).x
    found = fit_curves(credit, "rasch", easiness_spread=np.inf, close=1e-7)
    assert np.log(found.slope[0]) == pytest.approx(best[0], abs=2e-3)
    assert found.intercept == pytest.approx(best[1:], abs=2e-3)


@given(seed=st.integers(0, 2**32 - 1), model=st.sampled_from(["rasch", "2pl"]))
@settings(max_examples=8)
def test_what_made_the_data_is_found_again(seed, model):
    credit, ability, slope, hard = drawn(np.random.default_rng(seed), 25, 300, 0.4 if model == "2pl" else 0)
    found = fit_curves(credit, model)
    assert np.corrcoef(found.ability, ability)[0, 1] > 0.9
    assert stats.spearmanr(-found.intercept / found.slope, hard)[0] > 0.75
    assert found.ability.mean() == pytest.approx(0, abs=1e-6)
    if model == "2pl":
        assert np.corrcoef(np.log(found.slope), np.log(slope))[0, 1] > 0.2
    order = np.random.default_rng(seed).permutation(25)
    again = fit_curves(credit[order], model)
    assert again.ability == pytest.approx(found.ability[order], abs=0.02)


def test_abilities_intervals_cover():
    rng, hits = np.random.default_rng(5), 0
    for _ in range(20):
        credit, ability, *_ = drawn(rng, 20, 150)
        found = fit_curves(credit, "2pl", close=1e-3)
        true = (ability - ability.mean()) / ability.std()
        hits += (np.abs(found.ability - true) < 1.96 * found.error).sum()
    assert 0.91 <= hits / 400 <= 0.99


def test_missing_scores_leave_the_scale():
    credit, ability, *_ = drawn(np.random.default_rng(6), 30, 200)
    credit[np.random.default_rng(6).random(credit.shape) < 0.3] = np.nan
    assert np.corrcoef(fit_curves(credit, "2pl").ability, ability)[0, 1] > 0.95


def test_rows_of_a_table(make_table):
    credit, ability, *_ = drawn(np.random.default_rng(8), FEWEST_2PL, 40)
    table = table_of(make_table, credit)
    found = item_response(table)
    assert found.model == "2pl"
    place = {f"s{i:02}": value for i, value in enumerate(ability)}
    assert (
        np.corrcoef([row.ability.estimate for row in found.scorers], [place[r.scorer] for r in found.scorers])[0, 1]
        > 0.8
    )
    assert all(row.ability.low < row.ability.estimate < row.ability.high for row in found.scorers)
    mean = np.mean([found.information(row.ability.estimate) for row in found.scorers])
    assert mean == pytest.approx(sum(item.information for item in found.items))
    error = 1 / np.sqrt(found.information(0) + 1)  # that of a scorer of ability 0 under the normal prior
    middle = min(found.scorers, key=lambda row: abs(row.ability.estimate)).ability
    assert (middle.high - middle.low) / 2 / 1.96 == pytest.approx(error, rel=0.05)
    few = table_of(make_table, credit[:FEWEST_RASCH])
    assert item_response(few).model == "rasch"
    assert len({item.slope for item in item_response(few).items}) == 1


def test_too_few_scorers_are_refused(make_table):
    credit, *_ = drawn(np.random.default_rng(9), 10, 12)
    with pytest.raises(CarbError, match=r"2pl\) needs at least 16 scorers .* there are 10"):
        item_response(table_of(make_table, credit), "2pl")
    with pytest.raises(CarbError, match=r"rasch\) needs at least 8 .* there are 4"):
        item_response(table_of(make_table, credit[:4]))
    with pytest.raises(CarbError, match="at least two items"):
        item_response(table_of(make_table, credit[:, :1]))
    with pytest.raises(CarbError, match="must be '2pl' or 'rasch'"):
        item_response(table_of(make_table, credit), "3pl")
