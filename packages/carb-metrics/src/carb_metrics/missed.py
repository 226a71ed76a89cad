"""Failure analysis: what all good scorers miss, and which culture's answer they take instead."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from polars import col

from carb_data import CarbError, Dataset, ScoreTable
from carb_metrics.accuracy import bon_accuracy
from carb_metrics.cells import OfSets, Result
from carb_metrics.clusters import Ints
from carb_metrics.frames import beside, unperturbed
from carb_metrics.intervals import Floats
from carb_metrics.outcome import counted_sets
from carb_metrics.paired import adjust
from carb_metrics.scored import Scored
from carb_metrics.ties import with_shares

UNKNOWN = "unknown"
"""Stands for the culture of a response that names none."""

READ = "scorer role culture topic cluster score"
"""Columns of scores that are read, beside the ids."""

EXAMPLES = 3
"""Sets that are shown of each cluster."""


class Example(Result):
    """A set that all good scorers miss."""

    item_id: str
    prompt: str


class Cluster(Result):
    """The sets of one culture and topic that all good scorers miss."""

    culture: str
    topic: str | None
    missed: int
    sets: int
    """Number of sets of this culture and topic that all good scorers judged."""
    expected: float
    """How many all would miss if their misses were independent: Σ over sets of the product of
    each one's share of misses in the culture."""
    p: float
    """Probability of at least this many missed sets here, if the missed sets were spread at random
    (hypergeometric). Sets of a culture and topic that share a source item or a family count as one,
    missed where at least half are."""
    p_adjusted: float
    """``p`` corrected over the clusters by Holm's method."""
    examples: tuple[Example, ...]


class Confusion(Result):
    """How often the answer of one culture is taken for that of another, over all good scorers."""

    culture: str
    """The culture whose answer is right."""
    taken: str
    """The culture whose answer is taken."""
    offered: int
    """Judgements of sets of ``culture`` that offer a wrong answer of ``taken``."""
    picked: float
    """Number of these judgements that take it; a tie is divided among the tied answers."""
    rate: float
    """``picked / offered``."""
    expected: float
    """``picked``, if each miss took any of its set's wrong answers with equal chance."""


class Failures(OfSets):
    """What all good scorers miss, and which culture's answer they take instead."""

    good: tuple[str, ...]
    """The scorers that count as good, the best first."""
    sets: int
    """Number of counted sets that all good scorers judged."""
    missed: int
    """Number of sets that all of them miss."""
    expected: float
    """Number missed by all, if their misses were independent within a culture."""
    same_answer: float | None
    """Share of the sets missed by all in which all take the same wrong answer."""
    clusters: tuple[Cluster, ...]
    """Most missed sets first."""
    confusion: tuple[Confusion, ...]
    """Highest rate over expected first."""


def failures(
    dataset: Dataset,
    scores: ScoreTable,
    *,
    mirrors: bool = False,
) -> Failures:
    """Find what all good scorers miss, and which culture's answer they take instead.

    A scorer is good where the whole 95% interval of its accuracy (``bon_accuracy``) is above
    chance. Chance is the mean of 1 / (number of responses) over the sets.

    Args:
        dataset: the sets that were scored.
        scores: scores of one or more scorers on these sets. A tie with a wrong answer is a miss.
        mirrors: whether sets other than the main ones count too.

    Returns:
        ``.missed`` is the number of sets that all good scorers miss. ``.expected`` is that number
        if they erred independently within a culture. ``.clusters`` tells where they miss, and
        ``.confusion`` which culture's answer they take.

    Raises:
        CarbError: no scorer is good, or a set of the table lacks a response.
    """
    described = Scored.of(scores).with_items(dataset)
    table, counted = counted_sets(described, mirrors=mirrors)
    shares = [1 / len(item.responses) for item in dataset]
    chance = sum(shares) / max(len(shares), 1)
    by_scorer = bon_accuracy(table, by="scorer", mirrors=True)
    better = by_scorer.groups.filter(col.low > chance)
    good = tuple(better.sort(-col.accuracy, "scorer")["scorer"])
    if not good:
        raise CarbError(
            f"No scorer here is better than chance ({100 * chance:.0f}%), so no set counts as "
            "missed."
        )
    picks = _picks(dataset, table, good)
    sets = _judged_by_all(picks, good)
    missed = sets.filter("missed")["item_id"].to_list()
    prompts = {item.id: item.prompt_text for item in dataset}
    return Failures(
        counted=counted,
        good=good,
        sets=sets.height,
        missed=len(missed),
        expected=float(sets["alone"].sum()),
        same_answer=_same_answer(picks, missed, len(good)),
        clusters=_clusters(sets, prompts),
        confusion=_confusion(picks),
    )


def _same_answer(
    picks: pl.DataFrame,
    missed: Sequence[str],
    scorers: int,
) -> float | None:
    """The share of the missed sets in which all scorers take the same wrong answer."""
    if not missed:
        return None
    wrong = picks.filter(col.item_id.is_in(missed), ~col.right)
    taken = wrong.group_by("item_id", "response_id").agg(col.share.sum())
    return taken.filter(col.share == scorers).height / len(missed)


