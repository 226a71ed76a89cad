"""The form of an answer: one schema for the page, the stored file, the offline page and the sheet."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from carb_cli.review.asked import ReviewItem
from carb_data.models import Frozen

__all__ = ["Depends", "Event", "Opinion", "Person", "ReviewAnswer", "Verdict", "mismatch"]

LONGEST = 2000
"""Characters of a free text."""
Verdict = Literal["best", "right", "wrong", "depends"]
Depends = Literal["region", "generation", "religion", "other"]
AgeBand = Literal["", "18-24", "25-34", "35-44", "45-54", "55-64", "65+"]
Words = Annotated[str, StringConstraints(max_length=LONGEST, strip_whitespace=True)]
Short = Annotated[str, StringConstraints(max_length=80, strip_whitespace=True)]
Token = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,16}$")]


class Opinion(Frozen):
    """What a reviewer says of one answer."""

    verdict: Verdict
    """``best`` here; another one ``right`` here too, ``wrong`` here, or it ``depends``."""
    on: tuple[Depends, ...] = ()
    """What the answer depends on."""
    which: Words = ""
    """Which region, generation or religion, in the reviewer's words."""
    natural: bool = True
    """Whether it reads naturally; false only if the reviewer said no."""
    better: Words = ""
    """A better wording."""

    @model_validator(mode="after")
    def _only_what_depends_says_on_what(self) -> Self:
        if (self.on or self.which) and self.verdict != "depends":
            raise ValueError("only an answer that depends says on what")
        if self.verdict == "depends" and not self.on:
            raise ValueError("say on what it depends: region, generation, religion or other")
        return self


class ReviewAnswer(Frozen):
    """What a reviewer says of one item."""

    status: Literal["answered", "unknown", "objected"]
    """``unknown``: I do not know; ``objected``: the question itself is wrong."""
    opinions: dict[Token, Opinion] = Field(default_factory=dict, max_length=16)
    """Opinions by token of the option; complete for ``answered``, else empty."""
    source: Words = ""
    """A link to a page that states this, or its title."""
    comment: Words = ""

    @property
    def best(self) -> str | None:
        """Token of the answer that was picked as best here."""
        return next((token for token, opinion in self.opinions.items() if opinion.verdict == "best"), None)


class Event(Frozen):
    """One saved answer. It is kept for ever, and the same event counts once, however often it arrives."""

    id: UUID
    """Drawn by the page."""
    item: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
    shown: tuple[Token, ...] = Field(max_length=16)
    """The order in which the answers were on the screen."""
    base: Annotated[int, Field(ge=0, le=1_000_000)]
    """The revision that the reviewer saw; 0 for a first answer."""
    answer: ReviewAnswer
    device_time: float | None = Field(default=None, allow_inf_nan=False)
    """Seconds since 1970 by the device's clock, which may be wrong; nothing is ordered by it."""
    active_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """Milliseconds in which the item was on the screen."""


class Person(Frozen):
    """What a reviewer says of themselves; only the consent is needed."""

    name: Short = ""
    """A pseudonym; empty keeps the given one."""
    region: Short = ""
    age: AgeBand = ""
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{0,3}$")] = ""
    """Language in which the page is shown."""
    consent: Annotated[int, Field(ge=1)]
    """Version of the consent text that was agreed to."""


def mismatch(event: Event, item: ReviewItem) -> str | None:
    """Why an event cannot be an answer to an item; null where it can."""
    answer = event.answer
    if sorted(event.shown) != sorted(item.tokens):
        return "the order shown does not name the answers of this item"
    if answer.status != "answered":
        return "an item that was not answered has no opinions" if answer.opinions else None
    if set(answer.opinions) != set(item.tokens):
        return "give a verdict on each answer"
    if [opinion.verdict for opinion in answer.opinions.values()].count("best") != 1:
        return "pick exactly one answer as best, and give a verdict on each other one"
    return None
