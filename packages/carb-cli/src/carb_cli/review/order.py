"""What a reviewer is asked next.

Each reviewer has a random share of the items, drawn before any answer, in random order. Of the others, the item is
asked first whose verdict is most open. A coin decides from which of the two the next one comes. So what was answered
of the random share is a random sample of all items whatever the answers say, and plain means over it are unbiased.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from carb_cli.review.items import ReviewItem
from carb_cli.review.store import now

__all__ = ["ReviewPlan", "in_random_share", "next_items", "telling"]

LEASE_SECONDS = 3600.0
"""How long an item that was handed out but not answered counts as taken."""


@dataclass(frozen=True)
class ReviewPlan:
    """How a review is handed out."""

    seed: int
    """Seed of the random shares and orders."""
    random_share: float
    """Share of the items that each reviewer gets in an order that no answer changes."""
    per_set: int | None
    """Reviewers wanted for each item; null for all. The random share is asked even so."""


def place(seed: int, reviewer: str, item: str, what: str) -> float:
    """A number in [0, 1) that depends on these alone."""
    digest = hashlib.blake2b(f"{seed}\0{reviewer}\0{item}\0{what}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def in_random_share(plan: ReviewPlan, reviewer: str, item: str) -> bool:
    """Does an item belong to the random share of a reviewer?"""
    return place(plan.seed, reviewer, item, "share") < plan.random_share


def telling(agree: int, against: int) -> float:
    """How much the next answer to an item tells: the expected fall of the variance of the share that picks the key.

    With a uniform prior the share is Beta(a, b), a = agree + 1, b = against + 1, n = a + b; its variance
    ab/(n²(n + 1)) falls by ab/(n²(n + 1)²) on average with one more answer (Gelman et al. 2013, Bayesian Data
    Analysis, 3rd ed., section 2.4: the total variance, less that of the mean).
    """
    a, b = agree + 1, against + 1
    n = a + b
    return a * b / (n * n * (n + 1) ** 2)


def shown_order(item: ReviewItem) -> tuple[str, ...]:
    """A random order of the answers of a choice; a version stays below its original."""
    tokens = list(item.tokens)
    if item.kind == "choice":
        random.SystemRandom().shuffle(tokens)
    return tuple(tokens)


def next_items(
    db: sqlite3.Connection, known: Mapping[str, ReviewItem], reviewer: str, plan: ReviewPlan, count: int
) -> list[tuple[ReviewItem, tuple[str, ...]]]:
    """Hand out the next items: first those handed out before and not answered, then new ones, each with its order.

    Args:
        db: the file, in a transaction.
        known: all items by id.
        reviewer: id of the reviewer.
        plan: the rules for handing out items: reviews wanted for each set, and the random share.
        count: largest number of items to return.
    """
    rows = db.execute(
        "SELECT assignment.item, assignment.shown, assignment.id, answer.revision FROM assignment "
        "LEFT JOIN answer ON answer.assignment = assignment.id WHERE reviewer = ? ORDER BY assignment.id",
        (reviewer,),
    ).fetchall()
    seen = {row["item"] for row in rows}
    waiting = [(known[row["item"]], tuple(json.loads(row["shown"]))) for row in rows if row["revision"] is None]
    chosen = waiting[:count]
    db.executemany(
        "UPDATE assignment SET lease = ? WHERE item = ? AND reviewer = ?",
        [(now() + LEASE_SECONDS, item.id, reviewer) for item, _ in chosen],
    )
    if len(chosen) == count or len(seen) == len(known):
        return chosen
    taken, votes = _others(db, reviewer)
    for arm, item in _new(known, seen, reviewer, plan, taken, votes, count - len(chosen)):
        shown = shown_order(item)
        worth = telling(*votes.get(item.id, (0, 0)))
        db.execute(
            "INSERT INTO assignment (item, reviewer, shown, arm, priority, lease) VALUES (?, ?, ?, ?, ?, ?)",
            (item.id, reviewer, json.dumps(shown), arm, worth, now() + LEASE_SECONDS),
        )
        chosen.append((item, shown))
    return chosen


def _new(
    known: Mapping[str, ReviewItem], seen: set[str], reviewer: str, plan: ReviewPlan, taken: Mapping[str, int],
    votes: Mapping[str, tuple[int, int]], count: int,
) -> list[tuple[str, ReviewItem]]:  # fmt: skip
    """Choices come before versions; within each, the coin mixes the random share with the most telling items."""
    found: list[tuple[str, ReviewItem]] = []
    for kind in ("choice", "version"):
        left = [item for item in known.values() if item.kind == kind and item.id not in seen]
        at_random = [item for item in left if in_random_share(plan, reviewer, item.id)]
        at_random.sort(key=lambda item: -place(plan.seed, reviewer, item.id, "order"))
        adaptive = [
            item
            for item in left
            if not in_random_share(plan, reviewer, item.id)
            and (plan.per_set is None or taken.get(item.id, 0) < plan.per_set)
        ]
        adaptive.sort(
            key=lambda item: (telling(*votes.get(item.id, (0, 0))), place(plan.seed, reviewer, item.id, "order"))
        )
        while len(found) < count and (at_random or adaptive):
            step = len(seen) + len(found)
            coin = place(plan.seed, reviewer, str(step), "coin") < plan.random_share
            pool, arm = (at_random, "random") if at_random and (coin or not adaptive) else (adaptive, "telling")
            found.append((arm, pool.pop()))
    return found


def _others(db: sqlite3.Connection, reviewer: str) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Count the other reviewers: who answered or holds each item, and who picked its key or something else."""
    taken: dict[str, int] = {}
    votes: dict[str, tuple[int, int]] = {}
    rows = db.execute(
        "SELECT assignment.item, count(answer.assignment) AS answered, "
        "sum(answer.assignment IS NULL AND assignment.lease > ?) AS held, sum(answer.agrees) AS agree, "
        "sum(1 - answer.agrees) AS against FROM assignment "
        "LEFT JOIN answer ON answer.assignment = assignment.id WHERE reviewer != ? GROUP BY assignment.item",
        (now(), reviewer),
    )
    for row in rows:
        taken[row["item"]] = row["answered"] + (row["held"] or 0)
        votes[row["item"]] = (row["agree"] or 0, row["against"] or 0)
    return taken, votes
