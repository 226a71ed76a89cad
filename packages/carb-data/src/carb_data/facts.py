"""The fact bank and the families of sets that are made from it: facts first, sets from facts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from carb_data.errors import CarbError, DataError, Problem
from carb_data.models import (
    BonSet,
    Citation,
    CultureId,
    Domain,
    Frozen,
    Identifier,
    LanguageTag,
    Perturbation,
    Provenance,
    Response,
    Role,
    Text,
    defect,
)
from carb_data.validation import line_problems

__all__ = [
    "Bank",
    "Fact",
    "Family",
    "FamilyAnswer",
    "PageSource",
    "PerturbedAnswer",
    "Place",
    "Survey",
    "expand",
    "load_facts",
    "read_bank",
]

PLACE = "{place}"
AUTHOR = "carb-seed-author"

FactId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\.[A-Z]{2}(-[A-Z0-9]{1,3})?$")]
"""``topic.COUNTRY`` with an ISO 3166 code: ``motorway-toll.AT``, ``school-age.GB-SCT``."""


class PageSource(Frozen):
    """The page that states a fact."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
    title: Text
    accessed: date


class Survey(Frozen):
    """What a survey found."""

    name: Text
    wave: Text
    question: Text
    """The question in short, in other words than the survey's."""
    percent: Annotated[float, Field(ge=0, le=100)]
    """Share of the people asked who hold this opinion, in percent."""
    opposite: Annotated[float, Field(ge=0, le=100)] | None = None
    """Share who hold the opposite one, in percent."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """How many people were asked."""

    @property
    def majority(self) -> Literal["yes", "no"] | None:
        """The side of a clear majority, 60% or 20 points ahead; None where there is none.

        Where the opposite share is unknown, everybody else counts as opposed.
        """
        other = 100 - self.percent if self.opposite is None else self.opposite
        if self.percent >= 60 or self.percent - other >= 20:
            return "yes"
        return "no" if other >= 60 or other - self.percent >= 20 else None


class Fact(Frozen):
    """One thing that holds in one country, and the page that states it: what a set's answers follow."""

    id: FactId
    topic: Identifier
    domain: Domain
    culture: CultureId
    """Country level: ``german-at``."""
    statement: Text
    """One sentence in English."""
    kind: Literal["law", "survey", "norm", "institution", "idiom", "register", "custom", "word"]
    value: Text
    """Short key that compares countries: facts of one topic with the same value are the same answer."""
    source: PageSource
    also: tuple[CultureId, ...] = ()
    """Other cultures where it holds; it can be a wrong answer in none of them."""
    survey: Survey | None = None
    second: Survey | None = None
    """The other survey question, where the fact joins two opinions: then ``value`` is ``yes-no`` or its like."""
    valid_until: date | None = None
    """The last day on which it holds, where that is known."""
    checked: tuple[Literal["found", "reread"], ...] = ()
    """``found``: its author read it on the page. ``reread``: somebody else did so later."""
    note: str | None = None

    @model_validator(mode="after")
    def _is_named_after_its_topic(self) -> Self:
        if self.id.partition(".")[0] != self.topic:
            raise defect("id", f"the id must be the topic, a dot and the country: '{self.topic}.{self.country}'")
        if self.kind == "survey" and self.survey is None:
            raise defect("survey", "a fact of the kind 'survey' needs the survey's figures")
        return self

    @property
    def country(self) -> str:
        """ISO 3166 code of the country or region."""
        return self.id.partition(".")[2]

    def holds_in(self, culture: str, parent: str | None = None) -> bool:
        """Whether the fact holds in a culture, for itself or because it holds in the culture's parent."""
        return culture in (self.culture, *self.also) or (parent is not None and parent in self.also)


class Place(Frozen):
    """A place that the question can name."""

    culture: CultureId
    name: Text
    """The natural phrase as it stands in the question, with its case or preposition: ``nach Graz``."""


