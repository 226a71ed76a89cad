"""Mirrored families: the same answers under several places, each time another one right."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import ceil

import numpy as np
import numpy.typing as npt
import polars as pl

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Estimate, Result
from carb_metrics.clusters import Ints, cluster_of
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.outcomes import rounded

__all__ = ["FamilyReport", "FamilyRow", "family_accuracy"]

READINGS = ("row", "column", "matching", "place_effect")

GROUPS = ("domain", "language", "topic", "kind")
"""Columns by which families can be grouped."""

MATCHED = 7
"""Answers up to which all matchings are compared, so that equally good ones share."""

FLIPS = 4_096
"""Flips of signs behind a p; all of them where there are no more than this."""

NOISE = 1e-9
"""Spread, as a share of the largest score, below which a family shows nothing but rounding."""


class FamilyRow(Result):
    """What one scorer does with families of mirrored sets. Ties are shared.

    A family is a matrix: a score for each of N places and N answers. ``p`` of a reading is that of the hypothesis that
    it is what a scorer earns that does not read the place; the interval leaves that value out exactly where p is below
    1 − confidence.
    """

    scorer: str
    group: str | None = None
    """Value of ``by`` that these families share; null for all of them."""
    families: int
    """Complete families: their sets show the same answers, and each answer is right in a scored set."""
    incomplete: int
    """Other families, which are left out: a scorer that does not read the place earns something else than 1/N there."""
    judged: int
    """Complete families without a failed score; ``column``, ``matching`` and ``place_effect`` rest on them."""
    clusters: int
    """Groups of complete families that no source item connects: the units of intervals and tests."""
    sets: int
    """Sets of the complete families, mirrors included."""
    errors: int
    """The number of these sets that could not be judged; they earn nothing in ``row``."""
    chance: float | None
    """What ``row``, ``column`` and ``matching`` are for a scorer that does not read the place: the mean of 1/N."""
    row: Estimate
    """Share of places under which the right answer scores highest, averaged within families and then over them."""
    column: Estimate
    """Share of answers that score highest under their own place. What a scorer likes in an answer cancels."""
    matching: Estimate
    """Share of places to which the best one-to-one matching of places and answers gives the right answer."""
    place_effect: Estimate
    """Mean of the right cells after the means of rows and columns are taken out, in standard deviations of what is left
    in the family, averaged over families. 0 for a scorer that does not read the place; at most ``sqrt(N − 1)``."""


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
    """Does a scorer read the place? Mirrored families by rows, by columns, as a matching, and the place effect.

    The sets of a family have the same question and answers and differ in the place; each place makes another answer
    right. A scorer that gives an answer the same score under every place, whatever it likes in it, earns exactly 1/N by
    rows, columns and matching, and its place effect is exactly 0. That holds where every set shows the same answers and
    each of them is right in a scored set (one that failed counts); other families are left out and counted. Where
    several places share a right answer, each answer weighs the same, and their scores are averaged before the matrix
    is read.

    The units of intervals and tests are families, or groups of families that a source item connects. ``p`` is that of
    the studentised sign-flip test over these units (Fisher 1935, The Design of Experiments, section 21): all flips for
    few units, ``FLIPS`` drawn ones for more. The interval takes its critical value from the same flips.

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored, for families and texts. Answers of a family are the same where their texts
            are.
        by: ``domain``, ``language``, ``topic`` or ``kind``: rows for each of their values follow the row of all
            families.
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
    if by is not None and frame.height and frame.group_by("family").agg(pl.col(by).n_unique())[by].max() != 1:
        raise CarbError(f"by='{by}': the sets of a family differ in it.")
    rows = []
    for name, mine in sorted(frame.group_by("scorer"), key=lambda pair: str(pair[0][0])):
        parts: list[tuple[str | None, pl.DataFrame]] = [(None, mine)]
        if by is not None:
            parts += [(str(key[0]), part) for key, part in sorted(mine.group_by(by), key=lambda pair: str(pair[0][0]))]
        rows += [_row(str(name[0]), group, part, confidence) for group, part in parts]
    found = tuple(row for row in rows if row is not None)
    return FamilyReport(by=by, rows=found) if found else None


