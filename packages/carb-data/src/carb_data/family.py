"""Families: one question and four answers from facts, expanded to a set for each place
(``expand_family``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from carb_data.declaration import order_key
from carb_data.errors import DataError, Problem
from carb_data.facts import Fact, FactId, Line, read_lines
from carb_data.models import (
    BonSet,
    Citation,
    CultureId,
    Domain,
    Form,
    Frozen,
    Identifier,
    Kind,
    LanguageTag,
    Naming,
    Perturbation,
    Prompt,
    Provenance,
    Response,
    Role,
    Text,
    as_text,
    defect,
)
from carb_data.validation import repeated

PLACE = "{place}"
AUTHOR = "carb-seed-author"
_IMPLIED = "+implied"
"""Suffix of the id of a family whose questions do not name the place."""
_REPLY = "-reply"
"""Suffix of the id of a family that repeats another one in whole replies."""
_HANT = "-hant"
"""Suffix of the id of a family in traditional script that repeats one in simplified script."""


class Place(Frozen):
    """A place that the question can name."""

    culture: CultureId
    name: Text
    """The natural phrase as it stands in the question, with its case or preposition: ``nach
    Graz``."""
    implied: Prompt | None = None
    """The whole question for this place without its name, its country or its language: a cue
    implies it."""
    cue: Text | None = None
    """The words of ``implied`` that imply the place, from life there: a coin, a form, a shop."""


class FamilyAnswer(Frozen):
    """One answer of a family, and the fact that it follows."""

    fact: FactId
    text: Text


class PerturbedAnswer(Frozen):
    """Perturbed versions of the first answer of a set without mirrors; what makes no sense for it
    is left out."""

    CC: Text | None = None
    """One concept is another culture's counterpart."""
    RC: Text | None = None
    """The place's name is gone."""
    CL: dict[LanguageTag, Text] = Field(default={})
    """The answer in other languages."""
    RP: Text | None = None
    """A paraphrase."""
    CC_fact: FactId | None = None
    """The fact from which the other culture's concept was taken."""


class Family(Frozen):
    """One topic in one language: answers that follow the facts of several places, asked about each
    of them."""

    id: Identifier
    topic: Identifier
    domain: Domain
    language: LanguageTag
    kind: Kind | None = None
    """The kind of all its answers; by default the kind of the fact of its first answer."""
    form: Form = "short"
    question: Prompt
    """The question, a text or turns, with ``{place}`` for the place's name."""
    criterion: Text | None = None
    """Why each answer is wrong under the other places, in one sentence."""
    places: Annotated[tuple[Place, ...], Field(min_length=1, max_length=4)]
    """Each belongs to the answer at its position. One place: a set without mirrors."""
    landmark: bool = False
    """Whether the implied questions tell their places by landmarks, which is a second name."""
    answers: Annotated[tuple[FamilyAnswer, ...], Field(min_length=4, max_length=4)]
    perturbed: PerturbedAnswer | None = None
    note: str | None = None
    """A note to a reader of the file: the first line of each file of the seed has its canary
    here."""

    @model_validator(mode="after")
    def _has_one_answer_a_place(self) -> Self:
        asked = as_text(self.question)
        if PLACE not in asked:
            raise defect("question", "the question must contain {place}")
        rest = asked.replace(PLACE, "")
        if "{" in rest or "}" in rest:
            raise defect("question", "the question has a brace that is not part of {place}")
        named_alone = {place.implied is None for place in self.places}
        if len(named_alone) > 1:
            raise defect("places", "either each place has an implied question, or none")
        if self.perturbed is not None and len(self.places) != 1:
            raise defect("perturbed", "only a family with one place has perturbed answers")
        facts = [answer.fact for answer in self.answers]
        texts = [answer.text for answer in self.answers]
        if repeated(facts) or repeated(texts):
            raise defect("answers", "answers must differ from each other")
        if repeated(place.name for place in self.places):
            raise defect("places", "places must differ from each other")
        return self


@dataclass(frozen=True)
class Bank:
    """All facts and families of a folder, in file order; ids may still be repeated."""

    facts: tuple[Line[Fact], ...]
    families: tuple[Line[Family], ...]

    @property
    def by_id(self) -> Mapping[str, Fact]:
        """The facts by id."""
        return {line.content.id: line.content for line in self.facts}


def read_bank(folder: Path, problems: list[Problem]) -> Bank:
    """Read ``facts/*.jsonl`` and ``families/*.jsonl`` of a folder; every bad line is appended to
    ``problems``."""
    fact_files = sorted(folder.glob("facts/*.jsonl"))
    family_files = sorted(folder.glob("families/*.jsonl"))
    return Bank(
        facts=tuple(read_lines(fact_files, Fact, problems)),
        families=tuple(read_lines(family_files, Family, problems)),
    )


