"""A review as a whole: made from a data set, with its people, and handed out to them item by item."""

from __future__ import annotations

import json
import random
import secrets
import sqlite3
from pathlib import Path

from carb_cli.review import auth
from carb_cli.review.asking import Person, ReviewItem, stored
from carb_cli.review.page_parts import language_of
from carb_cli.review.review_file import connect, transaction
from carb_data import CarbError, Dataset


def create(path: Path, dataset: Dataset, name: str, *, beat: str | None = None, url: str = "") -> sqlite3.Connection:
    """Make a review file, or open one of the same data set.

    Args:
        path: the review file to make or to open.
        dataset: the sets to review.
        name: the data set's name, for `carb review apply`.
        beat: name of the scorer that people try to fool with questions of their own; empty where they write without
            one, null where they write none.
        url: address of the page; empty where none is served, and then a review that was served keeps its own.

    Raises:
        CarbError: the data set is empty or, with ``beat``, of several places; or the file is of another data set.
    """
    if not len(dataset):
        raise CarbError("There is no set to review; check --culture.")
    places = set() if beat is None else {f"{one.culture} {one.language}" for one in dataset}
    if len(places) > 1:
        raise CarbError("People write questions about one place in one language; name it with --culture.")
    db = connect(path, create=True)
    made = {
        "data": name,
        "language": language_of(dataset[0].culture),
        "fingerprint": dataset.fingerprint,
        "id": secrets.token_hex(8),
    }
    with transaction(db):
        before = setting(db, "fingerprint")
        if before not in ("", dataset.fingerprint):
            raise CarbError(f"{path} is a review of other data ({setting(db, 'data')}); name another --out.")
        db.executemany("INSERT OR IGNORE INTO project VALUES (?, ?)", made.items())
        now_so = {"place": "".join(places), "model": beat or "", "url": url}
        if url or beat is not None:
            db.executemany("INSERT OR REPLACE INTO project VALUES (?, ?)", now_so.items())
        db.executemany(
            "INSERT OR IGNORE INTO item (id, set_id, content) VALUES (?, ?, ?)",
            [(ReviewItem(one).id, one.id, one.model_dump_json(exclude_defaults=True)) for one in dataset],
        )
    return db


def setting(db: sqlite3.Connection, name: str) -> str:
    """A stored setting of the review; empty where it is not set."""
    row = db.execute("SELECT value FROM project WHERE name = ?", (name,)).fetchone()
    return "" if row is None else str(row["value"])


def items(db: sqlite3.Connection, *, written: bool = False) -> dict[str, ReviewItem]:
    """The items of the data set, or those that reviewers wrote, by id."""
    rows = db.execute("SELECT id, content FROM item WHERE (writer IS NOT NULL) = ? ORDER BY rowid", (written,))
    return {row["id"]: stored(row["content"]) for row in rows}


def invite(db: sqlite3.Connection, count: int) -> list[tuple[str, str]]:
    """Add reviewers called ``reviewer N`` until there are ``count``, and make a link for each new one.

    Returns:
        Name and token of each new reviewer.
    """
    made = []
    with transaction(db):
        while (number := db.execute("SELECT count(*) + 1 FROM reviewer").fetchone()[0]) <= count:
            id_ = secrets.token_hex(8)
            made.append((_add(db, id_, f"reviewer {number}"), auth.make_link(db, id_)))
    return made


def admit(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Make a reviewer who answered elsewhere known."""
    if db.execute("SELECT 1 FROM reviewer WHERE id = ?", (reviewer,)).fetchone() is None:
        _add(db, reviewer, person.name or "reviewer")
    introduce(db, reviewer, person)


def _add(db: sqlite3.Connection, id_: str, wanted: str) -> str:
    name = _free(db, id_, wanted)
    db.execute("INSERT INTO reviewer (id, name) VALUES (?, ?)", (id_, name))
    return name


def _free(db: sqlite3.Connection, reviewer: str, wanted: str) -> str:
    """The wanted name, with a number behind it if another reviewer has that name."""
    name, number = wanted, 1
    while db.execute("SELECT 1 FROM reviewer WHERE name = ? AND id != ?", (name, reviewer)).fetchone():
        number += 1
        name = f"{wanted} {number}"
    return name


def introduce(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Store what a reviewer says of themselves."""
    if person.name:
        db.execute("UPDATE reviewer SET name = ? WHERE id = ?", (_free(db, reviewer, person.name), reviewer))
    db.execute(
        "UPDATE reviewer SET region = ?, language = ?, consent = ? WHERE id = ?",
        (person.region, person.language, person.consent, reviewer),
    )


def named(db: sqlite3.Connection, name: str) -> str:
    """The id of a reviewer by name.

    Raises:
        CarbError: there is none.
    """
    row = db.execute("SELECT id FROM reviewer WHERE name = ?", (name,)).fetchone()
    if row is None:
        names = [r["name"] for r in db.execute("SELECT name FROM reviewer ORDER BY name LIMIT 20")]
        raise CarbError(f"There is no reviewer '{name}'. There are: {', '.join(names) or 'none'}.")
    return str(row["id"])


def forget(db: sqlite3.Connection, name: str) -> int:
    """Remove a person with all answers and questions and the link; then empty the log and rewrite the file.

    Not called within a transaction. Backups made before keep what they have.

    Returns:
        How many answers went with the person.
    """
    with transaction(db):
        id_ = named(db, name)
        answers = db.execute("SELECT count(payload) FROM assignment WHERE reviewer = ?", (id_,)).fetchone()[0]
        db.execute("DELETE FROM reviewer WHERE id = ?", (id_,))
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(answers)


def next_items(db: sqlite3.Connection, reviewer: str, count: int) -> list[tuple[ReviewItem, tuple[str, ...]]]:
    """Hand out the next items, each with the order of its answers.

    First come items that were handed out and not answered, then questions that people wrote, then new sets. Both
    kinds are sorted by the number of answers, then by the number of people who were asked, then at random. What people
    answered never matters here, so a plain mean over the answers is unbiased even if people stop early.

    Args:
        db: the file, in a transaction.
        reviewer: id of the reviewer.
        count: largest number of items to return.
    """
    rows = db.execute(
        "SELECT content, shown FROM assignment JOIN item ON item.id = item "
        "WHERE reviewer = ? AND payload IS NULL ORDER BY assignment.id LIMIT ?",
        (reviewer, count),
    )
    chosen = [(stored(row["content"]), tuple(json.loads(row["shown"]))) for row in rows]
    unseen = db.execute(
        "SELECT content FROM item WHERE writer IS NOT ?1 "
        "AND id NOT IN (SELECT item FROM assignment WHERE reviewer = ?1) "
        "ORDER BY writer IS NULL, (SELECT count(payload) FROM assignment WHERE item = item.id), "
        "(SELECT count(*) FROM assignment WHERE item = item.id), random() LIMIT ?2",
        (reviewer, count - len(chosen)),
    )
    for row in unseen.fetchall():
        new = stored(row["content"])
        shown = tuple(random.SystemRandom().sample(new.tokens, len(new.tokens)))
        db.execute(
            "INSERT INTO assignment (item, reviewer, shown) VALUES (?, ?, ?)", (new.id, reviewer, json.dumps(shown))
        )
        chosen.append((new, shown))
    return chosen
