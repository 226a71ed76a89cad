"""The folder of a run: one writer at a time, and files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Self

import polars as pl
from filelock import FileLock, Timeout

from carb_data import CarbError
from carb_data.journal import DiskError, sync_folder


class RunFolder:
    """A run's folder, held against other processes while it is open. The lock ends with the process, however."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        """Make and lock the folder.

        Args:
            path: the folder; made where it does not exist.
            fresh: whether to discard the results that are in it.

        Raises:
            CarbError: it cannot be made, or another process is writing into it.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(path / ".lock")
            self._lock.acquire(timeout=0)
        except Timeout:
            raise CarbError(
                f"Another process is writing into {path}. Wait until it has ended, or choose another --out."
            ) from None
        except OSError as error:
            raise CarbError(f"Cannot write into {path}: {error.strerror}.") from None
        if fresh:
            try:
                if self.journal.exists():
                    shutil.rmtree(self.journal)
                for name in ("run.json", "scores.parquet", "errors.jsonl", "dataset.parquet"):
                    (path / name).unlink(missing_ok=True)
            except OSError as error:
                self.close()
                raise CarbError(f"Cannot discard the results in {path}: {error.strerror}.") from None

    @property
    def journal(self) -> Path:
        """The folder of the journals."""
        return self.path / "journal"

    def write(self, name: str, writer: Callable[[Path], object]) -> None:
        """Write a file through ``writer(path)`` so that a reader sees the old file or the new one, never a part.

        Raises:
            DiskError: it cannot be written; the old file is as it was.
        """
        partial = self.path / f".partial-{name}"
        try:
            try:
                writer(partial)
                with partial.open("rb+") as file:
                    os.fsync(file.fileno())
                partial.replace(self.path / name)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except CarbError:
            raise
        except OSError as error:
            raise DiskError(self.path / name, error) from None
        except pl.exceptions.PolarsError as error:  # what polars makes of a full disk
            raise DiskError(self.path / name, str(error).splitlines()[0]) from None
        sync_folder(self.path)

    def close(self) -> None:
        """Let other processes write."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
