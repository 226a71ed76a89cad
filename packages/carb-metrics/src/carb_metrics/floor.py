"""How far the surface alone gets, and whether a scorer gets further."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from operator import add

import numpy as np
import polars as pl

from carb_data import CarbError, Culture, Dataset, Registry, ScoreTable
from carb_data import cultures as default_cultures
from carb_metrics.breakdowns import describe
from carb_metrics.cells import Cell, Result
from carb_metrics.clusters import Ints, cluster_of, share_interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import outcomes_of_frame
from carb_metrics.paired import Paired, adjust, paired_rows
from carb_metrics.shortcuts import assign_folds, surface_features

__all__ = ["CHANCE", "COMBINED", "FloorRow", "FloorTest", "SurfaceFloor", "surface_floor"]

CHANCE = "chance"
"""The floor where no surface predictor is better than a random pick."""
COMBINED = "all surface features"
"""The cross-validated combination."""

RANDOM = "baseline:random"

_READ = 300
"""Characters of a text that similarities read."""
_RIDGE = 1.0
_STEPS = 12


class FloorRow(Result):
    """The best surface predictor of some sets. Ties are shared, and it is at least chance."""

    group: dict[str, str]
    """Column to value, for each column that the sets were chosen by; empty for all sets."""
    predictor: str
    """A baseline of the table, a feature, ``all surface features``, or ``chance``."""
    floor: Cell
    chance: float
    """Mean of 1/N."""
    predictors: dict[str, float]
    """Accuracy of every predictor."""


class FloorTest(Result):
    """One scorer against the floor, on the same sets, ties shared in both."""

    scorer: str
    group: dict[str, str]
    """As in ``FloorRow``."""
    predictor: str
    """The predictor that it is compared with."""
    accuracy: float
    difference: Paired
    """The scorer's accuracy minus that of the predictor."""
    p_adjusted: float | None
    """Holm's, over the scorers of the group."""
    above: bool
    """Whether the scorer is better, at the given confidence after the correction."""


class SurfaceFloor(Result):
    """The floor, and the test of every scorer against it."""

    rows: tuple[FloorRow, ...]
    """All sets first, then each value of each column, then each combination."""
    tests: tuple[FloorTest, ...]

    @property
    def overall(self) -> FloorRow:
        """The floor of all sets."""
        return self.rows[0]

    def test(self, scorer: str, **group: str) -> FloorTest | None:
        """The test of one scorer on the chosen sets (``culture="thai"``), by default on all; null for a baseline."""
        return next((t for t in self.tests if (t.scorer, t.group) == (scorer, group)), None)


def surface_floor(
    scores: ScoreTable,
    dataset: Dataset,
    by: Sequence[str] = ("culture", "domain"),
    confidence: float = 0.95,
    *,
    cultures: Registry | Iterable[Culture] = default_cultures,
    baselines: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
) -> SurfaceFloor | None:
    """The best surface predictor that the data admit, and the paired test of each scorer against it.

    Predictors are the baselines of the table, each surface feature alone, and all of them together. What has to be
    learnt (the weight of a feature, its sign) is fitted on other sets: a conditional logit of which answer is right
    (McFadden 1974, in Zarembka, Frontiers in Econometrics), cross-validated with whole clusters in a fold. Nothing here
    reads what an answer says. The best of many predictors is a little too good by selection, which errs on the side of
    a higher floor.

    Args:
        scores: table of the scorers, baselines among them or not.
        dataset: the sets that were scored, for the texts.
        by: columns of the table, or ``variety``. Each value of each column, and each combination of values, gets a
            floor of its own; without columns there is the floor of all sets alone. As in ``breakdown``, a set about a
            variety (``spanish-mx``) counts for the ``culture`` into which it rolls up.
        confidence: The level of intervals and tests, a share such as 0.95.
        cultures: the registry that says which culture a variety rolls up into.
        baselines: scorers that are predictors and not tested; by default those whose name begins with ``baseline:``.
            ``baseline:random`` is neither, since chance stands for it.
        folds: The number of folds of the cross-validation.
        seed: The seed by which sets are put into folds.

    Returns:
        null for an empty table.

    Raises:
        CarbError: a set of the table is not in the data set, ``by`` names what is not a column, or a culture is not in
            the registry.
    """
    check_confidence(confidence)
    if folds < 2:
        raise CarbError(f"folds must be at least 2; got {folds}.")
    frame = scores.with_items(dataset).frame.filter(pl.col("perturbation").is_null())
    frame = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    names = sorted(frame["scorer"].unique().to_list())
    if not names:
        return None
    surface = [n for n in names if n.startswith("baseline:")] if baselines is None else list(baselines)
    one = frame.unique(["item_id", "response_id"], maintain_order=True).sort("item_id", "response_id")
    lost = one.filter(~pl.col("item_id").is_in([item.id for item in dataset]))
    if lost.height:
        raise CarbError(f"The data set has no set '{lost['item_id'][0]}', which the table scores.")
    if isinstance(by, str):
        raise CarbError(f"by takes a sequence of columns, such as ['{by}']; got the string '{by}'.")
    sets = outcomes_of_frame(one.with_columns(scorer=pl.lit("")), "shared").sort("item_id")
    if by:
        sets = describe(sets, cultures if isinstance(cultures, Registry) else Registry(cultures)).sort("item_id")
    unknown = [column for column in by if column not in sets.columns]
    if unknown:
        raise CarbError(f"by: '{unknown[0]}' is not a column of the table.")
    cluster = cluster_of(sets)
    predicted = _predictions(one, dataset, frame, surface, cluster, folds, seed)
    right = one["role"].to_numpy() == "chosen"
    starts = np.flatnonzero(np.diff(np.concatenate([[-1], _number(one)])))
    size = np.diff(starts, append=len(right))
    credit = {name: _credit(utility, right, starts) for name, utility in predicted.items()}
    credit[CHANCE] = 1 / size
    tested = [name for name in names if name not in surface]
    own = _credits(frame, tested, sets)
    rows, tests = [], []
    for group, where in _groups(sets, by):
        row = _floor(group, {name: values[where] for name, values in credit.items()}, cluster[where], confidence)
        rows.append(row)
        tests += _tests(row, tested, own[:, where], credit[row.predictor][where], cluster[where], confidence)
    return SurfaceFloor(rows=tuple(rows), tests=tuple(tests))


