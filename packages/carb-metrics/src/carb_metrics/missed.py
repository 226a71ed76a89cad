"""Failure analysis: what all good scorers miss, and whose answer they take for whose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, prod

import polars as pl

from carb_data import BonSet, CarbError, Dataset, ScoreTable
from carb_metrics.accuracy import bon_accuracy
from carb_metrics.cells import Result
from carb_metrics.clusters import cluster_of
from carb_metrics.outcome import Counted, counted_sets, with_shares
from carb_metrics.paired import adjust

__all__ = ["UNKNOWN", "Cluster", "Confusion", "Example", "Failures", "GoodScorer", "failures"]

UNKNOWN = "unknown"
"""Stands for the culture of a response that names none."""


class Example(Result):
    """A set that all good scorers miss."""

    item_id: str
    prompt: str
    chosen: str
    taken: str
    """The wrong answer that most of them take."""
    taken_culture: str
    """The culture in which that answer would be right."""
    agree: float
    """Share of the good scorers that take it."""


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
    """Probability of at least this many missed sets here, if the missed sets were spread at random (hypergeometric).
    Sets of a culture and topic that share a source item or a family count as one, missed where at least half are."""
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


class GoodScorer(Result):
    """A scorer that counts as good."""

    scorer: str
    accuracy: float
    """Accuracy as in the report: ties share, and a failed set is wrong."""
    low: float


class Failures(Result):
    """What all good scorers miss, and whose answer they take for whose."""

    good: tuple[GoodScorer, ...]
    counted: Counted = "all"
    """Which sets count."""
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


@dataclass(frozen=True)
class _Judgement:
    """What one scorer does with one set: the share of its pick that each response gets."""

    picks: Mapping[str, float]
    missed: bool
    """Whether the right response is not picked, or not alone."""


def failures(
    dataset: Dataset,
    scores: ScoreTable,
    *,
    scorers: Sequence[str] = (),
    examples: int = 3,
    by_topic: bool = True,
    mirrors: bool = False,
) -> Failures:
    """Find what all good scorers miss, and whose answer they take for whose.

    Args:
        dataset: the sets that were scored.
        scores: scores of one or more scorers on these sets.
        scorers: the scorers that count as good; by default those whose accuracy, as the report shows it, is above
            chance with its whole 95% interval. A tie with a wrong answer is a miss.
        examples: number of examples to keep of each cluster.
        by_topic: whether to make clusters of culture and topic instead of culture alone.
        mirrors: whether sets other than the main ones count too.

    Raises:
        CarbError: no scorer is good, one is unknown, or a set of the table lacks a response.
    """
    scores, counted = counted_sets(scores.with_items(dataset), mirrors=mirrors)
    items = {item.id: item for item in dataset}
    good = _good(dataset, scores, scorers)
    judged = _judgements(items, scores, [one.scorer for one in good])
    complete = [key for key in items if all(key in judged[one.scorer] for one in good)]
    missed = [key for key in complete if all(judged[one.scorer][key].missed for one in good)]
    alone = _expected(items, complete, judged)
    groups: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for key in complete:
        groups[items[key].culture, items[key].topic if by_topic else None].append(key)
    gone = set(missed)
    origins = _origins([items[key] for key in complete])
    units = {group: _units(keys, gone, origins) for group, keys in groups.items()}
    marked, total = sum(sum(each) for each in units.values()), sum(map(len, units.values()))
    found = []
    for (culture, topic), keys in groups.items():
        here = [key for key in keys if key in gone]
        if here:
            own = units[culture, topic]
            found.append((culture, topic, here, keys, _hypergeometric(sum(own), len(own), marked, total)))
    adjusted = adjust([p for *_, p in found])
    clusters = [
        Cluster(
            culture=culture,
            topic=topic,
            missed=len(here),
            sets=len(keys),
            expected=sum(alone[key] for key in keys),
            p=p,
            p_adjusted=float(corrected),
            examples=tuple(_example(items[key], judged, key) for key in here[:examples]),
        )
        for (culture, topic, here, keys, p), corrected in zip(found, adjusted, strict=True)
    ]
    same = [_example(items[key], judged, key).agree == 1.0 for key in missed]
    return Failures(
        counted=counted,
        good=good,
        sets=len(complete),
        missed=len(missed),
        expected=sum(alone.values()),
        same_answer=sum(same) / len(same) if same else None,
        clusters=tuple(sorted(clusters, key=lambda c: (-c.missed, c.culture, c.topic or ""))),
        confusion=_confusion(items, judged),
    )


def _good(dataset: Dataset, scores: ScoreTable, wanted: Sequence[str]) -> tuple[GoodScorer, ...]:
    cells = bon_accuracy(scores, by=("scorer",), mirrors=True).groups
    known = {row["scorer"]: row for row in cells.to_dicts()}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise CarbError(f"No scorer here is named {', '.join(unknown)}. There are {', '.join(sorted(known))}.")
    chance = sum(1 / len(item.responses) for item in dataset) / max(len(dataset), 1)
    kept = [
        row
        for name, row in known.items()
        if (name in wanted if wanted else row["low"] is not None and row["low"] > chance)
    ]
    if not kept:
        raise CarbError(
            f"No scorer here is better than chance ({100 * chance:.0f}%), so what all good ones miss says "
            f"nothing. Name the scorers to look at (--scorer)."
        )
    kept.sort(key=lambda row: (-row["accuracy"], row["scorer"]))
    return tuple(GoodScorer(scorer=row["scorer"], accuracy=row["accuracy"], low=row["low"]) for row in kept)


def _judgements(
    items: Mapping[str, BonSet], scores: ScoreTable, scorers: Iterable[str]
) -> dict[str, dict[str, _Judgement]]:
    """Scorer to item to judgement; sets with a missing score are left out."""
    judged: dict[str, dict[str, _Judgement]] = {name: {} for name in scorers}
    right = {key: item.chosen.id for key, item in items.items()}
    frame = scores.frame.filter(pl.col("perturbation").is_null()).with_columns(
        pl.col("scorer", "item_id", "response_id").cast(pl.String)
    )
    picks = with_shares(frame.filter(pl.col("scorer").is_in(sorted(judged)))).filter(pl.col("share") > 0)
    grouped = picks.group_by("scorer", "item_id").agg("response_id", "share")
    for scorer, item, responses, shares in grouped.iter_rows():
        if item in items:
            judged[scorer][item] = _Judgement(dict(zip(responses, shares, strict=True)), responses != [right[item]])
    return judged


def _expected(
    items: Mapping[str, BonSet], complete: Sequence[str], judged: Mapping[str, Mapping[str, _Judgement]]
) -> dict[str, float]:
    """For each set the chance that all miss it, were misses independent within its culture."""
    count = Counter(items[key].culture for key in complete)
    shares: dict[str, list[float]] = defaultdict(list)
    for rows in judged.values():
        wrong = Counter(items[key].culture for key in complete if rows[key].missed)
        for culture, number in count.items():
            shares[culture].append(wrong[culture] / number)
    return {key: prod(shares[items[key].culture]) for key in complete}


def _example(item: BonSet, judged: Mapping[str, Mapping[str, _Judgement]], key: str) -> Example:
    taken: dict[str, float] = defaultdict(float)
    for rows in judged.values():
        for response, share in rows[key].picks.items():
            if response != item.chosen.id:
                taken[response] += share
    most = max(sorted(taken), key=lambda response: taken[response])
    wrong = next(response for response in item.responses if response.id == most)
    return Example(
        item_id=item.id,
        prompt=item.prompt_text,
        chosen=item.chosen.text,
        taken=wrong.text,
        taken_culture=wrong.culture or UNKNOWN,
        agree=taken[most] / len(judged),
    )


def _confusion(items: Mapping[str, BonSet], judged: Mapping[str, Mapping[str, _Judgement]]) -> tuple[Confusion, ...]:
    offered: Counter[tuple[str, str]] = Counter()
    picked: dict[tuple[str, str], float] = defaultdict(float)
    expected: dict[tuple[str, str], float] = defaultdict(float)
    others = {
        key: (item.chosen.id, {r.id: (item.culture, r.culture or UNKNOWN) for r in item.rejected})
        for key, item in items.items()
    }
    for rows in judged.values():
        for key, judgement in rows.items():
            right, pairs = others[key]
            wrong = 1.0 - judgement.picks.get(right, 0.0)
            for pair in set(pairs.values()):
                offered[pair] += 1
            if wrong:
                for response, pair in pairs.items():
                    picked[pair] += judgement.picks.get(response, 0.0)
                    expected[pair] += wrong / len(pairs)
    found = [
        Confusion(
            culture=pair[0],
            taken=pair[1],
            offered=number,
            picked=picked[pair],
            rate=picked[pair] / number,
            expected=expected[pair],
        )
        for pair, number in offered.items()
    ]
    return tuple(sorted(found, key=lambda c: (-(c.picked / c.expected if c.expected else 0), c.culture, c.taken)))


def _origins(sets: Sequence[BonSet]) -> dict[str, int]:
    """The cluster of each set, by its id."""
    ties = {"source_item": [item.source_item for item in sets], "mirrors": [item.family for item in sets]}
    frame = pl.DataFrame({"item_id": [item.id for item in sets], **ties}, schema_overrides={"mirrors": pl.String})
    return dict(zip(frame["item_id"], cluster_of(frame).tolist(), strict=True))


def _units(keys: Sequence[str], missed: Collection[str], origins: Mapping[str, int]) -> list[bool]:
    """Whether each cluster among some sets is missed."""
    found: dict[int, list[bool]] = defaultdict(list)
    for key in keys:
        found[origins[key]].append(key in missed)
    return [2 * sum(each) >= len(each) for each in found.values()]


def _hypergeometric(hits: int, drawn: int, marked: int, total: int) -> float:
    """Chance of ``hits`` or more marked ones among ``drawn`` of ``total`` with ``marked`` marked ones."""
    ways = sum(comb(marked, k) * comb(total - marked, drawn - k) for k in range(hits, min(drawn, marked) + 1))
    return ways / comb(total, drawn)