def _picks(
    dataset: Dataset,
    scored: Scored,
    good: Sequence[str],
) -> pl.DataFrame:
    """A row per good scorer, set without a failed score, and response: ``share`` of the pick,
    whether it is ``right``, and ``taken``, the culture whose answer it is."""
    rows = []
    for item in dataset:
        for response in item.responses:
            taken = response.culture or UNKNOWN
            rows.append((item.id, response.id, taken))
    keys = ["item_id", "response_id"]
    known = pl.DataFrame(rows, schema=[*keys, "taken"], orient="row")
    of_judges = unperturbed(scored.rows).filter(col.scorer.is_in(good))
    frame = of_judges.select(*keys, *READ.split())
    judged = with_shares(frame).filter(~col.failed)
    right = col.role == "chosen"
    return beside(judged.with_columns(right=right), known, keys)


def _judged_by_all(
    picks: pl.DataFrame,
    good: Sequence[str],
) -> pl.DataFrame:
    """A row per set that all good scorers judged. ``missed``: whether all missed it. ``alone``: the
    chance that all would, were their misses independent within its culture."""
    marked = picks.filter("right").with_columns(missed=col.share < 1)
    judged = marked.filter(pl.len().over("item_id") == len(good))
    of_scorer = judged.group_by("culture", "scorer", maintain_order=True)
    of_culture = of_scorer.agg(col.missed.mean()).group_by("culture")
    by_chance = of_culture.agg(alone=col.missed.product())
    of_set = judged.group_by("item_id", maintain_order=True)
    sets = of_set.agg(col("culture", "topic", "cluster").first(), col.missed.all())
    return beside(sets, by_chance, "culture")


def _clusters(sets: pl.DataFrame, prompts: dict[str, str]) -> tuple[Cluster, ...]:
    group = ("culture", "topic")
    half_missed = col.missed.mean() >= 0.5
    units = sets.group_by(*group, "cluster").agg(missed=half_missed)
    marked = int(units["missed"].sum())
    of_group = units.group_by(group)
    drawn = of_group.agg(hits=col.missed.sum(), drawn=pl.len())
    ids = col.item_id.filter("missed")
    groups = sets.group_by(group, maintain_order=True).agg(
        col.alone.sum(), missed=ids, sets=pl.len()
    )
    with_misses = groups.filter(col.missed.list.len() > 0)
    rows = with_misses.join(drawn, on=group, nulls_equal=True, maintain_order="left")
    ps = [
        at_least(hits, size, marked, units.height)
        for hits, size in rows.select("hits", "drawn").rows()
    ]
    clusters = []
    named = rows.iter_rows(named=True)
    for row, p, adjusted in zip(named, ps, adjust(ps), strict=True):
        missed = row["missed"]
        shown = missed[:EXAMPLES]
        examples = [Example(item_id=item, prompt=prompts[item]) for item in shown]
        cluster = Cluster(
            culture=row["culture"],
            topic=row["topic"],
            missed=len(missed),
            sets=row["sets"],
            expected=row["alone"],
            p=p,
            p_adjusted=float(adjusted),
            examples=tuple(examples),
        )
        clusters.append(cluster)

    def most_missed(one: Cluster) -> tuple[int, str, str]:
        return -one.missed, one.culture, one.topic or ""

    return tuple(sorted(clusters, key=most_missed))


def at_least(
    hits: int,
    drawn: int,
    marked: int,
    total: int,
) -> float:
    """The probability of at least ``hits`` marked units among ``drawn`` of ``total``
    (hypergeometric)."""
    from scipy.special import gammaln

    def log_choices(n: int, k: Ints) -> Floats:
        orders = gammaln(k + 1) + gammaln(n - k + 1)
        logarithms: Floats = gammaln(n + 1) - orders
        return logarithms

    others = total - marked
    counts = np.arange(max(hits, drawn - others), min(drawn, marked) + 1)
    of_marked = log_choices(marked, counts)
    of_others = log_choices(others, drawn - counts)
    every = log_choices(total, np.array(drawn))
    chance = float(np.exp(of_marked + of_others - every).sum())
    return min(1.0, chance)


def _confusion(picks: pl.DataFrame) -> tuple[Confusion, ...]:
    expected = col.share.mean().over("scorer", "item_id")
    wrong = picks.filter(~col.right).with_columns(expected=expected)
    pairs = wrong.group_by("culture", "taken").agg(
        offered=pl.struct("scorer", "item_id").n_unique(),
        picked=col.share.sum(),
        expected=col.expected.sum(),
    )
    rows = []
    for row in pairs.iter_rows(named=True):
        rate = row["picked"] / row["offered"]
        rows.append(Confusion(rate=rate, **row))

    def order(row: Confusion) -> tuple[float, str, str]:
        excess = 0.0
        if row.expected:
            excess = row.picked / row.expected
        return -excess, row.culture, row.taken

    return tuple(sorted(rows, key=order))
