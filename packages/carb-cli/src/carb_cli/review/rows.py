"""Answers as flat rows: the form in which sheets and other tools give them back."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from carb_cli.review import people, recording
from carb_cli.review.answers import Event, Opinion, Person, ReviewAnswer
from carb_cli.review.items import ReviewItem
from carb_cli.review.recording import Recorded
from carb_cli.review.store import now
from carb_data.models import Frozen
from carb_data.validation import first_defect

__all__ = ["UNKNOWN", "WRONG_QUESTION", "AnswerRow", "admit", "record_rows"]

UNKNOWN, WRONG_QUESTION = "?", "x"
_SPACE = uuid.UUID("6c0c5a60-2f5e-4a3c-9b6e-0d7f8a4b1c2d")
"""Name space of the ids of events that are made from rows."""


class AnswerRow(Frozen):
    """One answer. Places are 1-based and follow ``shown``."""

    item: str
    shown: tuple[str, ...]
    best: str
    """A place, ``?`` for "I don't know", or ``x`` for "this question is wrong"."""
    right: tuple[int, ...] = ()
    """Places of other answers that are right here too; what is named nowhere is wrong here."""
    depends: tuple[int, ...] = ()
    on: tuple[str, ...] = ()
    which: str = ""
    unnatural: tuple[int, ...] = ()
    source: str = ""
    comment: str = ""
    seconds: float = 0

    def answer(self) -> ReviewAnswer:
        """The row as an answer.

        Raises:
            ValueError: a place is none, or it depends on nothing.
        """
        free = {"source": self.source, "comment": self.comment}
        if self.best in (UNKNOWN, WRONG_QUESTION):
            return ReviewAnswer.model_validate({"status": "unknown" if self.best == UNKNOWN else "objected", **free})
        best = int(self.best) if self.best.isdecimal() else 0
        places = {best, *self.right, *self.depends, *self.unnatural}
        if not all(1 <= place <= len(self.shown) for place in places):
            raise ValueError(f"answers are numbered 1 to {len(self.shown)}")
        opinions: dict[str, Any] = {}
        for place, token in enumerate(self.shown, start=1):
            verdict = "best" if place == best else "right" if place in self.right else "wrong"
            verdict = "depends" if place in self.depends and place != best else verdict
            more = {"on": self.on, "which": self.which} if verdict == "depends" else {}
            opinions[token] = Opinion.model_validate(
                {"verdict": verdict, "natural": place not in self.unnatural, **more}
            )
        return ReviewAnswer.model_validate({"status": "answered", "opinions": opinions, **free})


def admit(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Make a reviewer who answered elsewhere known; a name that is taken gets a number."""
    if db.execute("SELECT 1 FROM reviewer WHERE id = ?", (reviewer,)).fetchone() is None:
        wanted = person.name or "reviewer"
        name, number = wanted, 1
        while db.execute("SELECT 1 FROM reviewer WHERE name = ?", (name,)).fetchone():
            number += 1
            name = f"{wanted} {number}"
        db.execute("INSERT INTO reviewer (id, name, created) VALUES (?, ?, ?)", (reviewer, name, now()))
    people.introduce(db, reviewer, person.model_copy(update={"name": ""}))


def record_rows(
    db: sqlite3.Connection, reviewer: str, rows: Iterable[tuple[str, AnswerRow]], known: Mapping[str, ReviewItem]
) -> list[tuple[str, Recorded]]:
    """Record rows of a reviewer; the same row counts once, and a changed one takes the place of the former.

    Args:
        db: the file, in a transaction.
        reviewer: id of the reviewer.
        rows: pairs of a row and, before it, its place in the file, which error messages name.
        known: all items of the review, by id.
    """
    made = []
    for where, row in rows:
        try:
            answer = row.answer()
            if row.item not in known:
                raise ValueError("this item is not part of the review")
            current = db.execute(
                "SELECT answer.revision FROM answer JOIN assignment ON assignment.id = answer.assignment "
                "WHERE item = ? AND reviewer = ?",
                (row.item, reviewer),
            ).fetchone()
            event = Event(
                id=uuid.uuid5(_SPACE, f"{reviewer}\0{row.item}\0{answer.model_dump_json()}"),
                item=row.item,
                shown=row.shown,
                base=current["revision"] if current else 0,
                answer=answer,
                active_ms=int(min(max(row.seconds, 0), 86_400) * 1000),
            )
            outcome = recording.record(db, reviewer, event, known)
        except ValidationError as error:
            outcome = Recorded("refused", reason=first_defect(error))
        except ValueError as error:
            outcome = Recorded("refused", reason=str(error))
        made.append((where, outcome))
    return made
