"""The one store: records by key in a journal of whole lines; and files that are written whole or
not at all.

Runs, pools of samples and construction keep their paid results in it. A line is on the disk
(``fsync``) before ``append`` returns. A line torn by an interruption is cut off when the file is
opened again.
"""

import contextlib
import errno
import logging
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from io import RawIOBase
from pathlib import Path
from typing import Generic, Self, TypeVar

import polars as pl
from filelock import FileLock, Timeout
from pydantic import BaseModel, TypeAdapter, ValidationError

from carb_data.collector import uncollected
from carb_data.errors import CarbError
from carb_data.models import Frozen
from carb_data.validation import first_defect

_log = logging.getLogger(__name__)
H = TypeVar("H", bound=BaseModel)
R = TypeVar("R", bound=Frozen)
K = TypeVar("K", bound=Hashable)


class DiskError(CarbError):
    """Something could not be written. What was written before is kept."""

    def __init__(self, path: Path, error: OSError | str) -> None:
        reason = str(error)
        full = True
        if isinstance(error, OSError):
            reason = error.strerror or reason
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "choose another folder"
        if full:
            what = "free some space"
        super().__init__(
            f"Cannot write {path}: {reason}. What was written before is kept; {what} and "
            "run the same command again."
        )


class OtherHeadError(CarbError):
    """A store's file has another head than the given one: its records are of something else."""

    def __init__(self, path: Path, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        """Fields of the head that differ."""
        super().__init__(
            f"{path} holds records of something else: {' and '.join(changed)} differ. Choose "
            "another file, or remove it."
        )


class Store(Generic[H, R, K]):
    """Records by key, in a journal whose first line names their source.

    The records of one ``append`` stand in one line, so that after any interruption they are there
    all or not at all. The file is locked; the lock ends with the process, however that ends.
    """

    def __init__(
        self,
        path: Path | None,
        head: H,
        record: type[R],
        key: Callable[[R], K],
        *,
        better: Callable[[R, R], bool] = lambda new, old: True,  # noqa: ARG005 - the last one wins
    ) -> None:
        """Open or create a store. A damaged line is passed over with a warning, so that its records
        are made anew.

        Args:
            path: The file; folders that are missing are made. Null keeps the records in memory
                alone.
            head: The source of the records.
            record: The model of a record.
            key: The key, kept once.
            better: Whether a new record of a key replaces the old one; by default it does.

        Raises:
            OtherHeadError: The file has another head.
            CarbError: Another process is writing into it, or its first line is no head.
            DiskError: It cannot be opened or written.
        """
        self.values: dict[K, R] = {}
        """The records by key."""
        self._key = key
        self._better = better
        self._path = path
        self._end = 0
        if path is None:
            return
        self._file, self._lock = _open_locked(path)
        try:
            lines = whole_lines(path)
            self._end = sum(len(line) + 1 for line in lines)
            self._file.truncate(self._end)
            if not lines:
                self._write(head.model_dump_json().encode())
                return
            stored, records = _parsed(path, lines, type(head), record)
            changed = [
                name
                for name in type(head).model_fields
                if getattr(stored, name) != getattr(head, name)
            ]
            if changed:
                raise OtherHeadError(path, changed)
            self._keep(records)
        except BaseException:
            self.close()
            raise

    def append(self, records: Iterable[R]) -> None:
        """Add records, and wait until they are on the disk: all of them, or none.

        Raises:
            DiskError: They cannot be written; the store is as it was.
        """
        new = list(records)
        if new:
            lines = (record.model_dump_json(exclude_defaults=True) for record in new)
            self._write(_sealed(f"[{','.join(lines)}]".encode()))
        self._keep(new)

    def _write(self, line: bytes) -> None:
        if self._path is None:
            return
        content = line + b"\n"
        rest = memoryview(content)
        try:
            while rest:
                written = self._file.write(rest) or 0
                rest = rest[written:]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise DiskError(self._path, error) from None
        if self._end == 0:
            sync_folder(self._path.parent)
        self._end += len(content)

    def _keep(self, records: Iterable[R]) -> None:
        for record in records:
            key = self._key(record)
            old = self.values.get(key)
            if old is None or self._better(record, old):
                self.values[key] = record.compacted()

    def close(self) -> None:
        """Close the file and let others write."""
        if self._path is not None:
            self._file.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_store(path: Path, head: type[H], record: type[R]) -> tuple[H, list[R]]:
    """Read a store without changing it, even while another process writes into it.

    Args:
        path: The file.
        head: The model of its first line.
        record: The model of a record.

    Returns:
        The head, and the records in the order of writing. A damaged line is passed over with a
        warning.

    Raises:
        CarbError: It is no store, or cannot be read.
    """
    return _parsed(path, whole_lines(path), head, record)


@uncollected()
def _parsed(
    path: Path,
    lines: Sequence[bytes],
    head: type[H],
    record: type[R],
) -> tuple[H, list[R]]:
    heading = b""
    if lines:
        heading = lines[0]
    try:
        first = head.model_validate_json(heading)
    except ValidationError as error:
        told = first_defect(error)
        raise CarbError(f"{path}:1 is no head of a journal ({told}). Remove the file.") from None
    records: list[R] = []
    # a type that is known when it runs
    several = TypeAdapter(list[record])  # type: ignore[valid-type]
    for number, line in enumerate(lines[1:], 2):
        try:
            records += several.validate_json(_unsealed(line))
        except (ValidationError, DamageError) as error:
            told = str(error)
            if isinstance(error, ValidationError):
                told = first_defect(error)
            _log.warning(
                "%s:%d is damaged (%s); its record will be made again.", path, number, told
            )
    return first, records


_SEAL = b'[{"crc":"%08x",'
"""How a line begins: with the checksum (CRC-32) of the line without it, as a field of the first
record."""


class DamageError(ValueError):
    """A line is not as it was written."""


def _sealed(line: bytes) -> bytes:
    if line.startswith(b'[{"'):
        return _SEAL % zlib.crc32(line) + line[2:]
    return line


def _unsealed(line: bytes) -> bytes:
    """The records of a line, without the checksum; a single record stands without brackets."""
    if not line.startswith(_SEAL[:9]):
        if line.startswith(b"["):
            return line
        return b"[" + line + b"]"
    records = b"[{" + line[len(_SEAL % 0) :]
    if not line.startswith(_SEAL % zlib.crc32(records)):
        raise DamageError("its checksum is another one")
    return records


def write_whole(path: Path, content: bytes | str | Callable[[Path], object]) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part; folders that are
    missing are made.

    Args:
        path: The file.
        content: The bytes, the text, or a function that writes to the path that it is given.

    Raises:
        DiskError: It cannot be written; the old file is as it was.
    """
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    try:
        if (
            path.exists() and not path.is_file()
        ):  # replacing it would put a file in the place of a device
            raise OSError(errno.EINVAL, "It is no file")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if isinstance(content, str):
                content = content.encode("utf-8", "backslashreplace")
            if isinstance(content, bytes):
                partial.write_bytes(content)
            else:
                content(partial)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError(path, error) from None
    except pl.exceptions.PolarsError as error:  # what polars makes of a full disk
        raise DiskError(path, str(error).splitlines()[0]) from None


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a journal without their ends, but for one torn by an interruption; none where
    there is no file.

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


def _open_locked(path: Path) -> tuple[RawIOBase, FileLock]:
    """A file to append to, and its lock: a file beside it, since the system may lock no parts."""
    beside = path.with_name(f".{path.name}.lock")
    lock = FileLock(beside, timeout=0, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        # nothing may linger in a buffer when the disk is full
        return path.open("ab", buffering=0), lock
    except Timeout:
        raise CarbError(
            f"Another process is writing into {path}. Wait until it has ended, or choose "
            "another file."
        ) from None
    except OSError as error:
        lock.release()
        raise DiskError(path, error) from None
