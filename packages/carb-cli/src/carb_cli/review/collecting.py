"""Answers that come back as files, which the page saves where it has no server."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from carb_cli.review import recording, reviewers
from carb_cli.review.opinions import Event, Person
from carb_cli.review.recording import Recorded
from carb_cli.review.review_file import transaction
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


class Collected(Frozen):
    """What became of the answers of files."""

    files: int
    reviewers: int
    """Different people in the files."""
    new: int
    """Answers that were added or changed."""
    known: int
    """Answers that had been collected before."""
    newer: int
    """Answers left as they are, since a newer one of the same person is there."""
    refused: tuple[str, ...] = Field(default=())
    """Answers that fit no item, with the place and the reason."""


def collect(db: sqlite3.Connection, paths: Sequence[Path]) -> Collected:
    """Add the answers of files; a file that was collected before adds nothing.

    Raises:
        CarbError: a file is not one of answers, with what is wrong; then nothing of any file is added.
    """
    known = recording.items(db)
    outcomes: list[tuple[str, Recorded]] = []
    people = set()
    with transaction(db):
        for path in paths:
            saved = read_saved(path)
            reviewers.admit(db, saved.reviewer, saved.person)
            outcomes += [(f"{path.name}: {e.id}", recording.record(db, saved.reviewer, e, known)) for e in saved.events]
            people.add(saved.reviewer)
    states = [outcome.state for _, outcome in outcomes]
    return Collected(
        files=len(paths),
        reviewers=len(people),
        new=states.count("kept"),
        known=states.count("known"),
        newer=states.count("conflict"),
        refused=tuple(f"{where}: {outcome.reason}" for where, outcome in outcomes if outcome.state == "refused"),
    )


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
