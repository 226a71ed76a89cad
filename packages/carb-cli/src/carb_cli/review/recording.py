"""Recording answers, from the page or from files: each event once, never over a newer answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from carb_cli.review import handing_out
from carb_cli.review.asking import Event, Person, Question, ReviewAnswer, ReviewItem, Sent, mismatch, stored
from carb_cli.review.review_file import transaction
from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import read_file


@dataclass(frozen=True)
class Recorded:
    """What became of an event."""

    state: Literal["kept", "known", "conflict", "refused"]
    """``known``: it had been kept before; ``conflict``: a newer answer is there; ``refused``: it fits no item."""
    revision: int = 0
    """The current revision of the answer."""
    reason: str = ""
    answer: dict[str, Any] | None = None
    """The newer answer, on a conflict."""


@dataclass(frozen=True)
class GivenAnswer:
    """A current answer with all that the statistics need."""

    item: ReviewItem
    reviewer: str
    answer: ReviewAnswer
    shown: tuple[str, ...]
    active_ms: int


MOST_QUESTIONS = 100
"""The largest number of questions that one person may write."""


def record(db: sqlite3.Connection, reviewer: str, event: Event | Question) -> Recorded:
    """Keep what a reviewer sent, in a transaction of the caller.

    The same id counts once. ``base`` is the revision that the reviewer saw. Where it is older than the current one,
    the reviewer decides between both. Where it is newer, a backup was restored in between, and the event is kept.

    Args:
        db: the file, in a transaction.
        reviewer: id of the reviewer.
        event: the answer, with its own id and the revision that the reviewer saw; or a question.
    """
    if isinstance(event, Question):
        return _record_question(db, reviewer, event)
    before = db.execute(
        "SELECT reviewer, revision FROM event JOIN assignment ON assignment.id = assignment WHERE event.id = ?",
        (str(event.id),),
    ).fetchone()
    if before is not None:
        if before["reviewer"] != reviewer:
            return Recorded("refused", reason="this event belongs to another reviewer")
        return Recorded("known", before["revision"])
    # Nobody is asked their own question.
    asked = db.execute("SELECT content FROM item WHERE id = ? AND writer IS NOT ?", (event.item, reviewer)).fetchone()
    if asked is None:
        return Recorded("refused", reason="this item is not, or no longer, part of the review")
    if (reason := mismatch(event, stored(asked["content"]))) is not None:
        return Recorded("refused", reason=reason)
    shown = json.dumps(event.shown)
    db.execute(
        "INSERT OR IGNORE INTO assignment (item, reviewer, shown) VALUES (?, ?, ?)", (event.item, reviewer, shown)
    )
    row = db.execute(
        "SELECT id, revision, payload FROM assignment WHERE item = ? AND reviewer = ?", (event.item, reviewer)
    ).fetchone()
    if event.base < row["revision"]:
        return Recorded("conflict", row["revision"], "a newer answer is there", json.loads(row["payload"]))
    revision = event.base + 1
    db.execute("INSERT INTO event VALUES (?, ?)", (str(event.id), row["id"]))
    db.execute(
        "UPDATE assignment SET revision = ?, payload = ?, shown = ?, active_ms = active_ms + ? WHERE id = ?",
        (revision, event.answer.model_dump_json(), shown, event.active_ms, row["id"]),
    )
    return Recorded("kept", revision)


def _record_question(db: sqlite3.Connection, reviewer: str, sent: Question) -> Recorded:
    before = db.execute("SELECT writer FROM item WHERE set_id = ?", (str(sent.id),)).fetchone()
    if before is not None:
        if before["writer"] != reviewer:
            return Recorded("refused", reason="this question belongs to another reviewer")
        return Recorded("known", 1)
    place = handing_out.setting(db, "place")
    if not place:
        return Recorded("refused", reason="this review takes no questions")
    if db.execute("SELECT count(*) FROM item WHERE writer = ?", (reviewer,)).fetchone()[0] >= MOST_QUESTIONS:
        return Recorded("refused", reason=f"one person writes at most {MOST_QUESTIONS} questions")
    made = sent.as_set(*place.split())
    db.execute(
        "INSERT INTO item (id, set_id, content, writer) VALUES (?, ?, ?, ?)",
        (ReviewItem(made).id, made.id, made.model_dump_json(exclude_defaults=True), reviewer),
    )
    return Recorded("kept", 1)


def given(db: sqlite3.Connection, *, written: bool = False) -> list[tuple[ReviewItem, list[GivenAnswer]]]:
    """The items of the data set, or those that reviewers wrote, each with its current answers."""
    found = []
    for item in handing_out.items(db, written=written).values():
        rows = db.execute(
            "SELECT * FROM assignment WHERE item = ? AND payload IS NOT NULL ORDER BY reviewer", (item.id,)
        )
        answers = [
            GivenAnswer(
                item=item,
                reviewer=row["reviewer"],
                answer=ReviewAnswer.model_validate_json(row["payload"]),
                shown=tuple(json.loads(row["shown"])),
                active_ms=row["active_ms"],
            )
            for row in rows
        ]
        found.append((item, answers))
    return found


class SavedAnswers(Frozen):
    """The file that the page saves."""

    form: Literal["carb.review.answers/1"]
    reviewer: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{16,36}$")]
    person: Person
    events: tuple[Sent, ...]


class Collected(Frozen):
    """What became of the answers of files."""

    reviewers: int
    """Different people in the files."""
    new: int
    """Answers that were added or changed."""
    known: int
    """Answers that had been collected before."""
    newer: int
    """Answers left as they are, since a newer one of the same person is there."""
    refused: tuple[str, ...] = ()
    """Answers that fit no item, with the place and the reason."""


def collect(db: sqlite3.Connection, paths: Sequence[Path]) -> Collected:
    """Add the answers of files; a file that was collected before adds nothing.

    Raises:
        CarbError: a file is not one of answers, with what is wrong; then nothing of any file is added.
    """
    outcomes: list[tuple[str, Recorded]] = []
    people = set()
    with transaction(db):
        for path in paths:
            if path.suffix != ".json":
                raise CarbError(f"{path}: answers are the .json files that the page saved; reviews are not merged.")
            saved = read_file(SavedAnswers, path, "file of answers that the review page saved")
            handing_out.admit(db, saved.reviewer, saved.person)
            outcomes += [(f"{path.name}: {e.id}", record(db, saved.reviewer, e)) for e in saved.events]
            people.add(saved.reviewer)
    states = [outcome.state for _, outcome in outcomes]
    return Collected(
        reviewers=len(people),
        new=states.count("kept"),
        known=states.count("known"),
        newer=states.count("conflict"),
        refused=tuple(f"{where}: {outcome.reason}" for where, outcome in outcomes if outcome.state == "refused"),
    )
