"""How far the surface alone gets, and whether a scorer gets further."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import polars as pl
from polars import col

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.accuracy import describe
from carb_metrics.cells import Cell, OfSets, Result
from carb_metrics.clusters import CLUSTER, Ints, codes, connected
from carb_metrics.frames import text, unperturbed
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.means import share_interval
from carb_metrics.outcome import counted_sets, credit_matrix
from carb_metrics.paired import Paired, adjust, paired_rows
from carb_metrics.scored import Scored, as_strings
from carb_metrics.surface import (
    FEW,
    FOLDS,
    MOST,
    TREE_FOLDS,
    Answers,
    answers_of,
    assign_folds,
    copied_by_trees,
    learnt_by_trees,
    oriented,
    ranking,
    within_sets,
)
from carb_metrics.trees import binned

CHANCE = "chance"
"""The floor where no surface predictor is better than a random pick."""
COMBINED = "all surface features"
"""Boosted trees over all features."""
COPIED = "its own surface"
"""Boosted trees that predict the scorer itself."""

BASELINES = {
    "baseline:length": "length",
    "baseline:overlap": "overlap",
    "baseline:language": "language of the question",
    "baseline:label": "names the culture",
}
"""The feature that each baseline scores by, more being better; ``baseline:random`` is chance."""

DEALT = 3
"""Times that sets are dealt into folds anew for the trees of all features, twice as often where
answers are few. The floor is the mean: a single deal moves it by a point."""

ENOUGH = 100
"""This many source items are enough to learn a mixture of cues that works in their group alone."""


class FloorRow(Result):
    """The best surface predictor of some sets. Ties are shared, and it is at least chance."""

    group: dict[str, str]
    """The column that the sets were chosen by, and its value; empty for all sets."""
    predictor: str
    """A baseline, a feature, ``all surface features``, or ``chance``."""
    floor: Cell
    chance: float
    """Mean of 1/N."""
    predictors: dict[str, float]
    """Accuracy of every predictor."""
    learnable: bool
    """Whether there are ``ENOUGH`` source items: cues that work here alone are not found in
    fewer."""


class FloorTest(Result):
    """One scorer against the floor, on the same sets, ties shared in both."""

    scorer: str
    group: dict[str, str]
    """As in ``FloorRow``."""
    predictor: str
    """The predictor that it is compared with: that of the floor, or ``its own surface`` where that
    does better."""
    accuracy: float
    difference: Paired
    """The scorer's accuracy minus that of the predictor."""
    p_adjusted: float | None
    """Holm's, over the scorers of the group."""
    above: bool | None
    """Whether the scorer is better, at the given confidence after the correction; null where there
    are too few sets to learn the floor from."""


class SurfaceFloor(OfSets):
    """The result of ``surface_floor``: the best surface predictor, and each scorer's test."""

    rows: tuple[FloorRow, ...]
    """All sets first, then each value of each column."""
    tests: tuple[FloorTest, ...]
    folds: Literal["topics", "source items"] | None
    """What the cross-validation keeps together, beside families; null where there are too few sets
    to learn from."""

    @property
    def overall(self) -> FloorRow:
        """The floor of all sets."""
        return self.rows[0]

    def test(
        self,
        scorer: str,
        **group: str,
    ) -> FloorTest | None:
        """A scorer's test on some sets (``culture="thai"``), by default all; null for a baseline,
        or if all failed."""
        tests = (one for one in self.tests if one.scorer == scorer)
        return next((one for one in tests if one.group == group), None)


