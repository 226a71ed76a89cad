"""How reliable is each rater, when nobody knows the truth?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from carb_data import CarbError
from carb_metrics.cells import Result
from carb_metrics.intervals import Floats, check_confidence, wilson

__all__ = ["Rater", "RaterReliability", "rater_reliability"]

ROUNDS, TOLERANCE = 500, 1e-8


class Rater(Result):
    """One rater's reliability."""

    rater: str
    ratings: int
    accuracy: float
    """Expected share of right ratings, over categories at their estimated shares."""
    low: float
    """Lower confidence limit."""
    high: float
    """Upper confidence limit."""
    confusion: tuple[tuple[float, ...], ...]
    """(true category, given category) probabilities."""


class RaterReliability(Result):
    """Raters and the truth that they imply."""

    categories: tuple[Any, ...]
    shares: tuple[float, ...]
    """Estimated share of each true category."""
    raters: tuple[Rater, ...]
    posterior: tuple[tuple[float, ...], ...]
    """(units, categories) probability of each category; units without a rating have the shares."""
    rounds: int
    """Rounds until the estimates stood still."""


def rater_reliability(
    ratings: Sequence[Sequence[Any]],
    raters: Sequence[str],
    categories: Sequence[Any],
    *,
    smoothing: float = 0.1,
    confidence: float = 0.95,
) -> RaterReliability:
    """Dawid and Skene's model, smoothed: each rater has a confusion matrix, and the truth is not known.

    Expectation-maximisation from the majority vote (Dawid and Skene 1979, Applied Statistics 28:20-28). With few
    ratings their maximum-likelihood rates run to 0 and 1, so every row of a matrix has a Dirichlet prior with
    ``smoothing`` pseudo-ratings on each category and as many more on the diagonal as there are categories, and the
    mean of the posterior takes the place of the maximum (Paun et al. 2018, TACL 6:571-585, compare such priors). The
    model knows one truth for each unit: differences between regions look like errors, so test those first.

    The interval of an accuracy is Wilson's at the sample size that has the variance of the posterior; it takes the
    inferred truth as given.

    Args:
        ratings: (units, raters); None is missing. Categories must mean the same on every unit.
        raters: The names of the raters, in the order of the columns.
        categories: all values that can occur.
        smoothing: pseudo-ratings on each category; 0 for the published model.
        confidence: The level of the intervals, a share such as 0.95.

    Raises:
        CarbError: a row has another length, a rating is not a category, a category is named twice, or smoothing is
            negative.
    """
    check_confidence(confidence)
    if smoothing < 0 or len(categories) < 2 or any(value in categories[:i] for i, value in enumerate(categories)):
        raise CarbError("smoothing must be at least 0, and there must be two categories or more, all different.")
    place: dict[Any, int] = {value: i for i, value in enumerate(categories)} | {None: -1}
    try:
        codes = np.array([[place[v] for v in row] for row in ratings], dtype=np.int64).reshape(
            len(ratings), len(raters)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CarbError(f"ratings must be (units, raters) of {list(categories)} or None; {error}.") from None
    size = len(categories)
    given = (codes[:, :, None] == np.arange(size)).astype(np.float64)
    prior = smoothing * (np.ones((size, size)) + size * np.eye(size))
    posterior, shares, confusion, counts, rounds = _fit(given, prior, smoothing)
    return RaterReliability(
        categories=tuple(categories),
        shares=tuple(shares.tolist()),
        raters=tuple(
            _rater(
                name, int((codes[:, j] >= 0).sum()), shares, confusion[j], counts[j].sum(1) + prior.sum(1), confidence
            )
            for j, name in enumerate(raters)
        ),
        posterior=tuple(tuple(row) for row in posterior.tolist()),
        rounds=rounds,
    )


def _fit(given: Floats, prior: Floats, smoothing: float) -> tuple[Floats, Floats, Floats, Floats, int]:
    """Posterior (units, k), shares (k,), confusion and expected counts (raters, k, k), and rounds."""
    units, _, size = given.shape
    votes = given.sum(1)
    seen = votes.sum(1) > 0
    total = votes.sum(1, keepdims=True)
    posterior = np.where(seen[:, None], votes / np.where(total, total, 1), 1 / size)
    counts = np.zeros((given.shape[1], size, size))
    shares, confusion, rounds, change = np.full(size, 1 / size), counts, 0, np.inf
    while rounds < ROUNDS and change >= TOLERANCE:
        rounds += 1
        mass = posterior[seen].sum(0) + smoothing
        shares = mass / mass.sum() if mass.sum() else np.full(size, 1 / size)
        counts = np.einsum("uk,url->rkl", posterior[seen], given[seen])
        rates = counts + prior
        sums = rates.sum(2, keepdims=True)
        confusion = np.where(sums > 0, rates / np.where(sums > 0, sums, 1), 1 / size)
        logs = np.einsum("url,rkl->uk", given, np.log(np.maximum(confusion, 1e-12)))
        logs += np.log(np.maximum(shares, 1e-12))
        after = np.exp(logs - logs.max(1, keepdims=True))
        after /= after.sum(1, keepdims=True)
        change = float(np.abs(after - posterior).max()) if units else 0.0
        posterior = after
    return posterior, shares, confusion, counts, rounds


def _rater(name: str, ratings: int, shares: Floats, matrix: Floats, sizes: Floats, confidence: float) -> Rater:
    right = np.diag(matrix)
    accuracy = float(shares @ right)
    variance = float((shares**2 * right * (1 - right) / (sizes + 1)).sum())
    effective = accuracy * (1 - accuracy) / variance if variance > 1e-15 else max(ratings, 1)
    low, high = wilson(np.array(accuracy * effective), np.array(float(effective)), confidence)
    return Rater(
        rater=name,
        ratings=ratings,
        accuracy=accuracy,
        low=float(low),
        high=float(high),
        confusion=tuple(tuple(row) for row in matrix.tolist()),
    )
