"""How far the surface alone gets, and whether a scorer gets further."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable, cultures
from carb_metrics.accuracy import describe
from carb_metrics.cells import Cell, OfSets, Result
from carb_metrics.clusters import Ints, cluster_of, share_interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import counted_sets, credit_matrix, set_outcomes
from carb_metrics.paired import Paired, adjust, minimum_detectable_difference, paired_rows
from carb_metrics.surface import (
    FOLDS,
    assign_folds,
    boosted,
    credit_of,
    oriented,
    surface_features,
    within_sets,
)
from carb_metrics.ties import rounded

CHANCE = "chance"
"""The floor where no surface predictor is better than a random pick."""
COMBINED = "all surface features"
"""Boosted trees over all features."""
COPIED = "its own surface"
"""Boosted trees that predict the scorer itself."""

RANDOM = "baseline:random"

ENOUGH = 100
"""This many source items are enough to learn a mixture of cues that works in their group alone."""


class FloorRow(Result):
    """The best surface predictor of some sets. Ties are shared, and it is at least chance."""

    group: dict[str, str]
    """The column that the sets were chosen by, and its value; empty for all sets."""
    predictor: str
    """A baseline of the table, a feature, ``all surface features``, or ``chance``."""
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
    """Whether the scorer is better, at the given confidence after the correction; null where that
    cannot be shown here, because there are too few sets to learn the floor from or to find a
    difference."""


class SurfaceFloor(OfSets):
    """The floor, and the test of every scorer against it."""

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

    def test(self, scorer: str, **group: str) -> FloorTest | None:
        """A scorer's test on some sets (``culture="thai"``), by default all; null for a baseline,
        or if all failed."""
        return next((t for t in self.tests if (t.scorer, t.group) == (scorer, group)), None)


def surface_floor(
    scores: ScoreTable,
    dataset: Dataset,
    by: Sequence[str] = ("culture", "domain"),
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
    baselines: Mapping[str, str] | None = None,
) -> SurfaceFloor | None:
    """The best surface predictor that the data admit, and the paired test of each scorer against
    it.

    Predictors are the baselines of the table, each surface feature with the sign that fits, and
    boosted trees over all of them with the culture and the language of the set. What has to be
    learnt is learnt on other sets: families, source items and, where there are enough, topics are
    kept together. Nothing here reads what an answer says. The best of many predictors is a little
    too good by selection, which errs on the side of a higher floor.

    A scorer that beats the floor is then held against *its own surface*: trees over the same
    features that predict its ranking of each set, not the right answers. A scorer that mixes
    surface cues in a way of its own is copied by them, however few right answers teach that
    mixture. The power of all this is simulated: ``nox -s coverage``.

    Args:
        scores: table of the scorers, baselines among them or not.
        dataset: the sets that were scored, for the texts.
        by: columns of the table, or ``variety``. Each value of each column gets a floor of its own;
            without columns there is the floor of all sets alone. As in ``breakdown``, a set about a
            variety (``spanish-mx``) counts for the ``culture`` into which it rolls up.
        confidence: The level of intervals and tests, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.
        baselines: which baseline a scorer with another name is, such as ``{"short":
            "baseline:length"}``.

    Returns:
        null for an empty table.

    Raises:
        CarbError: a set of the table is not in the data set or has other responses there, ``by``
            names what is not a column, or a culture is not in the registry.
    """
    check_confidence(confidence)
    if isinstance(by, str):
        raise CarbError(f"by takes a sequence of columns, such as ['{by}']; got the string '{by}'.")
    scores, counted = counted_sets(scores.with_items(dataset), mirrors=mirrors)
    lost = scores.frame.filter(
        ~pl.col("item_id").cast(pl.String).is_in([item.id for item in dataset])
    )
    if lost.height:
        raise CarbError(f"The data set has no set '{lost['item_id'][0]}', which the table scores.")
    frame = scores.frame.filter(pl.col("perturbation").is_null())
    frame = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    names = sorted(frame["scorer"].unique().to_list())
    if not names:
        return None
    data = _Data(frame, dataset, by)
    known = {name: name for name in names} | dict(baselines or {})
    surface = [name for name in names if known[name].startswith("baseline:")]
    outcomes = set_outcomes(ScoreTable(frame))
    judged = set(outcomes.filter(~pl.col("error"))["scorer"].unique())
    tested = [name for name in names if name not in surface and name in judged]
    credit = data.predictors([name for name in surface if known[name] != RANDOM])
    matrix, order, _ = credit_matrix(outcomes)  # items in the order of data.sets
    own = matrix[[order.index(name) for name in tested]]
    copies: dict[str, Floats | None] = {}
    rows, tests = [], []
    for group, where in _groups(data.sets, by):
        cluster = data.cluster[where]
        row = _floor(
            group, {name: values[where] for name, values in credit.items()}, cluster, confidence
        )
        rows.append(row)
        found = []
        for place, name in enumerate(tested):
            mine = own[place, where]
            test = _test(
                row, name, mine, row.predictor, credit[row.predictor][where], cluster, confidence
            )
            if test is not None and (test.difference.low or 0.0) > 0:
                if name not in copies:
                    copies[name] = data.copy(name)
                copied = copies[name]
                if (
                    copied is not None
                    and copied[where].mean() > credit[row.predictor][where].mean()
                ):
                    test = _test(row, name, mine, COPIED, copied[where], cluster, confidence)
            found += [] if test is None else [test]
        tests += _corrected(found, confidence)
    return SurfaceFloor(rows=tuple(rows), tests=tuple(tests), folds=data.together, counted=counted)


class _Data:
    """The sets and their features, in the order of items and responses."""

    def __init__(self, frame: pl.DataFrame, dataset: Dataset, by: Sequence[str]) -> None:
        self.frame = frame
        one = frame.unique(["item_id", "response_id"], maintain_order=True).sort(
            "item_id", "response_id"
        )
        self.one = one
        sets = set_outcomes(ScoreTable(one.with_columns(scorer=pl.lit("")))).sort("item_id")
        if by:
            sets = describe(sets, cultures).sort("item_id")
        unknown = [column for column in by if column not in sets.columns]
        if unknown:
            raise CarbError(f"by: '{unknown[0]}' is not a column of the table.")
        self.sets, self.cluster = sets, cluster_of(sets)
        self.number = one["item_id"].rle_id().to_numpy().astype(np.int64)
        self.starts = np.flatnonzero(np.diff(np.concatenate([[-1], self.number])))
        self.right = (one["role"] == "chosen").to_numpy()
        known = one.select("item_id", "response_id").join(
            surface_features(dataset),
            on=["item_id", "response_id"],
            how="left",
            maintain_order="left",
        )
        self.columns = {
            column.name: column.to_numpy() for column in known.drop("item_id", "response_id")
        }
        self.surface = within_sets(np.column_stack(list(self.columns.values())), self.number)
        self.together, self.fold = self._folds()

    def _folds(self) -> tuple[Literal["topics", "source items"] | None, Ints | None]:
        """What is kept together, and the fold of each row; with topics where that leaves several
        groups for a fold."""
        if "topic" in self.sets.columns:
            ties = self.sets.select(
                "item_id",
                mirrors=pl.col("topic"),
                source_item=pl.Series(self.cluster).cast(pl.String),
            )
            found = cluster_of(ties)
            if (
                int(found.max(initial=-1)) + 1 >= 3 * FOLDS
                and np.bincount(found).max() <= len(found) / FOLDS
            ):
                of_set = assign_folds(found)
                return "topics", None if of_set is None else of_set[self.number]
        of_set = assign_folds(np.unique(self.cluster, return_inverse=True)[1])
        return (None, None) if of_set is None else ("source items", of_set[self.number])

    def scores_of(self, scorer: str) -> Floats | None:
        """(rows,) the scores of one scorer; a missing score counts as its lowest. Null if all are
        missing."""
        mine = self.frame.filter(pl.col("scorer") == scorer).select(
            "item_id", "response_id", own="score"
        )
        joined = self.one.join(
            mine, on=["item_id", "response_id"], how="left", maintain_order="left"
        )["own"]
        if joined.null_count() == len(joined):
            return None
        return rounded(joined.fill_null(joined.min())).to_numpy()

    def predictors(self, surface: Sequence[str]) -> dict[str, Floats]:
        """(sets,) credit of each predictor."""
        given = {name: found for name in surface if (found := self.scores_of(name)) is not None}
        credit = {
            name: credit_of(utility, self.right, self.starts) for name, utility in given.items()
        }
        credit[CHANCE] = 1 / np.diff(self.starts, append=len(self.right))
        if self.fold is None:
            return credit
        for name, column in self.columns.items():
            credit[name] = credit_of(
                oriented(column, self.right, self.number, self.fold), self.right, self.starts
            )
        own = within_sets(np.column_stack([*self.columns.values(), *given.values()]), self.number)
        credit[COMBINED] = self._boosted(own, self.right.astype(np.float64))
        return credit

    def copy(self, scorer: str) -> Floats | None:
        """(sets,) credit of the scorer's own surface: of trees that predict its ranks within
        sets."""
        scores = self.scores_of(scorer)
        if self.fold is None or scores is None:
            return None
        # The place of a score among all scores, and within its set: which is easier to learn
        # depends on the scorer.
        targets = (
            np.argsort(np.argsort(scores)) / len(scores),
            within_sets(scores[:, None], self.number)[:, -1],
        )
        copies = [self._boosted(self.surface, target) for target in targets]
        return max(copies, key=lambda credit: float(credit.mean()))

    def _boosted(self, own: Floats, target: Floats) -> Floats:
        assert self.fold is not None
        kinds = [
            self.one[name].cast(pl.Categorical).to_physical().rank("dense")
            for name in ("culture", "language")
        ]
        said = boosted(own, np.column_stack([k.to_numpy() for k in kinds]) - 1, target, self.fold)
        return credit_of(said, self.right, self.starts)


def _groups(sets: pl.DataFrame, by: Sequence[str]) -> Iterable[tuple[dict[str, str], Ints]]:
    """Each value of each column, and the places of its sets; all sets first."""
    yield {}, np.arange(sets.height)
    for column in by:
        texts = sets.select(pl.int_range(pl.len()).alias("_place"), pl.col(column).cast(pl.String))
        for value, places in (
            texts.group_by(column).agg("_place").sort(column).drop_nulls().iter_rows()
        ):
            yield {column: value}, np.array(places)


def _floor(
    group: dict[str, str], credit: dict[str, Floats], cluster: Ints, confidence: float
) -> FloorRow:
    accuracies = {name: float(values.mean()) for name, values in credit.items()}
    best = max(accuracies, key=accuracies.__getitem__)
    if accuracies[CHANCE] >= accuracies[best] - 1e-9:
        best = CHANCE
    values = credit[best]
    share, low, high = share_interval(values, cluster, confidence)
    if best == CHANCE:
        low = high = share
    cell = Cell(accuracy=share, low=low, high=high, n=len(values), ties=0, errors=0)
    return FloorRow(
        group=group,
        predictor=best,
        floor=cell,
        chance=accuracies[CHANCE],
        predictors=accuracies,
        learnable=COMBINED in credit and len(np.unique(cluster)) >= ENOUGH,
    )


def _test(
    row: FloorRow,
    scorer: str,
    own: Floats,
    predictor: str,
    credit: Floats,
    cluster: Ints,
    confidence: float,
) -> FloorTest | None:
    """The test of one scorer, not yet corrected; null where it has no set here."""
    d = own - credit
    found = paired_rows(d[None], cluster, confidence)[0]
    if not found.n:
        return None
    discordance = float(np.nanmean(d**2))
    least = None
    if discordance > 0:
        least = minimum_detectable_difference(
            found.n, min(1.0, discordance), alpha=1 - confidence, design_effect=found.design_effect
        )
    return FloorTest(
        scorer=scorer,
        group=row.group,
        predictor=predictor,
        accuracy=float(np.nanmean(own)),
        difference=found,
        p_adjusted=None,
        above=False if row.learnable and (least is not None or not discordance) else None,
    )


def _corrected(tests: Sequence[FloorTest], confidence: float) -> list[FloorTest]:
    adjusted = adjust([math.nan if one.difference.p is None else one.difference.p for one in tests])
    found = []
    for one, p in zip(tests, adjusted, strict=True):
        above = (
            None
            if one.above is None
            else bool(p < 1 - confidence and (one.difference.estimate or 0.0) > 0)
        )
        found.append(
            one.model_copy(
                update={"p_adjusted": None if math.isnan(p) else float(p), "above": above}
            )
        )
    return found
