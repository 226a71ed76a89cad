"""Agreement coefficients as functions of sums over items, so that a bootstrap is a matrix product.

Each takes (..., sums) and gives (...), NaN where it is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from carb_metrics.intervals import Floats

Coefficient = Callable[[Floats], Floats]


def unit_sums(counts: Floats) -> Floats:
    """What each item adds to the sums.

    Args:
        counts: (items, q) how many raters put the item into each of q categories; at least one per item.

    Returns:
        (items, 2 + q + q + q²): 1; the share of equal pairs; shares of the categories; counts of the categories;
        coincidences (Krippendorff's o matrix: ordered pairs of ratings over m − 1). All but the shares are 0 for an
        item with a single rating, which can agree with nothing.
    """
    items, size = counts.shape
    m = counts.sum(1, keepdims=True)
    paired = m > 1
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(size)
    coincidences = pairs.reshape(items, size * size) / np.where(paired, m - 1, 1)
    equal = (counts * (counts - 1)).sum(1, keepdims=True) / np.where(paired, m * (m - 1), 1)
    return np.hstack([paired, equal, counts / m, counts * paired, coincidences])


def percent(sums: Floats) -> Floats:
    """Mean over items of the share of equal pairs of ratings."""
    return _divide(sums[..., 1], sums[..., 0])


def gwet(size: int) -> Coefficient:
    """Gwet's AC1: chance is Σ π(1−π)/(q−1), π the mean share of each category over rated items (Gwet 2008)."""

    def coefficient(sums: Floats) -> Floats:
        rated = sums[..., 2 : 2 + size]
        share = _divide(rated, rated.sum(-1, keepdims=True))
        chance = (share * (1 - share)).sum(-1) / (size - 1) if size > 1 else np.zeros(sums.shape[:-1])
        return _beyond(percent(sums), chance)

    return coefficient


def krippendorff(distances: Callable[[Floats], Floats]) -> Coefficient:
    """Krippendorff's α = 1 − (n−1)·Σ o·δ² / Σ n·n·δ² (Krippendorff 2011).

    Args:
        distances: squared distances δ² (..., q, q) of categories, given the counts (..., q) of ratings.
    """

    def coefficient(sums: Floats) -> Floats:
        size = _size(sums)
        counts = sums[..., 2 + size : 2 + 2 * size]
        coincidences = sums[..., 2 + 2 * size :].reshape(*sums.shape[:-1], size, size)
        squared = distances(counts)
        observed = (coincidences * squared).sum((-1, -2))
        expected = (counts[..., :, None] * counts[..., None, :] * squared).sum((-1, -2))
        return 1 - _divide((counts.sum(-1) - 1) * observed, expected)

    return coefficient


def level_distances(level: str, values: Sequence[Any]) -> Callable[[Floats], Floats]:
    """Squared distances of categories (Krippendorff 2011): 0 or 1; of values; or of ranks, which counts decide."""
    size = len(values)
    if level == "ordinal":
        return _ordinal
    if level == "interval":
        points = np.array(values, dtype=np.float64)
        fixed = (points[:, None] - points[None, :]) ** 2
    else:
        fixed = 1.0 - np.eye(size)
    return lambda _counts: fixed


def _ordinal(counts: Floats) -> Floats:
    middle = np.cumsum(counts, -1) - counts / 2  # mean rank of each category
    squared: Floats = (middle[..., :, None] - middle[..., None, :]) ** 2
    return squared


def cohen(size: int) -> Coefficient:
    """Cohen's κ: 1 − Σ w·p_ij / Σ w·p_i·p_j with w 1 where categories differ, else 0 (Cohen 1960).

    The sums are the cells of the size × size table of both raters' categories.
    """
    weight = 1.0 - np.eye(size)

    def coefficient(sums: Floats) -> Floats:
        table = sums.reshape(*sums.shape[:-1], size, size)
        total = table.sum((-1, -2))
        expected = (table.sum(-1)[..., :, None] * table.sum(-2)[..., None, :] * weight).sum((-1, -2))
        return 1 - _divide((table * weight).sum((-1, -2)) * total, expected)

    return coefficient


def _size(sums: Floats) -> int:
    """q from the length 2 + 2q + q²."""
    return math.isqrt(sums.shape[-1] - 1) - 1


def _divide(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.where(np.abs(below) > 1e-12, above / below, np.nan)
    return ratio


def _beyond(observed: Floats, chance: Floats) -> Floats:
    return _divide(observed - chance, 1 - chance)
