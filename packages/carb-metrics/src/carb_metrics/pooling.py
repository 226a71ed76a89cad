"""Small cells, drawn towards the others as far as the data say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from carb_data import ScoreTable
from carb_metrics.accuracy import grouped_accuracy
from carb_metrics.cells import Result
from carb_metrics.clusters import is_clustered
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import Ties, set_outcomes
from carb_metrics.tally import Tally

__all__ = ["PooledAccuracy", "PooledRow", "pooled_accuracy"]

_DRAWS = 4_000
_MEANS = (np.arange(60) + 0.5) / 60
_WEIGHTS = np.exp(np.linspace(np.log(0.5), np.log(2000), 30))


class PooledRow(Result):
    """One cell of one scorer."""

    scorer: str
    key: tuple[str | None, ...]
    """Values of ``by``."""
    n: int
    raw: float
    """The cell's own accuracy."""
    accuracy: float
    """Posterior mean: drawn towards the scorer's other cells."""
    low: float
    """Limit of the credible interval."""
    high: float
    pooling: float
    """How much of ``accuracy`` is not the cell's own: 0 for a cell that speaks for itself, 1 for an empty one."""


class PooledAccuracy(Result):
    """Partially pooled accuracies."""

    by: tuple[str, ...]
    rows: tuple[PooledRow, ...]


def pooled_accuracy(
    scores: ScoreTable,
    by: str | Sequence[str] = ("culture", "domain"),
    ties: Ties = "shared",
    confidence: float = 0.95,
    *,
    seed: int = 0,
) -> PooledAccuracy:
    """Accuracies of small cells under a beta-binomial model of a scorer's cells.

    A cell's accuracy comes from a beta distribution that the cells of one scorer share. Its mean and its weight (in
    sets) have a flat prior on a grid (the mean uniform, the weight uniform in its logarithm from 0.5 to 2000) and are
    integrated out (Gelman et al. 2013, Bayesian Data Analysis, 3rd ed., section 5.3). Where sets are clustered, the
    effective sample size takes the place of the number of sets.

    Args:
        scores: table of any scorers.
        by: columns that define the cells.
        ties: How a tie at the top counts, as in ``bon_accuracy``.
        confidence: The level of the credible intervals, a share such as 0.95.
        seed: The seed of the draws behind the intervals.

    Raises:
        CarbError: as ``bon_accuracy``.
    """
    check_confidence(confidence)
    keys = (by,) if isinstance(by, str) else tuple(by)
    sets = set_outcomes(scores, ties)
    grouped_accuracy(sets, ("scorer", *keys), confidence, resamples=1)  # the same checks, and the same errors
    tally = Tally(sets, ("scorer", *keys), "wrong", confidence)
    effective = tally.effective_n if is_clustered(sets) else tally.n.astype(np.float64)
    names, rng = tally.names, np.random.default_rng(seed)
    rows: list[PooledRow] = []
    for scorer in sorted(set(tally.scorer.tolist())) if tally.scorer is not None else []:
        cells = np.flatnonzero(tally.scorer == scorer)
        n, raw = np.minimum(effective[cells], tally.n[cells]), tally.accuracy[cells]
        drawn, mean, pooling = _posterior(n * raw, n, rng)
        tail = (1 - confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        for place, cell in enumerate(cells):
            rows.append(
                PooledRow(
                    scorer=scorer,
                    key=names[cell],
                    n=int(tally.n[cell]),
                    raw=float(raw[place]),
                    accuracy=float(mean[place]),
                    low=float(low[place]),
                    high=float(high[place]),
                    pooling=float(pooling[place]),
                )
            )
    return PooledAccuracy(by=keys, rows=tuple(rows))


def _posterior(won: Floats, n: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draws of each cell's accuracy, their exact mean, and the mean weight of the other cells."""
    from scipy.special import betaln

    a, b = np.outer(_MEANS, _WEIGHTS), np.outer(1 - _MEANS, _WEIGHTS)
    log = (betaln(a[..., None] + won, b[..., None] + n - won) - betaln(a, b)[..., None]).sum(-1)
    weight = np.exp(log - log.max()).ravel()
    weight /= weight.sum()
    share = (a[..., None] + won) / (a[..., None] + b[..., None] + n)
    mean = np.einsum("g,gc->c", weight, share.reshape(len(weight), -1))
    own = _WEIGHTS / (_WEIGHTS + n[:, None])
    pooling = own @ weight.reshape(a.shape).sum(0)
    pick = rng.choice(len(weight), _DRAWS, p=weight)
    drawn: Floats = rng.beta(a.ravel()[pick][:, None] + won, b.ravel()[pick][:, None] + n - won)
    return drawn, mean, pooling
