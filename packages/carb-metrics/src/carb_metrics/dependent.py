"""Does one benchmark predict better than another? Correlations that share a variable."""

from __future__ import annotations

import math

import numpy.typing as npt

from carb_data import CarbError
from carb_metrics.cells import Estimate, Result
from carb_metrics.correlations import coefficient, fisher_interval, numbers, t_test


class DependentCorrelations(Result):
    """Two predictors of one outcome over the same n points."""

    n: int
    r_a: float | None = None
    """Correlation of a with the outcome."""
    r_b: float | None = None
    r_ab: float | None = None
    """Correlation of the predictors."""
    difference: Estimate = Estimate()
    """r_a − r_b with Zou's interval; p is Williams's."""
    williams_t: float | None = None
    williams_p: float | None = None
    steiger_z: float | None = None
    steiger_p: float | None = None


def compare_correlations(
    a: npt.ArrayLike, b: npt.ArrayLike, outcome: npt.ArrayLike, confidence: float = 0.95
) -> DependentCorrelations:
    """Test whether two predictors correlate differently with an outcome.

    "Benchmark A predicts better than B" is a claim about a difference of two correlations, which are dependent as
    they share the outcome and the scorers. See ``dependent_correlations`` for the tests.

    Args:
        a, b: (n,) the predictors, for example two benchmarks' scores of the same scorers.
        outcome: (n,), for example downstream scores.
        confidence: The level of the difference's interval, a share such as 0.95.
    """
    first = numbers(a, "a")
    second, third = numbers(b, "b", len(first)), numbers(outcome, "outcome", len(first))
    found = [coefficient("pearson", *pair) for pair in ((first, third), (second, third), (first, second))]
    if any(part is None for part in found):
        return DependentCorrelations(n=len(first))
    r_a, r_b, r_ab = (part[0] for part in found if part is not None)
    return dependent_correlations(r_a, r_b, r_ab, len(first), confidence)


def dependent_correlations(
    r_a: float, r_b: float, r_ab: float, n: int, confidence: float = 0.95
) -> DependentCorrelations:
    """The same from the three correlations alone.

    Williams's t has n−3 degrees of freedom (Williams 1959, JRSS B 21:396-399; given in Steiger 1980). Steiger's
    Z pools both correlations in the covariance of their z values (Steiger 1980, "Tests for comparing elements of a
    correlation matrix", Psychological Bulletin 87:245-251). The interval is that of Zou (2007, "Toward
    using confidence intervals to compare correlations", Psychological Methods 12:399-413), from the intervals of
    both correlations.

    Args:
        r_a, r_b: correlations of the predictors with the outcome.
        r_ab: correlation of the predictors.
        n: points; tests need four.
        confidence: The level of the interval, a share such as 0.95.

    Raises:
        CarbError: the three cannot be correlations of the same data.
    """
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    if max(abs(r_a), abs(r_b), abs(r_ab)) > 1 or not determinant >= -1e-9:  # nor NaN
        raise CarbError(f"No data has the correlations {r_a}, {r_b} and {r_ab} at once.")
    result = DependentCorrelations(n=n, r_a=r_a, r_b=r_b, r_ab=r_ab, difference=Estimate(estimate=r_a - r_b))
    if n < 4 or max(abs(r_a), abs(r_b), abs(r_ab)) > 1 - 1e-12:
        return result
    mean = (r_a + r_b) / 2
    scale = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - r_ab) ** 3
    t = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / scale)
    williams_p = t_test(t / math.sqrt(n - 3 + t * t), n - 3)
    covariance = _covariance(mean, mean, r_ab)
    z = (math.atanh(r_a) - math.atanh(r_b)) * math.sqrt((n - 3) / (2 - 2 * covariance))
    low_a, high_a = fisher_interval(r_a, n, confidence=confidence) or (r_a, r_a)
    low_b, high_b = fisher_interval(r_b, n, confidence=confidence) or (r_b, r_b)
    shared = _covariance(r_a, r_b, r_ab)
    below = (r_a - low_a) ** 2 + (high_b - r_b) ** 2 - 2 * shared * (r_a - low_a) * (high_b - r_b)
    above = (high_a - r_a) ** 2 + (r_b - low_b) ** 2 - 2 * shared * (high_a - r_a) * (r_b - low_b)
    low, high = r_a - r_b - math.sqrt(max(below, 0.0)), r_a - r_b + math.sqrt(max(above, 0.0))
    return result.model_copy(
        update={
            "difference": Estimate(estimate=r_a - r_b, low=low, high=high, p=williams_p),
            "williams_t": t,
            "williams_p": williams_p,
            "steiger_z": z,
            "steiger_p": math.erfc(abs(z) / math.sqrt(2)),
        }
    )


def _covariance(r_a: float, r_b: float, r_ab: float) -> float:
    """Asymptotic correlation of two correlations that share a variable; Pearson and Filon 1898, Steiger 1980."""
    product = r_ab * (1 - r_a**2 - r_b**2) - r_a * r_b / 2 * (1 - r_a**2 - r_b**2 - r_ab**2)
    return product / ((1 - r_a**2) * (1 - r_b**2))