class FamilyAnswer(Frozen):
    """One answer of a family, and the fact that it follows."""

    fact: FactId
    text: Text


class PerturbedAnswer(Frozen):
    """Perturbed versions of the first answer of a set without mirrors."""

    CC: Text
    """One concept is another culture's counterpart."""
    RC: Text
    """The place's name is gone."""
    CL: dict[LanguageTag, Text]
    """The answer in other languages."""
    RP: Text
    """A paraphrase."""
    CC_fact: FactId | None = None
    """The fact from which the other culture's concept was taken."""


class Family(Frozen):
    """One topic in one language: answers that follow the facts of several places, asked about each of them."""

    id: Identifier
    topic: Identifier
    domain: Domain
    language: LanguageTag
    form: Literal["short", "reply"] = "short"
    """One or two sentences, or a reply as an assistant gives it."""
    question: Text
    """The question, with ``{place}`` for the place's name."""
    places: Annotated[tuple[Place, ...], Field(min_length=1, max_length=4)]
    """Each belongs to the answer at its position. One place: a set without mirrors."""
    answers: Annotated[tuple[FamilyAnswer, ...], Field(min_length=4, max_length=4)]
    perturbed: PerturbedAnswer | None = None

    @model_validator(mode="after")
    def _has_one_answer_a_place(self) -> Self:
        if PLACE not in self.question:
            raise defect("question", "the question must contain {place}")
        if "{" in self.question.replace(PLACE, "") or "}" in self.question.replace(PLACE, ""):
            raise defect("question", "the question has a brace that is not part of {place}")
        if self.perturbed is not None and len(self.places) != 1:
            raise defect("perturbed", "only a family with one place has perturbed answers")
        for field, given in (
            ("answers", [answer.fact for answer in self.answers]),
            ("answers", [answer.text for answer in self.answers]),
            ("places", [place.name for place in self.places]),
        ):
            if len(set(given)) != len(given):
                raise defect(field, f"{field} must differ from each other")
        return self


_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line(Generic[_M]):
    """A valid line of a content file, and where it stands."""

    file: str
    number: int
    content: _M


@dataclass(frozen=True, slots=True)
class Bank:
    """All facts and families of a folder, in file order; ids may still be repeated."""

    facts: tuple[Line[Fact], ...]
    families: tuple[Line[Family], ...]

    @property
    def by_id(self) -> Mapping[str, Fact]:
        """The facts by id."""
        return {line.content.id: line.content for line in self.facts}


def read_bank(folder: Path, problems: list[Problem]) -> Bank:
    """Read ``facts/*.jsonl`` and ``families/*.jsonl`` of a folder; every bad line is appended to ``problems``."""
    return Bank(
        facts=tuple(read_lines(sorted((folder / "facts").glob("*.jsonl")), Fact, problems)),
        families=tuple(read_lines(sorted((folder / "families").glob("*.jsonl")), Family, problems)),
    )


def load_facts(path: Path) -> list[Fact]:
    """The facts of a bank's folder, or of one ``.jsonl`` file with a fact on each line.

    Raises:
        CarbError: there is no fact.
        DataError: with every bad line.
    """
    problems: list[Problem] = []
    files = sorted((path / "facts").glob("*.jsonl")) if path.is_dir() else [path] if path.is_file() else []
    found = [line.content for line in read_lines(files, Fact, problems)]
    if problems:
        raise DataError(problems, "Correct these lines and run the command again.")
    if not found:
        raise CarbError(f"There are no facts in {path}. Name a folder with facts/*.jsonl, or a .jsonl file of facts.")
    return found


def read_lines(paths: Iterable[Path], model: type[_M], problems: list[Problem]) -> Iterator[Line[_M]]:
    """The valid lines of JSON Lines files, in order; every bad line is appended to ``problems``."""
    for path in paths:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    yield Line(str(path), number, model.model_validate_json(line))
                except ValidationError as error:
                    problems.extend(line_problems(path, number, error))


