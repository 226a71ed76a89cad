"""Does the benchmark predict what happens downstream, and does it do so better than another?"""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from carb_data import CarbError, Frozen
from carb_metrics.cells import Result
from carb_metrics.clusters import Ints, numbered
from carb_metrics.coefficients import (
    FEWEST,
    Kind,
    coefficient,
    fisher_interval,
    fisher_limits,
    is_constant,
    t_test,
)
from carb_metrics.interval import Interval
from carb_metrics.intervals import (
    Floats,
    check_confidence,
    finite,
    nan_where_undefined,
    normal_quantile,
    same_order,
    t_quantile,
    t_tails,
)
from carb_metrics.jackknife import jackknife_error
from carb_metrics.means import design

R = TypeVar("R", bound=Frozen)

TESTS = "p low high slope_low slope_high williams_t"
"""Fields that rest on independent points."""


class Fit(Result):
    """The least-squares line y = intercept + slope·x. All null where x is constant or fewer than
    two points are."""

    slope: float | None = None
    intercept: float | None = None
    r2: float | None = None
    """Share of the variance of y explained; null where y is constant."""
    p: float | None = None
    """Two-sided p of slope 0."""
    slope_low: float | None = None
    slope_high: float | None = None
    n: int = 0


class Partial(Result):
    """Correlations of x and y after what the covariates explain is taken out of both."""

    pearson: Interval
    spearman: Interval
    """Partial correlation of the ranks of x, y and the covariates."""
    covariates: int
    """Number of independent covariates taken out."""


class LeftOut(Result):
    """What remains of a correlation without one point."""

    label: str
    pearson: float | None


class Rival(Result):
    """Two predictors, a and b, of one outcome over the same n points."""

    n: int
    r_a: float | None = None
    """Correlation of a with the outcome."""
    r_b: float | None = None
    r_ab: float | None = None
    """Correlation of the predictors."""
    difference: Interval = Interval()
    """r_a − r_b with Zou's interval; p is Williams's."""
    williams_t: float | None = None


class Correlation(Result):
    """How x and y go together over n points."""

    n: int
    bases: int
    """Base models: the points that are independent of one another; n without ``bases``."""
    pearson: Interval
    """With ``bases`` its interval and p are over base models."""
    spearman: Interval
    kendall: Interval
    """τ-b."""
    fit: Fit
    """y on x."""
    reliability_x: float | None = None
    """Share of the variance of x that is not error of measurement; null without ``x_error``."""
    reliability_y: float | None = None
    corrected: Interval | None = None
    """Pearson's r without the errors of measurement; null where none are given, empty where they
    are as large as the differences between points."""
    partial: Partial | None = None
    """Null where no covariates were given."""
    rival: Rival | None = None
    """x (a) against another predictor (b); null where none was given."""
    influence: tuple[LeftOut, ...] | None = None
    """Pearson's r without each point; null where no labels were given."""


