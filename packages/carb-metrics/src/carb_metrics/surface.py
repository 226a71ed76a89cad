"""What the surface of a response shows, and models that read nothing else."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from carb_data import Dataset
from carb_data.surface import surface_features as features_of_set
from carb_metrics.clusters import Bools, Ints
from carb_metrics.intervals import Floats
from carb_metrics.ties import tops


def surface_features(dataset: Dataset) -> pl.DataFrame:
    """``item_id``, ``response_id`` and the features of every response but the perturbed ones."""
    columns: defaultdict[str, list[float]] = defaultdict(list)
    for item in dataset:
        for name, values in features_of_set(item).items():
            columns[name] += values
    answers = [(item.id, response.id) for item in dataset for response in item.responses]
    known = pl.DataFrame(
        answers, schema={"item_id": pl.String, "response_id": pl.String}, orient="row"
    )
    return known.with_columns(
        pl.Series(name, values, pl.Float64) for name, values in columns.items()
    )


FOLDS = 5
"""Parts of a cross-validation."""


def assign_folds(cluster: Ints) -> Ints | None:
    """The fold of each row: clusters in random order, dealt in turn; null with fewer clusters than
    folds."""
    clusters = int(cluster.max(initial=-1)) + 1
    if clusters < FOLDS:
        return None
    order = np.random.default_rng(0).permutation(clusters)
    return (order % FOLDS)[cluster]


def within_sets(x: Floats, number: Ints) -> Floats:
    """(rows, 3 · columns) features; their distances from the set's mean, in standard deviations;
    ranks within the set.

    Args:
        x: (rows, columns) features.
        number: (rows,) the set of each row; rows of one set are adjacent.
    """
    starts = np.flatnonzero(np.diff(np.concatenate([[-1], number])))
    size = np.diff(starts, append=len(x))
    away = x - (np.add.reduceat(x, starts) / size[:, None])[number]
    spread = away.std(0)
    away = away / np.where(spread > 1e-12, spread, 1.0)
    below, level = np.zeros_like(away), np.zeros_like(away)
    for shift in range(1, int(size.max(initial=1))):  # each row beside the others of its set
        for one, other in (
            (slice(shift, None), slice(None, -shift)),
            (slice(None, -shift), slice(shift, None)),
        ):
            same = (number[one] == number[other])[:, None]
            below[one] += same & (away[other] < away[one] - 1e-9)
            level[one] += same & (np.abs(away[other] - away[one]) <= 1e-9)
    ranks = (below + level / 2) / np.maximum(size[number] - 1, 1)[:, None]
    return np.column_stack([x, away, ranks])


def oriented(column: Floats, right: Bools, number: Ints, fold: Ints) -> Floats:
    """A feature with the sign that finds more right answers on the other folds, as the utility of
    each response."""
    starts = np.flatnonzero(np.diff(np.concatenate([[-1], number])))
    up, down = (credit_of(side * column, right, starts) for side in (1.0, -1.0))
    utility = np.zeros(len(column))
    of_set = fold[starts]
    for part in range(int(fold.max()) + 1):
        other = of_set != part
        sign = 1.0 if up[other].sum() >= down[other].sum() else -1.0
        utility[fold == part] = sign * column[fold == part]
    return utility


def credit_of(utility: Floats, right: Bools, starts: Ints) -> Floats:
    """(sets,) 1/k where the right answer is among k at the top."""
    won, top = tops(np.round(utility, 9), right, starts)
    return won / top


def boosted(x: Floats, kinds: Ints, target: Floats, fold: Ints) -> Floats:
    """Gradient-boosted trees of ``target``, cross-validated: what each row gets from a fit on the
    other folds.

    Trees find what one weight for each feature cannot: a sign of its own in each culture or
    language, and a length in the middle.

    Args:
        x: (rows, columns) features.
        kinds: (rows, columns) numbers of categories, at most 255 each, such as culture and
            language.
        target: (rows,) what to predict.
        fold: (rows,) the part of the cross-validation that each row belongs to.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-untyped,unused-ignore]

    both = np.column_stack([x, np.minimum(kinds, 254)])
    categories = [False] * x.shape[1] + [True] * kinds.shape[1]
    said = np.empty(len(x))
    for part in range(int(fold.max()) + 1):
        test = fold == part
        model = HistGradientBoostingRegressor(
            max_iter=60,
            learning_rate=0.15,
            max_leaf_nodes=15,
            min_samples_leaf=10,
            early_stopping=False,
            categorical_features=categories,
            random_state=0,
        )
        said[test] = model.fit(both[~test], target[~test]).predict(both[test])
    return said
