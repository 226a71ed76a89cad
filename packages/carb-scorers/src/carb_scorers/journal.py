"""A write-ahead journal of results: what was scored is never scored again.

One JSON Lines file per scorer. Its first line says what the results belong to; every further line is a list of
``ScoreResult``, written and flushed to the disk at one go. A line torn by an interruption is cut off when the
journal is opened again, so a line's results are kept all together or not at all: after a resume the windows, and so
the very bits of the scores, are those of an uninterrupted run.

Beside it may lie a folder of the same name with Parquet parts, written by workers on other machines.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from carb_data import CarbError
from carb_data.journal import Journal, whole_lines
from carb_data.models import Frozen
from carb_data.validation import first_defect
from carb_scorers.parts import read_parts
from carb_scorers.scorer import ScoreResult, ScorerSpec, Usage

__all__ = ["read_journal"]

_log = logging.getLogger(__name__)
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
    """Fingerprint of the data set."""
    seed: int
    """Seed of the presented order."""
    spec: ScorerSpec
    version: str
    """Versions of carb-scorers and of the package that provides the scorer."""


def journal_path(folder: Path, scorer: str) -> Path:
    """The journal of a scorer: a readable part of its name and a hash of all of it."""
    readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", scorer).strip("_")[-60:]
    return folder / f"{readable}-{hashlib.sha256(scorer.encode()).hexdigest()[:10]}.jsonl"


class ScoreJournal:
    """The journal of one scorer, open for appending."""

    def __init__(self, path: Path, head: JournalHead) -> None:
        """Open or create a journal.

        A line that is damaged is left where it is, and a warning says so; its requests are asked again.

        Raises:
            CarbError: the journal belongs to another data set, scorer, seed or version, another process writes into
                it, or it cannot be written.
        """
        self.results: dict[str, ScoreResult] = {}
        """What is in it, by request id. Of several results see ``_prefer``."""
        self.spent = Usage()
        """What all results together cost, replaced ones included."""
        self._journal = Journal(path)
        try:
            if not self._journal.lines:
                self._journal.append([head.model_dump_json().encode()])
            else:
                found, results = _parsed(path, self._journal.lines)
                _refuse_other(path, found, head)
                self.add(results)
        except BaseException:
            self._journal.close()
            raise

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
            self._journal.append([_results.dump_json(new, exclude_defaults=True)])
            self.add(new)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parsed(path: Path, lines: Sequence[bytes]) -> tuple[JournalHead, list[ScoreResult]]:
    """The head and the results of a journal's lines; damaged lines of results are passed over with a warning."""
    try:
        head = JournalHead.model_validate_json(lines[0] if lines else b"")
    except ValidationError as error:
        raise CarbError(
            f"{path}:1 is not the head of a journal ({first_defect(error)}). Remove the file, or start again with "
            f"--fresh."
        ) from None
    found: list[ScoreResult] = []
    for number, line in enumerate(lines[1:], 2):
        try:
            found += _results.validate_json(line)
        except ValidationError as error:
            _log.warning(
                "%s:%d is damaged (%s); the requests in it will be asked again.", path, number, first_defect(error)
            )
    return head, found


def check_journals(folder: Path, *, fingerprint: str, seed: int) -> None:
    """See that a run may go on in a folder, before any model is loaded.

    Args:
        folder: the folder of the journals; it may not exist yet.
        fingerprint: fingerprint of this run's data set.
        seed: seed of this run.

    Raises:
        CarbError: a journal belongs to another data set or seed.
    """
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            line = file.readline()
        try:
            head = JournalHead.model_validate_json(line)
        except ValidationError:
            continue  # torn, or else reported when it is opened
        _refuse_other(path, head, head.model_copy(update={"fingerprint": fingerprint, "seed": seed}))


def read_journal(path: Path) -> tuple[JournalHead, dict[str, ScoreResult]]:
    """What a journal belongs to, and its results by request id, those in parts beside it included; nothing is changed.

    Raises:
        CarbError: it is no journal.
    """
    head, lines = _parsed(path, whole_lines(path))
    results: dict[str, ScoreResult] = {}
    for result in (*lines, *read_parts(path.with_suffix(".parts"))):
        _prefer(results, result)
    return head, results


def read_journals(folder: Path) -> Iterator[tuple[JournalHead, dict[str, ScoreResult]]]:
    """``read_journal`` of each journal of a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        yield read_journal(path)


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
