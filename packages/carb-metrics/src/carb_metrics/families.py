"""Mirrored families: the same answers under several places, each time another one right."""

from collections.abc import Collection
from typing import Literal

import numpy as np

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.cells import Result, no_scorer
from carb_metrics.clusters import Bools, Ints
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.matrices import Matrices
from carb_metrics.means import FEWEST, clustered_mean, effective_clusters
from carb_metrics.readings import Reading
from carb_metrics.scored import Scored

__all__ = ["BLIND", "family_accuracy", "place_gap"]

GROUPS = ("domain", "language", "topic", "kind")
"""Fields of sets that can divide families into groups."""

BLIND = ("baseline:label", "baseline:language", "baseline:length")
"""Scorers that do not read the place by construction: their 1/2 is no estimate."""


class FamilyRow(Result):
    """What one scorer does with families of mirrored sets. Ties are shared.

    The units of intervals and tests are clusters of families. With fewer than ``means.FEWEST`` of
    them, one cluster's weight considered, limits and p are null, and ``note`` says so.
    """

    scorer: str
    group: str | None = None
    """Value of ``by`` that these families share; null for all of them."""
    families: int
    """Families with a pair of scored sets to compare."""
    incomplete: int
    """Those in which the scored sets show different answers, or an answer is right in none. They
    count in ``place_win``; in ``row`` they do not, since chance is not 1/N there."""
    clusters: int
    """Groups of families that no source item connects."""
    sets: int
    """Scored sets of the families, mirrors included."""
    errors: int
    """The number of these sets that could not be judged; they earn nothing in ``row``."""
    comparisons: int
    """Comparisons behind ``place_win``, two for each pair of sets."""
    failed: int
    """Comparisons that a failed score leaves open; each counts as one half."""
    chance: float | None
    """What ``row`` is for a scorer that does not read the place: the mean of 1/N."""
    place_win: Interval
    """The place win rate: how often an answer scores higher under its own place than under another
    place of its family, ties half. Exactly 1/2 for a scorer that does not read the place. Null
    where every comparison failed."""
    place_win_if_lost: Interval | None = None
    """The same with every failed comparison lost: no failing lifts it above what a scorer knows.
    Null where none failed, or all did."""
    row: Interval
    """Share of places under which the right answer scores highest, averaged within complete
    families and then over them. Null where every set failed."""
    note: str | None = None
    """Why the interval is missing, or has no width."""

    @property
    def surest(self) -> Interval:
        """The place win rate that no failure can have lifted."""
        return self.place_win_if_lost or self.place_win


class PlaceComparison(Result):
    """The place win rates of two scorers on the same families, or of one on two wordings."""

    families: int
    """Families in which both scored the same pair of sets."""
    a: float
    b: float
    failed_a: float
    """Share of the comparisons of a that failed; each counts one half."""
    failed_b: float
    difference: Interval
    """a minus b. The interval holds whichever way failed comparisons end: its lower limit leaves
    room for those of a lost and those of b won, its upper one for the contrary."""
    better: Literal["a", "b"] | None
    """Null where the interval holds 0, or there is none."""

    @property
    def lead(self) -> float:
        """a minus b where each failed comparison is lost: no failure lifts it."""
        a = self.a - self.failed_a / 2
        b = self.b - self.failed_b / 2
        return a - b

    def turned(self) -> "PlaceComparison":
        """The same of b and a."""
        better: dict[str | None, Literal["a", "b"]] = {"a": "b", "b": "a"}
        return self.changed(
            a=self.b,
            b=self.a,
            failed_a=self.failed_b,
            failed_b=self.failed_a,
            difference=self.difference.turned(),
            better=better.get(self.better),
        )


class FamilyReport(Result):
    """The result of ``family_accuracy``: a row per scorer and group."""

    by: str | None
    rows: tuple[FamilyRow, ...]

    def of(
        self,
        scorer: str,
        group: str | None = None,
    ) -> FamilyRow:
        """The row of one scorer and group.

        Raises:
            CarbError: there is none.
        """
        rows = {_named(row.scorer, row.group): row for row in self.rows}
        name = _named(scorer, group)
        if name not in rows:
            raise no_scorer(name, rows)
        return rows[name]


def _named(scorer: str, group: str | None) -> str:
    if group is None:
        return scorer
    return f"{scorer} in {group}"