def _groups(sets: pl.DataFrame, by: Sequence[str]) -> Iterable[tuple[dict[str, str], Ints]]:
    """Each choice of values for some of the columns, and the places of its sets."""
    yield {}, np.arange(sets.height)
    texts = sets.select(pl.int_range(pl.len()).alias("_place"), *(pl.col(c).cast(pl.String) for c in by))
    for count in range(1, len(by) + 1):
        for columns in combinations(by, count):
            for *values, places in texts.group_by(columns).agg("_place").sort(columns).drop_nulls().iter_rows():
                yield dict(zip(columns, values, strict=True)), np.array(places)


def _number(frame: pl.DataFrame) -> Ints:
    return frame["item_id"].rle_id().to_numpy().astype(np.int64)


def _floor(group: dict[str, str], credit: dict[str, Floats], cluster: Ints, confidence: float) -> FloorRow:
    accuracies = {name: float(values.mean()) for name, values in credit.items()}
    best = max(accuracies, key=lambda name: (accuracies[name] - 1e-9 * (name != CHANCE), name == CHANCE))
    values = credit[best]
    share, low, high = share_interval(values, cluster, confidence)
    if best == CHANCE:
        low = high = share
    cell = Cell(accuracy=share, low=low, high=high, n=len(values), ties=0, errors=0)
    return FloorRow(group=group, predictor=best, floor=cell, chance=accuracies[CHANCE], predictors=accuracies)


def _credits(frame: pl.DataFrame, names: Sequence[str], sets: pl.DataFrame) -> Floats:
    """(scorers, sets) credit with ties shared, NaN where a scorer has no such set."""
    if not names:
        return np.empty((0, sets.height))
    known = outcomes_of_frame(frame.filter(pl.col("scorer").is_in(names)), "shared")
    place = sets.select("item_id").with_row_index("_place")
    column = known.join(place, on="item_id", maintain_order="left")["_place"].to_numpy()
    row = known["scorer"].replace_strict({name: i for i, name in enumerate(names)}, return_dtype=pl.Int64).to_numpy()
    found = np.full((len(names), sets.height), np.nan)
    found[row, column] = known["credit"].to_numpy()
    return found


def _tests(
    row: FloorRow, names: Sequence[str], own: Floats, credit: Floats, cluster: Ints, confidence: float
) -> list[FloorTest]:
    pairs = zip(names, own, paired_rows(own - credit, cluster, confidence), strict=True)
    found = [(name, float(np.nanmean(mine)), test) for name, mine, test in pairs if test.n]
    adjusted = adjust([math.nan if test.p is None else test.p for _, _, test in found])
    return [
        FloorTest(
            scorer=name,
            group=row.group,
            predictor=row.predictor,
            accuracy=accuracy,
            difference=test,
            p_adjusted=None if math.isnan(p) else float(p),
            above=bool(p < 1 - confidence and (test.estimate or 0.0) > 0),
        )
        for (name, accuracy, test), p in zip(found, adjusted, strict=True)
    ]


def _credit(utility: Floats, right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], starts: Ints) -> Floats:
    """1/k where the right answer is among k at the top."""
    size = np.diff(starts, append=len(right))
    rounded = np.round(utility, 9)
    top = rounded == np.repeat(np.maximum.reduceat(rounded, starts), size)
    result: Floats = np.add.reduceat((top & right).astype(np.float64), starts) / np.add.reduceat(
        top.astype(np.float64), starts
    )
    return result


