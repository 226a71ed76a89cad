"""A review as a whole: made from a data set, with its people, and handed out to them item by
item."""

import json
import secrets
import sqlite3
from pathlib import Path

from carb_cli.review import auth
from carb_cli.review.asking import ReviewItem, stored
from carb_cli.review.regions import covered, region_of
from carb_cli.review.review_file import call, connect, places, setting, transaction
from carb_data import CarbError, Dataset


def create(
    path: Path, dataset: Dataset, name: str, *, beat: str | None = None, url: str = ""
) -> sqlite3.Connection:
    """Make a review file, or open one of the same data set.

    Args:
        path: the review file to make or to open.
        dataset: the sets to review.
        name: the data set's name, for `carb review apply`.
        beat: name of the scorer that people try to fool with questions of their own; empty where
            they write without one, null where they write none.
        url: address of the page; empty where none is served, and then a review that was served
            keeps its own.

    Raises:
        CarbError: the data set is empty or, with ``beat``, of several places; or the file is of
            another data set.
    """
    if not len(dataset):
        raise CarbError("There is no set to review; check --culture.")
    written_about = set()
    if beat is not None:
        written_about = {f"{i.culture} {i.language}" for i in dataset}
    if len(written_about) > 1:
        raise CarbError(
            "People write questions about one place in one language; name it with --culture."
        )
    db = connect(path, create=True)
    made = {"data": name, "fingerprint": dataset.fingerprint, "id": secrets.token_hex(8)}
    with transaction(db):
        if setting(db, "fingerprint") not in ("", dataset.fingerprint):
            raise CarbError(
                f"{path} is a review of other or older sets ({setting(db, 'data')}); name another "
                "--out."
            )
        db.executemany("INSERT OR IGNORE INTO project VALUES (?, ?)", made.items())
        now_so = {"place": "".join(written_about), "model": beat or "", "url": url}
        if url or beat is not None:
            db.executemany("INSERT OR REPLACE INTO project VALUES (?, ?)", now_so.items())
        for one in dataset:
            content = one.model_dump_json(exclude_defaults=True)
            db.execute(
                "INSERT OR IGNORE INTO item (id, set_id, content, region) VALUES (?, ?, ?, ?)",
                (ReviewItem(one).id, one.id, content, region_of(one)),
            )
    return db


def invite(db: sqlite3.Connection, count: int) -> list[tuple[str, str]]:
    """Add reviewers called ``reviewer N`` until there are ``count``, and make a link for each new
    one.

    Returns:
        Name and token of each new reviewer.
    """
    made = []
    with transaction(db):
        while (number := db.execute("SELECT count(*) + 1 FROM reviewer").fetchone()[0]) <= count:
            id_ = secrets.token_hex(8)
            made.append((call(db, id_, f"reviewer {number}"), auth.make_link(db, id_)))
    return made


def named(db: sqlite3.Connection, name: str) -> str:
    """The id of a reviewer by name.

    Raises:
        CarbError: there is none.
    """
    rows = db.execute("SELECT name, id FROM reviewer ORDER BY name")
    ids = {row["name"]: row["id"] for row in rows}
    if name not in ids:
        known = ", ".join([*ids][:20]) or "none"
        raise CarbError(f"There is no reviewer '{name}'. There are: {known}.")
    return str(ids[name])


def forget(db: sqlite3.Connection, name: str) -> int:
    """Remove a person with all answers and questions and the link; then empty the log and rewrite
    the file.

    Not called within a transaction. Backups made before keep what they have.

    Returns:
        How many answers went with the person.
    """
    with transaction(db):
        id_ = named(db, name)
        answers = db.execute(
            "SELECT count(payload) FROM assignment WHERE reviewer = ?", (id_,)
        ).fetchone()[0]
        db.execute("DELETE FROM reviewer WHERE id = ?", (id_,))
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return int(answers)


def next_items(db: sqlite3.Connection, reviewer: str, count: int) -> list[ReviewItem]:
    """Hand out the next items, at most ``count``, in a transaction of the caller.

    First come items that were handed out and not answered, then questions that people wrote, then
    new sets. All are about the country or a region that the reviewer knows. Both kinds are sorted
    by the number of answers, then by the number of people who were asked, then at random. The
    choice never depends on answers, so a plain mean over the answers is unbiased even if people
    stop early.
    """
    waiting = db.execute(
        "SELECT content FROM assignment JOIN item ON item.id = item "
        "WHERE reviewer = ? AND payload IS NULL ORDER BY assignment.id LIMIT ?",
        (reviewer, count),
    ).fetchall()
    known = json.dumps([*covered(places(db).get(reviewer, []))])
    unseen = db.execute(
        "SELECT id, content FROM item WHERE writer IS NOT ?1 AND region IN (SELECT value FROM "
        "json_each(?3)) AND id NOT IN (SELECT item FROM assignment WHERE reviewer = ?1) ORDER BY "
        "writer IS NULL, (SELECT count(payload) FROM assignment WHERE item = item.id), (SELECT "
        "count(*) FROM assignment WHERE item = item.id), random() LIMIT ?2",
        (reviewer, count - len(waiting), known),
    ).fetchall()
    db.executemany(
        "INSERT INTO assignment (item, reviewer) VALUES (?, ?)",
        [(row["id"], reviewer) for row in unseen],
    )
    return [stored(row["content"]) for row in (*waiting, *unseen)]
