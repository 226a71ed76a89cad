"""A smaller benchmark, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.clusters import Ints, number
from carb_metrics.intervals import Floats
from carb_metrics.items import discrimination
from carb_metrics.outcomes import credit_matrix, set_outcomes
from carb_metrics.response_curves import FEWEST_RASCH, fit_curves

__all__ = ["FormRow", "ShortForm", "short_form"]

Method = Literal["information", "discrimination", "random"]
Goal = Literal["accuracy", "order"]

_FEWEST: dict[Method, int] = {"information": 2 * FEWEST_RASCH, "discrimination": 8, "random": 8}
"""Scorers that each method needs."""
_ROUGH = 1e-2
"""Change of a parameter below which a fit is good enough to order items."""


class FormRow(Result):
    """What forms chosen by one method cost, over scorers that took no part in choosing."""

    method: Method
    error: float
    """Root mean square of (accuracy predicted from the short form − accuracy on all items)."""
    rank_agreement: float | None
    """Kendall's τ-b of the scorers' order on both; null for fewer than three scorers in a half."""


class ShortForm(Result):
    """A smaller benchmark, and what it costs."""

    items: tuple[str, ...]
    """Ids of the chosen items."""
    size: int
    whole: int
    """Items to choose from."""
    method: Method
    """What the items were chosen by: the best of ``methods`` for the goal, or the one asked for."""
    methods: tuple[FormRow, ...]
    """What each method that the scorers suffice for costs."""

    @property
    def chosen(self) -> FormRow:
        """The cost of the method taken."""
        return next(row for row in self.methods if row.method == self.method)


def short_form(
    scores: ScoreTable,
    size: int,
    by: Sequence[str] = ("culture", "domain"),
    *,
    goal: Goal = "accuracy",
    method: Method | None = None,
    halves: int = 20,
    seed: int = 0,
) -> ShortForm:
    """Choose fewer items, and measure what leaving out the others costs.

    Three methods choose within groups, which keep their shares. ``information``: an item's Fisher information under
    the two-parameter logistic model, averaged over the scorers' abilities (``item_response``; Birnbaum 1968, in Lord
    and Novick, Statistical Theories of Mental Test Scores, chapter 17). ``discrimination``: the variance of an item's
    credit over scorers times its item-total correlation, drawn towards the mean correlation as far as so few scorers
    cannot tell items apart (Lord and Novick 1968, chapter 15). ``random``: any items. Each is measured on scorers that
    did not choose: scorers are halved again and again; one half chooses and fits a line from the short form to all
    items, the other is predicted. In simulations, information kept the order of scorers best where slopes differ, and
    random items predicted accuracies best: few scorers tell items apart badly, and a choice of extremes returns to the
    mean.

    Args:
        scores: table of at least eight scorers on the same sets.
        size: number of items to choose.
        by: columns within whose groups items are chosen.
        goal: ``accuracy`` takes the method with the smallest error, ``order`` that with the highest rank agreement.
        method: a method that is taken in any case; by default the best for the goal.
        halves: How often the scorers are divided into two halves.
        seed: The seed of the halves and of the random items.

    Raises:
        CarbError: too few scorers (eight; for ``information`` twice ``FEWEST_RASCH``), an unknown method or goal, or a
            size that is not between 2 and the number of items.
    """
    credit, scorers, items = credit_matrix(set_outcomes(scores, "shared"))
    kept = ~np.isnan(credit).any(0)
    credit = credit[:, kept]
    items = items.filter(pl.Series(kept, dtype=pl.Boolean))
    if goal not in ("accuracy", "order"):
        raise CarbError(f"goal must be 'accuracy' or 'order'; got '{goal}'.")
    if method is not None and method not in _FEWEST:
        raise CarbError(f"method must be one of {', '.join(_FEWEST)}; got '{method}'.")
    if len(scorers) < _FEWEST[method or "random"]:
        raise CarbError(
            f"A short form{f' by {method}' if method else ''} needs at least {_FEWEST[method or 'random']} scorers of "
            f"the same items; there are {len(scorers)}."
        )
    if not 2 <= size <= items.height:
        raise CarbError(f"size must lie between 2 and the {items.height} items that all scorers judged; got {size}.")
    group, _ = number(items, tuple(by))
    methods = [name for name, fewest in _FEWEST.items() if len(scorers) >= fewest]
    rows = _costs(credit, group, size, methods, halves, np.random.default_rng(seed))
    best = min(rows, key=lambda row: row.error if goal == "accuracy" else -(row.rank_agreement or 0.0)).method
    taken: Method = method or best
    chosen = _best(_value(taken, credit, np.random.default_rng(seed)), group, size)
    return ShortForm(
        items=tuple(items["item_id"].gather(np.sort(chosen)).to_list()),
        size=size,
        whole=items.height,
        method=taken,
        methods=rows,
    )


def _costs(
    credit: Floats, group: Ints, size: int, methods: Sequence[Method], halves: int, rng: np.random.Generator
) -> tuple[FormRow, ...]:
    """Every method on the same halves of scorers."""
    whole = credit.mean(1)
    errors: dict[Method, list[float]] = {name: [] for name in methods}
    orders: dict[Method, list[float]] = {name: [] for name in methods}
    for _ in range(halves):
        mix = rng.permutation(len(credit))
        fit, test = mix[: len(mix) // 2], mix[len(mix) // 2 :]
        for name in methods:
            wanted = _best(_value(name, credit[fit], rng), group, size)
            errors[name].append(_predicted(credit[:, wanted].mean(1), whole, fit, test))
            order = _tau(credit[np.ix_(test, wanted)].mean(1), whole[test])
            orders[name] += [] if order is None else [order]
    return tuple(
        FormRow(
            method=name,
            error=float(np.sqrt(np.mean(errors[name]))),
            rank_agreement=float(np.mean(orders[name])) if orders[name] else None,
        )
        for name in methods
    )


def _value(method: Method, credit: Floats, rng: np.random.Generator) -> Floats:
    """(items,) what the items are ordered by, highest first."""
    if method == "information":
        return fit_curves(credit, "2pl", close=_ROUGH).information()
    if method == "discrimination":
        return _by_discrimination(credit)
    drawn: Floats = np.asarray(rng.random(credit.shape[1]), dtype=np.float64)
    return drawn


def _by_discrimination(credit: Floats) -> Floats:
    found = discrimination(credit)
    known = found[~np.isnan(found)]
    noise = 1 / max(credit.shape[0] - 1, 1)
    trust = max(0.0, 1 - noise / float(known.var())) if len(known) > 1 and known.var() > 0 else 0.0
    mean = float(known.mean()) if len(known) else 0.0
    value: Floats = credit.var(0) * np.where(np.isnan(found), mean, mean + trust * (found - mean))
    return value


def _quota(group: Ints, size: int) -> Ints:
    """Items of each group, by largest remainders."""
    share = np.bincount(group) / len(group) * size
    quota = np.floor(share).astype(np.int64)
    quota[np.argsort(quota - share, kind="stable")[: size - quota.sum()]] += 1
    return quota


def _best(value: Floats, group: Ints, size: int) -> Ints:
    """The items of highest value, each group with its share of ``size``."""
    order = np.argsort(-value, kind="stable")
    return np.concatenate([order[group[order] == g][:count] for g, count in enumerate(_quota(group, size))])


def _predicted(short: Floats, whole: Floats, fit: Ints, test: Ints) -> float:
    """Mean squared error of a line fitted on some scorers and used on others."""
    dx = short[fit] - short[fit].mean()
    slope = float(dx @ whole[fit] / (dx @ dx)) if float(dx @ dx) > 1e-12 else 0.0
    said = whole[fit].mean() + slope * (short[test] - short[fit].mean())
    return float(((said - whole[test]) ** 2).mean())


def _tau(a: Floats, b: Floats) -> float | None:
    from carb_metrics.correlations import coefficient

    found = coefficient("kendall", a, b) if len(a) > 2 else None
    return None if found is None else found[0]
