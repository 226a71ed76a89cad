"""Panels of simulated reviewers with planted opinions, and what the tests of the review share."""

from __future__ import annotations

import random
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from carb_cli.review import handing_out
from carb_cli.review.asking import Event, Opinion, Person, ReviewAnswer, ReviewItem
from carb_cli.review.review_file import GivenAnswer, given, introduce, record, transaction
from carb_data import BonSet, Dataset
from cli_helpers import small_set


def a_set(number: int, **changes: Any) -> BonSet:
    """A small set about Thailand in Thai."""
    domain = ("commonsense", "values", "safety", "linguistics")[number % 4]
    return small_set(number, **{"culture": "thai", "domain": domain, "language": "th", **changes})


def sets(count: int) -> Dataset:
    return Dataset(a_set(number) for number in range(count))


def picked(item: ReviewItem, token: str | None, **others: str) -> ReviewAnswer:
    """An answer that picks a token; the others are wrong unless ``others`` says more."""
    opinions = {t: Opinion(verdict="best" if t == token else "wrong") for t in item.tokens}
    for name, verdict in others.items():
        opinions[name] = Opinion(verdict=verdict, on=("region",) if verdict == "depends" else ())
    return ReviewAnswer(status="answered", opinions=opinions)


def items(db: sqlite3.Connection, **which: bool) -> dict[str, ReviewItem]:
    return {item.id: item for item, _ in given(db, **which)}


def current_answers(db: sqlite3.Connection) -> list[GivenAnswer]:
    return [one for _, answers in given(db) for one in answers]


def an_event(item: ReviewItem, answer: ReviewAnswer, base: int = 0, **more: Any) -> Event:
    return Event(id=uuid.uuid4(), item=item.id, shown=item.tokens, base=base, answer=answer, **more)


Behaviour = Callable[[random.Random, str, ReviewItem], ReviewAnswer | None]


def truthful(accuracy: float) -> Behaviour:
    """Picks the key with a probability, else one of the others."""

    def answer(rng: random.Random, _: str, item: ReviewItem) -> ReviewAnswer:
        wrong = [token for token in item.tokens if token != item.key]
        return picked(item, item.key if rng.random() < accuracy else rng.choice(wrong))

    return answer


def panel(path: Path, dataset: Dataset, behaviours: Sequence[Behaviour], seed: int = 0) -> Any:
    """A review in which each reviewer answers every item by a behaviour.

    Returns:
        The open file.
    """
    rng = random.Random(seed)
    db = handing_out.create(path, dataset, "test")
    handing_out.invite(db, len(behaviours))
    names = [row["id"] for row in db.execute("SELECT id FROM reviewer ORDER BY rowid")]
    known = items(db)
    with transaction(db):
        for name, behaviour in zip(names, behaviours, strict=True):
            introduce(db, name, Person(consent=1))
            for item in known.values():
                answer = behaviour(rng, name, item)
                if answer is not None:
                    event = an_event(item, answer, active_ms=rng.randrange(5_000, 60_000))
                    assert record(db, name, event).state == "kept"
    return db
