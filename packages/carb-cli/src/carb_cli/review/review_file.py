"""The one SQLite file of a review: its tables, and the one thread that writes.

Write-ahead log with ``synchronous=FULL``: a commit is on the disk before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from carb_data import CarbError

T = TypeVar("T")
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
        create: whether to make the file if there is none.

    Raises:
        CarbError: it is not there, not such a file, or of another version.
    """
    if not create and not path.is_file():
        raise CarbError(
            f"There is no review file {path}. `carb review serve --data D --out {shlex.quote(str(path))}` makes one."
        )
    if not path.parent.is_dir():
        raise CarbError(f"There is no folder {path.parent} to keep {path.name} in.")
    if create and not path.is_file():
        path.touch(mode=0o600, exist_ok=False)  # other people of this machine have no business in it
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        db.execute("PRAGMA secure_delete=ON")
        _prepare(db, path)
    except sqlite3.DatabaseError as error:
        db.close()
        raise CarbError(f"{path} cannot be used as a review file: {error}.") from None
    except CarbError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; refuse one that is not ours."""
    with transaction(db):
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION}")
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise CarbError(f"{path} is of another program or another carb; use the one that made it.")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; the write lock is taken at once, so that nobody has to give way later."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise


class ReviewStore:
    """The file in the hands of one thread. ``run`` gives a job to it and answers after the commit."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="review-store")

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run a job in the thread; the future is done when what it wrote is on the disk."""

        def work() -> T:
            with transaction(self._db):
                return job(self._db)

        return self._thread.submit(work)

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """As ``submit``, for coroutines."""
        return await asyncio.wrap_future(self.submit(job))

    def close(self) -> None:
        """Finish all jobs, then close the file."""
        self._thread.shutdown()
        self._db.close()
