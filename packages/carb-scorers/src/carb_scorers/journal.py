"""A write-ahead journal of results: what was scored is never scored again.

One JSON Lines file per scorer. Its first line says what the results belong to; every further line is a
``ScoreResult``. Lines are appended and flushed to the disk in batches, so a run that is killed at any moment loses
at most the batch in flight, and a torn last line is cut off when the journal is opened again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from carb_data import CarbError
from carb_scorers.contract import ScoreResult, ScorerSpec


class JournalHead(BaseModel):
    """What the results of a journal belong to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    fingerprint: str
    """Of the data set."""
    seed: int
    """Of the presented order."""
    spec: ScorerSpec
    version: str
    """Of carb-scorers."""


def journal_path(folder: Path, scorer: str) -> Path:
    """The journal of a scorer: a readable part of its name and a hash of all of it."""
    readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", scorer).strip("_")[-60:]
    return folder / f"{readable}-{hashlib.sha256(scorer.encode()).hexdigest()[:10]}.jsonl"


class Journal:
    """The journal of one scorer, open for appending. ``results`` holds what is in it, by item id."""

    def __init__(self, path: Path, head: JournalHead) -> None:
        """Open or create a journal.

        Raises:
            CarbError: the journal belongs to another data set, scorer, seed or version, or cannot be written.
        """
        self.results: dict[str, ScoreResult] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("r+b") if path.exists() else path.open("w+b")
        try:
            self._open(head)
        except BaseException:
            self._file.close()
            raise

    def _open(self, head: JournalHead) -> None:
        end = 0
        for number, line in enumerate(self._file):
            if not line.endswith(b"\n"):
                break  # torn by an interruption
            try:
                if number == 0:
                    _refuse_other(self._path, JournalHead.model_validate_json(line), head)
                else:
                    result = ScoreResult.model_validate_json(line)
                    self.results[result.item_id] = result
            except ValidationError as error:
                raise CarbError(
                    f"{self._path}:{number + 1} is not a line of a journal ({error.errors()[0]['msg']}). "
                    f"Remove the file, or start anew with --fresh."
                ) from None
            end += len(line)
        self._file.seek(end)
        self._file.truncate()
        if end == 0:
            self._write([head.model_dump_json()])

    def append(self, results: Iterable[ScoreResult]) -> None:
        """Add results and wait until they are on the disk."""
        new = list(results)
        self._write([result.model_dump_json(exclude_defaults=True) for result in new])
        self.results.update((result.item_id, result) for result in new)

    def _write(self, lines: Iterable[str]) -> None:
        try:
            self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CarbError(
                f"Cannot write {self._path}: {error.strerror}. What was scored before is kept; free some space and "
                f"run the same command again."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_other(path: Path, found: JournalHead, wanted: JournalHead) -> None:
    changed = [name for name in JournalHead.model_fields if getattr(found, name) != getattr(wanted, name)]
    if changed:
        what = {"fingerprint": "data set", "spec": "scorer", "seed": "seed", "version": "version of carb-scorers"}
        raise CarbError(
            f"{path.parent.parent} holds results of another {' and '.join(what.get(c, c) for c in changed)} for "
            f"'{wanted.spec.name}'. Choose another --out, or discard the old results with --fresh."
        )
