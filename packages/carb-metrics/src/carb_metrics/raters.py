"""Do raters agree, beyond what chance gives them?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import is_missing, numbered
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval
from carb_metrics.kappas import (
    Coefficient,
    cohen,
    gwet,
    krippendorff,
    level_distances,
    percent,
    unit_sums,
)

Level = Literal["nominal", "ordinal", "interval"]


class Agreement(Result):
    """Agreement of raters over items; null where a coefficient is not defined."""

    items: int
    """Items with at least two ratings, on which all coefficients but Cohen's rest."""
    raters: int
    categories: tuple[Any, ...]
    """The values that occur, in order."""
    percent: Estimate
    """Share of pairs of ratings of the same item that are equal, averaged over items."""
    cohen: Estimate
    """Cohen's κ of two raters; null for more."""
    krippendorff: Estimate
    """Krippendorff's α at the given level of measurement."""
    gwet: Estimate
    """Gwet's AC1."""


def agreement(
    ratings: npt.ArrayLike | Sequence[Sequence[Any]],
    level: Level = "nominal",
    confidence: float = 0.95,
    *,
    categories: Sequence[Any] | None = None,
    clusters: Sequence[Any] | None = None,
) -> Agreement:
    """Percent agreement, Cohen's κ, Krippendorff's α and Gwet's AC1.

    With p the observed agreement and e that expected by chance, κ and AC1 are (p − e)/(1 − e); α is 1 − D_o/D_e of
    disagreements. They differ in what chance does: Cohen's raters keep their own shares of categories (Cohen 1960,
    Educational and Psychological Measurement 20:37-46), Krippendorff's draw from the ratings given, and ratings may be
    missing (Krippendorff 2011, "Computing Krippendorff's alpha-reliability"), Gwet's guess only on hard items, which
    keeps AC1 stable where one category is frequent (Gwet 2008, British Journal of Mathematical and Statistical
    Psychology 61:29-48).

    Intervals are jackknife t intervals over items, or over whole clusters of them (``jackknife.jackknife_interval``).
    They are null where leaving an item out changes nothing, as with perfect agreement.

    Args:
        ratings: (items, raters); None or NaN is a missing rating. Lists, an array, or a frame of polars or pandas with
            a column per rater. Numbers or texts; texts are in alphabetical order unless ``categories`` says otherwise.
        level: the level of measurement, for α: ``nominal``, ``ordinal``, or ``interval`` (numbers only).
        confidence: The level of the intervals, a share such as 0.95.
        categories: all values that can occur, in order; the values that do occur if left out.
        clusters: (items,) the source item of each item, where several items come from one; one without a label,
            or without labels each, is its own.

    Raises:
        CarbError: the ratings are not a table of at least two raters, or an option is wrong.
    """
    check_confidence(confidence)
    if level not in ("nominal", "ordinal", "interval"):
        raise CarbError(f"level must be 'nominal', 'ordinal' or 'interval'; got '{level}'.")
    codes, values = encode(ratings, categories)
    _check_shape(codes, ratings)
    return agreement_of(codes, values, level, confidence, clusters)


