"""The one SQLite file of a review: its tables, and what is written in one piece.

Write-ahead log with ``synchronous=FULL``: a commit is on the disk before it is acknowledged.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from carb_data import CarbError

APPLICATION = 0x43415233
"""``application_id`` of the file: CAR3; another one where the schema changes."""
BUSY_SECONDS = 30
SCHEMA = """
CREATE TABLE project (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE reviewer (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, region TEXT NOT NULL DEFAULT '',
    language TEXT NOT NULL DEFAULT '', consent INTEGER, link BLOB UNIQUE, expires REAL
) STRICT;
CREATE TABLE item (
    id TEXT PRIMARY KEY, set_id TEXT NOT NULL UNIQUE, content TEXT NOT NULL,
    writer TEXT REFERENCES reviewer ON DELETE CASCADE, model TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE assignment (
    id INTEGER PRIMARY KEY, item TEXT NOT NULL REFERENCES item ON DELETE CASCADE, reviewer TEXT NOT NULL
    REFERENCES reviewer ON DELETE CASCADE, shown TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, payload TEXT,
    active_ms INTEGER NOT NULL DEFAULT 0, UNIQUE (item, reviewer)
) STRICT;
CREATE TABLE event (
    id TEXT PRIMARY KEY, assignment INTEGER NOT NULL REFERENCES assignment ON DELETE CASCADE
) STRICT;
CREATE INDEX assignment_of ON assignment (reviewer);
CREATE INDEX event_of ON event (assignment);
"""
"""``payload`` is the current answer, null until there is one. ``event`` says only which were kept, so that each counts
once. No time of day is kept: it would say who answered when."""


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
        path.touch(mode=0o600, exist_ok=False)  # other people of this machine have no business in it
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        db.execute("PRAGMA secure_delete=ON")
        with transaction(db):
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id={APPLICATION}")
            if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise sqlite3.DatabaseError("it is of another program or another carb; use the one that made it")
    except sqlite3.DatabaseError as error:
        db.close()
        raise CarbError(f"{path} cannot be used as a review file: {error}.") from None
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; the write lock is taken at once, so that nobody has to give way later."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        yield
