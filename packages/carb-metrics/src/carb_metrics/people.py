"""What people say: the human line, and whether judges agree with people, culture by culture."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
from polars import col
from pydantic import Field

from carb_data import CarbError, ScoreTable
from carb_metrics.cells import Counted, OfSets
from carb_metrics.clusters import Ints, is_missing, numbered
from carb_metrics.frames import refuse_lost, text, unperturbed
from carb_metrics.interval import Interval
from carb_metrics.intervals import Floats, check_confidence, few_degrees, wilson
from carb_metrics.outcome import counted_sets, polars_frame
from carb_metrics.raters import agreement
from carb_metrics.ties import with_shares


class HumanLine(Interval):
    """How often people pick the key, which is the right answer: a share, null without answers."""

    FEWEST_PEOPLE: ClassVar[int] = 3
    FEWEST_ANSWERS: ClassVar[int] = 30
    estimate: float | None = Field(default=None, alias="share")
    p: float | None = Field(default=None, exclude=True)
    n: int = Field(default=0, alias="answers")
    people: int = 0
    """Known people; each answer of an unknown one counts as a person of its own, and is in
    ``unknown``."""
    unknown: int = 0
    sets: int = 0

    @property
    def enough(self) -> bool:
        """Whether this is a line: at least ``FEWEST_PEOPLE`` people and ``FEWEST_ANSWERS`` answers.
        Fewer are an anecdote, and belong beside no report."""
        return self.people >= self.FEWEST_PEOPLE and self.n >= self.FEWEST_ANSWERS


def human_line(
    agrees: npt.ArrayLike,
    sets: Sequence[str],
    people: Sequence[str | None],
    confidence: float = 0.95,
) -> HumanLine:
    """How often people pick the key (the right answer), with an interval.

    The interval allows for other people and for other sets. Answers of one person are alike, and so
    are answers to one set. So the variance is clustered both ways (Cameron, Gelbach and Miller
    2011, Journal of Business & Economic Statistics 29:238-249). It is that by set plus that by
    person minus that by their pair, and at least the larger of the first two.

    The interval is Wilson's (1927, JASA 22:209-212) at the sample size that has this variance. It
    takes t at the degrees of freedom of the smaller number of clusters (Korn and Graubard 1998,
    Survey Methodology 24:193-201). Where all answers are alike, each set counts once. With one
    person the interval is over sets alone and says nothing of other people.

    Args:
        agrees: (answers,) 1 where the pick is the key, else 0.
        sets: (answers,) the source item of each answer's set.
        people: (answers,) who gave it; null or empty where that is not known.
        confidence: The level of the interval, a share such as 0.95.

    Returns:
        The share of answers that are the key, from 0 to 1, with its limits and the numbers of
        answers, people and sets. Null without answers.

    Raises:
        CarbError: lengths differ, a value of ``agrees`` is neither 0 nor 1, or ``confidence`` is
            not between 0 and 1.
    """
    check_confidence(confidence)
    credit = np.asarray(agrees, dtype=float)
    if not len(credit) == len(sets) == len(people):
        raise CarbError("agrees, sets and people must have the same length.")
    if not np.isin(credit, (0, 1)).all():
        raise CarbError("agrees must be 0 or 1.")
    if not len(credit):
        return HumanLine()
    known = [None if is_missing(name) or name == "" else name for name in people]
    of_set = numbered(sets, len(credit))
    of_person = numbered(known, len(credit))
    unknown = known.count(None)
    low, high = _limits(credit, of_set, of_person, confidence)
    names = int(of_person.max()) + 1
    return HumanLine(
        share=float(credit.mean()),
        low=low,
        high=high,
        answers=len(credit),
        people=names - unknown,
        unknown=unknown,
        sets=int(of_set.max()) + 1,
    )


def _limits(
    credit: Floats,
    of_set: Ints,
    of_person: Ints,
    confidence: float,
) -> tuple[float, float]:
    """The interval of ``human_line``: Wilson's at ``min(p(1−p)/variance, n)`` answers times (z/t)²,
    which allows for few clusters; at as many as sets where all answers are alike."""
    share = float(credit.mean())
    residual = credit - share
    sets = int(of_set.max()) + 1
    people = int(of_person.max()) + 1
    several = [count for count in (sets, people) if count > 1]
    if not several:
        return 0.0, 1.0
    by_set = _variance(residual, of_set)
    by_person = _variance(residual, of_person)
    variance = max(by_set, by_person)
    if len(several) == 2:
        pair = of_set * people + of_person
        both = by_set + by_person - _variance(residual, numbered(pair, len(pair)))
        variance = max(variance, both)
    effective = float(sets)
    if variance > 1e-15:
        binomial = share * (1 - share)
        shrink = float(few_degrees(min(several) - 1, confidence))
        effective = min(binomial / variance, len(credit)) * shrink
    won = share * effective
    low, high = wilson(won, effective, confidence)
    return float(low), float(high)


def _variance(
    residual: Floats,
    cluster: npt.NDArray[np.int64],
) -> float:
    """Variance of the mean with independent clusters (Cochran 1977, Sampling Techniques, 3rd ed.,
    chapter 9A)."""
    sums = np.bincount(cluster, residual)
    count = len(sums)
    if count < 2:
        return 0.0
    of_mean = (sums**2).sum() / len(residual) ** 2
    return float(of_mean * count / (count - 1))


class JudgedRow(OfSets):
    """A judge against people, and people among themselves: what can be hoped for."""

    scorer: str
    n: int
    """Sets that the judge and a majority of people decided."""
    undecided: int
    """Sets with people's picks that one of both did not decide."""
    percent: Interval
    """The judge and the majority: share of sets with the same pick."""
    ac1: Interval
    """The same beyond chance (Gwet)."""
    human_percent: Interval
    human_alpha: Interval
    """Krippendorff's."""