def _cells(scores: ScoreTable, dataset: Dataset) -> pl.DataFrame:
    """A row per scorer, set and answer, with ``answer``, ``right`` (that of the set), ``share`` and ``failed``."""
    frame = scores.with_items(dataset).frame.filter(pl.col("perturbation").is_null() & pl.col("family").is_not_null())
    frame = frame.select(
        pl.col("scorer", "item_id", "response_id", "role", "family").cast(pl.String),
        pl.col(GROUPS).cast(pl.String).fill_null("none"),
        "source_item",
        rounded(pl.col("score")),
    ).join(_answers(dataset), on=["item_id", "response_id"], how="inner", maintain_order="left")
    top = pl.col("score") == pl.col("score").max().over("scorer", "item_id")
    failed = pl.col("score").is_null().any().over("scorer", "item_id")
    frame = frame.with_columns(failed=failed, top=top)  # apart: polars 1.26 nests no windows
    share = pl.when("failed").then(0.0).otherwise(pl.col("top") / pl.col("top").sum().over("scorer", "item_id"))
    return frame.with_columns(share=share.fill_null(0.0)).drop("top")


def _answers(dataset: Dataset) -> pl.DataFrame:
    """``item_id``, ``response_id``, ``answer`` (a number that answers of the same text share within a family) and
    ``right``, the answer that is right in the set."""
    rows: list[tuple[str, str, int, int]] = []
    numbers: dict[tuple[str, str], int] = {}
    for item in dataset:
        if item.family is not None:
            own = [numbers.setdefault((item.family, one.text), len(numbers)) for one in item.responses]
            right = numbers[item.family, item.chosen.text]
            rows += [(item.id, one.id, answer, right) for one, answer in zip(item.responses, own, strict=True)]
    names = {"item_id": pl.String, "response_id": pl.String, "answer": pl.Int64, "right": pl.Int64}
    return pl.DataFrame(rows, schema=names, orient="row")


def _row(scorer: str, group: str | None, frame: pl.DataFrame, confidence: float) -> FamilyRow | None:
    sets = frame.filter(pl.col("answer") == pl.col("right"))
    if sets.group_by("family").agg(pl.col("right").n_unique()).filter(pl.col("right") > 1).is_empty():
        return None
    answers = sets.group_by("family", "right").agg(pl.col("share").mean(), pl.len().alias("sets"))
    family = answers.group_by("family").agg(
        pl.col("share").mean().alias("row"), pl.len().alias("answers"), pl.col("sets").sum()
    )
    shown = frame.group_by("family").agg(pl.col("answer").n_unique().alias("shown"), pl.len().alias("responses"))
    every = family.join(shown, on="family").sort("family")
    family = every.filter(
        (pl.col("shown") == pl.col("answers")) & (pl.col("responses") == pl.col("shown") * pl.col("sets"))
    )
    sets = sets.join(family.select("family"), on="family", how="semi").sort("item_id")
    n, names = family["answers"].to_numpy(), family["family"].to_list()
    values = np.column_stack([family["row"].to_numpy(), _readings(frame, family)])
    judged = ~np.isnan(values[:, -1])
    cluster = _clusters(sets, names)
    return FamilyRow(
        scorer=scorer,
        group=group,
        families=family.height,
        incomplete=every.height - family.height,
        judged=int(judged.sum()),
        clusters=int(cluster.max(initial=-1)) + 1,
        sets=int(family["sets"].sum()),
        errors=int(sets["failed"].sum()),
        chance=float((1 / n).mean()) if family.height else None,
        **dict(zip(READINGS, _estimates(values, n, cluster, confidence), strict=True)),
    )


def _clusters(sets: pl.DataFrame, families: list[str]) -> Ints:
    """(families,) families that a source item connects are one cluster."""
    origins = sets.select("item_id", "source_item", pl.col("family").alias("mirrors"))
    of_set = dict(zip(sets["family"].to_list(), cluster_of(origins).tolist(), strict=True))
    return np.unique([of_set[name] for name in families], return_inverse=True)[1].astype(np.int64)


def _readings(frame: pl.DataFrame, family: pl.DataFrame) -> Floats:
    """(families, 3) column, matching and place effect of each family; NaN where a score is missing."""
    cells = frame.join(family.select("family", "answers"), on="family")
    failed = pl.col("score").is_null().any()
    cells = cells.group_by("family", "right", "answer").agg(
        pl.col("answers").first(), pl.when(failed).then(None).otherwise(pl.col("score").mean()).alias("score")
    )
    cells = cells.sort("family", "right", "answer")
    found = np.full((family.height, 3), np.nan)
    for count in family["answers"].unique():
        mine = family["answers"].to_numpy() == count
        scores = cells.filter(pl.col("answers") == count)["score"].to_numpy().reshape(-1, count, count)
        whole = ~np.isnan(scores).any((1, 2))
        found[np.flatnonzero(mine)[whole]] = read_matrices(scores[whole])
    return found


