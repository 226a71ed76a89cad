"""Confidence intervals of proportions in closed form."""

from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from carb_data import CarbError

Floats = npt.NDArray[np.float64]


def check_confidence(confidence: float) -> float:
    """Give ``confidence`` back, or raise ``CarbError`` where it is not strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise CarbError(f"confidence must lie between 0 and 1, for example 0.95; got {confidence}.")
    return confidence


def normal_quantile(confidence: float) -> float:
    """Two-sided critical value of the standard normal: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + check_confidence(confidence) / 2)


def t_quantile(freedom: Any, confidence: float) -> Any:
    """Two-sided critical value of t, for one number or an array of degrees of freedom."""
    from scipy.special import stdtrit

    return stdtrit(freedom, 0.5 + confidence / 2)


def t_tails(t: Any, freedom: Any) -> Any:
    """Two-sided p of a value of t."""
    from scipy.special import stdtr

    return 2 * stdtr(freedom, -abs(t))


def nan_where_undefined() -> np.errstate:
    """Within, what is divided by nothing is NaN, without a warning."""
    return np.errstate(divide="ignore", invalid="ignore")


def few_degrees(freedom: Any, confidence: float) -> Any:
    """``(z/t)²``: the factor of an effective sample size that allows for few degrees of freedom."""
    return (normal_quantile(confidence) / t_quantile(freedom, confidence)) ** 2


def wilson(
    successes: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence: float = 0.95,
) -> tuple[Floats, Floats]:
    """Wilson's score interval of proportions.

    With ``p = successes / n`` and ``z`` the normal quantile, the limits are
    ``(p + z²/2n ± z·sqrt(p(1−p)/n + z²/4n²)) / (1 + z²/n)``.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference",
    JASA 22:209-212. Fractional ``successes`` and ``n`` are allowed: an effective sample size takes
    the place of ``n`` where sets are clustered or credits are fractions (Korn and Graubard 1998,
    Survey Methodology 24:193-201).

    Args:
        successes: (...,) the numbers of successes, 0 to ``n``.
        n: (...,) the numbers of trials; 0 gives NaN limits, which callers turn into null.
        confidence: the level of the interval, between 0 and 1.

    Returns:
        low, high: same shape, within [0, 1].

    Raises:
        CarbError: ``successes`` below 0 or above ``n``, ``n`` below 0, or one of them missing or
            infinite.
    """
    z2 = normal_quantile(confidence) ** 2
    trials = np.asarray(n, dtype=float)
    won = np.asarray(successes, dtype=float)
    _check_counts(won, trials)
    with nan_where_undefined():
        p = np.clip(won / trials, 0, 1)
        moved = z2 / (2 * trials)
        widened = 1 + z2 / trials
        middle = (p + moved) / widened
        variance = np.clip(p * (1 - p), 0, None) * z2 / trials
        half = np.sqrt(variance + moved**2) / widened
        low = np.clip(middle - half, 0, 1)
        high = np.clip(middle + half, 0, 1)
    # Rounding must not push a limit past the estimate that it equals.
    low = np.minimum(low, p)
    high = np.maximum(high, p)
    low = np.where(p == 0, 0.0, low)
    high = np.where(p == 1, 1.0, high)
    return low, high


def _check_counts(won: Floats, trials: Floats) -> None:
    most = trials * (1 + 1e-9) + 1e-9
    wrong = (won < -1e-9) | (won > most)
    wrong |= (trials < 0) | ~np.isfinite(trials)
    wrong |= np.isnan(won) & (trials != 0)
    if wrong.any():
        both = np.broadcast_arrays(won, trials)
        bad, of = (float(part[wrong][0]) for part in both)
        raise CarbError(f"successes must lie between 0 and n; got {bad:g} of {of:g}.")


def finite(
    values: npt.ArrayLike,
    name: str,
    length: int | None = None,
) -> Floats:
    """A one-dimensional array of finite numbers, or ``CarbError`` that names what is not.

    Args:
        values: (n,) the values.
        name: The name of the argument, for the message of an error.
        length: The number of values that there must be; any if null.
    """
    try:
        array = np.array(list(cast("Iterable[Any]", values)), float)  # None becomes NaN
    except (TypeError, ValueError):
        raise CarbError(f"{name} must be a list of numbers.") from None
    if array.ndim != 1:
        raise CarbError(f"{name} must have one dimension; its shape is {array.shape}.")
    if length is not None and len(array) != length:
        raise CarbError(
            f"{name} has {len(array)} values where {length} are needed, one for each point."
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise CarbError(
            f"{name}[{bad[0]}] is missing, NaN or infinite; leave such points out of all inputs."
        )
    return array


def same_order(**given: Any) -> None:
    """Refuse series of pandas whose indexes differ: they would be paired by place.

    Raises:
        CarbError: the names of the first two that differ.
    """
    indexes = {
        name: list(value.index) for name, value in given.items() if hasattr(value, "reindex")
    }
    names = list(indexes)
    for name in names[1:]:
        if indexes[name] != indexes[names[0]]:
            raise CarbError(
                f"{names[0]} and {name} are of pandas and their indexes differ, but values "
                "are paired by place. Give "
                f"both in one order, for example with {name}.reindex({names[0]}.index)."
            )