def family_accuracy(
    scores: ScoreTable,
    dataset: Dataset,
    by: str | None = None,
    confidence: float = 0.95,
    *,
    blind: Collection[str] = BLIND,
) -> FamilyReport | None:
    """Does a scorer read the place? Its place win rate over mirrored families.

    The sets of a family ask one question about several places; each place makes another answer
    right. Two sets with different right answers that both show both answers are a pair. A pair
    counts two comparisons: does each of the two answers score higher under its own place than under
    the other one? A family's value is the share of comparisons won, averaged over its pairs. The
    place win rate is the mean over families, from 0 to 1: families weigh the same.

    Some scorers only add a liking for answers to a liking for places. These win exactly one
    comparison of each pair, so that their place win rate is exactly 1/2, whatever they like. No
    strictly increasing map of scores changes the rate. A pair with a failed score counts as a tie.
    A scorer that fails just where it would lose gains by that, so ``place_win_if_lost`` counts such
    a pair as lost.

    The interval is a t interval over clusters of families, on the linearised jackknife's variance
    (``means.clustered_mean``; Bell and McCaffrey 2002, Survey Methodology 28:169-181).

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored.
        by: ``domain``, ``language``, ``topic`` or ``kind``: rows for each of their values follow
            the row of all families.
        confidence: The level of the intervals, a share such as 0.95.
        blind: scorers that do not read the place by construction; their 1/2 has no uncertainty.

    Returns:
        A row per scorer, and per scorer and group; ``.of(scorer)`` finds one. Null where no family
        has a pair of scored sets.

    Raises:
        CarbError: ``by`` is another column, the sets of one family differ in it, or ``confidence``
            is not between 0 and 1.
    """
    check_confidence(confidence)
    if by is not None and by not in GROUPS:
        raise CarbError(f"by must be one of {', '.join(GROUPS)} or left out; got '{by}'.")
    scored = Scored.of(scores, dataset)
    matrix = scored.families
    groups = None
    if by is not None:
        groups = _groups(matrix, by)
    rows: list[FamilyRow] = []
    for name, reading in scored.readings.items():
        counted = reading.counted
        parts: list[tuple[str | None, Bools]] = [(None, counted)]
        if groups is not None:
            values = np.unique(groups[counted])
            for value in values:
                of_group = groups == value
                parts.append((value, counted & of_group))
        for value, where in parts:
            if where.any():
                row = _row(name, value, reading, where, confidence, name in blind)
                rows.append(row)
    if not rows:
        return None
    return FamilyReport(by=by, rows=tuple(rows))


def place_gap(
    scores: ScoreTable,
    dataset: Dataset,
    confidence: float = 0.95,
) -> dict[str, PlaceComparison]:
    """How much lower is the place win rate where the question only implies the place?

    One wording of a family names the place; the other one gives cues that tell it. Both ask about
    the same places with the same answers, so a family is compared with itself. For the rate and its
    interval see ``family_accuracy``.

    Args:
        scores: table of any scorers; perturbed rows are left out.
        dataset: the sets that were scored.
        confidence: The level of the intervals, a share such as 0.95.

    Returns:
        By scorer: ``a`` is the place win rate of named places, ``b`` that of implied ones, each
        from 0 to 1. Both are over the families that were scored in both wordings. Scorers without
        such a family are left out.

    Raises:
        CarbError: ``confidence`` is not between 0 and 1.
    """
    check_confidence(confidence)
    scored = Scored.of(scores, dataset)
    matrix = scored.families
    number = {name: index for index, name in enumerate(matrix.names)}
    wordings = []
    for implied, names in enumerate(matrix.values("wording_of")):
        first, *others = names
        if first in number and not others:
            wordings.append((number[first], implied))
    wanted = np.array(wordings, dtype=np.int64).reshape(-1, 2)
    gaps = {}
    for scorer, one in scored.readings.items():
        scored_twice = one.counted[wanted].all(1)
        if not scored_twice.any():
            continue
        named, cued = wanted[scored_twice].T
        values = one.values(one.scored)
        gap = _difference(
            matrix,
            values[:, named],
            values[:, cued],
            named,
            confidence,
        )
        if max(gap.failed_a, gap.failed_b) < 1:
            gaps[scorer] = gap
    return gaps


def compare_families(
    a: ScoreTable,
    b: ScoreTable,
    dataset: Dataset,
    confidence: float,
) -> PlaceComparison | None:
    """The place win rates of two scorers over the pairs of sets that both scored. Null where there
    is none, or one scorer failed in all."""
    scored = Scored.of(a, dataset)
    first = [*scored.readings.values()]
    second = [*scored.beside(b).readings.values()]
    if first and second:
        return compared(first[0], second[0], confidence)
    return None


def compared(
    first: Reading,
    second: Reading,
    confidence: float,
) -> PlaceComparison | None:
    """Two scorers over the pairs of sets that both scored; null where there is none, or one of them
    failed in all."""
    matrix = first.matrix
    both = first.scored & second.scored
    for one in (first, second):
        if np.isnan(one.won[both]).all():
            return None  # so it is without such pairs
    a = first.values(both)
    b = second.values(both)
    families = np.flatnonzero(~np.isnan(a[0]))
    return _difference(
        matrix,
        a[:, families],
        b[:, families],
        families,
        confidence,
    )