def load_families(folder: Path) -> list[BonSet]:
    """The sets of all families of a folder.

    Args:
        folder: A fact bank, with ``facts/*.jsonl`` and ``families/*.jsonl``.

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
                Problem(
                    line.file,
                    line.number,
                    "answers",
                    f"no such fact in the bank: {', '.join(absent)}",
                )
            )
    if problems:
        raise DataError(problems, "Correct these lines and run the command again.")
    return [item for line in bank.families for item in expand_family(line.content, facts)]


def missing_facts(family: Family, facts: Mapping[str, Fact]) -> list[str]:
    """Ids of facts that the family names and the bank does not hold."""
    named = [answer.fact for answer in family.answers]
    perturbed = family.perturbed
    if perturbed is not None and perturbed.CC_fact is not None:
        named.append(perturbed.CC_fact)
    return [name for name in named if name not in facts]


def expand_family(family: Family, facts: Mapping[str, Fact]) -> tuple[BonSet, ...]:
    """Make the sets of a family: one for each place, with the same answers under the same ids.

    Where its places have implied questions, another set for each place asks these. Those sets are a
    family of their own; their ``wording_of`` names the first family. Both families have one source
    item, so a split keeps them together. The families ``ID``, ``ID-reply``, ``ID-hant`` and
    ``ID-reply-hant`` have one source item, too, since they follow the same facts.

    The order of the answers comes from a hash of the family and the fact. It is the same in every
    set of the family: the position of the right answer carries no information.

    Args:
        family: the family: places, and answers that follow facts.
        facts: the fact bank by id.

    Raises:
        KeyError: a fact of the family is not in the bank.
    """
    wordings: list[Naming] = ["named"]
    if family.places[0].implied is not None:
        wordings.append("landmark" if family.landmark else "implied")
    # its sets share the responses: half the memory of a data set
    chosen = _responses(family, Role.CHOSEN, facts)
    rejected = _responses(family, Role.REJECTED, facts)
    perturbed = _perturbed(family, facts)
    sets = []
    for naming in wordings:
        for position in range(len(family.places)):
            fact = family.answers[position].fact
            responses = {**rejected, fact: chosen[fact]}
            shown = [*responses.values()]
            item = _set(family, position, naming, facts, shown, perturbed)
            sets.append(item.compacted())
    return tuple(sets)


def _responses(family: Family, role: Role, facts: Mapping[str, Fact]) -> dict[str, Response]:
    """The answers of a family by fact, in the order in which they are shown."""
    responses = {}
    answers = sorted(family.answers, key=lambda one: order_key(family.id, one.fact))
    for answer in answers:
        fact = facts[answer.fact]
        responses[fact.id] = Response(
            id=_code(answer),
            text=answer.text,
            role=role,
            language=family.language,
            culture=fact.culture,
            generator=AUTHOR,
            source=_source(fact),
        )
    return responses


def _set(
    family: Family,
    position: int,
    naming: Naming,
    facts: Mapping[str, Fact],
    responses: Sequence[Response],
    perturbed: Sequence[Response],
) -> BonSet:
    """The set of the place at a position."""
    place = family.places[position]
    answer = family.answers[position]
    fact = facts[answer.fact]
    first = facts[family.answers[0].fact]
    mirrored = len(family.places) > 1
    name = family.id
    prompt = _asked(family.question, place.name)
    wording_of = None
    if place.implied is not None and naming != "named":
        name += _IMPLIED
        prompt = place.implied
        wording_of = f"{family.id}/{_code(answer)}"
        if mirrored:
            wording_of = family.id
    return BonSet(
        id=f"{name}/{_code(answer)}",
        culture=place.culture,
        domain=family.domain,
        topic=family.topic,
        language=family.language,
        prompt=prompt,
        responses=tuple(responses),
        perturbed=tuple(perturbed),
        provenance=_provenance(family, fact),
        family=name if mirrored else None,
        kind=family.kind or first.kind,
        place=naming,
        region=fact.place,
        wording_of=wording_of,
        form=family.form,
    )


def _provenance(family: Family, fact: Fact) -> Provenance:
    return Provenance(
        source="carb-seed",
        source_id=family.id.removesuffix(_HANT).removesuffix(_REPLY),
        license="Apache-2.0",
        url=fact.source.url,
        method="authored",
        tier="silver",
    )


def _asked(question: Prompt, name: str) -> Prompt:
    """The question with the place's name in it."""
    if isinstance(question, str):
        return question.replace(PLACE, name)
    return tuple(turn.changed(content=turn.content.replace(PLACE, name)) for turn in question)


def _code(one: FamilyAnswer) -> str:
    return one.fact.partition(".")[2].lower()


def _source(fact: Fact) -> Citation:
    return Citation(
        url=fact.source.url,
        title=fact.source.title,
        accessed=fact.source.accessed,
        note=fact.statement,
        fact=fact.id,
    )


def _perturbed(family: Family, facts: Mapping[str, Fact]) -> tuple[Response, ...]:
    if family.perturbed is None:
        return ()
    given = family.perturbed
    first = family.answers[0]
    code = _code(first)
    stated = _source(facts[first.fact])
    other = None
    if given.CC_fact is not None:
        other = _source(facts[given.CC_fact])
    versions = [(kind, getattr(given, kind.value), family.language, "") for kind in _SAME_LANGUAGE]
    versions += [
        (Perturbation.CL, text, language, f"-{language.lower()}")
        for language, text in given.CL.items()
    ]
    return tuple(
        Response(
            id=f"{code}-{kind.value.lower()}{suffix}",
            text=text,
            role=Role.CHOSEN,
            language=language,
            culture=family.places[0].culture,
            generator=AUTHOR,
            perturbation=kind,
            original=code,
            source=other if kind is Perturbation.CC else stated,
        )
        for kind, text, language, suffix in versions
        if text is not None
    )


_SAME_LANGUAGE = (Perturbation.CC, Perturbation.RC, Perturbation.RP)
