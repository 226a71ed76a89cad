"""The data model: culture, response and Best-of-N set."""

import sys
from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from functools import cache
from html import escape
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from carb_data.language import language_tag
from carb_data.validation import repeated

CultureId = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=64)
]
"""Lower-case id of a culture: ``spanish``, ``spanish-mx``."""


def _read_tag(value: object) -> object:
    if isinstance(value, str):
        return language_tag(value)
    return value


LanguageTag = Annotated[
    str,
    BeforeValidator(_read_tag),
    StringConstraints(pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$", max_length=35),
]
"""BCP 47 language tag: ``es``, ``zh-Hans``; the English name of a language is read as its tag."""
UNSPECIFIED = "unspecified"
"""Culture and domain of a set without them."""

Identifier = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f]+$",
    ),
]
Text = Annotated[str, StringConstraints(pattern=r"\S")]
"""Any text with at least one character that is not white space; kept exactly as given."""


class Domain(StrEnum):
    """The four domains of the benchmark."""

    COMMONSENSE = "commonsense"
    VALUES = "values"
    SAFETY = "safety"
    LINGUISTICS = "linguistics"


class NoDomain(StrEnum):
    """The domain of a set without one."""

    UNSPECIFIED = "unspecified"


_DOMAINS = (*map(str, Domain), *map(str, NoDomain))


def _read_domain(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.casefold()
    if word not in _DOMAINS:
        known = {"known": ", ".join(_DOMAINS)}
        raise PydanticCustomError("domain", "must be one of {known}", known)
    return word


class Perturbation(StrEnum):
    """How a response was changed, and so how its score should move."""

    CC = "CC"
    """The core cultural concept was changed, the culture's label kept: the score should move."""
    RC = "RC"
    """The explicit culture label was removed: the score should hardly move."""
    CL = "CL"
    """The same content in another language: the score should hardly move."""
    RP = "RP"
    """A paraphrase: the score should hardly move."""


class Kind(StrEnum):
    """The kind of a right answer: a custom, a norm, a taboo and so on."""

    CUSTOM = "custom"
    NORM = "norm"
    TABOO = "taboo"
    FORMULA = "formula"
    """A phrase for an occasion; a proverb or an idiom in use."""
    PRAGMATICS = "pragmatics"
    """Manner of speech: politeness, forms of address, humour, directness."""
    VALUE = "value"
    """An opinion of most people."""
    MATERIAL = "material"
    """Things and institutions: food, clothing, schools, shops."""
    WORD = "word"
    """Dialect or regional use of a word."""
    CONTROL = "control"
    """No culture: general preference, school knowledge, harm that is harm everywhere."""

    @property
    def group(self) -> "Group":
        """``control`` or ``culture``, which is every other kind."""
        if self is Kind.CONTROL:
            return "control"
        return "culture"


Group = Literal["culture", "control"]
Naming = Literal["named", "implied", "landmark"]
"""How a question gives its place: by its name, by cues from life there, or by a landmark."""
PlaceCode = Annotated[
    str, StringConstraints(pattern=r"^[A-Z]{2}(-[A-Z0-9]{1,3})?(-[a-z][a-z0-9]*)*$")
]
"""A place: a code of ISO 3166, and a town or area where it is smaller: ``AT``, ``GB-SCT``,
``DE-HE-fulda``."""
Form = Literal["short", "minimal-pair", "reply"]
"""The answers of a set: one or two sentences, one text with a clause exchanged, or replies written
each by itself."""


class Role(StrEnum):
    """Is a response the right one of its set?"""

    CHOSEN = "chosen"
    REJECTED = "rejected"


_given: dict[tuple[type[BaseModel], frozenset[str]], set[str]] = {}
"""One set for all models that were given the same fields."""


_DEPRECATED = {
    name
    for name, value in vars(BaseModel).items()
    if hasattr(getattr(value, "__func__", value), "__deprecated__")
}
_PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_SLOTS = [vars(BaseModel)[name].__set__ for name in _PARTS]
"""Setters of a model's parts, in two thirds of the time of ``object.__setattr__``."""


def _is_model(kind: type) -> bool:
    return Frozen in kind.__mro__  # pydantic's own check of an instance takes microseconds


@cache
def _without_values(kind: type[BaseModel]) -> dict[str, None]:
    """A dictionary of a model's fields whose copies share its keys, as Python's own objects do."""
    empty = object.__new__(kind)
    for name in kind.model_fields:
        object.__setattr__(empty, name, None)
    return empty.__dict__


def html_table(rows: Iterable[Iterable[object]]) -> str:
    """A table for a notebook, whose cells may hold tables; texts are escaped."""
    lines = []
    for row in rows:
        cells = [f"<td>{_html(value)}</td>" for value in row]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _html(value: object) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}"
    if isinstance(value, Mapping):
        return html_table(value.items())
    if _is_model(type(value)):
        value = (value,)
    if isinstance(value, tuple) and value and _is_model(type(value[0])):
        rows = (dict(one).values() for one in value)
        return html_table([dict(value[0]), *rows])
    show = getattr(value, "_repr_html_", None)
    if show is None:
        return escape(str(value))
    return str(show())


