"""A write-ahead journal of results: what was scored is never scored again.

One JSON Lines file per scorer. Its first line says what the results belong to; every further line is a list of
``ScoreResult``, written and flushed to the disk at one go. A line torn by an interruption is cut off when the
journal is opened again, so a line's results are kept all together or not at all: after a resume the windows, and so
the very bits of the scores, are those of an uninterrupted run.

Beside it may lie a folder of the same name with Parquet parts, written by workers on other machines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from carb_data import CarbError
from carb_data.models import Frozen
from carb_scorers.contract import ScoreResult, ScorerSpec, Usage
from carb_scorers.folder import DiskError, sync_folder
from carb_scorers.parts import read_parts

_READ = (2, 3)
"""Formats of a journal that can be gone on with."""


def _renamed(value: object) -> object:
    """Journals of format 2 call ``request_id`` ``item_id``."""
    if isinstance(value, dict) and "item_id" in value:
        value["request_id"] = value.pop("item_id")
    return value


_results = TypeAdapter(list[Annotated[ScoreResult, BeforeValidator(_renamed)]])


class OtherRunError(CarbError):
    """The folder holds results of something else."""

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(
            f"{folder} holds results of {what}. Choose another --out, or discard the old results with --fresh."
        )


class JournalHead(Frozen):
    """What the results of a journal belong to."""

    format: int = 3
    fingerprint: str
    """Of the data set."""
    seed: int
    """Of the presented order."""
    spec: ScorerSpec
    version: str
    """Of carb-scorers, and of the package that provides the scorer."""


def journal_path(folder: Path, scorer: str) -> Path:
    """The journal of a scorer: a readable part of its name and a hash of all of it."""
    readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", scorer).strip("_")[-60:]
    return folder / f"{readable}-{hashlib.sha256(scorer.encode()).hexdigest()[:10]}.jsonl"


class Journal:
    """The journal of one scorer, open for appending."""

    def __init__(self, path: Path, head: JournalHead) -> None:
        """Open or create a journal.

        Raises:
            CarbError: the journal belongs to another data set, scorer, seed or version, or cannot be written.
        """
        self.results: dict[str, ScoreResult] = {}
        """What is in it, by request id. Of several results see ``_prefer``."""
        self.spent = Usage()
        """What all results together cost, replaced ones included."""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)  # nothing may linger in a buffer when the disk is full
        except OSError as error:
            raise DiskError(path, error) from None
        try:
            self._open(head)
        except BaseException:
            self._file.close()
            raise

    def _open(self, head: JournalHead) -> None:
        self._end = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break  # torn by an interruption
                try:
                    if number == 0:
                        _refuse_other(self._path, JournalHead.model_validate_json(line), head)
                    else:
                        self.add(_results.validate_json(line))
                except ValidationError as error:
                    raise CarbError(
                        f"{self._path}:{number + 1} is not a line of a journal ({error.errors()[0]['msg']}). "
                        f"Remove the file, or start anew with --fresh."
                    ) from None
                self._end += len(line)
        self._file.truncate(self._end)
        if self._end == 0:
            self._write(head.model_dump_json().encode())
            sync_folder(self._path.parent)

    def add(self, results: Iterable[ScoreResult]) -> None:
        """Count results as known without writing them."""
        for result in results:
            _prefer(self.results, result)
            if result.usage is not None:
                self.spent += result.usage

    def append(self, results: Iterable[ScoreResult]) -> None:
        """Add results and wait until they are on the disk: all of them, or none.

        Raises:
            DiskError: they cannot be written; the journal is as it was.
        """
        new = list(results)
        if new:
            self._write(_results.dump_json(new, exclude_defaults=True))
            self.add(new)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        size = len(rest)
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise DiskError(self._path, error) from None
        self._end += size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_journals(folder: Path, names: Iterable[str], *, fingerprint: str, seed: int) -> None:
    """See that a run may go on in a folder, before any model is loaded.

    Args:
        folder: of the journals; need not exist.
        names: the names under which this run's scorers have their journals.
        fingerprint: of this run's data set.
        seed: of this run.

    Raises:
        CarbError: a journal belongs to another data set or seed, or to a scorer that this run does not have.
    """
    expected = {journal_path(folder, name) for name in names}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            line = file.readline()
        try:
            head = JournalHead.model_validate_json(line)
        except ValidationError:
            continue  # torn, or else reported when it is opened
        _refuse_other(path, head, head.model_copy(update={"fingerprint": fingerprint, "seed": seed}))
        if path not in expected:
            raise OtherRunError(folder.parent, f"the scorer '{head.spec.name}', which is not among those given now")


def read_journals(folder: Path) -> Iterator[tuple[JournalHead, dict[str, ScoreResult]]]:
    """What each journal of a folder belongs to, and its results by request id; nothing is changed.

    Raises:
        CarbError: a journal is damaged.
    """
    for path in sorted(folder.glob("*.jsonl")):
        results: dict[str, ScoreResult] = {}
        try:
            first, *lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
            head = JournalHead.model_validate_json(first)
            for result in (result for line in lines for result in _results.validate_json(line)):
                _prefer(results, result)
        except ValueError as error:
            raise CarbError(f"{path} is not a journal: {str(error).splitlines()[0]}") from None
        for result in read_parts(path.with_suffix(".parts")):
            _prefer(results, result)
        yield head, results


def _prefer(results: dict[str, ScoreResult], result: ScoreResult) -> None:
    """Of several results of a request the first with all scores counts, else the last of those with most."""
    known = results.get(result.request_id)
    if known is None or (not known.complete and len(result.scores) >= len(known.scores)):
        results[result.request_id] = result


def _refuse_other(path: Path, found: JournalHead, wanted: JournalHead) -> None:
    names = [name for name in JournalHead.model_fields if name != "format" or found.format not in _READ]
    changed = [name for name in names if getattr(found, name) != getattr(wanted, name)]
    if changed:
        what = {"fingerprint": "data set", "spec": "scorer", "version": "version of the scorer's package"}
        named = " and ".join(what.get(name, name) for name in changed)
        raise OtherRunError(path.parent.parent, f"another {named} for '{wanted.spec.name}'")