def _predictions(
    one: pl.DataFrame,
    dataset: Dataset,
    frame: pl.DataFrame,
    surface: Sequence[str],
    cluster: Ints,
    folds: int,
    seed: int,
) -> dict[str, Floats]:
    """Predictor to its utility of every response."""
    columns = _features(one, dataset)
    given: dict[str, Floats] = {}
    for name in surface:
        if name == RANDOM:
            continue  # it reads nothing, and chance stands for it: as a predictor it would be best by luck alone
        mine = frame.filter(pl.col("scorer") == name).select("item_id", "response_id", own="score")
        joined = one.join(mine, on=["item_id", "response_id"], how="left", maintain_order="left")["own"]
        if joined.null_count() < len(joined):
            given[name] = joined.fill_null(float(joined.min() or 0.0)).to_numpy()  # type: ignore[arg-type]  # a number
    every = {**columns, **given}
    number = _number(one)
    starts = np.flatnonzero(np.diff(np.concatenate([[-1], number])))
    x = np.column_stack(list(every.values()))
    x = x - (np.add.reduceat(x, starts) / np.diff(starts, append=len(x))[:, None])[number]
    spread = x.std(0)
    x = x / np.where(spread > 1e-12, spread, 1.0)
    right = one["role"].to_numpy() == "chosen"
    fold = assign_folds(cluster, folds, seed)
    if fold is None:  # too few sets to learn anything from
        return given
    found = dict(given)
    for place, name in enumerate(columns):
        found[name] = _cross_validated(x[:, [place]], right, number, fold[number])
    found[COMBINED] = _cross_validated(x, right, number, fold[number])
    return found


def _cross_validated(
    x: Floats, right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], number: Ints, fold: Ints
) -> Floats:
    """Utility of each response under weights fitted on the other folds."""
    utility = np.zeros(len(x))
    for part in range(int(fold.max()) + 1):
        test = fold == part
        utility[test] = x[test] @ _conditional_logit(x[~test], right[~test], number[~test])
    return utility


def _conditional_logit(x: Floats, right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], number: Ints) -> Floats:
    """Weights by Newton's method, with a small ridge."""
    starts = np.flatnonzero(np.diff(np.concatenate([[-1], number])))
    size = np.diff(starts, append=len(x))
    weight = np.zeros(x.shape[1])
    target = x[right].sum(0)
    for _ in range(_STEPS):
        utility = x @ weight
        share = np.exp(utility - np.repeat(np.maximum.reduceat(utility, starts), size))
        share /= np.repeat(np.add.reduceat(share, starts), size)
        mean = np.add.reduceat(x * share[:, None], starts)
        slope = target - mean.sum(0) - _RIDGE * weight
        curve = (x * share[:, None]).T @ x - mean.T @ mean + _RIDGE * np.eye(len(weight))
        step = np.linalg.solve(curve, slope)
        weight = weight + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-6:
            break
    return weight


def _features(one: pl.DataFrame, dataset: Dataset) -> dict[str, Floats]:
    """Surface features of every response, in the order of the frame."""
    rows: dict[tuple[str, str], tuple[float, ...]] = {}
    for item in dataset:
        prompt = _pieces(item.prompt_text)
        pieces = {response.id: _pieces(response.text) for response in item.responses}
        alike = {frozenset(pair): _overlap(*(pieces[key] for key in pair)) for pair in combinations(pieces, 2)}
        for response in item.responses:
            own, text = pieces[response.id], response.text
            others = [alike[frozenset((response.id, key))] for key in pieces if key != response.id]
            length = max(len(text), 1)
            rows[item.id, response.id] = (
                math.log(length),
                len(text.split()),
                len(_DIGIT.findall(text)) / length,
                len(_MARK.findall(text)) / length,
                sum(map(str.isupper, text[:_READ])) / length,
                float(text[-1:] in ".!?。！？؟"),
                sum(others) / max(len(others), 1),
                _overlap(own, prompt),
            )
    names = (
        "log length",
        "words",
        "digits",
        "punctuation",
        "capitals",
        "full stop",
        "like the others",
        "like the prompt",
    )
    values = np.array([rows[key] for key in one.select("item_id", "response_id").iter_rows()], dtype=np.float64)
    found = {name: values[:, place] for place, name in enumerate(names)}
    known = one.select("item_id", "response_id").join(
        surface_features(dataset), on=["item_id", "response_id"], how="left", maintain_order="left"
    )
    return found | {name.replace("_", " "): known[name].to_numpy() for name in ("language_match", "label_mention")}


_DIGIT = re.compile(r"\d")
_MARK = re.compile(r"[^\w\s]")


def _pieces(text: str) -> frozenset[str]:
    """Pairs of neighbouring characters."""
    read = text[:_READ].casefold()
    return frozenset(map(add, read, read[1:]))


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Shared share of two sets of pieces (Jaccard)."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if a or b else 0.0