def surface_floor(
    scores: ScoreTable,
    dataset: Dataset,
    by: Sequence[str] = ("culture", "domain"),
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
    baselines: Mapping[str, str] | None = None,
) -> SurfaceFloor | None:
    """How accurate is the best predictor that sees only the surface, and which scorers beat it?

    The floor is the accuracy of that predictor. The candidates are the baselines, and each surface
    feature (such as length) with the sign that fits. Others are boosted trees over all features,
    with the culture and the language of the set (oblivious trees; Prokhorenkova et al. 2018,
    CatBoost, NeurIPS). All are computed from the texts: the same sets have the same floor,
    whichever scorers ran. Nothing here reads the meaning of an answer.

    What has to be learnt is learnt on other sets. Families and source items are kept together, and
    topics where there are enough of them. The best of many predictors is a little too good by
    selection, which errs on the side of a higher floor.

    A scorer that beats the floor is then tested against *its own surface*. These are trees over the
    same features that predict the scorer's ranking of each set, not the right answers. They copy a
    scorer that only mixes surface cues in a way of its own, even where few right answers teach that
    mixture. Tests are paired (``paired_difference``), and Holm corrects their p values
    (``adjust``). ``nox -s coverage`` simulates their power.

    Args:
        scores: table of the scorers, baselines among them or not.
        dataset: the sets that were scored, for the texts.
        by: columns of the table, or ``variety``. Each value of each column gets a floor of its own;
            without columns there is the floor of all sets alone. As in ``breakdown``, a set about a
            variety (``spanish-mx``) counts for the ``culture`` into which it rolls up.
        confidence: The level of intervals and tests, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.
        baselines: which baseline a scorer with another name is, such as ``{"short":
            "baseline:length"}``. Baselines are not tested.

    Returns:
        ``.rows``: the floor of all sets, then of each group, as a share from 0 to 1. ``.tests``: a
        row per scorer and group. Null for an empty table.

    Raises:
        CarbError: a set of the table is not in the data set or has other responses there. Or ``by``
            names what is not a column, a culture is not in the registry, or ``confidence`` is not
            between 0 and 1.
    """
    check_confidence(confidence)
    if isinstance(by, str):
        raise CarbError(f"by takes a sequence of columns, such as ['{by}']; got the string '{by}'.")
    described = Scored.of(scores).with_items(dataset)
    table, counted = counted_sets(described, mirrors=mirrors)
    frame = as_strings(unperturbed(table.frame))
    _check_known(frame, dataset)
    if not frame.height:
        return None
    sets = _described(table.sets, by)
    surface = _Surface(answers_of(frame, dataset), sets)
    credit = surface.predictors()
    earned = _tested(table.sets, baselines or {})

    rows: list[FloorRow] = []
    tests: list[FloorTest] = []
    groups = []
    for group, where in _groups(sets, by):
        here = {name: values[where] for name, values in credit.items()}
        models = {name: values[where] for name, values in earned.items()}
        cluster = surface.cluster[where]
        row = _floor(group, here, cluster, confidence)
        best = here[row.predictor]
        rows.append(row)
        above = _above(models, best, cluster, confidence)
        groups.append((row, where, best, models, above))
    suspects = {name for *_, above in groups for name in above}
    scorer = col("scorer")
    rows_of = {name: frame.filter(scorer == name) for name in sorted(suspects)}
    copies = surface.copies(rows_of)
    for row, where, best, models, above in groups:
        known = {name: copies[name][where] for name in above if name in copies}
        reached = best.mean()
        rivals = {name: copy for name, copy in known.items() if copy.mean() > reached}
        tests += _tests(row, best, rivals, models, surface.cluster[where], confidence)
    return SurfaceFloor(
        rows=tuple(rows),
        tests=tuple(tests),
        folds=surface.together,
        counted=counted,
    )


def _check_known(frame: pl.DataFrame, dataset: Dataset) -> None:
    """Raise ``CarbError`` where the data set lacks a set of the table."""
    known = {item.id for item in dataset}
    lost = set(frame["item_id"].unique()) - known
    if lost:
        raise CarbError(f"The data set has no set '{min(lost)}', which the table scores.")


def _described(
    sets: pl.DataFrame,
    by: Sequence[str],
) -> pl.DataFrame:
    """A row per set, ordered by id, with the columns of ``by``."""
    sets = sets.unique("item_id", keep="first", maintain_order=True)
    if by:
        sets = describe(sets)
    unknown = [column for column in by if column not in sets.columns]
    if unknown:
        raise CarbError(f"by: '{unknown[0]}' is not a column of the table.")
    return sets.sort("item_id")


class _Surface:
    """What the surface of some sets predicts, of their right answers and of scorers."""

    def __init__(
        self,
        answers: Answers,
        sets: pl.DataFrame,
    ) -> None:
        self.answers = answers
        self.cluster = _in_order(sets[CLUSTER].to_numpy())
        self.together, self._unit = _kept_together(sets, self.cluster)
        features = np.column_stack([*answers.features.values()])
        scaled = within_sets(features, answers.number)
        self._bins = binned(scaled, answers.kinds)

    def predictors(self) -> dict[str, Floats]:
        """(sets,) credit of each predictor."""
        answers = self.answers
        width = np.diff(answers.starts, append=len(answers.right))
        credit = {CHANCE: 1 / width}
        for name, feature in BASELINES.items():
            credit[name] = answers.credit(answers.features[feature])
        fold = assign_folds(self._unit)
        if fold is None:
            return credit
        for name, values in answers.features.items():
            credit[name] = oriented(answers, values, fold)
        right = answers.right.astype(np.float64)
        count = 2 * DEALT if len(right) < FEW else DEALT
        deals = []
        for seed in range(count):
            fold = self._fold(TREE_FOLDS, seed)
            deal = answers.credit(learnt_by_trees(self._bins, right, fold))
            deals.append(deal)
        credit[COMBINED] = np.mean(deals, axis=0)
        return credit

    def copies(
        self,
        scorers: Mapping[str, pl.DataFrame],
    ) -> dict[str, Floats]:
        """(sets,) credit of trees that predict each scorer's ranking, given its rows; none with too
        few sets."""
        answers = self.answers
        known = {name: answers.scores(rows) for name, rows in scorers.items()}
        scores = {name: values for name, values in known.items() if values is not None}
        if not scores or self.together is None:
            return {}
        count = len(answers.right)
        parts = FOLDS if count < FEW else 2 if count >= 2 * MOST else TREE_FOLDS
        targets = [ranking(values, answers.number) for values in scores.values()]
        fold = self._fold(parts)
        learnt = copied_by_trees(self._bins, np.column_stack(targets), fold)
        credit = map(answers.credit, learnt.T)
        return dict(zip(scores, credit, strict=True))

    def _fold(self, parts: int, seed: int = 0) -> Ints:
        """(answers,) the part of each answer."""
        fold = assign_folds(self._unit, parts, seed)
        assert fold is not None
        return fold[self.answers.number]


