"""Recording answers: each event once, never over a newer answer, and nothing acknowledged before it is kept."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from carb_cli.review.asked import ReviewItem
from carb_cli.review.opinions import Event, ReviewAnswer, mismatch
from carb_cli.review.review_file import now

__all__ = ["GivenAnswer", "Recorded", "add_items", "given", "items", "record"]


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

    @property
    def done(self) -> bool:
        """Is the event in the file?"""
        return self.state in ("kept", "known")


@dataclass(frozen=True)
class GivenAnswer:
    """A current answer with all that the statistics need."""

    item: ReviewItem
    reviewer: str
    answer: ReviewAnswer
    shown: tuple[str, ...]
    active_ms: int


def add_items(db: sqlite3.Connection, found: Iterable[ReviewItem]) -> None:
    """Add items that the file has not."""
    rows = [(i.id, i.set_id, i.kind, i.culture, i.domain, i.model_dump_json()) for i in found]
    db.executemany("INSERT OR IGNORE INTO item VALUES (?, ?, ?, ?, ?, ?)", rows)


def items(db: sqlite3.Connection) -> dict[str, ReviewItem]:
    """All items by id."""
    rows = db.execute("SELECT id, content FROM item WHERE kind = 'choice' ORDER BY rowid")
    return {row["id"]: ReviewItem.model_validate_json(row["content"]) for row in rows}


def item(db: sqlite3.Connection, id_: str) -> ReviewItem | None:
    """An item by id."""
    row = db.execute("SELECT content FROM item WHERE id = ? AND kind = 'choice'", (id_,)).fetchone()
    return None if row is None else ReviewItem.model_validate_json(row["content"])


def record(
    db: sqlite3.Connection, reviewer: str, event: Event, known: Mapping[str, ReviewItem] | None = None
) -> Recorded:
    """Keep an event of a reviewer, in a transaction of the caller.

    The same id counts once. ``base`` is the revision that the reviewer saw: an event on an older one than the current
    is a conflict, which the reviewer decides. One on a newer one comes from before a backup was restored, and is kept.

    Args:
        db: the file, in a transaction.
        reviewer: id of the reviewer.
        event: the answer, with its own id and the revision that the reviewer saw.
        known: all items, where the caller has them; else the item is read from the file.
    """
    before = db.execute(
        "SELECT assignment.reviewer, answer.revision FROM event JOIN assignment ON assignment.id = event.assignment "
        "JOIN answer ON answer.assignment = assignment.id WHERE event.id = ?",
        (str(event.id),),
    ).fetchone()
    if before is not None:
        if before["reviewer"] != reviewer:
            return Recorded("refused", reason="this event belongs to another reviewer")
        return Recorded("known", before["revision"])
    asked = item(db, event.item) if known is None else known.get(event.item)
    if asked is None:
        return Recorded("refused", reason="this item is not, or no longer, part of the review")
    reason = mismatch(event, asked)
    if reason is not None:
        return Recorded("refused", reason=reason)
    shown = json.dumps(event.shown)
    db.execute(
        "INSERT OR IGNORE INTO assignment (item, reviewer, shown, lease) VALUES (?, ?, ?, 0)",
        (event.item, reviewer, shown),
    )
    row = db.execute(
        "SELECT assignment.id, coalesce(answer.revision, 0) AS revision, answer.payload FROM assignment "
        "LEFT JOIN answer ON answer.assignment = assignment.id WHERE item = ? AND reviewer = ?",
        (event.item, reviewer),
    ).fetchone()
    if event.base < row["revision"]:
        return Recorded("conflict", row["revision"], "a newer answer is there", json.loads(row["payload"]))
    revision = event.base + 1
    payload = event.answer.model_dump_json()
    db.execute(
        "INSERT INTO event (id, assignment, base, revision, payload, shown, active_ms, device_time, server_time) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            str(event.id), row["id"], event.base, revision, payload, shown, event.active_ms, event.device_time, now(),
        ),
    )  # fmt: skip
    db.execute(
        "INSERT INTO answer VALUES (?, ?, ?, ?, ?) ON CONFLICT (assignment) DO UPDATE SET "
        "revision = excluded.revision, payload = excluded.payload, shown = excluded.shown, "
        "active_ms = active_ms + excluded.active_ms",
        (row["id"], revision, payload, shown, event.active_ms),
    )
    return Recorded("kept", revision)


def given(db: sqlite3.Connection) -> Iterator[GivenAnswer]:
    """All current answers of people who consented."""
    known = items(db)
    rows = db.execute(
        "SELECT assignment.item, assignment.reviewer, answer.payload, answer.shown, answer.active_ms "
        "FROM answer JOIN assignment ON assignment.id = answer.assignment "
        "JOIN item ON item.id = assignment.item WHERE kind = 'choice' ORDER BY assignment.reviewer, item.rowid"
    )
    for row in rows:
        yield GivenAnswer(
            item=known[row["item"]],
            reviewer=row["reviewer"],
            answer=ReviewAnswer.model_validate_json(row["payload"]),
            shown=tuple(json.loads(row["shown"])),
            active_ms=row["active_ms"],
        )
