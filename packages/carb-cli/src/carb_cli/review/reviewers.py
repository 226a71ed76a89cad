"""Reviewers, their private links and their sessions. Tokens are stored as hashes only."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from dataclasses import dataclass

from carb_cli.review.opinions import Person
from carb_cli.review.review_file import now, transaction
from carb_data import CarbError

__all__ = ["Who", "add_reviewers", "admit", "enter", "forget", "introduce", "make_link", "revoke", "who"]

LINK_DAYS = 90
SESSION_DAYS = 30
_DAY = 86_400.0


@dataclass(frozen=True)
class Who:
    """Whose session it is."""

    reviewer: str | None
    """Null for the organiser."""


def hashed(token: str) -> bytes:
    """What is stored of a token. It has 256 random bits, so that a plain hash cannot be reversed by trying."""
    return hashlib.sha256(token.encode()).digest()


def add_reviewers(db: sqlite3.Connection, count: int) -> list[str]:
    """Add reviewers called ``reviewer N``, until there are ``count``.

    Returns:
        The ids of the new ones.
    """
    made = []
    while db.execute("SELECT count(*) FROM reviewer").fetchone()[0] < count:
        id_ = secrets.token_hex(8)
        number = db.execute("SELECT count(*) FROM reviewer").fetchone()[0] + 1
        while db.execute("SELECT 1 FROM reviewer WHERE name = ?", (f"reviewer {number}",)).fetchone():
            number += 1
        db.execute("INSERT INTO reviewer (id, name, created) VALUES (?, ?, ?)", (id_, f"reviewer {number}", now()))
        made.append(id_)
    return made


def make_link(db: sqlite3.Connection, reviewer: str | None, days: float = LINK_DAYS) -> str:
    """Make a new private link; older ones of the same person end, with the sessions that they opened.

    Args:
        db: the file, in a transaction.
        reviewer: the reviewer's id; null for the organiser's board.
        days: days until the link ends.

    Returns:
        The token, which is stored nowhere.
    """
    revoke(db, reviewer)
    token = secrets.token_urlsafe(32)
    db.execute(
        "INSERT INTO link (hash, reviewer, created, expires) VALUES (?, ?, ?, ?)",
        (hashed(token), reviewer, now(), now() + days * _DAY),
    )
    return token


def revoke(db: sqlite3.Connection, reviewer: str | None) -> None:
    """End the links and sessions of a person."""
    db.execute("DELETE FROM session WHERE link IN (SELECT hash FROM link WHERE reviewer IS ?)", (reviewer,))
    db.execute("UPDATE link SET revoked = ? WHERE reviewer IS ? AND revoked IS NULL", (now(), reviewer))


def enter(db: sqlite3.Connection, token: str) -> str | None:
    """Exchange the token of a link for that of a new session; null where the link is unknown, revoked or ended."""
    link = db.execute("SELECT * FROM link WHERE hash = ?", (hashed(token),)).fetchone()
    if link is None or link["revoked"] is not None or link["expires"] < now():
        return None
    session = secrets.token_urlsafe(32)
    db.execute("DELETE FROM session WHERE expires < ?", (now(),))
    db.execute(
        "INSERT INTO session VALUES (?, ?, ?, ?)", (hashed(session), link["hash"], now(), now() + SESSION_DAYS * _DAY)
    )
    db.execute("UPDATE link SET used = ? WHERE hash = ?", (now(), link["hash"]))
    return session


def who(db: sqlite3.Connection, session: str) -> Who | None:
    """Whose session it is; null where there is none."""
    row = db.execute(
        "SELECT link.reviewer FROM session JOIN link ON link.hash = session.link "
        "WHERE session.hash = ? AND session.expires >= ? AND link.revoked IS NULL AND link.expires >= ?",
        (hashed(session), now(), now()),
    ).fetchone()
    return None if row is None else Who(row["reviewer"])


def introduce(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Store what a reviewer says of themselves.

    Raises:
        CarbError: somebody else has this name.
    """
    if person.name:
        taken = db.execute("SELECT 1 FROM reviewer WHERE name = ? AND id != ?", (person.name, reviewer)).fetchone()
        if taken:
            raise CarbError("This name is taken by another reviewer; choose another.")
        db.execute("UPDATE reviewer SET name = ? WHERE id = ?", (person.name, reviewer))
    db.execute(
        "UPDATE reviewer SET region = ?, age = ?, language = ?, consent = ?, consented = coalesce(consented, ?) "
        "WHERE id = ?",
        (person.region, person.age, person.language, person.consent, now(), reviewer),
    )


def admit(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Make a reviewer who answered elsewhere known; a name that is taken gets a number."""
    if db.execute("SELECT 1 FROM reviewer WHERE id = ?", (reviewer,)).fetchone() is None:
        wanted = person.name or "reviewer"
        name, number = wanted, 1
        while db.execute("SELECT 1 FROM reviewer WHERE name = ?", (name,)).fetchone():
            number += 1
            name = f"{wanted} {number}"
        db.execute("INSERT INTO reviewer (id, name, created) VALUES (?, ?, ?)", (reviewer, name, now()))
    introduce(db, reviewer, person.model_copy(update={"name": ""}))


def named(db: sqlite3.Connection, name: str) -> str:
    """The id of a reviewer by name or id.

    Raises:
        CarbError: there is none.
    """
    row = db.execute("SELECT id FROM reviewer WHERE name = ? OR id = ?", (name, name)).fetchone()
    if row is None:
        names = [r["name"] for r in db.execute("SELECT name FROM reviewer ORDER BY name LIMIT 20")]
        raise CarbError(f"There is no reviewer '{name}'. There are: {', '.join(names) or 'none'}.")
    return str(row["id"])


def forget(db: sqlite3.Connection, name: str) -> int:
    """Remove a person with all answers, events, links and sessions; then empty the log and rewrite the file.

    Not called within a transaction. Backups made before keep what they have.

    Returns:
        How many answers went with the person.
    """
    with transaction(db):
        id_ = named(db, name)
        mine = "SELECT id FROM assignment WHERE reviewer = ?"
        answers = db.execute(f"SELECT count(*) FROM answer WHERE assignment IN ({mine})", (id_,)).fetchone()[0]  # noqa: S608 (a constant)
        db.execute("DELETE FROM reviewer WHERE id = ?", (id_,))
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(answers)