def _in_order(labels: Ints) -> Ints:
    """The same groups, numbered by the first member: what else was numbered changes nothing."""
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group]


def _kept_together(
    sets: pl.DataFrame, cluster: Ints
) -> tuple[Literal["topics", "source items"] | None, Ints]:
    """What the folds keep together, and its number for each set: topics where they leave several
    groups for a fold."""
    if "topic" in sets.columns:
        every = np.arange(sets.height)
        topic = sets["topic"]
        known = every[topic.is_not_null().to_numpy()]
        ties = [(every, cluster), (known, codes(topic.drop_nulls()))]
        unit = _in_order(connected(sets.height, ties))
        sizes = np.bincount(unit)
        several = len(sizes) >= 3 * FOLDS
        if several and sizes.max() <= len(unit) / FOLDS:
            return "topics", unit
    return (None if assign_folds(cluster) is None else "source items"), cluster


def _tested(
    sets: pl.DataFrame,
    baselines: Mapping[str, str],
) -> dict[str, Floats]:
    """(sets,) credit of each scorer that is tested, sets in the order of their ids: all scorers but
    baselines, unless every set failed."""
    credit, scorers, _ = credit_matrix(sets)
    scored = set(sets.filter(~col("error"))["scorer"].cast(pl.String))
    tested = {}
    for name, values in zip(scorers, credit, strict=True):
        spec = baselines.get(name, name)
        if name in scored and not spec.startswith("baseline:"):
            tested[name] = values
    return tested


def _groups(
    sets: pl.DataFrame,
    by: Sequence[str],
) -> Iterable[tuple[dict[str, str], Ints]]:
    """Each value of each column, and the indices of its sets; all sets first."""
    yield {}, np.arange(sets.height)
    for column in by:
        numbered = sets.select(text(column)).with_row_index("index")
        groups = numbered.group_by(column).agg("index")
        known = groups.sort(column).drop_nulls()
        for value, rows in known.rows():
            yield {column: value}, np.array(rows)


def _floor(
    group: dict[str, str],
    credit: dict[str, Floats],
    cluster: Ints,
    confidence: float,
) -> FloorRow:
    accuracy = {name: float(values.mean()) for name, values in credit.items()}
    best = max(accuracy, key=accuracy.__getitem__)
    if accuracy[CHANCE] >= accuracy[best] - 1e-9:
        best = CHANCE
    share = share_interval(credit[best], cluster, confidence)
    if best == CHANCE:
        share = share.changed(low=share.estimate, high=share.estimate)
    cell = Cell.of(
        share,
        n=len(credit[best]),
        ties=0,
        errors=0,
    )
    return FloorRow(
        group=group,
        predictor=best,
        floor=cell,
        chance=accuracy[CHANCE],
        predictors=accuracy,
        learnable=COMBINED in credit and len(np.unique(cluster)) >= ENOUGH,
    )


def _above(
    models: Mapping[str, Floats],
    best: Floats,
    cluster: Ints,
    confidence: float,
) -> list[str]:
    """The scorers that are above the floor before any correction: these may copy the surface."""
    if not models:
        return []
    credit = np.stack([*models.values()])
    tests = paired_rows(credit - best, cluster, confidence)
    return [name for name, test in zip(models, tests, strict=True) if (test.low or 0.0) > 0]


def _tests(
    row: FloorRow,
    best: Floats,
    rivals: Mapping[str, Floats],
    models: Mapping[str, Floats],
    cluster: Ints,
    confidence: float,
) -> list[FloorTest]:
    """The test of each scorer that has a set here, against the floor or, where that does better,
    its own surface.

    Args:
        best: (sets here,) credit of the floor.
        rivals: (sets here,) credit of the own surface of scorers whose surface does better.
        models: (sets here,) credit of each scorer.
        cluster: (sets here,)
    """
    if not models:
        return []
    apart = []
    for name, credit in models.items():
        apart.append(credit - rivals.get(name, best))
    differences = paired_rows(np.stack(apart), cluster, confidence)
    p = adjust([one.p for one in differences])
    tests = []
    for name, difference, adjusted in zip(models, differences, p, strict=True):
        if not difference.n:
            continue
        better = adjusted < 1 - confidence and (difference.estimate or 0.0) > 0
        test = FloorTest(
            scorer=name,
            group=row.group,
            predictor=COPIED if name in rivals else row.predictor,
            accuracy=float(np.nanmean(models[name])),
            difference=difference,
            p_adjusted=None if math.isnan(adjusted) else float(adjusted),
            above=bool(better) if row.learnable else None,
        )
        tests.append(test)
    return tests
