"""Best-of-N accuracy with ties, errors, weights and uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Cell, Grouped, Totals
from carb_metrics.clusters import CLUSTER
from carb_metrics.intervals import check_confidence
from carb_metrics.outcomes import Errors, Ties, set_outcomes
from carb_metrics.tally import GAP_DRAWS, Tally, Weights


def bon_accuracy(
    scores: ScoreTable,
    by: str | Sequence[str] = (),
    ties: Ties = "strict",
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    weights: Weights | None = None,
    resamples: int = GAP_DRAWS,
    seed: int = 0,
) -> Grouped:
    """Did ``chosen`` outscore every ``rejected``? Per group and overall, with intervals.

    Accuracy is the mean credit of sets (Zhang et al., arXiv 2509.21798): 1 where ``chosen`` scores
    above all ``rejected``, else 0; see ``ties`` for shared first places. Perturbed rows never count.

    Single cells carry Wilson's interval, on an effective sample size where credits are fractions or where several
    sets stem from one source item or one family (``ScoreTable.with_items``); see ``clusters.design``. So do averages
    over groups, at the effective sample size of a variance that small groups cannot pretend away
    (``Tally.variances``). Both were simulated: ``benchmarks/coverage.py``.

    Args:
        scores: the table. With several scorers in it, ``by`` must hold ``scorer``.
        by: columns that define the groups, out of ``scorer``, ``culture``, ``domain``, ``language`` (of
            ``chosen``), ``topic``, ``source_item``.
        ties: ``strict``: sharing the highest score with a ``rejected`` is a loss; ``shared``: it earns
            1 / (number of responses at the top).
        confidence: The level of all intervals, a share such as 0.95.
        errors: ``wrong``: a set that could not be judged is a loss; ``exclude``: it is left out of ``n``. Either
            way ``errors`` counts it.
        weights: the weights of a third average, ``.weighted``, by group key (without the scorer); they need not sum
            to 1, and every group needs one.
        resamples: the number of draws behind the interval of the gap; the other intervals are closed forms.
        seed: the seed of those draws. Results do not depend on the order of rows, nor on the names of groups.

    Returns:
        ``.overall`` (micro: sets weigh the same, the paper's headline), ``.macro`` (groups weigh the same),
        ``.groups`` (a row per group), ``.of(scorer)`` for one scorer's part. Averages of a table with several
        scorers are means over all its rows, clustered by item. Empty input gives null, and so do the averages over
        groups of a scorer that lacks a group which another one has (``.lacking``).

    Raises:
        CarbError: unknown column or option, several scorers without ``scorer`` in ``by``, or malformed sets.
    """
    sets = set_outcomes(scores, ties)
    return grouped_accuracy(sets, by, confidence, errors=errors, weights=weights, resamples=resamples, seed=seed)


def grouped_accuracy(
    sets: pl.DataFrame,
    by: str | Sequence[str] = (),
    confidence: float = 0.95,
    *,
    errors: Errors = "wrong",
    weights: Weights | None = None,
    resamples: int = GAP_DRAWS,
    seed: int = 0,
) -> Grouped:
    """``bon_accuracy`` on a row per set, as ``set_outcomes`` gives it, possibly with further columns to group by."""
    keys = (by,) if isinstance(by, str) else tuple(by)
    check_confidence(confidence)
    if errors not in ("wrong", "exclude"):
        raise CarbError(f"errors must be 'wrong' or 'exclude'; got '{errors}'.")
    names = sorted(sets["scorer"].unique().cast(pl.String).to_list())
    _check_keys(sets, keys, names)
    tally = Tally(sets, keys, errors, confidence)
    weight = tally.weights(weights)

    scorers = tally.totals(names, weight, resamples, seed)
    if len(names) > 1:
        whole = tally.pooled(weight)
    else:
        whole = scorers[names[0]] if names else Totals(weighted=None if weights is None else Cell())
    return Grouped(by=keys, groups=tally.frame(), scorers=scorers, errors=errors, **dict(whole))


def _check_keys(sets: pl.DataFrame, keys: tuple[str, ...], names: list[str]) -> None:
    known = [c for c in sets.columns if c not in ("credit", "tied", "error", "count", CLUSTER)]
    unknown = [key for key in keys if key not in known]
    if unknown or len(set(keys)) < len(keys):
        extra = " Columns 'topic' and 'source_item' come from ScoreTable.with_items(dataset)."
        hint = extra if {"topic", "source_item"} & set(unknown) else ""
        raise CarbError(f"by={list(keys)}: each key must be one of {known}, once.{hint}")
    if len(names) > 1 and "scorer" not in keys:
        raise CarbError(
            f"The table holds {len(names)} scorers ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''}); "
            "put 'scorer' into 'by', or filter the table to one."
        )
