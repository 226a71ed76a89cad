"""A review as a whole: made from a data set, opened again, and handed out item by item."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from carb_cli.review import recording, reviewers
from carb_cli.review.asked import ReviewItem, items_of
from carb_cli.review.page_words import language_of
from carb_cli.review.review_file import connect, now, transaction
from carb_data import CarbError, Dataset

__all__ = ["HandOut", "create", "hand_out", "invite", "next_items", "setting"]

LEASE_SECONDS = 3600.0
"""How long an item that was handed out but not answered counts as taken."""


@dataclass(frozen=True)
class HandOut:
    """How a review is handed out."""

    seed: int
    """Seed of each reviewer's order."""
    per_set: int | None
    """Reviewers wanted for each item; null for all of them."""


def create(path: Path, dataset: Dataset, name: str, *, per_set: int | None = None) -> sqlite3.Connection:
    """Make a review file, or open one of the same data set.

    Args:
        path: the review file to make or to open.
        dataset: the sets to review.
        name: the data set's name, as the page shows it.
        per_set: reviewers wanted for each set; null for all.

    Raises:
        CarbError: the data set is empty, or the file is of another data set.
    """
    if not len(dataset):
        raise CarbError("There is no set to review; check --culture.")
    if per_set is not None and per_set < 1:
        raise CarbError(f"--per-set must be at least 1, got {per_set}.")
    db = connect(path, create=True)
    made = {
        "data": name,
        "language": language_of(dataset[0].culture),
        "fingerprint": dataset.fingerprint,
        "seed": str(secrets.randbits(60)),
        "per_set": "" if per_set is None else str(per_set),
    }
    with transaction(db):
        before = setting(db, "fingerprint")
        if before is not None and before != dataset.fingerprint:
            raise CarbError(f"{path} is a review of other data ({setting(db, 'data')}); name another --out.")
        db.executemany("INSERT OR IGNORE INTO project VALUES (?, ?)", made.items())
        recording.add_items(db, items_of(dataset))
    return db


def setting(db: sqlite3.Connection, name: str) -> str | None:
    """A stored setting of the review."""
    row = db.execute("SELECT value FROM project WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row["value"])


def hand_out(db: sqlite3.Connection) -> HandOut:
    """How this review is handed out."""
    per_set = setting(db, "per_set")
    return HandOut(seed=int(setting(db, "seed") or 0), per_set=int(per_set) if per_set else None)


def invite(db: sqlite3.Connection, count: int) -> list[tuple[str, str]]:
    """Add reviewers up to a number, and make a link for each new one.

    Returns:
        Name and token of each new reviewer.
    """
    made = []
    with transaction(db):
        for id_ in reviewers.add_reviewers(db, count):
            name = db.execute("SELECT name FROM reviewer WHERE id = ?", (id_,)).fetchone()["name"]
            made.append((name, reviewers.make_link(db, id_)))
    return made


def shown_order(item: ReviewItem) -> tuple[str, ...]:
    """A random order of the answers."""
    tokens = list(item.tokens)
    random.SystemRandom().shuffle(tokens)
    return tuple(tokens)


def next_items(
    db: sqlite3.Connection, known: Mapping[str, ReviewItem], reviewer: str, how: HandOut, count: int
) -> list[tuple[ReviewItem, tuple[str, ...]]]:
    """Hand out the next items: first those handed out before and not answered, then new ones, each with its order.

    Each reviewer has a random order of their own. What is handed out never depends on what anybody answered, so a
    plain mean over the answers is unbiased also where people stop early.

    Args:
        db: the file, in a transaction.
        known: all items by id.
        reviewer: id of the reviewer.
        how: the reviews wanted for each set, and the seed.
        count: largest number of items to return.
    """
    rows = db.execute(
        "SELECT assignment.item, assignment.shown, answer.revision FROM assignment "
        "LEFT JOIN answer ON answer.assignment = assignment.id WHERE reviewer = ? ORDER BY assignment.id",
        (reviewer,),
    ).fetchall()
    seen = {row["item"] for row in rows}
    waiting = [(known[row["item"]], tuple(json.loads(row["shown"]))) for row in rows if row["revision"] is None]
    chosen = waiting[:count]
    db.executemany(
        "UPDATE assignment SET lease = ? WHERE item = ? AND reviewer = ?",
        [(now() + LEASE_SECONDS, item.id, reviewer) for item, _ in chosen],
    )
    if len(chosen) == count or len(seen) == len(known):
        return chosen
    taken = _taken(db, reviewer) if how.per_set else {}
    left = [
        item
        for item in known.values()
        if item.id not in seen and (how.per_set is None or taken.get(item.id, 0) < how.per_set)
    ]
    left.sort(key=lambda item: (taken.get(item.id, 0), _place(how.seed, reviewer, item.id)))
    for item in left[: count - len(chosen)]:
        shown = shown_order(item)
        db.execute(
            "INSERT INTO assignment (item, reviewer, shown, lease) VALUES (?, ?, ?, ?)",
            (item.id, reviewer, json.dumps(shown), now() + LEASE_SECONDS),
        )
        chosen.append((item, shown))
    return chosen


def _place(seed: int, reviewer: str, item: str) -> bytes:
    """Where an item stands in the order of a reviewer."""
    return hashlib.blake2b(f"{seed}\0{reviewer}\0{item}".encode(), digest_size=8).digest()


def _taken(db: sqlite3.Connection, reviewer: str) -> dict[str, int]:
    """How many others answered an item, or were handed it out not long ago."""
    rows = db.execute(
        "SELECT assignment.item, count(*) AS n FROM assignment LEFT JOIN answer ON answer.assignment = assignment.id "
        "WHERE reviewer != ? AND (answer.assignment IS NOT NULL OR assignment.lease > ?) GROUP BY assignment.item",
        (reviewer, now()),
    )
    return {row["item"]: row["n"] for row in rows}
