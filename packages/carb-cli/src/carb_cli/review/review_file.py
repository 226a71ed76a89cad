"""The one SQLite file of a review: its tables, and how answers are written and read.

Write-ahead log with ``synchronous=FULL``: a commit is on the disk before it is acknowledged.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import StringConstraints

from carb_cli.review.asking import Event, Person, Question, ReviewItem, Sent, mismatch, stored
from carb_data import CarbError, Frozen, read_file

MOST_QUESTIONS = 100
"""The largest number of questions that one person may write."""
APPLICATION = 0x43415234
"""``application_id`` of the file: CAR4; another one where the schema changes."""
BUSY_SECONDS = 30
SCHEMA = """
CREATE TABLE project (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE reviewer (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, region TEXT NOT NULL DEFAULT '',
    places TEXT NOT NULL DEFAULT '', language TEXT NOT NULL DEFAULT '', consent INTEGER,
    link BLOB UNIQUE, expires REAL
) STRICT;
CREATE TABLE item (
    id TEXT PRIMARY KEY, set_id TEXT NOT NULL UNIQUE, content TEXT NOT NULL,
    region TEXT NOT NULL DEFAULT '',
    writer TEXT REFERENCES reviewer ON DELETE CASCADE, model TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE assignment (
    id INTEGER PRIMARY KEY, item TEXT NOT NULL REFERENCES item ON DELETE CASCADE,
    reviewer TEXT NOT NULL REFERENCES reviewer ON DELETE CASCADE,
    revision INTEGER NOT NULL DEFAULT 0, payload TEXT, UNIQUE (item, reviewer)
) STRICT;
CREATE TABLE event (
    id TEXT PRIMARY KEY, assignment INTEGER NOT NULL REFERENCES assignment ON DELETE CASCADE
) STRICT;
CREATE INDEX assignment_of ON assignment (reviewer);
CREATE INDEX event_of ON event (assignment);
"""
"""``places`` are codes of regions, with spaces between. ``payload`` is the last event, null until
there is one. ``event`` says only which were kept, so that each counts once. No time of day is kept:
it would say who answered when."""


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open the file.

    Args:
        path: The path of the review file.
        create: whether to make the file, and folders that are missing, if there is none.

    Raises:
        CarbError: it is not there, not such a file, or of another version.
    """
    if not path.is_file():
        if not create:
            made = f"carb review serve --data D --out {shlex.quote(str(path))}"
            raise CarbError(f"There is no review file {path}. `{made}` makes one.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(
            mode=0o600, exist_ok=False
        )  # other people of this machine have no business in it
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        if create:
            _create(db)
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise sqlite3.DatabaseError(
                "it is of another program or another carb; use the one that made it"
            )
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "secure_delete=ON",
        ):
            db.execute(f"PRAGMA {pragma}")
    except sqlite3.DatabaseError as error:
        db.close()
        raise CarbError(
            f"{path} is no review file: {error}. `carb review serve` makes one."
        ) from None
    return db


def _create(db: sqlite3.Connection) -> None:
    """Fill an empty file."""
    with transaction(db):
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; the write lock is taken at once, so that nobody has to give way later."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        yield


def setting(db: sqlite3.Connection, name: str) -> str:
    """A stored setting of the review; empty where it is not set."""
    row = db.execute("SELECT value FROM project WHERE name = ?", (name,)).fetchone()
    if row is None:
        return ""
    return str(row["value"])


def places(db: sqlite3.Connection) -> dict[str, list[str]]:
    """The regions that each reviewer knows, of those who have agreed, by reviewer."""
    rows = db.execute("SELECT id, places FROM reviewer WHERE consent IS NOT NULL")
    return {row["id"]: row["places"].split() for row in rows}


def call(db: sqlite3.Connection, reviewer: str, wanted: str) -> str:
    """Give a reviewer, known or new, the wanted name, with a number behind it if another reviewer
    has that name."""
    name = wanted
    number = 1
    while db.execute(
        "SELECT 1 FROM reviewer WHERE name = ? AND id != ?", (name, reviewer)
    ).fetchone():
        number += 1
        name = f"{wanted} {number}"
    changed = (
        "INSERT INTO reviewer (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = "
        "excluded.name"
    )
    db.execute(changed, (reviewer, name))
    return name


def introduce(db: sqlite3.Connection, reviewer: str, person: Person) -> None:
    """Store the description of a reviewer, known or new."""
    before = db.execute("SELECT name FROM reviewer WHERE id = ?", (reviewer,)).fetchone()
    call(db, reviewer, person.name or (before["name"] if before else "reviewer"))
    db.execute(
        "UPDATE reviewer SET region = ?, places = ?, language = ?, consent = ? WHERE id = ?",
        (person.region, " ".join(person.places), person.language, person.consent, reviewer),
    )


@dataclass(frozen=True)
class Recorded:
    """The outcome of an event."""

    state: Literal["kept", "known", "conflict", "refused"]
    """``known``: it had been kept before; ``conflict``: a newer answer is there; ``refused``: it
    fits no item."""
    revision: int = 0
    """The current revision of the answer."""
    reason: str = ""
    answer: dict[str, Any] | None = None
    """The newer answer, on a conflict."""


def record(db: sqlite3.Connection, reviewer: str, event: Event | Question) -> Recorded:
    """Keep a reviewer's answer, in a transaction of the caller.

    The same id counts once. ``base`` is the revision that the reviewer saw. Where it is older than
    the current one, the reviewer decides between both. Where it is newer, a backup was restored in
    between, and the event is kept.
    """
    if isinstance(event, Question):
        return _record_question(db, reviewer, event)
    before = db.execute(
        "SELECT reviewer, revision FROM event JOIN assignment ON assignment.id = "
        "assignment WHERE event.id = ?",
        (str(event.id),),
    ).fetchone()
    if before is not None:
        if before["reviewer"] != reviewer:
            return Recorded("refused", reason="this event belongs to another reviewer")
        return Recorded("known", before["revision"])
    # Nobody is asked their own question.
    asked = db.execute(
        "SELECT content FROM item WHERE id = ? AND writer IS NOT ?", (event.item, reviewer)
    ).fetchone()
    if asked is None:
        return Recorded("refused", reason="this item is not, or no longer, part of the review")
    if (reason := mismatch(event, stored(asked["content"]))) is not None:
        return Recorded("refused", reason=reason)
    key = event.item, reviewer
    db.execute("INSERT OR IGNORE INTO assignment (item, reviewer) VALUES (?, ?)", key)
    row = db.execute(
        "SELECT id, revision, payload FROM assignment WHERE item = ? AND reviewer = ?", key
    ).fetchone()
    if event.base < row["revision"]:
        return Recorded(
            "conflict",
            row["revision"],
            "a newer answer is there",
            json.loads(row["payload"])["answer"],
        )
    revision = event.base + 1
    db.execute("INSERT INTO event VALUES (?, ?)", (str(event.id), row["id"]))
    changed = "UPDATE assignment SET revision = ?, payload = ? WHERE id = ?"
    db.execute(changed, (revision, event.model_dump_json(), row["id"]))
    return Recorded("kept", revision)


def _record_question(db: sqlite3.Connection, reviewer: str, sent: Question) -> Recorded:
    before = db.execute("SELECT writer FROM item WHERE set_id = ?", (str(sent.id),)).fetchone()
    if before is not None:
        if before["writer"] != reviewer:
            return Recorded("refused", reason="this question belongs to another reviewer")
        return Recorded("known", 1)
    place = setting(db, "place")
    if not place:
        return Recorded("refused", reason="this review takes no questions")
    if (
        db.execute("SELECT count(*) FROM item WHERE writer = ?", (reviewer,)).fetchone()[0]
        >= MOST_QUESTIONS
    ):
        return Recorded("refused", reason=f"one person writes at most {MOST_QUESTIONS} questions")
    made = sent.as_set(*place.split())
    db.execute(
        "INSERT INTO item (id, set_id, content, writer) VALUES (?, ?, ?, ?)",
        (ReviewItem(made).id, made.id, made.model_dump_json(exclude_defaults=True), reviewer),
    )
    return Recorded("kept", 1)


class GivenAnswer(NamedTuple):
    """A reviewer's last event on an item."""

    item: ReviewItem
    reviewer: str
    event: Event

    @property
    def picked(self) -> str | None:
        """Token of the answer that was picked."""
        return self.event.answer.best


def given(
    db: sqlite3.Connection, *, written: bool = False
) -> list[tuple[ReviewItem, list[GivenAnswer]]]:
    """The items of the data set, or those that reviewers wrote, each with its current answers."""
    contents = db.execute(
        "SELECT content FROM item WHERE (writer IS NOT NULL) = ? ORDER BY rowid", (written,)
    )
    recorded = []
    for item in [stored(row["content"]) for row in contents]:
        last = "SELECT * FROM assignment WHERE item = ? AND payload IS NOT NULL ORDER BY reviewer"
        rows = db.execute(last, (item.id,)).fetchall()
        answers = [
            GivenAnswer(item, row["reviewer"], Event.model_validate_json(row["payload"]))
            for row in rows
        ]
        recorded.append((item, answers))
    return recorded


class SavedAnswers(Frozen):
    """The file that the page saves."""

    form: Literal["carb.review.answers/1"]
    reviewer: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{16,36}$")]
    person: Person
    events: tuple[Sent, ...]


def collect(db: sqlite3.Connection, paths: Sequence[Path]) -> list[tuple[str, Recorded]]:
    """Add the answers of files; a file that was collected before adds nothing.

    Returns:
        Each answer by file and id, and its outcome.

    Raises:
        CarbError: a file is not one of answers, with what is wrong; then nothing of any file is
            added.
    """
    recorded: list[tuple[str, Recorded]] = []
    with transaction(db):
        for path in paths:
            if path.suffix != ".json":
                raise CarbError(
                    f"{path}: answers are the .json files that the page saved; reviews are "
                    "not merged."
                )
            saved = read_file(SavedAnswers, path, "file of answers")
            introduce(db, saved.reviewer, saved.person)
            recorded += [
                (f"{path.name}: {e.id}", record(db, saved.reviewer, e)) for e in saved.events
            ]
    return recorded
