"""Features of a response's surface, and models that read nothing else."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from carb_data import BonSet, Dataset, ScoreTable, rounded
from carb_data.surface import overlap
from carb_data.surface import surface_features as features_of_set
from carb_metrics.clusters import Bools, Ints
from carb_metrics.frames import beside, text
from carb_metrics.intervals import Floats
from carb_metrics.matrices import CELL
from carb_metrics.ties import tops
from carb_metrics.trees import Bins, boosted

__all__ = ["overlap_scores"]

FOLDS = 5
"""Parts of a cross-validation of cheap models: a sign, a curve."""

TREE_FOLDS = 3
"""Parts of a cross-validation of trees."""

FEW = 4_000
"""Answers below which trees learn a scorer's ranking from four fifths of them."""

MOST = 4_000
"""Answers that teach trees a scorer's ranking; the scores of more would change little."""

APART = 2.0
"""Variance of ranks between sets over that within sets, above which ranks among all scores say
more of the set than of the answer. It is about 1 where scores read the answers alone."""


@dataclass(frozen=True)
class Answers:
    """The answers of some sets, those of one set after another."""

    keys: pl.DataFrame
    """``item_id`` and ``response_id`` of each answer."""
    number: Ints
    """(answers,) the set of each, from 0."""
    starts: Ints
    """(sets,) the first answer of each set."""
    right: Bools
    """(answers,)"""
    kinds: Ints
    """(answers, 2) culture and language, as numbers."""
    features: dict[str, Floats]
    """(answers,) each surface feature."""

    def credit(self, utility: Floats) -> Floats:
        """(sets,) 1/k where the right answer is among k of the highest utility."""
        # Not as scores: predictions lie around 0, where noise has significant digits, too.
        won, top = tops(np.round(utility, 9), self.right, self.starts)
        return won / top

    def scores(self, frame: pl.DataFrame) -> Floats | None:
        """(answers,) one scorer's rows as scores; a missing one is its lowest. Null if all are
        missing."""
        keys = ["item_id", "response_id"]
        score = beside(self.keys, frame.select(*keys, "score"), keys)["score"]
        if score.null_count() == len(score):
            return None
        return rounded(score.fill_null(score.min())).to_numpy()


def answers_of(frame: pl.DataFrame, dataset: Dataset) -> Answers:
    """The answers that a score table's frame holds, with features of their texts, ordered by
    their ids."""
    keys = ["item_id", "response_id"]
    rows = frame.unique(keys).sort(keys)
    keyed = rows.select(keys)
    known = beside(keyed, surface_features(dataset), keys)
    number = rows["item_id"].rle_id().to_numpy().astype(np.int64)
    kinds = rows.select(text("culture", "language").rank("dense") - 1)
    right = rows["role"] == "chosen"
    return Answers(
        keys=keyed,
        number=number,
        starts=_starts(number),
        right=right.to_numpy(),
        kinds=kinds.to_numpy().astype(np.int64),
        features={column.name: column.to_numpy() for column in known.drop(keys)},
    )


def _starts(number: Ints) -> Ints:
    """(sets,) the first row of each set."""
    return np.flatnonzero(np.diff(number, prepend=-1))


def surface_features(sets: Iterable[BonSet]) -> pl.DataFrame:
    """``item_id``, ``response_id`` and the features of every response but the perturbed ones."""
    columns: defaultdict[str, list[float]] = defaultdict(list)
    answers: list[tuple[str, str]] = []
    for item in sets:
        answers += [(item.id, response.id) for response in item.responses]
        for name, values in features_of_set(item).items():
            columns[name] += values
    known = pl.DataFrame(answers, schema=CELL, orient="row")
    features = [pl.Series(name, values, pl.Float64) for name, values in columns.items()]
    return known.with_columns(features)


def overlap_scores(dataset: Dataset) -> ScoreTable:
    """The scores of ``baseline:overlap`` on all sets: what words show that question and answer
    share.

    A place win rate says that a scorer reads the place only where it is above that of this table.
    """
    scores = {}
    for item in dataset:
        shared = overlap(item.prompt_text, item.texts)
        for response, score in zip(item.responses, shared, strict=True):
            scores[item.id, response.id] = score
    return ScoreTable.from_scores("baseline:overlap", dataset, scores)


