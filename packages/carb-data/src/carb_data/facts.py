"""The fact bank: one thing that holds in one place, and the page that states it. Sets are made from
facts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError, model_validator

from carb_data.errors import CarbError, DataError, Problem
from carb_data.models import (
    CultureId,
    Domain,
    Frozen,
    Identifier,
    Kind,
    LanguageTag,
    Text,
    defect,
)
from carb_data.validation import line_problems

FactId = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\.[A-Z]{2}(-[A-Z0-9]{1,3})?(-[a-z][a-z0-9]*)*$"
    ),
]
"""``topic.PLACE``: an ISO 3166 code, and a town or area where it is smaller: ``motorway-toll.AT``,
``school-age.GB-SCT``, ``carnival-call.DE-HE-fulda``."""


class PageSource(Frozen):
    """The page that states a fact."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
    title: Text
    accessed: date


class Phrase(Frozen):
    """Words that people say, as they say them."""

    text: Text
    """The part that every use of the phrase shares: ``加油``, ``правду-матку``."""
    language: LanguageTag


class Fact(Frozen):
    """One thing that holds in one place, and the page that states it; answers of sets cite it."""

    id: FactId
    topic: Identifier
    domain: Domain
    culture: CultureId
    """Country level: ``german-at``."""
    statement: Text
    """One sentence in English."""
    kind: Kind
    value: Text
    """Short key that compares places: facts of one topic with the same value are the same
    answer."""
    source: PageSource
    second_source: PageSource | None = None
    """An independent page that states it too."""
    evidence: (
        Literal["official", "national", "scholarly", "press", "independent", "bronze"] | None
    ) = None
    """The kind of the pages: an official, scholarly or press page, a page in the national language
    of the place, or two independent ones; ``bronze`` is none of these, and its fact is in no set.
    Null where not recorded."""
    also: tuple[CultureId, ...] = ()
    """Other cultures, or places of other facts in small letters (``de-he-fulda``), where it holds:
    it can be a wrong answer in none of them."""
    says: Phrase | None = None
    """The phrase itself, where the fact is about one: an answer in its language contains it."""
    checked: tuple[Literal["found", "reread"], ...] = ()
    """``found``: its author read it on the page. ``reread``: somebody else did so later."""
    note: str | None = None

    @model_validator(mode="after")
    def _is_named_after_its_topic(self) -> Self:
        if self.id.partition(".")[0] != self.topic:
            raise defect(
                "id", f"the id must be the topic, a dot and the place: '{self.topic}.{self.place}'"
            )
        return self

    @property
    def place(self) -> str:
        """The place in its id: a code of ISO 3166, and a town where it is smaller."""
        return self.id.partition(".")[2]


_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line(Generic[_M]):
    """A valid line of a content file, and where it stands."""

    file: str
    number: int
    content: _M


def load_facts(path: Path) -> list[Fact]:
    """The facts of a bank's folder, or of one ``.jsonl`` file with a fact on each line.

    Raises:
        CarbError: there is no fact.
        DataError: with every bad line.
    """
    problems: list[Problem] = []
    files = [path]
    if not path.is_file():
        files = sorted(path.glob("facts/*.jsonl"))
    facts = [line.content for line in read_lines(files, Fact, problems)]
    if problems:
        raise DataError(problems, "Correct these lines and run the command again.")
    if not facts:
        raise CarbError(
            f"There are no facts in {path}. Name a folder with facts/*.jsonl, or a .jsonl "
            "file of facts."
        )
    return facts


def read_lines(
    paths: Iterable[Path], model: type[_M], problems: list[Problem]
) -> Iterator[Line[_M]]:
    """Read JSON Lines files, each line into a model.

    Args:
        paths: The files.
        model: The model of a line.
        problems: A list to which the defects of every bad line are appended.

    Returns:
        The valid lines in order, each with its file, its number from 1, and its content.

    Raises:
        OSError: a file cannot be read.
    """
    for path in paths:
        lines = path.read_bytes().splitlines()
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield Line(str(path), number, model.model_validate_json(line))
                except ValidationError as error:
                    problems.extend(line_problems(path, number, error))