def agreement_of(
    codes: npt.NDArray[np.int64],
    values: Sequence[Any],
    level: Level = "nominal",
    confidence: float = 0.95,
    clusters: Sequence[Any] | None = None,
) -> Agreement:
    """``agreement`` of ratings as ``encode`` gives them."""
    if level == "interval" and not all(isinstance(v, int | float) for v in values):
        raise CarbError("The interval level needs ratings that are numbers.")
    raters, size = codes.shape[1], len(values)
    counts = (codes[:, :, None] == np.arange(size)).sum(1)
    some = counts.sum(1) >= 1
    rated = counts[some].astype(np.float64)
    sums = unit_sums(rated)
    pairable = int((rated.sum(1) >= 2).sum())

    cluster = numbered(clusters, len(codes), "items")

    def interval_of(units: Floats, kept: npt.NDArray[np.bool_], coefficient: Coefficient) -> Estimate:
        of, found = np.unique(cluster[kept], return_inverse=True)
        together = np.zeros((len(of), units.shape[1]))
        np.add.at(together, found, units)
        value, low, high = jackknife_interval(together, coefficient, confidence)
        limits = (None, None) if low == high or low is None or high is None else (max(low, -1.0), min(high, 1.0))
        return Estimate(estimate=value, low=limits[0], high=limits[1])

    paired = (codes >= 0).all(1) & (raters == 2)
    both = codes[paired]
    table = (both[:, 0] * size + both[:, 1])[:, None] == np.arange(size * size)
    return Agreement(
        items=pairable,
        raters=raters,
        categories=tuple(values),
        percent=interval_of(sums, some, percent),
        cohen=interval_of(table.astype(np.float64), paired, cohen(size)),
        krippendorff=interval_of(sums, some, krippendorff(level_distances(level, values))),
        gwet=interval_of(sums, some, gwet(size)),
    )


def encode(
    ratings: npt.ArrayLike | Sequence[Sequence[Any]], categories: Sequence[Any] | None = None
) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Ratings as places in the list of categories, −1 for missing.

    Returns:
        (items, raters) places, and the categories in order.

    Raises:
        CarbError: rows differ in length, there are fewer than two raters, or a rating is not a category.
    """
    if isinstance(ratings, pl.DataFrame):
        ratings = ratings.rows()
    elif hasattr(ratings, "columns") and hasattr(ratings, "to_numpy"):  # pandas, which iterates over column names
        ratings = ratings.to_numpy()
    try:
        rows = [_row(row) for row in cast("Iterable[Any]", ratings)]
    except TypeError:
        raise CarbError("ratings must be a table of items (rows) by raters (columns).") from None
    if len({len(row) for row in rows}) > 1 or (rows and len(rows[0]) < 2):
        raise CarbError("ratings must be a table of items (rows) by at least two raters (columns); None is missing.")
    seen = {_plain(v) for row in rows for v in row if not is_missing(v)}
    try:
        values = sorted(seen) if categories is None else [_plain(v) for v in categories]
    except TypeError:
        raise CarbError("Ratings mix numbers and texts; give all as one or the other.") from None
    unknown = seen - set(values)
    if unknown or len(set(values)) < len(values):
        raise CarbError(f"categories must name each rating once; not named: {sorted(map(str, unknown))}.")
    place = {value: i for i, value in enumerate(values)}
    codes = [[-1 if is_missing(v) else place[_plain(v)] for v in row] for row in rows]
    return np.array(codes, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 2), values


def _check_shape(codes: npt.NDArray[np.int64], ratings: object) -> None:
    """Refuse tables of which a column or the orientation is surely a mistake.

    Raises:
        CarbError: a column has another value in every row, as an id has; or there are many more raters than items, as
            in a table of raters by items.
    """
    items, raters = codes.shape
    names = list(getattr(ratings, "columns", range(raters)))
    rated = codes >= 0
    for column in range(raters):
        own = codes[rated[:, column], column]
        others = np.delete(codes, column, axis=1)
        if len(own) >= 5 and len(np.unique(own)) == len(own) and not np.isin(own, others).any():
            raise CarbError(
                f"Column {names[column]!r} of ratings has another value in each of its {len(own)} rows, none of which "
                "another rater gives: it looks like an id. Leave it out."
            )
    if raters > 10 and raters > 2 * items:
        raise CarbError(
            f"ratings has {items} rows and {raters} columns, that is, {items} items rated by {raters} raters each. If "
            "it is a table of raters by items, transpose it; if not, give at least half as many items as raters."
        )


def _row(row: Any) -> list[Any]:
    if isinstance(row, str | bytes | Mapping):
        raise TypeError
    return list(row)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
