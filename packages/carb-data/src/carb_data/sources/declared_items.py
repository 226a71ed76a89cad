"""What the rules of declared sources work on, and what they give."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from carb_data.sources.declaration import Part
from carb_data.sources.declared_records import Record, fill
from carb_data.sources.grouping import plain


@dataclass(frozen=True)
class Item:
    """A record that can be an answer."""

    number: str
    record: Record
    text: str
    label: str = ""

    @cached_property
    def plain(self) -> str:
        """The answer as it is compared."""
        return plain(self.text)


@dataclass(frozen=True)
class Made:
    """A set to be: who asks what, and the answers, the right one first."""

    asked: Item
    prompt: str
    answers: tuple[str, ...]
    keys: tuple[str, ...]
    """Items that a split must keep together with each other."""
    family: str | None = None


@dataclass(frozen=True)
class Left:
    """An item from which nothing was made, and why."""

    number: str
    reason: str


def unfit(part: Part, item: Item) -> str | None:
    """Why a record can be no answer, or None."""
    if not item.plain or "\ufffd" in item.text:
        return "the answer says nothing"
    if not part.shortest <= len(item.text) <= part.longest:
        return "the answer is too short or too long"
    if part.forbid is not None and re.search(part.forbid, item.text):
        return "the answer holds what is blocked"
    return None


def question(part: Part, item: Item) -> str:
    """What is asked where the item is the right answer."""
    return fill(part.make.prompts.get(item.label, part.make.prompt), item.record)


def digest(seed: int, *parts: str) -> bytes:
    """A key to put things in an order that depends on nothing but the seed and their names."""
    return sha256("\0".join([str(seed), *parts]).encode()).digest()
