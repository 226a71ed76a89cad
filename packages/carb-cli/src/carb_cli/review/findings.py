"""What a review says: the human line, agreement, each reviewer, the verdict on each set, and votes for the data set."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from carb_cli.review import recording
from carb_cli.review.handing_out import setting
from carb_cli.review.recording import GivenAnswer
from carb_cli.review.verdicts import (
    MIN_REVIEWS,
    RULES_NAME,
    VERDICTS,
    Decision,
    SetTally,
    decide,
    tallies,
)
from carb_data import BonSet, CarbError, Dataset, Response, Votes
from carb_data.check import incomplete_families
from carb_data.models import Frozen
from carb_data.validation import read_file
from carb_metrics import agreement, human_line
from carb_metrics.rows import Estimate, HumanLine

__all__ = ["WHOLE", "Applied", "Findings", "ReviewerRow", "apply", "board", "companion", "find", "line_beside"]

SUFFIX = ".review.json"
"""Ending of the file beside a reviewed data set."""
WHOLE = ""
"""Name of the human line over all sets."""


class AgreementPart(Frozen):
    """Do reviewers pick the same answer? Nominal, over sets with two picks or more."""

    sets: int
    percent: Estimate
    krippendorff: Estimate
    gwet: Estimate


class ReviewerRow(Frozen):
    """One reviewer. Shares are null where there is nothing to count."""

    name: str
    region: str
    answered: int
    unknown: int
    picks: int
    """Sets on which an answer was picked."""
    key: float | None
    """Share of the picks that are the key."""
    pairs: int
    """Picks of other people on the same sets."""
    others: float | None
    """Share of these pairs in which both picked the same."""
    chance: float | None
    """What random picks would reach in ``key`` and ``others``: the mean of 1/N over the picks."""
    seconds: float | None
    """Median time on an item."""
    first: float | None
    """Share of picks that were on top of the screen. Far above ``chance``, the reviewer may not read."""


class Findings(Frozen):
    """Everything that the answers say so far."""

    data: str
    fingerprint: str
    rules: str
    """Name and version of the rules."""
    lines: dict[str, HumanLine]
    """The human line over all (``WHOLE``), and of each ``culture/``, ``/domain`` and ``culture/domain``. Retired sets
    count: it is not raised by leaving out what people did not agree on."""
    agreement: AgreementPart
    reviewers: tuple[ReviewerRow, ...]
    verdicts: dict[str, int]
    needed: int
    """Reviews that open sets still need."""
    sets: tuple[SetTally, ...]
    decisions: tuple[Decision, ...]


def find(db: sqlite3.Connection) -> Findings:
    """Everything that the answers in an open review file say so far."""
    answers = list(recording.given(db))
    counted = tallies(recording.items(db).values(), answers)
    people = db.execute("SELECT id, name, region FROM reviewer ORDER BY created, rowid")
    return Findings(
        data=setting(db, "data") or "",
        fingerprint=setting(db, "fingerprint") or "",
        rules=RULES_NAME,
        lines=_lines(answers),
        agreement=_agreement(answers),
        reviewers=tuple(_reviewer(row["id"], row["name"], row["region"], answers) for row in people),
        sets=tuple(counted),
        decisions=tuple(decide(one) for one in counted),
        **_needs(counted),
    )


def _line(answers: Sequence[GivenAnswer]) -> HumanLine:
    """The human line over the picks among the answers; objections and "I don't know" are no picks."""
    picks = [one for one in answers if one.answer.best is not None]
    return human_line(
        [int(one.answer.best == one.item.key) for one in picks],
        [one.item.source_item for one in picks],
        [one.reviewer for one in picks],
    )


def _lines(answers: Sequence[GivenAnswer]) -> dict[str, HumanLine]:
    groups: dict[str, list[GivenAnswer]] = defaultdict(list)
    for one in answers:
        culture, domain = one.item.culture, one.item.domain
        for name in (WHOLE, f"{culture}/", f"/{domain}", f"{culture}/{domain}"):
            groups[name].append(one)
    return {name: _line(groups[name]) for name in sorted({*groups, WHOLE})}


def _agreement(answers: Sequence[GivenAnswer]) -> AgreementPart:
    """Picks by the answer's place in the item's own order, which is random and so means the same on every set."""
    cells = {(one.item.id, one.reviewer): one for one in answers if one.answer.best is not None}
    people = sorted({name for _, name in cells})
    rows: list[list[int | None]] = []
    for id_ in dict.fromkeys(item for item, _ in cells):
        found = [cells.get((id_, name)) for name in people]
        rows.append([None if one is None else one.item.tokens.index(str(one.answer.best)) for one in found])
    if len(people) < 2:
        return AgreementPart(sets=0, percent=Estimate(), krippendorff=Estimate(), gwet=Estimate())
    size = max(len(one.item.tokens) for one in cells.values())
    made = agreement(rows, categories=list(range(size)))
    return AgreementPart(sets=made.items, percent=made.percent, krippendorff=made.krippendorff, gwet=made.gwet)


def _reviewer(id_: str, name: str, region: str, answers: Sequence[GivenAnswer]) -> ReviewerRow:
    mine = [one for one in answers if one.reviewer == id_]
    picks = {one.item.id: one for one in mine if one.answer.best is not None}
    same = [
        one.answer.best == picks[one.item.id].answer.best
        for one in answers
        if one.reviewer != id_ and one.item.id in picks and one.answer.best is not None
    ]
    times = [one.active_ms / 1000 for one in mine if one.active_ms]
    return ReviewerRow(
        name=name,
        region=region,
        answered=len(mine),
        unknown=sum(one.answer.status == "unknown" for one in mine),
        picks=len(picks),
        key=_mean([one.answer.best == one.item.key for one in picks.values()]),
        pairs=len(same),
        others=_mean(same),
        chance=_mean([1 / len(one.item.tokens) for one in picks.values()]),
        seconds=median(times) if times else None,
        first=_mean([one.shown[0] == one.answer.best for one in picks.values()]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def board(db: sqlite3.Connection) -> dict[str, Any]:
    """The progress so far, which the organiser's page shows: who answered how much, and what the sets need."""
    total = db.execute("SELECT count(*) FROM item").fetchone()[0]
    rows = db.execute(
        "SELECT reviewer.name, count(DISTINCT answer.assignment) AS answered, max(event.server_time) AS last "
        "FROM reviewer LEFT JOIN assignment ON assignment.reviewer = reviewer.id "
        "LEFT JOIN answer ON answer.assignment = assignment.id LEFT JOIN event ON event.assignment = assignment.id "
        "GROUP BY reviewer.id ORDER BY reviewer.created, reviewer.rowid"
    )
    counted = tallies(recording.items(db).values(), recording.given(db))
    return {
        "data": setting(db, "data") or "",
        "reviewers": [dict(row) | {"of": total} for row in rows],
        **_needs(counted),
    }