def correlate(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    covariates: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    *,
    x_error: npt.ArrayLike | None = None,
    y_error: npt.ArrayLike | None = None,
    bases: Sequence[Any] | None = None,
    against: npt.ArrayLike | None = None,
    labels: Sequence[str] | None = None,
) -> Correlation:
    """Correlate two measurements of the same scorers, for example benchmark and downstream results.

    Intervals are made on the scale of artanh r. The standard errors are those of Fisher (1921,
    Metron 1:3-32) for Pearson's r, and of Bonett and Wright (2000, Psychometrika 65:23-28) for
    Spearman's ρ. Kendall's τ has that of Fieller, Hartley and Pearson (1957, Biometrika
    44:470-481). Fisher's is too small for pairs that are not normal. So Pearson's interval is at
    least as wide as the jackknife's (Efron and Tibshirani 1993, An Introduction to the Bootstrap,
    chapter 11).

    Scorers that stem from one base model are no independent points. ``bases`` names the base
    models. The variance of Pearson's artanh r then grows by the design effect of its influence
    function (``means.design``). t has the degrees of freedom that the base models leave. No such
    method is known here for Spearman's ρ, Kendall's τ, the line, ``.partial`` and ``.rival``. Their
    p and limits are then null.

    Errors of measurement draw r towards 0. ``.corrected`` is r over the root of the product of both
    reliabilities (Spearman 1904, American Journal of Psychology 15:72-101). A reliability is
    ``1 − mean(error²)/variance``, and is taken as known.

    Args:
        x: (n,) predictor, for example accuracies on a benchmark.
        y: (n,) outcome, for example downstream scores.
        covariates: (n,) or (n, k) the values that are held constant; they add ``.partial``, the
            correlation of the residuals (Fisher 1924, Metron 3:329-332).
        confidence: The level of all intervals, a share such as 0.95.
        x_error: (n,) standard errors of x; they add ``.corrected``. Without them, x is exact.
        y_error: (n,) standard errors of y; they add ``.corrected``. Without them, y is exact.
        bases: (n,) the base model of each point; null entries stand alone, and all do if left out.
        against: (n,) another predictor; it adds ``.rival``, which compares both predictors
            (Williams 1959, JRSS B 21:396-399; Zou 2007, Psychological Methods 12:399-413).
        labels: (n,) names of the points; they add ``.influence``.

    Returns:
        Estimates that are null where they are not defined: fewer than two points, or x or y
        constant. Fewer than five points, or base models, are described, not tested: p and limits
        are null. Limits also need a correlation short of 1.

    Raises:
        CarbError: unequal lengths, a missing or infinite value, series of pandas in different
            orders, or an unknown option.
    """
    check_confidence(confidence)
    same_order(
        x=x,
        y=y,
        covariates=covariates,
        x_error=x_error,
        y_error=y_error,
        against=against,
    )
    xs = finite(x, "x")
    n = len(xs)
    ys = finite(y, "y", n)
    if bases is not None and len(bases) != n:
        raise CarbError(f"bases has {len(bases)} values where {n} are needed, one for each point.")
    base = numbered(bases, n)
    models = int(base.max(initial=-1)) + 1
    reliable_x = _reliability(xs, x_error, "x_error")
    reliable_y = _reliability(ys, y_error, "y_error")
    partial = rival = influence = None
    if covariates is not None:
        partial = _partial(xs, ys, covariates, confidence)
    if against is not None:
        rival = _against(xs, against, ys, confidence)
    if labels is not None:
        influence = _left_out(xs, ys, labels)
    pearson = _pearson(xs, ys, base, 1.0, confidence)
    result = Correlation(
        n=n,
        bases=models,
        pearson=pearson,
        spearman=_estimate("spearman", xs, ys, confidence),
        kendall=_estimate("kendall", xs, ys, confidence),
        fit=_fit_line(xs, ys, confidence),
        reliability_x=reliable_x,
        reliability_y=reliable_y,
        partial=partial,
        rival=rival,
        influence=influence,
    )
    if models < n:
        result = _untested(result)
    corrected = _corrected(xs, ys, base, (reliable_x, reliable_y), confidence)
    return result.changed(pearson=pearson, corrected=corrected)


def _untested(result: R) -> R:
    """The estimates alone: no p and no limits of them are known where points are related."""
    parts = {name: _untested(part) for name, part in result if isinstance(part, Frozen)}
    tests = {name: None for name, _ in result if name in TESTS.split()}
    return result.changed(**parts | tests)


def _estimate(
    kind: Kind,
    x: Floats,
    y: Floats,
    confidence: float,
) -> Interval:
    value = coefficient(kind, x, y)
    if value is None:
        return Interval()
    r, p = value
    low, high = fisher_interval(r, len(x), kind, confidence) or (None, None)
    return Interval(
        estimate=r,
        low=low,
        high=high,
        p=p,
    )


