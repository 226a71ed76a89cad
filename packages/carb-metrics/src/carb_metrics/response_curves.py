"""Item response theory: abilities of scorers and parameters of items on one scale, from few scorers and many items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.intervals import Floats, check_confidence, normal_quantile
from carb_metrics.outcomes import credit_matrix, set_outcomes

__all__ = [
    "FEWEST_2PL",
    "FEWEST_RASCH",
    "AbilityRow",
    "ItemParameters",
    "ItemResponse",
    "ResponseCurves",
    "fit_curves",
    "item_response",
]

Model = Literal["2pl", "rasch"]
FEWEST_RASCH = 8
"""Scorers below which no item parameter is estimated."""
FEWEST_2PL = 16
"""Scorers below which items share one slope."""

SLOPE_SPREAD = 0.5
"""Standard deviation of the normal prior of log slopes, around their mean."""
EASINESS_SPREAD = 2.0
"""Standard deviation, in logits, of the normal prior of intercepts, around their mean."""
_NODES = 9
_ROUNDS = 500
_CLOSE = 1e-5


class ItemParameters(Result):
    """One item: the probability that a scorer of ability θ wins it is 1/(1 + exp(−slope·(θ − difficulty)))."""

    item_id: str
    n: int
    """Scorers that judged it."""
    slope: float
    difficulty: float
    """Ability at which half of the scorers win it, in standard deviations of the scorers' abilities."""
    information: float
    """Fisher information slope²·p·(1 − p), averaged over the abilities of the scorers."""


class AbilityRow(Result):
    """One scorer."""

    scorer: str
    ability: Estimate
    """Posterior mean with its normal interval, which takes the parameters of the items as known. The unit is the
    standard deviation of the scorers, whose mean is 0."""


class ItemResponse(Result):
    """Items and scorers on one scale."""

    model: Model
    scorers: tuple[AbilityRow, ...]
    """Ablest first."""
    items: tuple[ItemParameters, ...]
    """The items, sorted by their id."""

    def information(self, ability: float) -> float:
        """Fisher information of all items together at an ability: 1 over the variance of an ability's estimate."""
        slope = np.array([item.slope for item in self.items])
        difficulty = np.array([item.difficulty for item in self.items])
        p = 1 / (1 + np.exp(-slope * (ability - difficulty)))
        return float((slope**2 * p * (1 - p)).sum())


@dataclass(frozen=True)
class ResponseCurves:
    """Fitted parameters as arrays."""

    slope: Floats
    """(items,)"""
    intercept: Floats
    """(items,) logit of winning at ability 0."""
    ability: Floats
    """(scorers,) posterior means."""
    error: Floats
    """(scorers,) posterior standard deviations."""

    def information(self) -> Floats:
        """(items,) mean information over the scorers' abilities."""
        p = _sigmoid(self.ability[:, None] * self.slope + self.intercept)
        found: Floats = self.slope**2 * (p * (1 - p)).mean(0)
        return found