def _needs(counted: Sequence[SetTally]) -> dict[str, Any]:
    """How many sets have which verdict, and how many reviews open ones need."""
    verdicts = Counter(decide(one).verdict for one in counted)
    needed = sum(max(0, MIN_REVIEWS - one.reviews) for one in counted)
    return {"verdicts": {name: verdicts[name] for name in VERDICTS}, "needed": needed}


class Applied(Frozen):
    """The file beside a reviewed data set."""

    fingerprint: str
    """Fingerprint of the reviewed data set that was written."""
    kept: int
    """Sets written; retired ones are not."""
    incomplete: tuple[str, ...] = ()
    """Mirrored families of the written sets that lack the set of one of their answers: accuracy over families leaves
    them out."""
    findings: Findings


def apply(dataset: Dataset, findings: Findings, *, verified_only: bool = False) -> tuple[Dataset, Applied]:
    """Put votes on every reviewed response, mark verified sets, and leave retired ones out.

    Args:
        dataset: the data set that was reviewed.
        findings: what the review says.
        verified_only: whether to keep verified sets alone.

    Raises:
        CarbError: the review is of another data set.
    """
    counted = {one.set_id: one for one in findings.sets}
    decided = {one.set_id: one for one in findings.decisions}
    unknown = sorted(set(counted) - {item.id for item in dataset})
    if unknown:
        raise CarbError(f"The review is of other data: it has sets that --data has not, such as {unknown[0]}.")
    wanted = ("keep",) if verified_only else ("keep", "fix", "open")
    made = Dataset(
        _voted(item, counted[item.id], decided[item.id], findings.rules) if item.id in counted else item
        for item in dataset
        if (decided[item.id].verdict if item.id in decided else "open") in wanted
    )
    incomplete = tuple(str(made[one.item_id].family) for one in incomplete_families(made))
    return made, Applied(fingerprint=made.fingerprint, kept=len(made), incomplete=incomplete, findings=findings)


def _voted(item: BonSet, counted: SetTally, decision: Decision, rules: str) -> BonSet:
    if not counted.picks:
        return item
    found = {option.response: option for option in counted.options}

    def with_votes(response: Response) -> Response:
        option = found[response.id]
        return response.model_copy(update={"votes": Votes(asked=counted.picks, right=option.best + option.right)})

    update: dict[str, object] = {"responses": tuple(map(with_votes, item.responses))}
    if decision.verdict == "keep":
        mark = f"verified by {counted.reviews} native speakers (rules {rules})"
        notes = "; ".join(part for part in (item.provenance.notes, mark) if part)
        update["provenance"] = item.provenance.model_copy(update={"notes": notes})
    return item.model_copy(update=update)


def companion(path: Path) -> Path:
    """Path of the file beside a reviewed data set."""
    return path.with_name(f"{path.stem}{SUFFIX}")


def line_beside(path: Path) -> Applied | None:
    """What people said of a data set, for reports that show the human line; null where it was not reviewed.

    Args:
        path: the file of the data set.

    Raises:
        CarbError: the file beside it cannot be read.
    """
    beside = companion(path)
    if not beside.is_file():
        return None
    return read_file(Applied, beside, "result of `carb review apply`")
