"""Mirrored families: the same answers under several places, each time another one right."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Result
from carb_metrics.clusters import Bools, Ints, cluster_of
from carb_metrics.flips import flipped
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcome import frame_of
from carb_metrics.ties import rounded, with_shares

READINGS = ("row", "column", "matching", "place_effect")

GROUPS = ("domain", "language", "topic", "kind")
"""Columns that can divide families into groups."""

IMPLIED = "+implied"
"""What the id of a family has behind it in the wording whose questions do not name the place
(``carb_data.family``)."""

MATCHED = 7
"""Up to this many answers all matchings are compared, so that equally good ones share."""

NOISE = 1e-9
"""Spread, as a share of the largest score, below which a family shows nothing but rounding."""


class FamilyRow(Result):
    """What one scorer does with families of mirrored sets. Ties are shared.

    A family is a matrix: a score for each of N places and N answers. ``p`` of a reading tests
    whether it is what a scorer earns without reading the place; the interval leaves that value out
    exactly where p is below 1 − confidence.
    """

    scorer: str
    group: str | None = None
    """Value of ``by`` that these families share; null for all of them."""
    families: int
    """Complete families: their sets show the same answers, and each answer is right in a scored
    set."""
    incomplete: int
    """Other families, which are left out: a scorer that does not read the place earns something
    else than 1/N there."""
    judged: int
    """Complete families without a failed score. The others earn 0 in ``column``, ``matching`` and
    ``place_effect``, which are null where every family failed."""
    clusters: int
    """Groups of complete families that no source item connects: the units of intervals and
    tests."""
    sets: int
    """Sets of the complete families, mirrors included."""
    errors: int
    """The number of these sets that could not be judged; they earn nothing in ``row``, which is
    null if all failed."""
    chance: float | None
    """What ``row``, ``column`` and ``matching`` are for a scorer that does not read the place: the
    mean of 1/N."""
    row: Interval
    """Share of places under which the right answer scores highest, averaged within families and
    then over them."""
    column: Interval
    """Share of answers that score highest under their own place. What a scorer likes in an answer
    cancels."""
    matching: Interval
    """Share of places to which the best one-to-one matching of places and answers gives the right
    answer."""
    place_effect: Interval
    """Mean of the right cells after the means of rows and columns are taken out, in standard
    deviations of what is left in the family, averaged over families. 0 for a scorer that does not
    read the place; at most ``sqrt(N − 1)``."""


class PlaceComparison(Result):
    """The place effects of two scorers on the same families, or of one scorer on two wordings of
    them."""

    families: int
    """Complete families of both; one in which a scorer failed is 0 for it, as in
    ``family_accuracy``."""
    a: float
    b: float
    difference: Interval
    """a minus b, with the interval and p of ``family_accuracy``."""
    better: Literal["a", "b"] | None
    """Null where the interval holds 0."""


class FamilyReport(Result):
    """Readings of families, a row per scorer and group."""

    by: str | None
    rows: tuple[FamilyRow, ...]

    def of(self, scorer: str, group: str | None = None) -> FamilyRow:
        """The row of one scorer and group.

        Raises:
            CarbError: there is none.
        """
        for row in self.rows:
            if (row.scorer, row.group) == (scorer, group):
                return row
        raise CarbError(f"There is no scorer '{scorer}' with the group {group} here.")


def family_accuracy(
    scores: ScoreTable, dataset: Dataset, by: str | None = None, confidence: float = 0.95
) -> FamilyReport | None:
    """Does a scorer read the place? Mirrored families by rows, by columns, as a matching, and the
    place effect.

    The sets of a family have the same question and answers and differ in the place; each place
    makes another answer right. A scorer that gives an answer the same score under every place,
    whatever it likes in it, earns exactly 1/N by rows, columns and matching, and its place effect
    is exactly 0. That holds where every set shows the same answers and each of them is right in a
    scored set (one that failed counts); other families are left out and counted. A family with a
    failed score earns 0 in column, matching and place effect, so that nobody gains by failing.
    Where several places share a right answer, each answer weighs the same, and their scores are
    averaged before the matrix is read.

    The units of intervals and tests are families, or groups of families that a source item
    connects. ``p`` is that of the studentised sign-flip test over these units (Fisher 1935, The
    Design of Experiments, section 21): all flips for few units, ``flips.FLIPS`` drawn ones for
    more. The interval takes its critical value from the same flips.

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored, for families and texts. Answers of a family are the same
            where their texts are.
        by: ``domain``, ``language``, ``topic`` or ``kind``: rows for each of their values follow
            the row of all families.
        confidence: The level of the intervals, a share such as 0.95.

    Returns:
        null where no family of the data set has two scored sets with different right answers.

    Raises:
        CarbError: ``by`` is another column, or the sets of one family differ in it.
    """
    check_confidence(confidence)
    if by is not None and by not in GROUPS:
        raise CarbError(f"by must be one of {', '.join(GROUPS)} or left out; got '{by}'.")
    frame = _cells(scores, dataset)
    if (
        by is not None
        and frame.height
        and frame.group_by("family").agg(pl.col(by).n_unique())[by].max() != 1
    ):
        raise CarbError(f"by='{by}': the sets of a family differ in it.")
    rows = []
    for name, mine in sorted(frame.group_by("scorer"), key=lambda pair: str(pair[0][0])):
        parts: list[tuple[str | None, pl.DataFrame]] = [(None, mine)]
        if by is not None:
            parts += [
                (str(key[0]), part)
                for key, part in sorted(mine.group_by(by), key=lambda pair: str(pair[0][0]))
            ]
        rows += [_row(str(name[0]), group, part, confidence) for group, part in parts]
    found = tuple(row for row in rows if row is not None)
    return FamilyReport(by=by, rows=found) if found else None


def _cells(scores: ScoreTable, dataset: Dataset) -> pl.DataFrame:
    """A row per scorer, set and answer, with ``answer`` (a number that answers of the same text
    share within a family), ``right`` (that of the set), ``share`` and ``failed``."""
    frame_of(scores)
    frame = scores.with_items(dataset).frame.filter(
        pl.col("perturbation").is_null() & pl.col("family").is_not_null()
    )
    frame = frame.select(
        pl.col("scorer", "item_id", "response_id", "role", "family", "place").cast(pl.String),
        pl.col(GROUPS).cast(pl.String).fill_null("none"),
        "source_item",
        rounded(pl.col("score")),
    )
    rows: list[tuple[str, str, int, int]] = []
    numbers: dict[tuple[str, str], int] = {}
    for item in dataset:
        if item.family is not None:
            own = [
                numbers.setdefault((item.family, one.text), len(numbers)) for one in item.responses
            ]
            right = numbers[item.family, item.chosen.text]
            rows += [
                (item.id, one.id, answer, right)
                for one, answer in zip(item.responses, own, strict=True)
            ]
    names = {"item_id": pl.String, "response_id": pl.String, "answer": pl.Int64, "right": pl.Int64}
    answers = pl.DataFrame(rows, schema=names, orient="row")
    frame = frame.join(answers, on=["item_id", "response_id"], how="inner", maintain_order="left")
    return with_shares(frame).with_columns(pl.col("share").fill_null(0.0))


@dataclass(frozen=True)
class _Read:
    """The complete families of one scorer."""

    family: pl.DataFrame
    """``family``, ``answers``, ``sets``; ordered by name."""
    values: Floats
    """(families, readings), 0 where a score is missing."""
    judged: Bools
    """(families,) whether no score is missing."""
    cluster: Ints
    """(families,) families that a source item connects have one number."""
    incomplete: int
    errors: int


def _read(frame: pl.DataFrame) -> _Read | None:
    """Null where no family has two scored sets with different right answers."""
    sets = frame.filter(pl.col("answer") == pl.col("right"))
    if (
        sets.group_by("family")
        .agg(pl.col("right").n_unique())
        .filter(pl.col("right") > 1)
        .is_empty()
    ):
        return None
    answers = sets.group_by("family", "right").agg(pl.col("share").mean(), pl.len().alias("sets"))
    family = answers.group_by("family").agg(
        pl.col("share").mean().alias("row"), pl.len().alias("answers"), pl.col("sets").sum()
    )
    shown = frame.group_by("family").agg(
        pl.col("answer").n_unique().alias("shown"), pl.len().alias("responses")
    )
    every = family.join(shown, on="family").sort("family")
    family = every.filter(
        (pl.col("shown") == pl.col("answers"))
        & (pl.col("responses") == pl.col("shown") * pl.col("sets"))
    )
    sets = sets.join(family.select("family"), on="family", how="semi").sort("item_id")
    whole = _readings(frame, family)
    judged = ~np.isnan(whole[:, 0])
    values = np.column_stack([family["row"].to_numpy(), np.nan_to_num(whole)])
    origins = sets.select("item_id", "source_item", pl.col("family").alias("mirrors"))
    of_set = dict(zip(sets["family"].to_list(), cluster_of(origins).tolist(), strict=True))
    connected = np.unique([of_set[name] for name in family["family"]], return_inverse=True)[1]
    cluster = connected.astype(np.int64)
    return _Read(
        family, values, judged, cluster, every.height - family.height, int(sets["failed"].sum())
    )


def _row(
    scorer: str, group: str | None, frame: pl.DataFrame, confidence: float
) -> FamilyRow | None:
    found = _read(frame)
    if found is None:
        return None
    n = found.family["answers"].to_numpy()
    estimates = _estimates(found.values, n, found.cluster, confidence)
    if not found.judged.any():
        estimates[1:] = [Interval()] * 3
    if found.errors == found.family["sets"].sum():
        estimates[0] = Interval()
    return FamilyRow(
        scorer=scorer,
        group=group,
        families=found.family.height,
        incomplete=found.incomplete,
        judged=int(found.judged.sum()),
        clusters=int(found.cluster.max(initial=-1)) + 1,
        sets=int(found.family["sets"].sum()),
        errors=found.errors,
        chance=float((1 / n).mean()) if len(n) else None,
        **dict(zip(READINGS, estimates, strict=True)),
    )


def compare_families(
    a: ScoreTable, b: ScoreTable, dataset: Dataset, confidence: float
) -> PlaceComparison | None:
    """The place effects of two scorers over the families that are complete in both tables; null
    where a scorer failed in all of them, or there is none."""
    return _compared(_cells(a, dataset), _cells(b, dataset), confidence)


def place_gap(
    scores: ScoreTable, dataset: Dataset, confidence: float = 0.95
) -> dict[str, PlaceComparison]:
    """How much smaller the place effect is where cues tell the place, than where the question names
    it.

    Both wordings ask about the same places with the same answers, so a family is compared with
    itself.

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored.
        confidence: The level of the intervals, a share such as 0.95.

    Returns:
        By scorer: ``a`` is the place effect of named places, ``b`` that of implied ones, over the
            families that were
        scored in both wordings. Scorers without such a family are left out.
    """
    check_confidence(confidence)
    found = {}
    for (name,), mine in sorted(
        _cells(scores, dataset).group_by("scorer"), key=lambda pair: str(pair[0][0])
    ):
        named, implied = (
            mine.filter(pl.col("place") == wording) for wording in ("named", "implied")
        )
        same = implied.with_columns(pl.col("family").str.strip_suffix(IMPLIED))
        compared = _compared(named, same, confidence)
        if compared is not None and compared.families:
            found[str(name)] = compared
    return found


def _compared(one: pl.DataFrame, other: pl.DataFrame, confidence: float) -> PlaceComparison | None:
    first, second = _read(one), _read(other)
    if first is None or second is None:
        return None
    places = [{name: i for i, name in enumerate(one.family["family"])} for one in (first, second)]
    shared = [name for name in places[0] if name in places[1]]
    rows = [[place[name] for name in shared] for place in places]
    if not (first.judged[rows[0]].any() and second.judged[rows[1]].any()):
        return None
    effects = np.array(
        [one.values[row, -1] for one, row in zip((first, second), rows, strict=True)]
    )
    answers = first.family["answers"].to_numpy()[rows[0]]
    cluster, most = first.cluster[rows[0]], 2 * float(np.sqrt(answers.max() - 1.0))
    d = effects[0] - effects[1]
    found = flipped(d, np.zeros(len(d)), 2 / (answers - 1.0), cluster, confidence, (-most, most))
    settled = found.p is not None and found.p < 1 - confidence
    return PlaceComparison(
        families=len(d),
        a=float(effects[0].mean()),
        b=float(effects[1].mean()),
        difference=found,
        better=("a" if d.mean() > 0 else "b") if settled else None,
    )


def _readings(frame: pl.DataFrame, family: pl.DataFrame) -> Floats:
    """(families, 3) column, matching and place effect of each family; NaN where a score is
    missing."""
    cells = frame.join(family.select("family", "answers"), on="family")
    failed = pl.col("score").is_null().any()
    cells = cells.group_by("family", "right", "answer").agg(
        pl.col("answers").first(),
        pl.when(failed).then(None).otherwise(pl.col("score").mean()).alias("score"),
    )
    cells = cells.sort("family", "right", "answer")
    found = np.full((family.height, 3), np.nan)
    for count in family["answers"].unique():
        mine = family["answers"].to_numpy() == count
        scores = (
            cells.filter(pl.col("answers") == count)["score"].to_numpy().reshape(-1, count, count)
        )
        whole = ~np.isnan(scores).any((1, 2))
        found[np.flatnonzero(mine)[whole]] = read_matrices(scores[whole])
    return found


def read_matrices(scores: Floats) -> Floats:
    """Read families whole.

    Args:
        scores: (families, N, N) the score of each answer (last axis) under each place; the right
            ones on the diagonal.

    Returns:
        (families, 3) share of answers that score highest under their own place; share of places
        that the best matching gives their own answer; place effect.
    """
    size = scores.shape[-1]
    left = scores - scores.mean(1, keepdims=True)
    left = left - left.mean(2, keepdims=True)
    scale = np.abs(scores).max((1, 2))
    spread = np.sqrt((left**2).mean((1, 2)))
    silent = spread <= NOISE * scale
    left[silent] = 0.0
    diagonal = np.einsum("fii->f", left) / size
    effect = np.divide(diagonal, spread, out=np.zeros(len(scores)), where=~silent)

    level = np.array(rounded(pl.Series(scores.ravel()))).reshape(scores.shape)
    top = level == level.max(1, keepdims=True)
    column = (np.einsum("fii->fi", top) / top.sum(1)).mean(1)
    return np.column_stack([column, _matching(left, NOISE * scale), effect])


def _matching(left: Floats, noise: Floats) -> Floats:
    """(families,) share of the diagonal in the matching of the largest sum; matchings of equal sums
    share."""
    size = left.shape[-1]
    if size > MATCHED:
        from scipy.optimize import linear_sum_assignment

        picks = [
            linear_sum_assignment(one, maximize=True)[1] if one.any() else None for one in left
        ]
        return np.array(
            [1 / size if pick is None else (pick == np.arange(size)).mean() for pick in picks]
        )
    orders = np.array(list(permutations(range(size))))
    total: Floats = left[:, np.arange(size), orders].sum(-1)
    best = total >= total.max(1, keepdims=True) - noise[:, None]
    right = (orders == np.arange(size)).mean(1)
    share: Floats = np.asarray(best @ right / best.sum(1), dtype=np.float64)
    return share


def _estimates(
    values: Floats, n: npt.NDArray[np.int64], cluster: Ints, confidence: float
) -> list[Interval]:
    """Each reading with its interval and p.

    Args:
        values: (families, readings); the last is the place effect.
        n: (families,) answers of each family.
        cluster: (families,) the cluster of each family.
        confidence: the level of the intervals.
    """
    chance = 1 / n
    found = []
    for i, name in enumerate(READINGS):
        effect = name == "place_effect"
        most = float(np.sqrt(n.max(initial=2) - 1.0))
        found.append(
            flipped(
                values[:, i],
                np.zeros(len(n)) if effect else chance,
                # Of an effect, that of scores which are exchangeable between places; of shares,
                # between that and the variance of families which are all right or all wrong.
                1 / (n - 1.0) if effect else chance * (1 - chance) / np.sqrt(n),
                cluster,
                confidence,
                (-most, most) if effect else (0.0, 1.0),
            )
        )
    return found
