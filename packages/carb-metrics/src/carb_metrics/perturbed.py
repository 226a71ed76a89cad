"""Is a score moved by what matters, and left alone by what does not?"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from polars import col

from carb_data import CarbError, Perturbation, ScoreTable, rounded
from carb_metrics.cells import Result, ScorerRow, Scorers
from carb_metrics.clusters import Ints
from carb_metrics.frames import beside, refuse_lost, unperturbed
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence
from carb_metrics.jackknife import jackknife_interval, ratio, within
from carb_metrics.means import share_interval
from carb_metrics.outcome import counted_sets

CAUSAL = Perturbation.CC.value
SURFACE = (
    Perturbation.RC.value,
    Perturbation.CL.value,
    Perturbation.RP.value,
)

AWAY = 0.1
"""How far from 0 the base of a relative change must be, in standard deviations of the scorer's
scores within sets."""

STILL = 0.01
"""Mean change under surface perturbations, in the same unit, below which nothing can be divided by
it."""


class KindRow(Result):
    """How one kind of perturbation moves a scorer's scores. Null where it is not defined."""

    scorer: str
    perturbation: str
    n: int
    """Pairs of a text and its perturbed version that both have a score."""
    errors: int
    """Pairs that lack a score."""
    spread: Interval
    """Mean abs(change) in standard deviations of the scorer's scores within sets: the measure to
    compare scorers by."""
    relative: Interval
    """Mean of abs(change)/abs(score), the paper's measure; null where half of the scores or more
    are near 0."""
    undefined: int
    """Pairs whose original scores less than ``AWAY`` standard deviations from 0; ``relative``
    leaves them out."""
    flips: Interval
    """Share of perturbations that change which response is on top."""
    judged: int
    """Pairs in sets without errors, on which ``flips`` rests."""


class SpreadRow(ScorerRow):
    """What the perturbations of one scorer say together."""

    spread: float | None
    """Standard deviation of its scores within sets, in units of its scores."""
    ratio: Interval
    """Causal-to-surface ratio."""


class Sensitivity(Scorers[SpreadRow]):
    """How scores move under perturbation."""

    kinds: tuple[KindRow, ...]
    """A row per scorer and perturbation."""


