"""The one SQLite file of a review: its tables, its upgrades, and the one thread that writes.

Write-ahead log with ``synchronous=FULL``: a commit is on the disk before it is acknowledged. The server's thread runs
all jobs that wait in one transaction, each in a savepoint of its own, so that one refused job harms no other and many
reviewers share one flush.
"""

from __future__ import annotations

import asyncio
import queue
import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from carb_data import CarbError

__all__ = ["SCHEMA", "ReviewStore", "backup", "connect", "transaction"]

T = TypeVar("T")
APPLICATION = 0x43415252
"""``application_id`` of the file: CARR."""
BUSY_SECONDS = 30
_BATCH = 256
SCHEMA: tuple[str, ...] = (
    """
    CREATE TABLE project (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE reviewer (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, region TEXT NOT NULL DEFAULT '',
        language TEXT NOT NULL DEFAULT '', consent INTEGER, consented REAL, created REAL NOT NULL
    ) STRICT;
    CREATE TABLE item (
        id TEXT PRIMARY KEY, set_id TEXT NOT NULL UNIQUE, content TEXT NOT NULL,
        writer TEXT REFERENCES reviewer ON DELETE CASCADE, model TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE TABLE link (
        hash BLOB PRIMARY KEY, reviewer TEXT NOT NULL REFERENCES reviewer ON DELETE CASCADE, created REAL NOT NULL,
        expires REAL NOT NULL
    ) STRICT;
    CREATE TABLE session (
        hash BLOB PRIMARY KEY, link BLOB NOT NULL REFERENCES link ON DELETE CASCADE, created REAL NOT NULL,
        expires REAL NOT NULL
    ) STRICT;
    CREATE TABLE assignment (
        id INTEGER PRIMARY KEY, item TEXT NOT NULL REFERENCES item ON DELETE CASCADE, reviewer TEXT NOT NULL
        REFERENCES reviewer ON DELETE CASCADE, shown TEXT NOT NULL, lease REAL NOT NULL, UNIQUE (item, reviewer)
    ) STRICT;
    CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        assignment INTEGER NOT NULL REFERENCES assignment ON DELETE CASCADE, base INTEGER NOT NULL,
        revision INTEGER NOT NULL, payload TEXT NOT NULL, shown TEXT NOT NULL, active_ms INTEGER NOT NULL,
        server_time REAL NOT NULL, UNIQUE (assignment, revision)
    ) STRICT;
    CREATE TABLE answer (
        assignment INTEGER PRIMARY KEY REFERENCES assignment ON DELETE CASCADE, revision INTEGER NOT NULL,
        payload TEXT NOT NULL, shown TEXT NOT NULL, active_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX assignment_of ON assignment (reviewer);
    CREATE INDEX session_of ON session (link);
    """,
)
"""Step n changes a file from version n to n + 1 (``user_version``). A released step never changes; add another."""


def connect(path: Path, *, create: bool = False, schema: Sequence[str] = SCHEMA) -> sqlite3.Connection:
    """Open the file, and bring an older one to the current version, after a copy of it was kept beside it.

    Args:
        path: The path of the review file.
        create: whether to make the file if there is none.
        schema: the steps of the schema; another one only in tests.

    Raises:
        CarbError: it is not there, not such a file, or of a newer version.
    """
    if not create and not path.is_file():
        raise CarbError(
            f"There is no review file {path}. `carb review serve --data D --out {shlex.quote(str(path))}` makes one."
        )
    if not path.parent.is_dir():
        raise CarbError(f"There is no folder {path.parent} to keep {path.name} in.")
    if create and not path.exists():
        path.touch(mode=0o600)  # other people of this machine have no business in it
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        db.execute("PRAGMA secure_delete=ON")
        _upgrade(db, path, schema)
    except sqlite3.DatabaseError as error:
        db.close()
        raise CarbError(f"{path} cannot be used as a review file: {error}.") from None
    except CarbError:
        db.close()
        raise
    return db


def _upgrade(db: sqlite3.Connection, path: Path, schema: Sequence[str]) -> None:
    with transaction(db):
        version = _number(db, "user_version")
        empty = not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not empty and _number(db, "application_id") != APPLICATION:
            raise CarbError(f"{path} is an SQLite file of another program or an older carb; name another --out.")
    if version > len(schema):
        raise CarbError(f"{path} was made by a newer carb (version {version} of its form); upgrade carb-cli.")
    if version == len(schema):
        return
    if version:
        backup(db, path.with_name(f"{path.name}.version{version}"))
    with transaction(db):
        for number in range(_number(db, "user_version"), len(schema)):
            for statement in schema[number].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={number + 1}")
        db.execute(f"PRAGMA application_id={APPLICATION}")


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])


def backup(db: sqlite3.Connection, path: Path) -> Path:
    """Copy the file while it is in use, by SQLite's own means; a plain copy would miss the write-ahead log."""
    with closing(sqlite3.connect(path)) as copy:
        path.chmod(0o600)
        db.backup(copy)
    return path


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; the write lock is taken at once, so that nobody has to give way later."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


class ReviewStore:
    """The file in the hands of one thread. ``run`` gives a job to it and answers after the commit."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path)
        self._jobs: queue.SimpleQueue[tuple[Callable[[sqlite3.Connection], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="review-store", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run a job in the thread; the future is done when what it wrote is on the disk."""
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    async def run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """As ``submit``, for coroutines."""
        return await asyncio.wrap_future(self.submit(job))

    def close(self) -> None:
        """Finish all jobs, then close the file."""
        self._jobs.put(None)
        self._thread.join()
        self._db.close()

    def _work(self) -> None:
        while True:
            batch = [self._jobs.get()]
            while len(batch) < _BATCH and not self._jobs.empty():
                batch.append(self._jobs.get())
            jobs = [each for each in batch if each is not None]
            if jobs:
                self._together(jobs)
            if len(jobs) < len(batch):
                return

    def _together(self, jobs: list[tuple[Callable[[sqlite3.Connection], Any], Future[Any]]]) -> None:
        done: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], Exception]] = []
        try:
            with transaction(self._db):
                for job, future in jobs:
                    self._db.execute("SAVEPOINT job")
                    try:
                        done.append((future, job(self._db)))
                    except Exception as error:  # it goes to who asked
                        if not self._db.in_transaction:
                            raise  # a full disk has undone the whole batch
                        self._db.execute("ROLLBACK TO job")
                        failed.append((future, error))
                    self._db.execute("RELEASE job")
        except Exception as error:  # the commit failed (a full disk): nothing of the batch is kept, and all are told so
            done, failed = [], [(future, error) for _, future in jobs]
        for future, value in done:
            future.set_result(value)
        for future, reason in failed:
            future.set_exception(reason)


def now() -> float:
    """Seconds since 1970."""
    return time.time()
