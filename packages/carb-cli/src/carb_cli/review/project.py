"""A review as a whole: made from a data set, opened again, and described."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection
from pathlib import Path

from carb_cli.review import people, recording
from carb_cli.review.items import items_of
from carb_cli.review.languages import language_of
from carb_cli.review.order import ReviewPlan
from carb_cli.review.store import connect, transaction
from carb_data import CarbError, Dataset

__all__ = ["create", "plan_of", "setting"]

RANDOM_SHARE = 0.3


def create(
    path: Path,
    dataset: Dataset,
    name: str,
    *,
    versions: bool = False,
    gold: Collection[str] = (),
    per_set: int | None = None,
    random_share: float = RANDOM_SHARE,
) -> sqlite3.Connection:
    """Make a review file, or open one of the same data set.

    Args:
        path: the review file to make or to open.
        dataset: the sets to review.
        name: the data set's name, as the page shows it.
        versions: whether to ask about perturbed versions as well.
        gold: ids of sets whose key is beyond doubt.
        per_set: reviewers wanted for each set; null for all.
        random_share: share of the sets that each reviewer gets in an order that no answer changes.

    Raises:
        CarbError: the data set is empty, a gold id is unknown, or the file is of another data set.
    """
    if not len(dataset):
        raise CarbError("There is no set to review; check --culture.")
    unknown = sorted(set(gold) - {item.id for item in dataset})
    if unknown:
        raise CarbError(f"--gold names sets that are not in the data set: {', '.join(unknown[:5])}.")
    if not 0 <= random_share <= 1 or (per_set is not None and per_set < 1):
        raise CarbError("--random-share lies between 0 and 1, and --per-set is at least 1.")
    db = connect(path, create=True)
    made = {
        "data": name,
        "language": language_of(dataset[0].culture),
        "fingerprint": dataset.fingerprint,
        "seed": str(secrets.randbits(60)),
        "random_share": repr(random_share),
        "per_set": "" if per_set is None else str(per_set),
    }
    with transaction(db):
        before = setting(db, "fingerprint")
        if before is not None and before != dataset.fingerprint:
            raise CarbError(f"{path} is a review of other data ({setting(db, 'data')}); name another --out.")
        db.executemany("INSERT OR IGNORE INTO project VALUES (?, ?)", made.items())
        recording.add_items(db, items_of(dataset, versions=versions), gold)
    return db


def setting(db: sqlite3.Connection, name: str) -> str | None:
    """A stored setting of the review."""
    row = db.execute("SELECT value FROM project WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row["value"])


def plan_of(db: sqlite3.Connection) -> ReviewPlan:
    """How the review is handed out."""
    per_set = setting(db, "per_set")
    return ReviewPlan(
        seed=int(setting(db, "seed") or 0),
        random_share=float(setting(db, "random_share") or 1),
        per_set=int(per_set) if per_set else None,
    )


def hand_out(db: sqlite3.Connection, reviewers: int) -> list[tuple[str, str]]:
    """Add reviewers up to a number, and make a link for each new one.

    Returns:
        Name and token of each new reviewer.
    """
    made = []
    with transaction(db):
        for id_ in people.add_reviewers(db, reviewers):
            name = db.execute("SELECT name FROM reviewer WHERE id = ?", (id_,)).fetchone()["name"]
            made.append((name, people.make_link(db, id_)))
    return made