def _pearson(
    x: Floats,
    y: Floats,
    base: Ints,
    shrink: float,
    confidence: float,
) -> Interval:
    """Pearson's r over ``shrink``, with an interval and p over base models."""
    value = coefficient("pearson", x, y)
    if value is None:
        return Interval()
    r, plain_p = value
    n = len(x)
    estimate = max(-1.0, min(1.0, r / shrink))
    models = int(base.max()) + 1
    related = models < n
    if models < FEWEST or abs(r) > 1 - 1e-12:
        return Interval(estimate=estimate, p=None if related else plain_p)
    a = (x - x.mean()) / x.std()
    b = (y - y.mean()) / y.std()
    jackknifed = _jackknife_error(a, b, base) or 0.0
    half = float(t_quantile(models - 2, confidence)) * jackknifed
    z = math.atanh(r)
    p = plain_p
    if not related:
        half = max(half, normal_quantile(confidence) / math.sqrt(n - 3))
    else:
        influence = a * b - r * (a**2 + b**2) / 2
        error, freedom = _related_error(influence, base)
        half = max(half, float(t_quantile(freedom, confidence)) * error)
        p = float(t_tails(z / max(error, jackknifed), freedom))
    low = max(-1.0, math.tanh(z - half) / shrink)
    high = min(1.0, math.tanh(z + half) / shrink)
    return Interval(
        estimate=estimate,
        low=low,
        high=high,
        p=p,
    )


def _related_error(
    influence: Floats,
    base: Ints,
) -> tuple[float, float]:
    """Standard error of artanh r where points are related, and its degrees of freedom.

    Args:
        influence: (n,) what each point adds to r.
        base: (n,) the base model of each.
    """
    n = len(influence)
    largest = np.abs(influence).max()
    if largest <= 1e-12:
        models = int(base.max()) + 1
        error = math.sqrt(1 / (n - 3))
        return error, float(models - 2)
    clustered = design(base, influence)
    effect = float(clustered.effect[0])
    freedom = float(clustered.freedom[0]) - 1
    most = float(n - 2)
    error = math.sqrt(effect / (n - 3))
    return error, max(1.0, min(most, freedom))


def _jackknife_error(
    a: Floats,
    b: Floats,
    base: Ints,
) -> float | None:
    """Standard error of artanh r by leaving out each base model; null where r would be perfect
    without one.

    It holds for pairs that are not normal, for which Fisher's is too small (Efron and Tibshirani
    1993, An Introduction to the Bootstrap, chapter 11).
    """
    pairs = combinations_with_replacement((np.ones(len(a)), a, b), 2)
    sums = [np.bincount(base, one * other) for one, other in pairs]
    units = np.column_stack(sums)
    without = units.sum(0) - units
    n, sum_a, sum_b, aa, ab, bb = without.T
    with nan_where_undefined():
        square_a = aa - sum_a**2 / n
        square_b = bb - sum_b**2 / n
        both = ab - sum_a * sum_b / n
        z = np.arctanh(both / np.sqrt(square_a * square_b))
    if not np.isfinite(z).all():
        return None
    return jackknife_error(z)


def _reliability(
    values: Floats,
    errors: npt.ArrayLike | None,
    name: str,
) -> float | None:
    if errors is None:
        return None
    error = finite(errors, name, len(values))
    if (error < 0).any():
        raise CarbError("Standard errors cannot be negative.")
    if is_constant(values):
        return None
    share = (error**2).mean() / values.var(ddof=1)
    return 1 - float(share)


def _corrected(
    x: Floats,
    y: Floats,
    base: Ints,
    reliable: Sequence[float | None],
    confidence: float,
) -> Interval | None:
    """Null where no errors are given, empty where they are as large as the differences."""
    known = [max(share, 0.0) for share in reliable if share is not None]
    if not known:
        return None
    shrink = math.sqrt(math.prod(known))
    if shrink <= 0:
        return Interval()
    return _pearson(x, y, base, shrink, confidence)


