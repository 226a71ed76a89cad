"""What a review says: the human line, agreement, reliability, time, regions, and the verdict on each set."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

from pydantic import Field

from carb_cli.output import Output, OutputPart
from carb_cli.review import project, recording
from carb_cli.review.items import ReviewItem
from carb_cli.review.recording import GivenAnswer
from carb_cli.review.rules import Decision, Rules, decide
from carb_cli.review.tally import SetTally, tallies
from carb_metrics import (
    Estimate,
    HumanLine,
    PoweredRow,
    RegionGap,
    agreement,
    human_line,
    prediction_powered,
    rater_reliability,
    region_gap,
)

__all__ = ["Powered", "ReviewReport", "ReviewerRow", "VersionRow", "line_of", "report"]

LABELS = ("right", "wrong", "depends")
"""Verdicts that mean the same on every set; ``best`` is right."""


class Lines(OutputPart):
    """The human line, over all and in parts."""

    overall: HumanLine
    by_culture: dict[str, HumanLine]
    by_domain: dict[str, HumanLine]
    by_culture_and_domain: dict[str, HumanLine]
    """Keys are culture/domain."""


class AgreementPart(OutputPart):
    """Do reviewers pick the same answer? Nominal, over sets with two picks or more."""

    sets: int
    percent: Estimate
    krippendorff: Estimate
    gwet: Estimate


class ReviewerRow(OutputPart):
    """One reviewer."""

    name: str
    region: str
    answered: int
    unknown: int
    key: float | None
    """Share of picks that are the key."""
    gold: float | None
    """Share of picks on gold sets that are the key; null without gold sets."""
    gold_sets: int
    reliability: float | None
    """Expected share of right verdicts, by Dawid and Skene's model with a prior."""
    low: float | None
    high: float | None
    seconds: float | None
    """Median time on an item."""
    first: float | None
    """Share of picks that were on top of the screen; far above 1/N, the reviewer may not read."""


class VersionRow(OutputPart):
    """What reviewers say of one kind of perturbed versions."""

    perturbation: str
    answers: int
    same_meaning: float | None
    same_concept: float | None
    unnatural: float | None


class Powered(OutputPart):
    """The human line from people's answers and a judge's picks together, from the random share."""

    by_culture: tuple[PoweredRow, ...]
    """All sets first, then each culture."""
    by_domain: tuple[PoweredRow, ...]


class ReviewReport(Output):
    """Output of ``carb review report --json``."""

    schema_: Literal["carb.review.report/1"] = Field(default="carb.review.report/1", alias="schema")
    data: str
    fingerprint: str
    rules: str
    """Name and version of the rules."""
    lines: Lines
    """Reviewers who were asked everything count with all answers, others with their random share alone."""
    agreement: AgreementPart
    reviewers: tuple[ReviewerRow, ...]
    regions: RegionGap
    versions: tuple[VersionRow, ...]
    powered: Powered | None = None
    """Prediction-powered estimates of the mean over sets; null without a judge's run."""
    verdicts: dict[str, int]
    needed: int
    """Reviews that open sets still need."""
    sets: tuple[SetTally, ...]
    decisions: tuple[Decision, ...]