class Frozen(BaseModel):
    """The base of all models of all packages: fixed once made, without unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        serialize_by_alias=True,
    )

    def __dir__(self) -> Iterable[str]:
        """The names that an editor completes, without those that pydantic deprecates."""
        return {*super().__dir__()} - _DEPRECATED

    def _repr_html_(self) -> str:
        """The fields as a notebook shows them."""
        return html_table(self)

    def compacted(self) -> Self:
        """The same model and its parts, in place, in a third of the memory.

        pydantic gives each model a set of the fields that were given and a dictionary of its own.
        Models with the same fields share the set here, and those of a kind the dictionary's keys. A
        text of many models, such as a licence or a mirrored answer, is kept once.
        """
        given = self.__pydantic_fields_set__
        values = self.__dict__
        for name, value in values.items():
            kind = type(value)
            if kind is str:
                values[name] = sys.intern(value)
            elif kind is tuple:
                for part in value:
                    if _is_model(type(part)):
                        part.compacted()
            elif _is_model(kind):
                value.compacted()
        set_dict, set_given, *_ = _SLOTS
        set_dict(self, _without_values(type(self)) | values)
        set_given(self, _given.setdefault((type(self), frozenset(given)), given))
        return self

    def changed(self, **values: object) -> Self:
        """The same model with other values, compact and unchecked. A loader that checks values
        itself uses it: pydantic takes most of the time of a large table."""
        copy = object.__new__(type(self))
        content = self.__dict__ | values  # shares the keys, as those of a compact model do
        set_dict, set_given, set_extra, set_private = _SLOTS
        set_dict(copy, content)
        set_given(copy, self.__pydantic_fields_set__)
        set_extra(copy, None)
        set_private(copy, None)
        return copy


class Culture(Frozen):
    """A culture that sets are about."""

    id: CultureId
    name: Annotated[str, StringConstraints(min_length=1)]
    parent: CultureId | None = None
    """The broader culture into which results roll up: ``spanish`` for ``spanish-mx``."""
    language: LanguageTag
    """Main language, BCP 47."""
    script: Annotated[str, StringConstraints(pattern=r"^[A-Z][a-z]{3}$")]
    """Script of the main language, ISO 15924."""
    family: Annotated[str, StringConstraints(min_length=1)]
    """Language family of the main language."""
    resource_class: Annotated[int, Field(ge=0, le=5)]
    """Resource availability of the main language, 0 (left behind) to 5 (winners); Joshi et al.
    2020, ACL."""
    regions: tuple[
        Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}(-[A-Z0-9]{1,3})?$")], ...
    ] = ()
    """Countries or regions, ISO 3166-1 alpha-2 or ISO 3166-2."""


Tier = Literal["human-voted", "human-written", "catalogue", "silver"]
"""The trust in a key. Several people agreed on it, one person wrote it, an official or edited
catalogue states it, or a model wrote it."""


class Provenance(Frozen):
    """The source of a set and its terms."""

    source: Annotated[str, StringConstraints(min_length=1)]
    source_id: str | None = None
    """Id of the source item. Translations and perturbations of one item share it; splits never
    divide it."""
    license: Annotated[str, StringConstraints(min_length=1)]
    url: str | None = None
    method: Literal["human-vote", "authored", "generated"]
    notes: str | None = None
    tier: Tier | None = None
    """Quality of the key; null where not recorded."""


class Message(Frozen):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


def _is_a_conversation(turns: tuple[Message, ...]) -> tuple[Message, ...]:
    if turns[-1].role != "user":
        raise PydanticCustomError("conversation", "a conversation must end with a turn of the user")
    if any(turn.role == "system" for turn in turns[1:]):
        raise PydanticCustomError(
            "conversation", "only the first turn of a conversation may be of the system"
        )
    return turns


Conversation = Annotated[
    tuple[Message, ...], Field(min_length=1), AfterValidator(_is_a_conversation)
]
"""Turns, the last of them the user's; a turn of the system can only be the first."""