def item_response(scores: ScoreTable, model: Model | None = None, confidence: float = 0.95) -> ItemResponse:
    """Fit the two-parameter logistic model, or Rasch's, by marginal likelihood with shrinkage of the items.

    Abilities are drawn from a normal distribution and integrated out by adaptive Gauss-Hermite quadrature around each
    scorer's mode, because thousands of items make the posterior of an ability narrower than any fixed grid (Bock and
    Aitkin 1981, Psychometrika 46:443-459; Naylor and Smith 1982, Applied Statistics 31:214-225). So few scorers cannot
    tell every item's slope: log slopes and intercepts have normal priors around their means (Bayes modal estimates,
    Mislevy 1986, Psychometrika 51:177-195). The scale is kept by parameter expansion (Liu, Rubin and Wu 1998,
    Biometrika 85:755-770). The lower asymptote is 0. Ties are shared: their credit counts as a fraction of a win.

    Args:
        scores: table of several scorers on the same sets; perturbed rows and sets with an error are left out.
        model: ``2pl``: every item has a slope of its own; ``rasch``: all share one. By default ``2pl`` with at least
            ``FEWEST_2PL`` scorers, else ``rasch``.
        confidence: The level of the abilities' intervals, a share such as 0.95.

    Raises:
        CarbError: fewer than ``FEWEST_RASCH`` scorers (``FEWEST_2PL`` for ``2pl``), fewer than two items, or malformed
            sets.
    """
    check_confidence(confidence)
    if model not in (None, "2pl", "rasch"):
        raise CarbError(f"model must be '2pl' or 'rasch'; got '{model}'.")
    credit, names, items = credit_matrix(set_outcomes(scores, "shared"))
    kept = ~np.isnan(credit).all(0)
    credit, items = credit[:, kept], items.filter(pl.Series(kept, dtype=pl.Boolean))
    taken: Model = model or ("2pl" if len(names) >= FEWEST_2PL else "rasch")
    fewest = FEWEST_2PL if taken == "2pl" else FEWEST_RASCH
    if len(names) < fewest:
        raise CarbError(
            f"Item response theory ({taken}) needs at least {fewest} scorers of the same items; there are {len(names)}."
        )
    if items.height < 2:
        raise CarbError(f"Item response theory needs at least two items; there are {items.height}.")
    found = fit_curves(credit, taken)
    z = normal_quantile(confidence)
    rows = sorted(zip(found.ability, found.error, names, strict=True), key=lambda row: (-row[0], row[2]))
    ids, counts = items["item_id"].to_list(), (~np.isnan(credit)).sum(0)
    parameters = zip(ids, counts, found.slope, found.intercept, found.information(), strict=True)
    return ItemResponse(
        model=taken,
        scorers=tuple(
            AbilityRow(scorer=name, ability=Estimate(estimate=float(a), low=float(a - z * e), high=float(a + z * e)))
            for a, e, name in rows
        ),
        items=tuple(
            ItemParameters(item_id=i, n=int(n), slope=float(a), difficulty=float(-d / a), information=float(info))
            for i, n, a, d, info in parameters
        ),
    )


def fit_curves(
    credit: Floats,
    model: Model,
    *,
    slope_spread: float = SLOPE_SPREAD,
    easiness_spread: float = EASINESS_SPREAD,
    close: float = _CLOSE,
) -> ResponseCurves:
    """``item_response`` of a matrix, however few its scorers.

    Args:
        credit: (scorers, items) 0 to 1, NaN where a scorer has none.
        model: The model: ``2pl`` (two parameters) or ``rasch`` (difficulties alone).
        slope_spread: standard deviation of the prior of log slopes.
        easiness_spread: standard deviation of the prior of intercepts; infinite for none, which needs items that are
            neither won nor lost by all.
        close: largest change of a parameter at which the fit ends.
    """
    known = ~np.isnan(credit)
    y = np.where(known, credit, 0.0)
    share = (y.sum(0) + 0.5) / (known.sum(0) + 1)
    intercept: Floats = np.log(share / (1 - share))
    log_slope = np.zeros(credit.shape[1])
    standing = np.where(known, y - share, 0.0).sum(1) / np.maximum(known.sum(1), 1)
    spread = float(standing.std())
    mode: Floats = (standing - standing.mean()) / spread if spread > 1e-9 else np.zeros(len(standing))
    base, weight = np.polynomial.hermite.hermgauss(_NODES)
    mean, error = mode, np.ones(len(mode))
    for _ in range(_ROUNDS):
        before = np.concatenate([log_slope, intercept])
        mode, nodes, mass = _posterior(y, known, np.exp(log_slope), intercept, mode, base, weight)
        mean = (nodes * mass).sum(1)
        error = np.sqrt(np.maximum((nodes**2 * mass).sum(1) - mean**2, 1e-12))
        log_slope, intercept = _items(
            y, known, nodes, mass, mean, log_slope, intercept, model, slope_spread, easiness_spread
        )
        centre = float(mean.mean())
        scale = float(np.sqrt((error**2 + (mean - centre) ** 2).mean()))
        intercept = intercept + np.exp(log_slope) * centre
        log_slope = log_slope + np.log(scale)
        mode, mean, error = (mode - centre) / scale, (mean - centre) / scale, error / scale
        if np.abs(np.concatenate([log_slope, intercept]) - before).max() < close:
            break
    return ResponseCurves(slope=np.exp(log_slope), intercept=intercept, ability=mean, error=error)


Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def _sigmoid(x: Floats) -> Floats:
    from scipy.special import expit

    found: Floats = expit(x)
    return found