def _fit_line(
    x: Floats,
    y: Floats,
    confidence: float,
) -> Fit:
    """Ordinary least squares of y on x, with the t test and interval of the slope (n−2 degrees of
    freedom)."""
    n = len(x)
    if n < 2 or is_constant(x):
        return Fit(n=n)
    dx = x - x.mean()
    dy = y - y.mean()
    sxx = float(dx @ dx)
    slope = float(dx @ dy) / sxx
    value = coefficient("pearson", x, y)
    extra: dict[str, float | None] = {}
    if value is not None:
        r, p = value
        extra = {"r2": r**2, "p": p}
    if n >= FEWEST:
        freedom = n - 2
        residual = dy - slope * dx
        deviation = math.sqrt(float((residual**2).sum()) / freedom)
        t = float(t_quantile(freedom, confidence))
        half = t * deviation / math.sqrt(sxx)
        extra |= {"slope_low": slope - half, "slope_high": slope + half}
    return Fit(
        n=n,
        slope=slope,
        intercept=float(y.mean() - slope * x.mean()),
        **extra,
    )


def _matrix(covariates: npt.ArrayLike, n: int) -> Floats:
    columns = np.asarray(covariates, dtype=object)
    if columns.ndim == 1:
        columns = columns[:, None]
    if columns.ndim != 2:
        raise CarbError(f"covariates must have shape (n,) or (n, k); got {columns.shape}.")
    if not columns.shape[1]:
        raise CarbError("covariates has no column; leave it out instead.")
    named = enumerate(columns.T)
    return np.column_stack([finite(one, f"covariates[:, {index}]", n) for index, one in named])


def _partial(
    x: Floats,
    y: Floats,
    covariates: npt.ArrayLike,
    confidence: float,
) -> Partial:
    z = _matrix(covariates, len(x))
    taken = 0
    if len(z):
        taken = int(np.linalg.matrix_rank(z - z.mean(0)))
    if len(x) - taken < 2:
        return Partial(covariates=taken, pearson=Interval(), spearman=Interval())
    from scipy.stats import rankdata

    measured = (x, y, z)
    of_x, of_y, of_z = (rankdata(values, axis=0) for values in measured)
    return Partial(
        covariates=taken,
        pearson=_partial_estimate(x, y, z, taken, "pearson", confidence),
        spearman=_partial_estimate(of_x, of_y, of_z, taken, "spearman", confidence),
    )


def _partial_estimate(
    x: Floats,
    y: Floats,
    z: Floats,
    taken: int,
    kind: Literal["pearson", "spearman"],
    confidence: float,
) -> Interval:
    """Pearson's r of the residuals on z; Fisher (1924), Metron 3:329-332: each covariate costs one
    point."""
    basis = np.column_stack([np.ones(len(x)), z])
    rests = []
    for values in (x, y):
        weights = np.linalg.lstsq(basis, values, rcond=None)[0]
        rest = values - basis @ weights
        away = np.abs(values - values.mean()).max()
        least = 1e-10 * max(1e-300, float(away))
        if np.abs(rest).max() <= least:
            return Interval()  # the covariates explain it all
        rests.append(rest)
    value = coefficient("pearson", *rests)
    if value is None:
        return Interval()
    r, _ = value
    left = len(x) - taken
    low, high = fisher_interval(r, left, kind, confidence) or (None, None)
    p = t_test(r, left - 2)
    return Interval(
        estimate=r,
        low=low,
        high=high,
        p=p,
    )


def _left_out(
    x: Floats,
    y: Floats,
    labels: Sequence[str],
) -> tuple[LeftOut, ...]:
    if len(labels) != len(x):
        raise CarbError(f"labels has {len(labels)} entries for {len(x)} points.")
    rows = []
    for index, label in enumerate(labels):
        rest = np.arange(len(x)) != index
        r, _ = coefficient("pearson", x[rest], y[rest]) or (None, None)
        rows.append(LeftOut(label=str(label), pearson=r))
    return tuple(rows)


