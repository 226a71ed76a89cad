"""Do raters agree, beyond what chance gives them?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError
from carb_metrics.cells import Result
from carb_metrics.clusters import Bools, Ints, is_missing, numbered
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence, nan_where_undefined
from carb_metrics.jackknife import Statistic, jackknife_interval


class Agreement(Result):
    """Agreement of raters over items; null where a coefficient is not defined."""

    items: int
    """Items with at least two ratings, on which all coefficients but Cohen's rest."""
    percent: Interval
    """Share of pairs of ratings of the same item that are equal, averaged over items."""
    cohen: Interval
    """Cohen's κ of two raters; null for more."""
    krippendorff: Interval
    """Krippendorff's α of categories without order."""
    gwet: Interval
    """Gwet's AC1."""


def agreement(
    ratings: npt.ArrayLike | Sequence[Sequence[Any]],
    confidence: float = 0.95,
    *,
    categories: Sequence[Any] | None = None,
    clusters: Sequence[Any] | None = None,
) -> Agreement:
    """Percent agreement, Cohen's κ, Krippendorff's nominal α and Gwet's AC1.

    All but the first are ``(p − e)/(1 − e)``, with p the observed agreement and e the agreement
    that chance would give. They differ in what a rater does by chance:

    * *Cohen's κ*: each of two raters keeps their own shares of categories (Cohen 1960, Educational
      and Psychological Measurement 20:37-46).
    * *Krippendorff's α*: raters draw from all ratings given, and ratings may be missing
      (Krippendorff 2011, "Computing Krippendorff's alpha-reliability").
    * *Gwet's AC1*: raters guess only on hard items, which keeps AC1 stable where one category is
      frequent (Gwet 2008, British Journal of Mathematical and Statistical Psychology 61:29-48).

    Intervals are jackknife t intervals over items, or over whole clusters of them (Efron and
    Tibshirani 1993, An Introduction to the Bootstrap, chapter 11). They are null where leaving an
    item out changes nothing, as with perfect agreement.

    Args:
        ratings: (items, raters); None or NaN is a missing rating. Lists, an array, or a frame of
            polars or pandas with a column per rater. Numbers or texts.
        confidence: The level of the intervals, a share such as 0.95.
        categories: all values that can occur; the values that do occur if left out.
        clusters: (items,) the source item of each item, where several items come from one; one
            without a label, or without labels each, is its own.

    Returns:
        Four numbers with their intervals, each at most 1, and the number of items with two ratings
        or more. Cohen's κ is null for more than two raters.

    Raises:
        CarbError: the ratings are not a table of at least two raters. A column of a frame names the
            items (``id``, ``item_id``, texts that occur once). Raters outnumber items without
            ``clusters``, or an option is wrong.
    """
    check_confidence(confidence)
    codes, size = encode(ratings, categories)
    raters = codes.shape[1]
    if clusters is None and 0 < len(codes) < raters:
        raise CarbError(
            f"{raters} raters (columns) of {len(codes)} items: is it transposed? If not, "
            "give clusters."
        )
    categories_given = codes[:, :, None] == np.arange(size)
    chosen = categories_given.astype(float)
    counts = chosen.sum(1)
    m = counts.sum(1)
    some = m >= 1
    paired = m >= 2
    ordered = counts * (counts - 1)
    equal = ordered.sum(1)
    share_equal = equal / np.where(paired, m * (m - 1), 1)
    both = (codes >= 0).all(1) & (raters == 2)
    first = chosen[:, 0]
    second = chosen[:, 1]
    same = (first * second).sum(1)
    cluster = numbered(clusters, len(codes), "items")
    others = np.where(paired, m - 1, 1)
    rated = np.where(some, m, 1)
    over = partial(_interval, cluster, confidence)
    return Agreement(
        items=int(paired.sum()),
        percent=over(
            some,
            lambda sums: _divide(sums[..., 1], sums[..., 0]),  # shares of equal pairs, items
            paired,
            share_equal,
        ),
        cohen=over(
            both,
            partial(_cohen, size),
            both,
            same,
            first,
            second,
        ),
        krippendorff=over(
            some,
            _krippendorff,
            equal / others,
            counts * paired[:, None],
        ),
        gwet=over(
            some,
            _gwet,
            paired,
            share_equal,
            counts / rated[:, None],
        ),
    )


def _interval(
    cluster: Ints,
    confidence: float,
    kept: Bools,
    coefficient: Statistic,
    *columns: npt.NDArray[Any],
) -> Interval:
    """A coefficient of the sums over the kept items, whole clusters being the units."""
    clusters, unit = np.unique(cluster[kept], return_inverse=True)
    values = np.column_stack(columns)[kept]
    shape = (len(clusters), values.shape[1])
    units = np.zeros(shape)
    np.add.at(units, unit, values)
    interval = jackknife_interval(units, coefficient, confidence)
    low = interval.low
    high = interval.high
    if low is None or high is None or low == high:
        return Interval(estimate=interval.estimate)
    low = max(low, -1.0)
    high = min(high, 1.0)
    return interval.changed(low=low, high=high)