def _shape(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "conversation"


Prompt = Annotated[
    Annotated[Text, Tag("text")] | Annotated[Conversation, Tag("conversation")],
    Discriminator(_shape),
]
"""A question: one text, or a conversation that ends with a turn of the user."""


def as_text(prompt: Prompt) -> str:
    """The prompt as one text: as it is, or each turn after its role where there are several."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return prompt[0].content
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in prompt)


class Citation(Frozen):
    """A page that states that an answer is right in its culture."""

    url: str | None = None
    """The page that states it."""
    title: str | None = None
    accessed: date | None = None
    """When the page was last read."""
    note: str | None = None
    """Its statement in English, or another remark."""
    fact: str | None = None
    """Id in the fact bank."""


class Votes(Frozen):
    """The judgements of an answer by people of the set's culture."""

    asked: Annotated[int, Field(ge=1)]
    """How many people were asked."""
    right: Annotated[int, Field(ge=0)]
    """How many of them found the answer right, or gave it."""

    @model_validator(mode="after")
    def _are_people_who_were_asked(self) -> Self:
        if self.right > self.asked:
            raise defect("right", f"{self.right} of {self.asked} people cannot have found it right")
        return self


class Response(Frozen):
    """One candidate answer."""

    id: Identifier
    text: Text
    role: Role
    language: LanguageTag
    culture: CultureId | None = None
    """The culture whose reference the text follows; for a rejected answer, where it would be
    right."""
    generator: str | None = None
    """``human``, or the id of the model that wrote the text."""
    perturbation: Perturbation | None = None
    original: Identifier | None = None
    """Id of the response that a perturbed text was made from; null for others."""
    source: Citation | None = None
    votes: Votes | None = None
    verified: bool | None = None
    """For a perturbed text of a model: whether a reader confirmed its meaning. Null for texts that
    people or rules made."""

    @model_validator(mode="after")
    def _perturbed_names_its_original(self) -> Self:
        if (self.perturbation is None) != (self.original is None):
            missing = "original"
            if self.perturbation is None:
                missing = "perturbation"
            raise defect(
                missing,
                f"response '{self.id}': perturbation and original go together; give both "
                "or neither",
            )
        return self


def cited(responses: Iterable[Response]) -> tuple[str, ...]:
    """Ids of the facts that responses follow, each once, in order."""
    sources = [response.source for response in responses]
    facts = dict.fromkeys(source.fact for source in sources if source is not None)
    return tuple(filter(None, facts))


def defect(field: str, reason: str) -> PydanticCustomError:
    """A defect that only the whole shows, with the field where it lies."""
    return PydanticCustomError("set", "{reason}", {"reason": reason, "field": field})


_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200


def _on_a_line(text: str) -> str:
    """A text on one line of a terminal or two."""
    line = " ".join(text.split())
    if len(line) <= _SHOWN_CHARACTERS:
        return line
    return f"{line[: _SHOWN_CHARACTERS - 1]}…"


class BonSet(Frozen):
    """One prompt with one culturally right response and at least one wrong one (three in CARB)."""

    id: Identifier
    culture: CultureId
    """``unspecified`` where not given."""
    domain: Annotated[Domain | NoDomain, BeforeValidator(_read_domain)]
    topic: str | None = None
    language: LanguageTag
    """``und`` where neither given nor detected."""
    prompt: Prompt
    responses: Annotated[tuple[Response, ...], Field(min_length=2)]
    """Exactly one ``chosen``, the others ``rejected``; their order carries no meaning."""
    perturbed: tuple[Response, ...] = ()
    """Perturbed versions of the set's responses."""
    provenance: Provenance
    family: Identifier | None = None
    """Ties a main set to its mirrors: the same answers and question, other places. Splits keep a
    family together."""
    kind: Kind | None = None
    """The kind of the right answer; null where not recorded, which counts as culture."""
    place: Naming | None = None
    region: PlaceCode | None = None
    """The place that the set is about, as deep as its facts say: country, province, town."""
    wording_of: Identifier | None = None
    """Id of the family whose questions name the places, where this one only implies them; of the
    set, where it has no family."""
    form: Form | None = None

    @model_validator(mode="after")
    def _is_a_best_of_n_set(self) -> Self:
        twice = repeated(response.id for response in self.answers)
        if twice:
            raise defect(
                "responses",
                f"response ids must be unique within a set; repeated: {', '.join(sorted(twice))}",
            )
        in_wrong_place = [r.id for r in self.responses if r.perturbation is not None]
        if in_wrong_place:
            raise defect(
                "responses",
                f"perturbed responses belong into 'perturbed', not 'responses': {in_wrong_place}",
            )
        chosen = sum(r.role is Role.CHOSEN for r in self.responses)
        if chosen != 1:
            raise defect("responses", f"exactly one response must be 'chosen', found {chosen}")
        roles = {r.id: r.role for r in self.responses}
        for response in self.perturbed:
            if response.original is None:
                raise defect(
                    "perturbed",
                    f"perturbed response '{response.id}' needs 'perturbation' and 'original'",
                )
            if response.original not in roles:
                raise defect(
                    "perturbed",
                    f"perturbed response '{response.id}': no response has the id "
                    f"'{response.original}'",
                )
            if roles[response.original] is not response.role:
                raise defect(
                    "perturbed",
                    f"perturbed response '{response.id}' must have the role of its original",
                )
        return self

    def __repr__(self) -> str:
        """The set on one screen: its subject, question and answers, the right one marked."""
        about = (self.culture, self.region, self.domain.value, self.language, self.family)
        subject = " · ".join(filter(None, about))
        lines = [subject, self.prompt_text]
        for answer in self.answers:
            mark = "+" if answer.role is Role.CHOSEN else "-"
            lines.append(f"{mark} {answer.id}: {answer.text}")
        shown = [f"BonSet {self.id}", *map(_on_a_line, lines[:_SHOWN_LINES])]
        if len(lines) > _SHOWN_LINES:
            shown.append(f"... and {len(lines) - _SHOWN_LINES} more")
        return "\n  ".join(shown)

    @property
    def answers(self) -> tuple[Response, ...]:
        """All responses, the perturbed ones last."""
        return (*self.responses, *self.perturbed)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the responses, without perturbed ones."""
        return tuple(response.text for response in self.responses)

    @property
    def chosen(self) -> Response:
        """The culturally right response."""
        return next(r for r in self.responses if r.role is Role.CHOSEN)

    @property
    def rejected(self) -> tuple[Response, ...]:
        """The wrong responses, in file order."""
        return tuple(r for r in self.responses if r.role is Role.REJECTED)

    @property
    def group(self) -> Group:
        """The group of its kind; ``culture`` where the kind is not recorded."""
        if self.kind is None:
            return "culture"
        return self.kind.group

    @property
    def prompt_text(self) -> str:
        """The prompt as one text (see ``as_text``)."""
        return as_text(self.prompt)

    @property
    def source_item(self) -> str:
        """The source's own item; else the family; else the set itself."""
        if self.provenance.source_id is None:
            if self.family is None:
                return f"set:{self.id}"
            return f"family:{self.family}"
        return f"{self.provenance.source}:{self.provenance.source_id}"
