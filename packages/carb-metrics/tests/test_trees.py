"""Boosted trees find what no single weight does, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from carb_metrics.surface import ranking
from carb_metrics.trees import binned, boosted


@pytest.fixture(scope="module")
def rows():
    """A number with another sign in each of two kinds, noise beside it, and a constant."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(3000, 3)), np.ones(3000)])
    kinds = rng.integers(0, 4, (3000, 1))
    return x, kinds, np.where(kinds[:, 0] % 2, x[:, 0], -x[:, 0])


def grown(bins, target, train):
    """One fit that learns from the rows of ``train``."""
    taught = np.isin(np.arange(len(target)), train)
    return boosted(bins, target[:, None], taught[:, None])[:, 0]


def explained(target, predicted, where):
    return 1 - np.var((target - predicted)[where]) / np.var(target[where])


def test_a_sign_for_each_kind_is_learnt_on_other_rows(rows):
    x, kinds, target = rows
    train = np.arange(2000)
    held_out = np.arange(2000, 3000)
    assert explained(target, grown(binned(x, kinds), target, train), held_out) > 0.8
    blind = grown(binned(x, np.zeros_like(kinds)), target, train)
    assert explained(target, blind, held_out) < 0.1


def test_noise_is_not_learnt(rows):
    x, kinds, _ = rows
    noise = np.random.default_rng(1).normal(size=3000)
    predicted = grown(binned(x, kinds), noise, np.arange(2000))
    assert explained(noise, predicted, np.arange(2000, 3000)) < 0.05


def test_only_the_order_of_numbers_counts(rows):
    x, kinds, target = rows
    train = np.arange(2000)
    plain = grown(binned(x, kinds), target, train)
    stretched = grown(binned(np.exp(x), kinds), target, train)
    assert np.array_equal(plain, stretched)


def test_rows_without_any_difference_have_the_mean():
    target = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    bins = binned(np.ones((5, 2)), np.zeros((5, 1), dtype=np.int64))
    assert grown(bins, target, np.arange(4)) == pytest.approx(0.5)


def test_fits_that_grow_at_once_are_those_that_grow_alone(rows):
    x, kinds, target = rows
    bins = binned(x, kinds)
    fold = np.random.default_rng(2).integers(0, 3, len(target))
    targets = np.column_stack([target, -target, target**2])
    together = boosted(bins, targets, fold[:, None] != np.arange(3))
    for fit in range(3):
        alone = grown(bins, targets[:, fit], np.flatnonzero(fold != fit))
        assert np.array_equal(together[:, fit], alone)


def test_scores_are_ranked_among_all_unless_sets_score_differently():
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(200), 4)
    scores = rng.normal(size=800)
    among_all = (scores.argsort().argsort() + 1) / 800
    assert np.allclose(ranking(scores, number), among_all, atol=1e-12, rtol=0)
    of_set = 1000 * rng.normal(size=200)
    within = ranking(scores + of_set[number], number)
    assert np.allclose(np.unique(within), [0, 1 / 3, 2 / 3, 1], atol=1e-12, rtol=0)