def _cohen(size: int, sums: Floats) -> Floats:
    """From sums of: items, items with the same category from both, each rater's counts of the
    categories."""
    n = sums[..., 0]
    alike = (sums[..., 2 : 2 + size] * sums[..., 2 + size :]).sum(-1)
    return _beyond(_divide(sums[..., 1], n), _divide(alike, n**2))


def _krippendorff(sums: Floats) -> Floats:
    """From sums of: equal ordered pairs of ratings over m − 1, counts of the categories."""
    same = sums[..., 0]
    counts = sums[..., 1:]
    n = counts.sum(-1)
    ordered = counts * (counts - 1)
    pairs = ordered.sum(-1)
    return _beyond(_divide(same, n), _divide(pairs, n * (n - 1)))


def _gwet(sums: Floats) -> Floats:
    """AC1 from sums over items: the number with two ratings, their shares of equal pairs, the
    shares of categories.

    Chance is Σ π(1−π)/(q−1), where π is the mean share of each of q categories over rated items.
    """
    rated = sums[..., 2:]
    share = _divide(rated, rated.sum(-1, keepdims=True))
    others = max(rated.shape[-1] - 1, 1)
    spread = share * (1 - share)
    chance = spread.sum(-1) / others
    return _beyond(_divide(sums[..., 1], sums[..., 0]), chance)


def _beyond(observed: Floats, chance: Floats) -> Floats:
    return _divide(observed - chance, 1 - chance)


def _divide(above: Floats, below: Floats) -> Floats:
    with nan_where_undefined():
        ratio = above / below
    defined = np.abs(below) > 1e-12
    known: Floats = np.where(defined, ratio, np.nan)
    return known


def encode(
    ratings: npt.ArrayLike | Sequence[Sequence[Any]],
    categories: Sequence[Any] | None = None,
) -> tuple[npt.NDArray[np.int64], int]:
    """Ratings as indices into the list of categories, −1 for missing.

    Returns:
        (items, raters) indices, and the number of categories.

    Raises:
        CarbError: this is no table of ratings, as for ``agreement``, or a rating is not a category.
    """
    names: list[Any] = []
    # A frame; one of pandas iterates over its names.
    if hasattr(ratings, "columns") and hasattr(ratings, "to_numpy"):
        names = list(ratings.columns)
        ratings = ratings.rows() if isinstance(ratings, pl.DataFrame) else ratings.to_numpy()
    rows = _table(ratings)
    cells = [value for row in rows for value in row]
    given = Counter(_plain(value) for value in cells if not is_missing(value))
    _refuse_ids(names, rows, given)
    try:
        values = sorted(given) if categories is None else [_plain(v) for v in categories]
    except TypeError:
        raise CarbError("Ratings mix numbers and texts; give all as one or the other.") from None
    unknown = set(given) - set(values)
    if unknown or len(set(values)) < len(values):
        raise CarbError(
            f"categories must name each rating once; not named: {sorted(map(str, unknown))}."
        )
    index = {value: number for number, value in enumerate(values)}
    codes = [-1 if is_missing(value) else index[_plain(value)] for value in cells]
    raters = len(rows[0]) if rows else 2
    table = np.array(codes, dtype=np.int64)
    return table.reshape(len(rows), raters), len(values)


def _refuse_ids(
    names: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    given: Counter[Any],
) -> None:
    """Raise ``CarbError`` where a column holds no ratings: its texts occur once, as ids do."""
    columns = zip(*rows, strict=True)
    for name, column in zip(names, columns, strict=False):
        once = all(isinstance(value, str) and given[value] == 1 for value in column)
        names_items = once and len(rows) > 2
        if names_items or name in ("id", "item_id"):
            raise CarbError(
                f"The column '{name}' names the items and holds no ratings; leave it out."
            )


def _table(ratings: object) -> list[list[Any]]:
    """The rows of a table, or ``CarbError`` where it is none."""
    try:
        rows = [_row(row) for row in cast("Iterable[Any]", ratings)]
    except TypeError:
        raise CarbError("ratings must be a table of items (rows) by raters (columns).") from None
    raters = {len(row) for row in rows}
    if len(raters) > 1 or (raters and min(raters) < 2):
        raise CarbError(
            "ratings must be a table of items (rows) by at least two raters (columns); "
            "None is missing."
        )
    return rows


def _row(row: Any) -> list[Any]:
    if isinstance(row, str | bytes | Mapping):
        raise TypeError
    return list(row)


def _plain(value: Any) -> Any:
    if not isinstance(value, np.generic):
        return value
    return value.item()