def perturbation_sensitivity(
    scores: ScoreTable,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> Sensitivity:
    """How much CC, RC, CL and RP move a scorer's scores.

    CC changes the cultural concept and should move the score; RC, CL and RP change the surface and
    should not (Zhang et al., arXiv 2509.21798). Per perturbed response, Δ is its score minus its
    original's.

    * *spread*: mean abs(Δ) over the scorer's within-item spread, the pooled standard deviation of
      the unperturbed scores of a set about their mean. Shifting or scaling all scores does not
      change it, so scorers compare.
    * *relative*: mean of abs(Δ)/abs(original score), the paper's measure. It depends on a scorer's
      zero: it compares scorers only where zero means the same, such as ratings from 1 to 10. It
      explodes near 0, and is left out there.
    * *ratio*: mean abs(Δ) under CC over the average of the means under RC, CL and RP (those that
      there are). Above 1, the scorer heeds the concept more than the surface. Null where the
      surface does not move it.
    * *flips*: with the perturbed text in its original's place, is another response (or none, at a
      tie) on top?

    Intervals are jackknife t intervals, of the ratio on its logarithm (Efron and Tibshirani 1993,
    An Introduction to the Bootstrap, chapter 11). For flips they are Wilson's (1927, JASA
    22:209-212). All take source items, or else items, as the independent units. Null where
    undefined: no pairs, no spread.

    Args:
        scores: table with perturbed rows, of one or several scorers.
        confidence: The level of all intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        ``.kinds``: a row per scorer and perturbation. ``.scorers``: a row per scorer, with the
        ratio, and with the spread in units of its scores.

    Raises:
        CarbError: a perturbed row has no original in the table, or ``confidence`` is not between 0
            and 1.
    """
    check_confidence(confidence)
    table, counted = counted_sets(scores, mirrors=mirrors)
    frame = table.rows
    pairs = perturbed_pairs(frame)
    pairs = pairs.with_columns(_flips(pairs, frame))
    spreads = within_item(frame)
    kinds: list[KindRow] = []
    scorers: list[SpreadRow] = []
    for name in frame["scorer"].unique().sort():
        of_scorer = col.scorer == name
        sums = _Sums.of(pairs.filter(of_scorer), spreads.filter(of_scorer))
        kinds += [_row(name, kind, sums, confidence) for kind in sums.kinds]
        ratio = _causal_to_surface(sums, confidence)
        scorers.append(
            SpreadRow(
                scorer=name,
                spread=sums.deviation,
                ratio=ratio,
            )
        )
    return Sensitivity(
        kinds=tuple(kinds),
        scorers=tuple(scorers),
        counted=counted,
    )


@dataclass(frozen=True)
class _Sums:
    """What the clusters of one scorer add up to."""

    pairs: pl.DataFrame
    """Its pairs of a text and its perturbed version, with ``unit``, the cluster by number."""
    squares: Floats
    """(units,) squared deviations within sets."""
    freedom: Floats
    """(units,) their degrees of freedom."""

    @classmethod
    def of(
        cls,
        pairs: pl.DataFrame,
        spread: pl.DataFrame,
    ) -> "_Sums":
        every = pl.concat([pairs["cluster"], spread["cluster"]])
        clusters = every.unique().sort().to_frame()
        numbers = clusters.with_row_index("unit")
        pairs = beside(pairs, numbers, "cluster")
        spread = beside(spread, numbers, "cluster")
        unit = spread["unit"].to_numpy()
        count = len(clusters)
        sums = []
        for column in ("squares", "freedom"):
            of_units = np.bincount(unit, spread[column].to_numpy(), count)
            sums.append(of_units.astype(float))
        return cls(pairs, *sums)

    @property
    def kinds(self) -> list[str]:
        """The perturbations that there are, those of the paper first."""
        kinds = set(self.pairs["perturbation"])
        of_paper = [kind for kind in (CAUSAL, *SURFACE) if kind in kinds]
        return of_paper + sorted(kinds - set(of_paper))

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the scores within sets."""
        squares = self.squares.sum()
        freedom = self.freedom.sum()
        if not squares or not freedom:
            return None
        variance = squares / freedom
        return float(np.sqrt(variance))

    def scored(self, kind: str) -> pl.DataFrame:
        """The pairs of a kind that both have a score."""
        of_kind = self.pairs.filter(col.perturbation == kind)
        return of_kind.drop_nulls(["before", "after"])

    def changes(self, kind: str) -> Floats:
        """(units, 2) sums of abs(change), and pairs."""
        pairs = self.scored(kind)
        change = pairs["after"] - pairs["before"]
        size = change.abs().to_numpy()
        return self.by_unit(pairs["unit"].to_numpy(), size)

    def by_unit(self, unit: Ints, values: Floats) -> Floats:
        """(units, 2) sums of values, and how many."""
        count = len(self.squares)
        total = np.bincount(unit, values, count)
        size = np.bincount(unit, minlength=count)
        return np.column_stack([total, size]).astype(float)


def _row(
    scorer: str,
    kind: str,
    sums: _Sums,
    confidence: float,
) -> KindRow:
    every = sums.pairs.filter(col.perturbation == kind)
    known = sums.scored(kind)
    before = known["before"].to_numpy()
    change = known["after"].to_numpy() - before
    columns = [sums.changes(kind), sums.squares, sums.freedom]
    in_spread = np.column_stack(columns)
    spread = jackknife_interval(in_spread, mean_in_spread, confidence)
    least = AWAY * (sums.deviation or 0.0)
    is_far = np.abs(before) >= least
    away = is_far & (before != 0)
    relative = Interval()
    if 2 * away.sum() > len(away):
        unit = known["unit"].to_numpy()[away]
        shares = sums.by_unit(unit, np.abs(change[away] / before[away]))
        used = shares[shares[:, 1] > 0]
        relative = jackknife_interval(used, ratio, confidence)
    judged = every.drop_nulls("flip")
    flipped = judged["flip"].cast(pl.Float64).to_numpy()
    unit = judged["unit"].to_numpy()
    return KindRow(
        scorer=scorer,
        perturbation=kind,
        n=known.height,
        errors=every.height - known.height,
        spread=within(spread),
        relative=within(relative),
        undefined=int((~away).sum()),
        flips=share_interval(flipped, unit, confidence),
        judged=judged.height,
    )


def _causal_to_surface(
    sums: _Sums,
    confidence: float,
) -> Interval:
    """Null where the surface does not move the scorer."""
    changes = {kind: sums.changes(kind) for kind in sums.kinds}
    if CAUSAL not in changes or sums.deviation is None:
        return Interval()
    known = [changes[kind] for kind in SURFACE if kind in changes]
    surface = [part for part in known if part[:, 1].any()]
    moved = [ratio(part.sum(0)) for part in surface]
    if not moved or np.mean(moved) < STILL * sums.deviation:
        return Interval()
    columns = np.column_stack([changes[CAUSAL], *surface])
    units = columns[columns[:, 1::2].sum(1) > 0]
    return jackknife_interval(units, causal_to_surface, confidence, log=True)


def mean_in_spread(sums: Floats) -> Floats:
    """(...) mean abs(Δ) in spreads, from (..., 4) sums: abs(Δ), pairs, squares within sets, degrees
    of freedom."""
    variance: Floats = sums[..., 2] / sums[..., 3]
    return ratio(sums) / np.sqrt(variance)


def causal_to_surface(sums: Floats) -> Floats:
    """(..., 2 kinds) to (...): sums of abs(Δ) and of pairs for CC, and then for each surface
    kind."""
    means = sums[..., 0::2] / sums[..., 1::2]
    causal = means[..., 0]
    surface: Floats = means[..., 1:].mean(-1)
    return causal / surface


def _flips(
    pairs: pl.DataFrame,
    frame: pl.DataFrame,
) -> pl.Series:
    """``flip`` of each pair: whether another response is on top; null in sets with an error."""
    keys = ["scorer", "item_id"]
    changed = pairs.select(*keys, "original", "after")
    numbered = changed.with_row_index("pair")
    answers = unperturbed(frame).select(*keys, "response_id", "score")
    wide = numbered.join(answers, on=keys)
    is_changed = col.response_id == col.original
    then = pl.when(is_changed).then("after").otherwise("score")
    wide = wide.with_columns(then=then)
    failed = col.score.is_null() | col.then.is_null()
    of_pair = wide.group_by("pair")
    tops = of_pair.agg(
        before=_alone_on_top("score"),
        after=_alone_on_top("then"),
        failed=failed.any(),
    )
    others = col.before != col.after
    return tops.sort("pair").select(flip=pl.when(~col.failed).then(others))["flip"]


def _alone_on_top(score: str) -> pl.Expr:
    """The response with the highest score of its group; empty at a tie."""
    level = rounded(col(score))
    highest = level == level.max()
    top = col.response_id.filter(highest)
    response = pl.when(top.len() == 1).then(top.first())
    return response.otherwise(pl.lit(""))


def perturbed_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """Each perturbed row beside its original.

    Args:
        frame: A score table's frame as ``Scored.rows`` gives it.

    Returns:
        The columns of the perturbed row (its score as ``after``), ``before`` and
        ``language_before`` of its original.

    Raises:
        CarbError: a perturbed row has no original in the table.
    """
    perturbed = frame.drop_nulls("perturbation").rename({"score": "after"})
    originals = unperturbed(frame).select(
        "scorer",
        "item_id",
        original="response_id",
        before="score",
        language_before="language",
        has_original=pl.lit(value=True),
    )
    keys = ["scorer", "item_id", "original"]
    pairs = beside(perturbed, originals, keys).sort("scorer", "item_id", "response_id")
    refuse_lost(
        pairs,
        "has_original",
        "{count} perturbed rows have no original in the table. First: scorer '{scorer}', item "
        "'{item_id}', response '{response_id}' names the original '{original}'. Keep perturbed "
        "rows together with the rows of their sets.",
    )
    if pairs.height != perturbed.height:
        raise CarbError(
            "A response id occurs twice within one set; was the table joined or concatenated twice?"
        )
    return pairs.drop("has_original")


def within_item(frame: pl.DataFrame) -> pl.DataFrame:
    """Sums of squares of unperturbed scores within each set.

    Returns:
        ``scorer``, ``cluster``, ``squares`` (squared deviations from the set's mean) and
        ``freedom`` (scored responses minus 1), a row per scorer and set with at least two scores.
    """
    score = col.score
    sets = unperturbed(frame).drop_nulls("score").group_by("scorer", "item_id")
    away = score - score.mean()
    freedom = pl.len() - 1
    sums = sets.agg(
        col.cluster.first(),
        squares=(away**2).sum(),
        freedom=freedom.cast(pl.Float64),
    )
    return sums.filter(col.freedom > 0).sort("scorer", "item_id")