def load_sets(folder: Path) -> list[BonSet]:
    """The sets of all families of a folder.

    Raises:
        DataError: with every bad line, and every family whose facts are not in the bank.
    """
    problems: list[Problem] = []
    bank = read_bank(folder, problems)
    facts = bank.by_id
    for line in bank.families:
        absent = missing_facts(line.content, facts)
        if absent:
            problems.append(
                Problem(line.file, line.number, "answers", f"no such fact in the bank: {', '.join(absent)}")
            )
    if problems:
        raise DataError(problems, "Correct these lines and run the command again.")
    return [item for line in bank.families for item in expand(line.content, facts)]


def missing_facts(family: Family, facts: Mapping[str, Fact]) -> list[str]:
    """Ids of facts that the family names and the bank does not hold."""
    named = [answer.fact for answer in family.answers]
    if family.perturbed is not None and family.perturbed.CC_fact is not None:
        named.append(family.perturbed.CC_fact)
    return [name for name in named if name not in facts]


def expand(family: Family, facts: Mapping[str, Fact]) -> tuple[BonSet, ...]:
    """The sets of a family: one a place, with the same answers under the same ids.

    The order of the answers comes from a hash of the family and the fact: it is the same in every set of the family,
    so that the position of the right answer says nothing.

    Args:
        family: the family: places, and answers that follow facts.
        facts: the fact bank by id.

    Raises:
        KeyError: a fact of the family is not in the bank.
    """
    shown = sorted(family.answers, key=lambda answer: _digest(family.id, answer.fact))
    several = len(family.places) > 1
    return tuple(
        BonSet(
            id=f"{family.id}/{_code(answer)}",
            culture=place.culture,
            domain=family.domain,
            topic=family.topic,
            language=family.language,
            prompt=family.question.replace(PLACE, place.name),
            responses=tuple(_response(one, answer, family, facts[one.fact]) for one in shown),
            perturbed=_perturbed(family, facts),
            provenance=Provenance(
                source="carb-seed",
                source_id=family.id,
                license="Apache-2.0",
                url=facts[answer.fact].source.url,
                method="authored",
                notes=f"{family.form}: {facts[answer.fact].statement}",
                tier="silver",
            ),
            family=family.id if several else None,
        )
        for place, answer in zip(family.places, family.answers, strict=False)
    )


def _code(answer: FamilyAnswer) -> str:
    return answer.fact.partition(".")[2].lower()


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


def _response(one: FamilyAnswer, right: FamilyAnswer, family: Family, fact: Fact) -> Response:
    return Response(
        id=_code(one),
        text=one.text,
        role=Role.CHOSEN if one is right else Role.REJECTED,
        language=family.language,
        culture=fact.culture,
        generator=AUTHOR,
        source=_source(fact),
    )


def _source(fact: Fact) -> Citation:
    return Citation(url=fact.source.url, title=fact.source.title, accessed=fact.source.accessed, fact=fact.id)


def _perturbed(family: Family, facts: Mapping[str, Fact]) -> tuple[Response, ...]:
    if family.perturbed is None:
        return ()
    given, first = family.perturbed, family.answers[0]
    stated = _source(facts[first.fact])
    other = None if given.CC_fact is None else _source(facts[given.CC_fact])

    def version(kind: Perturbation, text: str, language: str = family.language, suffix: str = "") -> Response:
        return Response(
            id=f"{_code(first)}-{kind.value.lower()}{suffix}",
            text=text,
            role=Role.CHOSEN,
            language=language,
            culture=family.places[0].culture,
            generator=AUTHOR,
            perturbation=kind,
            original=_code(first),
            source=other if kind is Perturbation.CC else stated,
        )

    return (
        version(Perturbation.CC, given.CC),
        version(Perturbation.RC, given.RC),
        version(Perturbation.RP, given.RP),
        *(version(Perturbation.CL, text, language, f"-{language.lower()}") for language, text in given.CL.items()),
    )