def _groups(matrix: Matrices, by: str) -> np.ndarray:
    """(families,) the group of each family.

    Raises:
        CarbError: the sets of a family differ in it.
    """
    values = matrix.values(by)
    for name, known in zip(matrix.names, values, strict=True):
        if len(known) > 1:
            raise CarbError(f"by='{by}': the sets of the family '{name}' differ in it: {known}.")
    return np.array([known[0] or "none" for known in values], dtype=object)


def _row(
    scorer: str, group: str | None, reading: Reading, where: Bools, confidence: float, blind: bool
) -> FamilyRow:
    """The row of a scorer over the families of ``where``, at least one."""
    whole = where & reading.whole
    pairs = int(reading.pairs[where].sum())
    lost = int(reading.lost[where].sum())
    sets = int(reading.sets[where].sum())
    errors = int(reading.errors[where].sum())
    cluster = reading.matrix.cluster[where]
    values = reading.values(reading.scored)[:, where]
    place_win = row = Interval(n=0)
    if_lost = note = None
    if lost < pairs:
        place_win = _place_win(reading, values[1], where, confidence)
    if 0 < lost < pairs:
        if_lost = _place_win(reading, values[0], where, confidence)
    if errors < sets:
        row = _row_accuracy(reading, whole, confidence)
    if blind and (values[1] == 0.5).all():
        if lost < pairs:
            place_win = place_win.changed(low=0.5, high=0.5, p=1.0)
        note = "It does not read the place by construction."
    elif effective_clusters(cluster) < FEWEST:
        note = f"An interval needs {FEWEST} clusters of families of like size: too few."
    return FamilyRow(
        scorer=scorer,
        group=group,
        families=int(where.sum()),
        incomplete=int((where & ~reading.whole).sum()),
        clusters=len(np.unique(cluster)),
        sets=sets,
        errors=errors,
        comparisons=2 * pairs,
        failed=2 * lost,
        chance=_chance(reading.matrix.answers[whole]),
        place_win=place_win,
        place_win_if_lost=if_lost,
        row=row,
        note=note,
    )


def _chance(answers: Ints) -> float | None:
    """The mean of 1/N; null without families."""
    if not len(answers):
        return None
    chance = 1 / answers
    return float(chance.mean())


def _place_win(
    reading: Reading,
    values: Floats,
    where: Bools,
    confidence: float,
) -> Interval:
    matrix = reading.matrix
    variance = chance_variance(matrix.answers[where])
    half = np.full(len(values), 0.5)
    return clustered_mean(values, half, variance, matrix.cluster[where], confidence)


def _row_accuracy(
    reading: Reading,
    where: Bools,
    confidence: float,
) -> Interval:
    values = reading.row[where]
    matrix = reading.matrix
    answers = matrix.answers[where]
    chance = 1 / answers
    binomial = chance * (1 - chance)
    # between that of independent places and that of families all right or all wrong
    variance = binomial / np.sqrt(answers)
    return clustered_mean(
        values,
        chance,
        variance,
        matrix.cluster[where],
        confidence,
    )


def chance_variance(answers: Ints) -> Floats:
    """(families,) the variance of a place win rate whose scores are exchangeable between places.

    The rank of an answer's own place among N is then uniform, and the N answers are independent:
    ``(N + 1) / (12 N (N − 1))``.
    """
    n = answers.astype(float)
    below = 12 * n * (n - 1)
    variance: Floats = (n + 1) / below
    return variance


def _difference(
    matrix: Matrices,
    a: Floats,
    b: Floats,
    families: Ints,
    confidence: float,
) -> PlaceComparison:
    """Two sides of some families, each with its ``Reading.values`` of them."""
    count = len(families)
    variance = 2 * chance_variance(matrix.answers[families])
    cluster = matrix.cluster[families]
    null = np.zeros(count)
    bounds = (-1.0, 1.0)
    intervals = []
    for d in a - b[::-1]:  # the least, the middle and the most that it can be
        of_limit = clustered_mean(d, null, variance, cluster, confidence, bounds)
        intervals.append(of_limit)
    interval = _covering(*intervals)
    return PlaceComparison(
        families=count,
        a=float(a[1].mean()),
        b=float(b[1].mean()),
        failed_a=float((a[2] - a[0]).mean()),
        failed_b=float((b[2] - b[0]).mean()),
        difference=interval,
        better=interval.favours(confidence),
    )


def _covering(
    least: Interval,
    middle: Interval,
    most: Interval,
) -> Interval:
    """The middle with limits that hold those of all three, and with p of what all three show: 1
    where their signs differ."""
    if middle.p is None:
        return middle
    three = (least, middle, most)
    rows = [(one.estimate, one.low, one.high, one.p) for one in three]
    estimate, low, high, p = np.array(rows, dtype=float).T
    sign = np.sign(estimate)
    alike = (sign == sign[0]).all()
    largest = 1.0
    if alike:
        largest = float(p.max())
    return middle.changed(
        low=float(low.min()),
        high=float(high.max()),
        p=largest,
    )