def report(db: sqlite3.Connection, rules: Rules, judge: Mapping[str, float] | None = None) -> ReviewReport:
    """Everything that the answers say so far.

    Args:
        db: the open review file.
        rules: the rules that keep, fix or retire a set.
        judge: set id to 1 where a judge picks the key, else 0, to combine with people's answers; null without a judge.
    """
    known = recording.items(db)
    found = list(recording.given(db))
    choices = [one for one in found if one.item.kind == "choice"]
    people = {row["id"]: row for row in db.execute("SELECT * FROM reviewer ORDER BY created, rowid")}
    counted = tallies(known.values(), choices)
    decisions = [decide(one, rules) for one in counted]
    total = sum(item.kind == "choice" for item in known.values())
    verdicts = [decision.verdict for decision in decisions]
    return ReviewReport(
        data=project.setting(db, "data") or "",
        fingerprint=project.setting(db, "fingerprint") or "",
        rules=f"{rules.name}/{rules.version}",
        lines=_lines(unbiased(choices, total)),
        agreement=_agreement(choices),
        reviewers=_reviewers(found, {id_: (row["name"], row["region"]) for id_, row in people.items()}),
        regions=_regions(choices, {id_: row["region"] for id_, row in people.items()}),
        versions=_versions(found),
        powered=_powered(unbiased(choices, total), known.values(), judge) if judge else None,
        verdicts={name: verdicts.count(name) for name in ("keep", "fix", "retire", "open")},
        needed=sum(max(0, rules.min_reviews - one.reviews) for one in counted),
        sets=tuple(counted),
        decisions=tuple(decisions),
    )


def unbiased(choices: Sequence[GivenAnswer], total: int) -> list[GivenAnswer]:
    """The answers whose plain mean is unbiased: all of who was asked every set, else the random share."""
    by_person: dict[str, list[GivenAnswer]] = defaultdict(list)
    for one in choices:
        by_person[one.reviewer].append(one)
    kept: list[GivenAnswer] = []
    for mine in by_person.values():
        kept += mine if len(mine) >= total else [one for one in mine if one.arm != "telling"]
    return kept


def line_of(answers: Sequence[GivenAnswer]) -> HumanLine:
    """The human line over the picks among the answers; objections and "I don't know" are no picks."""
    picks = [one for one in answers if one.answer.best is not None]
    return human_line(
        [int(one.answer.best == one.item.key) for one in picks],
        [one.item.source_item for one in picks],
        [one.reviewer for one in picks],
    )


def _lines(answers: Sequence[GivenAnswer]) -> Lines:
    def parts(*fields: str) -> dict[str, HumanLine]:
        groups: dict[str, list[GivenAnswer]] = defaultdict(list)
        for one in answers:
            groups["/".join(getattr(one.item, name) for name in fields)].append(one)
        return {name: line_of(groups[name]) for name in sorted(groups)}

    return Lines(
        overall=line_of(answers),
        by_culture=parts("culture"),
        by_domain=parts("domain"),
        by_culture_and_domain=parts("culture", "domain"),
    )


def _table(choices: Sequence[GivenAnswer]) -> tuple[list[str], list[str], dict[tuple[str, str], GivenAnswer]]:
    cells = {(one.item.id, one.reviewer): one for one in choices}
    return list(dict.fromkeys(item for item, _ in cells)), sorted({name for _, name in cells}), cells


def _agreement(choices: Sequence[GivenAnswer]) -> AgreementPart:
    """Picks by the answer's place in the item's own order, which is random and so means the same on every set."""
    picks = [one for one in choices if one.answer.best is not None]
    ids, people, cells = _table(picks)
    rows: list[list[int | None]] = []
    for id_ in ids:
        found = [cells.get((id_, name)) for name in people]
        rows.append([None if one is None else one.item.tokens.index(str(one.answer.best)) for one in found])
    if len(people) < 2:
        return AgreementPart(sets=0, percent=Estimate(), krippendorff=Estimate(), gwet=Estimate())
    size = max(len(one.item.tokens) for one in picks)
    made = agreement(rows, categories=list(range(size)))
    return AgreementPart(sets=made.items, percent=made.percent, krippendorff=made.krippendorff, gwet=made.gwet)