def read_matrices(scores: Floats) -> Floats:
    """Read families whole.

    Args:
        scores: (families, N, N) the score of each answer (last axis) under each place; the right ones on the diagonal.

    Returns:
        (families, 3) share of answers that score highest under their own place; share of places that the best matching
        gives their own answer; place effect.
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
    """(families,) share of the diagonal in the matching of the largest sum; matchings of equal sums share."""
    size = left.shape[-1]
    if size > MATCHED:
        from scipy.optimize import linear_sum_assignment

        picks = [linear_sum_assignment(one, maximize=True)[1] if one.any() else None for one in left]
        return np.array([1 / size if pick is None else (pick == np.arange(size)).mean() for pick in picks])
    orders = np.array(list(permutations(range(size))))
    total: Floats = left[:, np.arange(size), orders].sum(-1)
    best = total >= total.max(1, keepdims=True) - noise[:, None]
    right = (orders == np.arange(size)).mean(1)
    share: Floats = np.asarray(best @ right / best.sum(1), dtype=np.float64)
    return share


def _estimates(values: Floats, n: npt.NDArray[np.int64], cluster: Ints, confidence: float) -> list[Estimate]:
    """Each reading with its interval and p.

    Args:
        values: (families, readings), NaN where a family has none; the last is the place effect.
        n: (families,) answers of each family.
        cluster: (families,) the cluster of each family.
        confidence: the level of the intervals.
    """
    chance = 1 / n
    found = []
    for i, name in enumerate(READINGS):
        known = ~np.isnan(values[:, i])
        effect = name == "place_effect"
        most = float(np.sqrt(n.max(initial=2) - 1.0))
        found.append(
            flipped(
                values[known, i],
                np.zeros(int(known.sum())) if effect else chance[known],
                # Of an effect, that of scores which are exchangeable between places; of shares, between that and the
                # variance of families which are all right or all wrong.
                (1 / (n - 1.0) if effect else chance * (1 - chance) / np.sqrt(n))[known],
                cluster[known],
                confidence,
                (-most, most) if effect else (0.0, 1.0),
            )
        )
    return found


def flipped(
    values: Floats, null: Floats, variance: Floats, cluster: Ints, confidence: float, bounds: tuple[float, float]
) -> Estimate:
    """A mean with the studentised sign-flip test of ``null`` over whole clusters, and the interval of the same flips.

    The statistic is ``|m|/se``: m the mean of ``values − null``, se its clustered standard error with two more clusters
    that vary as ``variance`` says, so that families which are all alike do not look certain. A flip changes the sign of
    all deviations of a cluster. The limits are ``mean ± q·se`` with the critical value q of the flips: null lies
    outside exactly where p is below 1 − confidence.

    Args:
        values: (families,) the values whose mean is wanted.
        null: (families,) what each is expected to be under the hypothesis.
        variance: (families,) the variance of each under the hypothesis.
        cluster: (families,) the cluster of each.
        confidence: the level of the interval.
        bounds: limits of what a mean can be; they are the interval where there are too few clusters for a test.
    """
    if not len(values):
        return Estimate()
    mean = float(values.mean())
    away = values - null
    away[np.abs(away) < 1e-12] = 0.0
    if not away.any():
        return Estimate(estimate=mean, low=mean, high=mean, p=1.0)
    of = np.unique(cluster, return_inverse=True)[1]
    total, weight = np.bincount(of, away), np.bincount(of).astype(np.float64)
    count = len(total)
    signs = _signs(count)
    prior = 2 * float(variance.mean()) * float((weight**2).mean())
    shift = signs @ total / weight.sum()
    square = (total**2).sum() - 2 * shift * (signs @ (weight * total)) + shift**2 * (weight**2).sum()
    error = np.sqrt((np.maximum(square, 0.0) + prior) * count / max(count - 1, 1)) / weight.sum()
    statistic = np.abs(shift) / error
    alpha = 1 - confidence
    p = float((statistic >= statistic[0] * (1 - 1e-9)).mean())
    low, high = bounds
    if alpha * len(signs) > 1:
        place = ceil(alpha * len(signs) - 1e-9) - 1
        half = float(np.sort(statistic)[::-1][place]) * float(error[0]) * (1 + 1e-9 * (p >= alpha))
        low, high = max(low, mean - half), min(high, mean + half)
    return Estimate(estimate=mean, low=low, high=high, p=p)


@lru_cache(maxsize=32)
def _signs(count: int) -> Floats:
    """(flips, count) signs of clusters, the data's own first; one of each flip and its opposite, which are the same."""
    if 2 ** (count - 1) <= FLIPS:
        others = np.arange(2 ** (count - 1))[:, None] >> np.arange(count - 1) & 1
        return np.column_stack([np.ones(len(others)), 1.0 - 2 * others])
    drawn = np.random.default_rng(0).integers(0, 2, (FLIPS, count), dtype=np.int8)
    drawn[0] = 0
    signs: Floats = 1.0 - 2.0 * drawn.astype(np.float64)
    return signs