def _posterior(
    y: Floats, known: Bools, slope: Floats, intercept: Floats, mode: Floats, base: Floats, weight: Floats
) -> tuple[Floats, Floats, Floats]:
    """Modes of the abilities, (scorers, nodes) abilities around them, and the posterior mass of each."""
    for _ in range(20):
        p = _sigmoid(mode[:, None] * slope + intercept)
        curve = (known * p * (1 - p)) @ slope**2 + 1
        step = ((y - known * p) @ slope - mode) / curve
        mode = mode + np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-8:
            break
    nodes = mode[:, None] + np.sqrt(2 / curve)[:, None] * base
    log = np.empty(nodes.shape)
    for place in range(len(base)):
        eta = nodes[:, [place]] * slope + intercept
        log[:, place] = (y * eta - known * np.logaddexp(0, eta)).sum(1)
    log += base**2 + np.log(weight) - nodes**2 / 2
    mass = np.exp(log - log.max(1, keepdims=True))
    return mode, nodes, mass / mass.sum(1, keepdims=True)


def _items(
    y: Floats,
    known: Bools,
    nodes: Floats,
    mass: Floats,
    mean: Floats,
    log_slope: Floats,
    intercept: Floats,
    model: Model,
    slope_spread: float,
    easiness_spread: float,
) -> tuple[Floats, Floats]:
    """One step of Fisher's scoring for the parameters of every item, given where the scorers may stand."""
    slope = np.exp(log_slope)
    sums = np.zeros((5, len(slope)))  # of residuals, residuals·θ, and variances times 1, θ and θ²
    sums[0], sums[1] = y.sum(0), mean @ y
    for place in range(nodes.shape[1]):
        theta = nodes[:, place]
        p = _sigmoid(theta[:, None] * slope + intercept)
        p *= known * mass[:, [place]]
        variance = p - p**2 / np.maximum(mass[:, [place]], 1e-300)
        sums[0] -= p.sum(0)
        sums[1] -= theta @ p
        sums[2] += variance.sum(0)
        sums[3] += theta @ variance
        sums[4] += theta**2 @ variance
    pull = 0.0 if np.isinf(easiness_spread) else easiness_spread**-2
    down = sums[0] - pull * (intercept - intercept.mean())
    dd = sums[2] + pull + 1e-12
    if model == "rasch":
        rise = float((slope * sums[1]).sum())
        both = slope * sums[3]
        curve = float((slope**2 * sums[4] - both**2 / dd).sum())
        step = (rise - float((both / dd * down).sum())) / max(curve, 1e-9)
        step = float(np.clip(step, -0.5, 0.5))
        return log_slope + step, intercept + np.clip((down - both * step) / dd, -2, 2)
    rise = slope * sums[1] - (log_slope - log_slope.mean()) / slope_spread**2
    aa, ad = slope**2 * sums[4] + slope_spread**-2, slope * sums[3]
    det = aa * dd - ad**2
    along = np.clip((dd * rise - ad * down) / det, -0.5, 0.5)
    up = np.clip((aa * down - ad * rise) / det, -2, 2)
    return log_slope + along, intercept + up