def _reviewers(found: Sequence[GivenAnswer], people: dict[str, tuple[str, str]]) -> tuple[ReviewerRow, ...]:
    choices = [one for one in found if one.item.kind == "choice"]
    rated = _reliabilities([one for one in choices if one.answer.status == "answered"])
    rows = []
    for id_, (name, region) in people.items():
        mine = [one for one in choices if one.reviewer == id_]
        picks = [one for one in mine if one.answer.best is not None]
        gold = [one for one in picks if one.gold]
        times = [one.active_ms / 1000 for one in found if one.reviewer == id_ and one.active_ms]
        accuracy = rated.get(id_, (None, None, None))
        rows.append(
            ReviewerRow(
                name=name,
                region=region,
                answered=sum(one.reviewer == id_ for one in found),
                unknown=sum(one.answer.status == "unknown" for one in mine),
                key=_share([one.answer.best == one.item.key for one in picks]),
                gold=_share([one.answer.best == one.item.key for one in gold]),
                gold_sets=len(gold),
                reliability=accuracy[0],
                low=accuracy[1],
                high=accuracy[2],
                seconds=median(times) if times else None,
                first=_share([one.shown[0] == one.answer.best for one in picks]),
            )
        )
    return tuple(rows)


def _reliabilities(answered: Sequence[GivenAnswer]) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Over verdicts on single answers, which mean the same on every set."""
    ids, people, cells = _table(answered)
    if len(people) < 2:
        return {}
    rows: list[list[str | None]] = []
    for id_ in ids:
        found = [cells.get((id_, name)) for name in people]
        tokens = next(one.item.tokens for one in found if one is not None)
        for token in tokens:
            verdicts = [None if one is None else one.answer.opinions[token].verdict for one in found]
            rows.append(["right" if v == "best" else v for v in verdicts])
    made = rater_reliability(rows, people, LABELS)
    return {rater.rater: (rater.accuracy, rater.low, rater.high) for rater in made.raters}


def _regions(choices: Sequence[GivenAnswer], regions: dict[str, str]) -> RegionGap:
    """Regions are compared as written, without regard to case."""
    ids, people, cells = _table([one for one in choices if one.answer.best is not None])
    rows = []
    for id_ in ids:
        found = [cells.get((id_, name)) for name in people]
        rows.append([None if one is None else one.answer.best for one in found])
    return region_gap(rows, [regions[name].strip().casefold() or None for name in people])


def _powered(answers: Sequence[GivenAnswer], known: Iterable[ReviewItem], judge: Mapping[str, float]) -> Powered:
    """Sets of the random share that nobody answered, and all others, have the judge's pick alone."""
    import polars as pl

    picks: dict[str, list[bool]] = defaultdict(list)
    for one in answers:
        if one.answer.best is not None:
            picks[one.item.id].append(one.answer.best == one.item.key)
    chosen = [item for item in known if item.kind == "choice" and item.set_id in judge]
    frame = pl.DataFrame(
        {
            "judge": [judge[item.set_id] for item in chosen],
            "people": [_share(picks[item.id]) for item in chosen],
            "cluster": [item.source_item for item in chosen],
            "culture": [item.culture for item in chosen],
            "domain": [item.domain for item in chosen],
        },
        schema={"judge": pl.Float64, "people": pl.Float64} | dict.fromkeys(("cluster", "culture", "domain"), pl.String),
    )
    return Powered(by_culture=prediction_powered(frame, "culture"), by_domain=prediction_powered(frame, "domain"))


def _versions(found: Sequence[GivenAnswer]) -> tuple[VersionRow, ...]:
    groups: dict[str, list[GivenAnswer]] = defaultdict(list)
    for one in found:
        if one.item.kind == "version" and one.answer.status == "answered":
            groups[str(one.item.perturbation)].append(one)
    return tuple(
        VersionRow(
            perturbation=name,
            answers=len(mine),
            same_meaning=_share([o.answer.meaning == "same" for o in mine if o.answer.meaning != "unsure"]),
            same_concept=_share([o.answer.concept == "kept" for o in mine if o.answer.concept != "unsure"]),
            unnatural=_share([any(not p.natural for p in o.answer.opinions.values()) for o in mine]),
        )
        for name, mine in sorted(groups.items())
    )


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