def assign_folds(
    cluster: Ints,
    parts: int = FOLDS,
    seed: int = 0,
) -> Ints | None:
    """The part of each row: clusters in random order, dealt in turn; null with fewer clusters than
    ``FOLDS``."""
    clusters = int(cluster.max(initial=-1)) + 1
    if clusters < FOLDS:
        return None
    part = np.random.default_rng(seed).permutation(clusters) % parts
    return part[cluster]


def within_sets(x: Floats, number: Ints) -> Floats:
    """(rows, 3 · columns) features; their distances from the set's mean, in standard deviations;
    ranks within the set.

    Args:
        x: (rows, columns) features.
        number: (rows,) the set of each row; rows of one set are adjacent.
    """
    starts = _starts(number)
    size = np.diff(starts, append=len(x))
    mean = np.add.reduceat(x, starts) / size[:, None]
    away = x - mean[number]
    spread = away.std(0)
    away = away / np.where(spread > 1e-12, spread, 1.0)
    below = np.zeros_like(away)
    level = np.zeros_like(away)
    largest = int(size.max(initial=1))
    for shift in range(1, largest):  # each row beside the others of its set
        later = slice(shift, None)
        earlier = slice(None, -shift)
        together = (number[later] == number[earlier])[:, None]
        for one, other in ((later, earlier), (earlier, later)):
            further = away[other] - away[one]
            is_below = further < -1e-9
            is_level = np.abs(further) <= 1e-9
            below[one] += together & is_below
            level[one] += together & is_level
    others = np.maximum(size[number] - 1, 1)
    beaten = below + level / 2
    ranks = beaten / others[:, None]
    return np.column_stack([x, away, ranks])


def oriented(
    answers: Answers,
    feature: Floats,
    fold: Ints,
) -> Floats:
    """(sets,) credit of a feature with the sign that finds more right answers on the other folds.

    Args:
        feature: (answers,) the feature.
        fold: (sets,) the part of the cross-validation that each set belongs to.
    """
    up = answers.credit(feature)
    down = answers.credit(-feature)
    credit = up.copy()
    for part in range(int(fold.max()) + 1):
        held_out = fold == part
        known = ~held_out
        if down[known].sum() > up[known].sum():
            credit[held_out] = down[held_out]
    return credit


def ranking(scores: Floats, number: Ints) -> Floats:
    """(answers,) what trees learn of a scorer, whose scale they need not know.

    It is the rank of each score among all scores. Where sets as a whole score differently
    (``APART``), it is the rank within the set: a judge may add a number of its own to each
    question.
    """
    order = pl.Series(scores).rank().to_numpy()
    count = len(scores)
    rank: Floats = order / count
    size = np.bincount(number)
    sets = len(size)
    mean = np.bincount(number, rank) / size
    away = rank - mean[number]
    of_sets = (mean - rank.mean()) ** 2
    between = float(size @ of_sets) / max(sets - 1, 1)
    inside = float((away**2).sum()) / max(count - sets, 1)
    if between > APART * inside:
        return within_sets(scores[:, None], number)[:, -1]
    return rank


def learnt_by_trees(
    bins: Bins,
    target: Floats,
    fold: Ints,
) -> Floats:
    """(rows,) ``target`` as boosted trees predict it that learnt on the other folds.

    Trees find what one weight for each feature cannot: a sign of its own in each culture or
    language, and a length in the middle.

    Args:
        bins: features of the rows.
        target: (rows,) what to predict.
        fold: (rows,) the part of the cross-validation that each row belongs to.
    """
    parts = np.arange(int(fold.max()) + 1)
    taught = fold[:, None] != parts
    predicted = boosted(bins, target[:, None], taught)
    return predicted[np.arange(len(fold)), fold]


def copied_by_trees(
    bins: Bins,
    targets: Floats,
    fold: Ints,
) -> Floats:
    """(rows, targets) the same of several targets, where at most ``MOST`` rows, drawn at random,
    teach the trees of one fold."""
    draw = np.random.default_rng(0)
    predicted = np.empty(targets.shape)
    for part in range(int(fold.max()) + 1):
        is_held_out = fold == part
        held_out = np.flatnonzero(is_held_out)
        train = np.flatnonzero(~is_held_out)
        if len(train) > MOST:
            train = draw.choice(train, MOST, replace=False)
        count = len(train)
        rows = np.concatenate([train, held_out])
        taught = np.arange(len(rows)) < count
        learnt = boosted(bins.of(rows), targets[rows], taught[:, None])
        predicted[held_out] = learnt[count:]
    return predicted
