"""Progress: who has answered how much, and how many reviews are still needed."""

from __future__ import annotations

import sqlite3
from typing import Literal

from pydantic import Field

from carb_cli.output import Output, OutputPart
from carb_cli.review import recording
from carb_cli.review.project import setting
from carb_cli.review.rules import decide, read_rules
from carb_cli.review.tally import tallies

__all__ = ["Board", "board"]


class ReviewerProgress(OutputPart):
    """A reviewer's progress."""

    name: str
    answered: int
    of: int
    last: float | None
    """When the last answer came, in seconds since 1970; null before the first."""


class Board(Output):
    """The progress of a review."""

    schema_: Literal["carb.review.board/1"] = Field(default="carb.review.board/1", alias="schema")
    data: str
    reviewers: tuple[ReviewerProgress, ...]
    verdicts: dict[str, int]
    """Sets by verdict of the strict rules: keep, fix, retire, open."""
    needed: int
    """Reviews that open sets still need."""


def board(db: sqlite3.Connection) -> Board:
    """The progress so far."""
    total = db.execute("SELECT count(*) FROM item").fetchone()[0]
    rows = db.execute(
        "SELECT reviewer.name, count(DISTINCT answer.assignment) AS answered, max(event.server_time) AS last "
        "FROM reviewer LEFT JOIN assignment ON assignment.reviewer = reviewer.id "
        "LEFT JOIN answer ON answer.assignment = assignment.id LEFT JOIN event ON event.assignment = assignment.id "
        "GROUP BY reviewer.id ORDER BY reviewer.created, reviewer.rowid"
    )
    people = tuple(ReviewerProgress(name=r["name"], answered=r["answered"], of=total, last=r["last"]) for r in rows)
    rules = read_rules()
    found = tallies(recording.items(db).values(), recording.given(db))
    verdicts = [decide(one, rules).verdict for one in found]
    return Board(
        data=setting(db, "data") or "",
        reviewers=people,
        verdicts={name: verdicts.count(name) for name in ("keep", "fix", "retire", "open")},
        needed=sum(max(0, rules.min_reviews - one.reviews) for one in found),
    )
