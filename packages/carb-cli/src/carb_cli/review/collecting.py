"""Answers that come back as files: of the page for one's own disk, and of sheets."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from carb_cli.output import Output
from carb_cli.review import recording
from carb_cli.review.answers import Event, Person
from carb_cli.review.recording import Recorded
from carb_cli.review.rows import admit, record_rows
from carb_cli.review.store import transaction
from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.validation import validate

__all__ = ["Collected", "SavedAnswers", "collect"]

LARGEST = 64 * 1024 * 1024
"""Bytes of an answer file."""


class SavedAnswers(Frozen):
    """The file that the page saves."""

    form: Literal["carb.review.answers/1"]
    reviewer: Annotated[str, StringConstraints(pattern=r"^[0-9a-f-]{16,36}$")]
    person: Person
    events: tuple[Event, ...]


class Collected(Output):
    """Output of ``carb review collect --json``, and of ``import``."""

    schema_: Literal["carb.review.collect/1"] = Field(default="carb.review.collect/1", alias="schema")
    files: int
    reviewers: int
    """Different people in the files."""
    new: int
    """Answers that were added or changed."""
    known: int
    """Answers that had been collected before."""
    newer: int
    """Answers left as they are, since a newer one of the same person is there."""
    refused: tuple[str, ...]
    """Answers that fit no item, with the place and the reason."""


def summary(files: int, reviewers: int, outcomes: Sequence[tuple[str, Recorded]]) -> Collected:
    """Count outcomes."""
    states = [outcome.state for _, outcome in outcomes]
    return Collected(
        files=files,
        reviewers=reviewers,
        new=states.count("kept"),
        known=states.count("known"),
        newer=states.count("conflict"),
        refused=tuple(f"{where}: {outcome.reason}" for where, outcome in outcomes if outcome.state == "refused"),
    )


def collect(db: sqlite3.Connection, paths: Sequence[Path]) -> Collected:
    """Add the answers of files; a file that was collected before adds nothing.

    Raises:
        CarbError: a file is not one of answers, with what is wrong; then nothing of any file is added.
    """
    from carb_cli.review.sheets import read_sheet

    known = recording.items(db)
    outcomes: list[tuple[str, Recorded]] = []
    seen = set()
    with transaction(db):
        for path in paths:
            if path.suffix.lower() == ".xlsx":
                reviewer, person, rows = read_sheet(path)
                admit(db, reviewer, person)
                outcomes += record_rows(db, reviewer, rows, known)
            else:
                saved = read_saved(path)
                reviewer = saved.reviewer
                admit(db, reviewer, saved.person)
                outcomes += [(f"{path.name}: {e.id}", recording.record(db, reviewer, e, known)) for e in saved.events]
            seen.add(reviewer)
    return summary(len(paths), len(seen), outcomes)


def read_saved(path: Path) -> SavedAnswers:
    """Read a file that the page saved.

    Raises:
        CarbError: it is none.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise CarbError(f"{path} is larger than an answer file can be ({LARGEST:,} bytes).")
    except OSError as error:
        raise CarbError(f"{path}: {error.strerror}.") from None
    return validate(SavedAnswers, path.read_bytes(), f"{path} is not a file of answers that the review page saved")