def judge_vs_human(
    scores: ScoreTable,
    human: pl.DataFrame,
    confidence: float = 0.95,
    *,
    mirrors: bool = False,
) -> tuple[JudgedRow, ...]:
    """Compare the pick of each scorer with the majority of people, and people with each other.

    A scorer's pick is the response of a set with the highest score. Ties at the top and failed sets
    are undecided. So are sets without a single most frequent human pick. For chance-corrected
    coefficients the responses of a set are categories by position: ``chosen`` first, then
    ``rejected`` in the order of their ids. Formulas and intervals are those of ``agreement``, with
    sets of one source item or family kept together.

    Args:
        scores: table of one or several scorers; perturbed rows are left out.
        human: a row per person and set: ``item_id``, ``rater``, ``response_id`` (the pick; null for
            none).
        confidence: The level of the intervals, a share such as 0.95.
        mirrors: whether sets other than the main ones count too.

    Returns:
        a row per scorer, in their order.

    Raises:
        CarbError: a frame is not as described, people picked a response that the table lacks, or
            ``confidence`` is not between 0 and 1.
    """
    table, counted = counted_sets(scores, mirrors=mirrors)
    frame = unperturbed(table.rows)
    chosen_first = pl.struct(col.role != "chosen", "response_id")
    position = chosen_first.rank("ordinal").over("scorer", "item_id")
    frame = frame.with_columns(position=position.cast(pl.Int64))
    judges = _judges(frame).join(_people(_human_picks(human), frame), on="item_id")
    ordered = judges.sort("scorer", "item_id")
    parts = ordered.partition_by("scorer", maintain_order=True)
    return tuple(_judged(part["scorer"][0], part, confidence, counted) for part in parts)


def _human_picks(human: pl.DataFrame) -> pl.DataFrame:
    """The columns of people's picks as text, or ``CarbError`` where the frame is not as
    described."""
    names = ["item_id", "rater", "response_id"]
    polars_frame(human, "human", names)
    picks = human.select(text(*names))
    if picks.select("item_id", "rater").is_duplicated().any():
        raise CarbError("human: a rater has two rows for one set.")
    return picks


def _judged(
    scorer: str,
    sets: pl.DataFrame,
    confidence: float,
    counted: Counted,
) -> JudgedRow:
    """The row of a judge, from a row per set with people's picks, in the order of their ids."""
    decided = sets.drop_nulls(["position", "majority"])
    pairs = decided.select("position", "majority").rows()
    most = max(sets["size"])
    judge = agreement(
        pairs,
        confidence,
        categories=range(1, most + 1),
        clusters=decided["cluster"].to_list(),
    )
    picks = _table(sets["picks"].to_list())
    humans = agreement(picks, confidence, clusters=sets["cluster"].to_list())
    return JudgedRow(
        scorer=scorer,
        counted=counted,
        n=len(pairs),
        undecided=sets.height - len(pairs),
        percent=judge.percent,
        ac1=judge.gwet,
        human_percent=humans.percent,
        human_alpha=humans.krippendorff,
    )


def _people(
    picks: pl.DataFrame,
    frame: pl.DataFrame,
) -> pl.DataFrame:
    """``item_id``, ``picks`` (positions, sorted) and ``majority`` (position, null where not
    unique)."""
    keys = ["item_id", "response_id"]
    positions = frame.select(*keys, "position").unique(keys, maintain_order=True)
    picked = picks.drop_nulls("response_id")
    known = picked.join(positions, on="item_id", how="semi")
    joined = known.join(positions, on=keys, how="left")
    ordered = joined.sort("item_id", "rater")
    message = "human: item '{item_id}' has no response '{response_id}' in the table."
    refuse_lost(ordered, "position", message)
    mode = col.position.mode()
    alone = pl.when(mode.len() == 1)
    return joined.group_by("item_id").agg(
        picks=col.position.sort(),
        majority=alone.then(mode.first()),
    )


def _judges(frame: pl.DataFrame) -> pl.DataFrame:
    """``scorer``, ``item_id``, ``cluster``, ``position`` of the pick (null where undecided) and
    ``size`` of the set."""
    failed = col.failed.any()
    one_on_top = col.top.sum() == 1
    decided = pl.when(~failed & one_on_top)
    pick = col.position.filter("top").first()
    sets = with_shares(frame).group_by("scorer", "item_id")
    return sets.agg(
        col.cluster.first(),
        position=decided.then(pick),
        size=pl.len().cast(pl.Int64),
    )


def _table(picks: list[list[int]]) -> list[list[int | None]]:
    """Rows of equal length, padded with missing ratings; which person gave which does not matter
    here."""
    sizes = [len(row) for row in picks]
    width = max([2, *sizes])
    rows = []
    for row in picks:
        missing = [None] * (width - len(row))
        rows.append([*row, *missing])
    return rows
