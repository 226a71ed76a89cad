"""A reviewer's questions, under names that hide the key, and the form of an answer.

One schema serves the page, the stored file and the offline page.
"""

import json
from functools import lru_cache
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from carb_cli.json_output import digest
from carb_cli.review.regions import region_name, region_of
from carb_data import BonSet, Frozen, Response

Words = Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True)]
Short = Annotated[str, StringConstraints(max_length=80, strip_whitespace=True)]
Answer = Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)]
Region = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}(-[A-Za-z0-9]+)+$", max_length=40)]
Token = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,16}$")]


class ReviewItem:
    """A set as it is put to reviewers. ``shown`` is all that a reviewer's page receives of it."""

    def __init__(self, item: BonSet) -> None:
        self.set = item
        options: dict[str, Response] = {}
        for position, one in enumerate(
            sorted(item.responses, key=lambda r: (digest(r.text), r.id))
        ):
            token = digest(one.text)[:8]
            options[token if token not in options else digest(f"{one.text}\0{position}")[:8]] = one
        self.options = dict(sorted(options.items()))
        """The answers by token, which is made from the text alone and, where two are alike, from
        its place. They stand in the order of their tokens, so that the position carries no
        information."""
        self.tokens = tuple(self.options)
        self.key = next(token for token, one in self.options.items() if one is item.chosen)
        """Token of the chosen response; never shown."""
        content = {
            "language": item.language,
            "turns": [item.prompt]
            if isinstance(item.prompt, str)
            else [turn.content for turn in item.prompt],
            "options": [
                {"token": t, "text": one.text, "language": one.language}
                for t, one in self.options.items()
            ],
        }
        self.id = digest(json.dumps([item.id, item.culture, content]))[:20]
        """Hash of what is shown: a changed text is another item."""
        self.region = region_of(item)
        named = ""
        if self.region:
            named = region_name(self.region)
        self.shown = {"id": self.id, **content, "region": self.region, "place": named}


@lru_cache(maxsize=2000)
def stored(content: str) -> ReviewItem:
    """The item of a stored set. Reading one takes longer than recording an answer to it, so that
    those in use stay."""
    return ReviewItem(BonSet.model_validate_json(content))


class Opinion(Frozen):
    """A reviewer's opinion of one answer."""

    verdict: Literal["best", "right", "wrong", "depends"]
    """``best`` here; another one ``right`` here too, ``wrong`` here, or it ``depends``."""
    on: tuple[Literal["region", "generation", "religion", "other"], ...] = ()
    """The cause of a dependence."""
    which: Words = ""
    """The region, generation or religion, in the reviewer's words."""
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
    """A reviewer's answer to one item."""

    status: Literal["answered", "unknown", "objected"]
    """``unknown``: I do not know; ``objected``: the question itself is wrong."""
    opinions: dict[Token, Opinion] = Field(default={}, max_length=16)
    """Opinions by token of the option; complete for ``answered``, else empty."""
    comment: Words = ""
    """It may name a page that states this."""

    @property
    def best(self) -> str | None:
        """Token of the answer that was picked as best here."""
        return next(
            (token for token, opinion in self.opinions.items() if opinion.verdict == "best"), None
        )


class Event(Frozen):
    """One saved answer. It is kept for ever, and the same event counts once, however often it
    arrives."""

    id: UUID
    """Drawn by the page."""
    item: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
    shown: tuple[Token, ...] = Field(max_length=16)
    """The order in which the answers were on the screen."""
    base: Annotated[int, Field(ge=0, le=1_000_000)]
    """The revision that the reviewer saw; 0 for a first answer."""
    answer: ReviewAnswer
    active_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 0
    """Milliseconds in which the item was on the screen."""


class Question(Frozen):
    """A question that a reviewer wrote. It counts once, however often it arrives."""

    id: UUID
    """Drawn by the page."""
    question: Annotated[
        str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)
    ]
    right: Answer
    wrong: Answer
    """A belief of people from elsewhere."""

    @model_validator(mode="after")
    def _has_two_answers(self) -> Self:
        if self.right.casefold() == self.wrong.casefold():
            raise ValueError("the right answer and the wrong one are the same")
        return self

    def as_set(self, culture: str, language: str) -> BonSet:
        """The question as a set, whose source is a person."""
        shared = {"language": language, "generator": "human"}
        return BonSet.model_validate(
            {
                "id": str(self.id),
                "culture": culture,
                "domain": "unspecified",
                "language": language,
                "prompt": self.question,
                "responses": [
                    {"id": "right", "role": "chosen", "text": self.right, **shared},
                    {"id": "wrong", "role": "rejected", "text": self.wrong, **shared},
                ],
                "provenance": {"source": "person", "license": "CC0-1.0", "method": "authored"},
            }
        )


Sent = Annotated[
    Annotated[Event, Tag("answer")] | Annotated[Question, Tag("question")],
    Discriminator(
        lambda sent: "question" if isinstance(sent, dict) and "question" in sent else "answer"
    ),
]
"""What a page sends: an answer, or a question that its reviewer wrote."""


class Person(Frozen):
    """A reviewer's description; only the consent is needed."""

    name: Short = ""
    """A pseudonym; empty keeps the given one."""
    region: Short = ""
    places: tuple[Region, ...] = Field(default=(), max_length=50)
    """Codes of the regions where they live, grew up, or know people."""
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{0,3}$")] = ""
    """Language in which the page is shown."""
    consent: Annotated[int, Field(ge=1, le=99)]
    """Version of the consent text that was agreed to."""


def mismatch(event: Event, item: ReviewItem) -> str | None:
    """Why an event cannot be an answer to an item; null where it can."""
    answer = event.answer
    if sorted(event.shown) != sorted(item.tokens):
        return "the order shown does not name the answers of this item"
    if answer.status != "answered":
        if answer.opinions:
            return "an item that was not answered has no opinions"
        return None
    if set(answer.opinions) != set(item.tokens):
        return "give a verdict on each answer"
    if [opinion.verdict for opinion in answer.opinions.values()].count("best") != 1:
        return "pick exactly one answer as best, and give a verdict on each other one"
    return None