def _against(
    a: Floats,
    other: npt.ArrayLike,
    outcome: Floats,
    confidence: float,
) -> Rival:
    n = len(a)
    b = finite(other, "against", n)
    of_a = coefficient("pearson", a, outcome)
    of_b = coefficient("pearson", b, outcome)
    of_both = coefficient("pearson", a, b)
    if of_a is None or of_b is None or of_both is None:
        return Rival(n=n)
    return rival(of_a[0], of_b[0], of_both[0], n, confidence)


def rival(
    r_a: float,
    r_b: float,
    r_ab: float,
    n: int,
    confidence: float = 0.95,
) -> Rival:
    """Test whether two predictors correlate differently with an outcome, from the three
    correlations.

    "Benchmark A predicts better than B" is a claim about a difference of two correlations. They
    share the outcome and the scorers, so they are dependent. Williams's t has n−3 degrees of
    freedom (Williams 1959, JRSS B 21:396-399; given in Steiger 1980, Psychological Bulletin
    87:245-251). The interval is that of Zou (2007, Psychological Methods 12:399-413), from the
    intervals of both correlations.

    Args:
        r_a, r_b: correlations of the predictors with the outcome.
        r_ab: correlation of the predictors.
        n: points; the test and the interval need ``FEWEST``.
        confidence: The level of the interval, a share such as 0.95.

    Raises:
        CarbError: the three cannot be correlations of the same data.
    """
    squares = r_a**2 + r_b**2 + r_ab**2
    determinant = 1 - squares + 2 * r_a * r_b * r_ab
    largest = max(abs(r_a), abs(r_b), abs(r_ab))
    if largest > 1 or not determinant >= -1e-9:  # nor NaN
        raise CarbError(f"No data has the correlations {r_a}, {r_b} and {r_ab} at once.")
    difference = r_a - r_b
    result = Rival(
        n=n,
        r_a=r_a,
        r_b=r_b,
        r_ab=r_ab,
        difference=Interval(estimate=difference),
    )
    if n < FEWEST or largest > 1 - 1e-12:
        return result
    freedom = n - 3
    mean = (r_a + r_b) / 2
    between = 2 * (n - 1) / freedom * max(determinant, 0.0)
    scale = between + mean**2 * (1 - r_ab) ** 3
    square = (n - 1) * (1 + r_ab) / scale
    t = difference * math.sqrt(square)
    r_of_t = t / math.sqrt(freedom + t * t)
    tested = Interval.of(
        _zou(r_a, r_b, r_ab, n, confidence),
        estimate=difference,
        p=t_test(r_of_t, freedom),
    )
    return result.changed(difference=tested, williams_t=t)


def _zou(
    r_a: float,
    r_b: float,
    r_ab: float,
    n: int,
    confidence: float,
) -> Interval:
    """Zou's limits of the difference of two dependent correlations."""
    square_a = r_a**2
    square_b = r_b**2
    square_ab = r_ab**2
    squares = 1 - square_a - square_b
    variance = 1 / (n - 3)
    low_a, high_a = fisher_limits(r_a, variance, confidence)
    low_b, high_b = fisher_limits(r_b, variance, confidence)
    # Asymptotic correlation of two correlations that share a variable (Pearson and Filon 1898;
    # Steiger 1980).
    less = r_a * r_b / 2 * (squares - square_ab)
    product = r_ab * squares - less
    unexplained = (1 - square_a) * (1 - square_b)
    shared = product / unexplained

    def away(a: float, b: float) -> float:
        square = a**2 + b**2 - 2 * shared * a * b
        return math.sqrt(max(square, 0.0))

    below = away(r_a - low_a, high_b - r_b)
    above = away(high_a - r_a, r_b - low_b)
    difference = r_a - r_b
    return Interval(low=difference - below, high=difference + above)
