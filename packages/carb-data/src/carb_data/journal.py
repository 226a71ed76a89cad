"""The one write-ahead journal: whole lines, on the disk before anything else happens, by one writer at a time.

Runs, pools of samples and construction keep what was paid for in it. A line torn by an interruption is cut off when
the file is opened again, so a line is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

from carb_data.errors import CarbError

__all__ = ["DiskError", "Journal", "sync_folder", "whole_lines"]


class DiskError(CarbError):
    """Something could not be written. What was written before is kept."""

    def __init__(self, path: Path, error: OSError | str) -> None:
        reason = error if isinstance(error, str) else error.strerror or str(error)
        super().__init__(
            f"Cannot write {path}: {reason}. What was scored before is kept; free some space and run the same "
            f"command again."
        )


class Journal:
    """A file of lines, open for appending and locked; the lock ends with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        """Open or create a journal.

        Args:
            path: the file; folders that are missing are made.

        Raises:
            CarbError: another process is writing into it.
            DiskError: it cannot be opened or written.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)  # nothing may linger in a buffer when the disk is full
        except OSError as error:
            raise DiskError(path, error) from None
        try:
            if not _locked(self._file):
                raise CarbError(
                    f"Another process is writing into {path}. Wait until it has ended, or choose another file."
                )
            self.lines = whole_lines(path)
            """What was in it when it was opened, without line ends."""
            self._end = sum(len(line) + 1 for line in self.lines)
            self._file.truncate(self._end)
        except BaseException:
            self._file.close()
            raise

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines and wait until they are on the disk: all of them, or none.

        Args:
            lines: the lines to append, without line ends at their ends or inside.

        Raises:
            DiskError: they cannot be written; the journal is as it was.
        """
        content = b"".join(line + b"\n" for line in lines)
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise DiskError(self.path, error) from None
        if self._end == 0:
            sync_folder(self.path.parent)
        self._end += len(content)

    def close(self) -> None:
        """Close the file and let others write."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a journal without their ends, but for one torn by an interruption; none where there is no file.

    Raises:
        CarbError: it cannot be read.
    """
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CarbError(f"Cannot read {path}: {error.strerror}.") from None


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable, where the system can."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(file: IO[bytes]) -> bool:
    """Take the lock of an open file; false where another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(2**40)  # far behind any content, which others may go on reading
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # not on this system
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
