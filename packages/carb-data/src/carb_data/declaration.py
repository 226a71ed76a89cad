"""A source of sets, and its declaration as data: licence, published files, and the rule that makes
sets of them.

Each source that ships here is a file in ``declarations``. A new source needs a declaration and no
code.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from carb_data.models import BonSet, Domain, Frozen, Kind, LanguageTag, Provenance, Tier
from carb_data.validation import parse_file, validate


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(filter(None, map(str.strip, value.split(","))))
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""An option that takes several names: a sequence, or one string with commas."""


class Skip(Frozen):
    """One source item from which nothing was made, and why."""

    source_id: str
    reason: Annotated[str, StringConstraints(min_length=1)]
    """A phrase that is the same for all items skipped for the same cause, so that reasons can be
    counted."""
    culture: str | None = None
    language: str | None = None

    @classmethod
    def of(cls, item: BonSet, reason: str) -> Self:
        """A set that is not taken."""
        return cls(
            source_id=item.id,
            reason=reason,
            culture=item.culture,
            language=item.language,
        )


@dataclass(frozen=True)
class Source:
    """An adapter from one public data set, or from one kind of file, to sets."""

    name: str
    description: str
    license: str
    rows: Callable[[Path, Any, int], Iterator[BonSet | Skip | str]]
    """Function of the path, the options and the seed. It yields a set or a ``Skip`` for every item
    of the source, and sentences on what was not read. Order and content depend on its arguments
    alone. It raises ``CarbError`` when the path does not hold the source."""
    options: type[Frozen] = Frozen
    """Each field is an option by name, with a default and a docstring."""
    has_files: bool = True
    """False for a source that reads what other sources read."""


Record = dict[str, str]
"""Field to text; what lies deeper has a dotted name: ``question.choices.0.text``. ``#`` is the
running number, ``#pair`` that of two neighbours."""
Template = str
"""Text with fields of a record in braces: ``{title}``, ``{question.stem}``, ``{meanings.0}``."""


_FIELD = re.compile(r"\{([^{}]+)\}")


def fill(template: Template, record: Mapping[str, str]) -> str:
    """The template with the record's fields in place; fields that it lacks are empty. Values are
    taken as they are."""
    filled = _FIELD.sub(lambda match: record.get(match[1], ""), template)
    return filled.strip()


@cache
def template_fields(template: Template) -> list[str]:
    """The fields of a template."""
    return _FIELD.findall(template)


def order_key(*parts: object) -> bytes:
    """A key to put things in an order that depends on nothing but a seed and their names."""
    whole = "\0".join(map(str, parts))
    return sha256(whole.encode("utf-8", "replace")).digest()


def shuffled(texts: Iterable[str], before: object) -> list[str]:
    """Texts in an order that depends on nothing but themselves and on what stands before them,
    which is hashed once: it may be much longer than they are."""
    begun = sha256(f"{before}\0".encode("utf-8", "surrogatepass"))

    def digest(text: str) -> bytes:
        whole = begun.copy()
        whole.update(text.encode("utf-8", "surrogatepass"))
        return whole.digest()

    return sorted(texts, key=digest)


class Condition(Frozen):
    """A condition on a field of a record."""

    field: str
    one_of: tuple[str, ...] = ()
    """Texts of which it must be one; empty for any."""
    matches: re.Pattern[str] | None = None
    """A regular expression that must occur in it."""
    least: float = -math.inf
    most: float = math.inf
    """Limits of a number, both included."""

    def holds(self, record: Mapping[str, str]) -> bool:
        """Whether a record fulfils the condition. A missing field never does, nor does a text where
        a number is due."""
        value = record.get(self.field)
        if value is None or (self.one_of and value not in self.one_of):
            return False
        if self.matches is not None and self.matches.search(value) is None:
            return False
        if (self.least, self.most) == (-math.inf, math.inf):
            return True
        try:
            return self.least <= float(value) <= self.most
        except ValueError:
            return False


def all_hold(conditions: Iterable[Condition], record: Mapping[str, str]) -> bool:
    """Whether a record fulfils every condition."""
    return all(condition.holds(record) for condition in conditions)


class _Rule(Frozen):
    prompt: Template = ""
    label: Template = ""
    """The name of an item's class."""

    @property
    def question(self) -> str:
        """The field that is the prompt as a whole; empty where it has other words, too."""
        field = self.prompt[1:-1]
        if template_fields(self.prompt) == [field]:
            return field
        return ""


def _key(value: str) -> str:
    if value.startswith("~"):
        try:
            re.compile(value[1:])
        except re.error as error:
            raise ValueError(f"must be ~ and a regular expression ({error})") from None
    return value


_Key = Annotated[str, AfterValidator(_key)]
_KINDS = r"^(any|text|number|texts|messages|transcript|object|~(?s:.*))$"
_Kind = Annotated[_Key, StringConstraints(pattern=_KINDS)]


class OptionsAsGiven(_Rule):
    """The source's own answers, one of them right.

    A field is a dotted path: ``completions.*.response`` takes that of every entry of a list, and
    ``a|b`` the first field that is there. A field may hold one answer, a list, an object or a
    conversation, also written as JSON in a text.
    """

    rule: Literal["options"]
    context: tuple[str, ...] = ()
    """Fields that stand before the question; a conversation or pairs of turns among them, too."""
    after: str = ""
    """Field that stands after the question, such as the input of an instruction."""
    system: str = ""
    """Field of the system's turn."""
    options: tuple[str, ...] = ()
    key: str = ""
    """Field that tells the right option: its text, letter, number, or its field's name."""
    keys: tuple[_Key, ...] = ()
    """The keys in the order of the options, ``a|b`` where several mean one, or ``~`` and a regular
    expression; the text, letter or number of the option without them. Without a key the first
    option is right; without options the first names of the keys are the options."""
    first: int | None = None
    """Number of the first option, 0 or 1; null where the numbers of the file tell it."""
    wrong: str = ""
    """Field with the key of the only wrong option to take; without it all others are taken."""
    scores: Names = ()
    """Fields of the options' scores: the highest is right, and only lower ones are wrong."""
    ranks: bool = False
    """Whether the scores are ranks, of which the lowest is right."""
    joined: re.Pattern[str] | None = None
    """The separator of options in one text."""
    turn: str = ""
    """Field with the number of the user's turn whose answer counts, the last without it."""
    ties: tuple[str, ...] = ()
    """Keys that say that no option is better."""
    chosen: tuple[str, ...] = ()
    """Fields of the right answer, in place of options and a key."""
    rejected: tuple[str, ...] = ()
    """Fields of wrong answers."""
    each: bool = False
    """Make a set for each of several right answers, of one source item."""
    apart: float = 1.01
    """A set is left out if the character pairs of two wrong options have a Jaccard similarity of
    this or more."""
    balance: bool = False
    """Leave sets out until the longest and the shortest option are right no more often than by
    chance."""

    @property
    def fields(self) -> set[str]:
        """All fields that the rule reads."""
        fields = {*template_fields(self.prompt)}
        fields |= {self.after, self.system, self.key, self.wrong, self.turn}
        fields.update(self.context, self.options, self.scores)
        fields.update(self.chosen, self.rejected)
        fields.discard("")
        return fields


class Contrast(_Rule):
    """One item of a class among items of another class, from the same group."""

    rule: Literal["contrast"]
    answer: Template
    right: tuple[Condition, ...]
    wrong: tuple[Condition, ...]
    group: Template = ""
    """Items of one set are of one group; without it there is one group."""
    near: Template = ""
    """Wrong items are taken first if this text is the same for them and for the right item."""
    reverse: Template = ""
    """The opposite question; its answer is one wrong item among right ones. It is asked where more
    items of the right class are left."""
    block: int = 0
    """Large groups are cut into blocks of about this many items, so that a split has parts to
    divide; 0 for none."""


class Mirrored(_Rule):
    """Items of different classes, asked about in turn with the same answers: families.

    A scorer that sees only the answers is right in exactly one of N sets.
    """

    rule: Literal["mirrored"]
    answer: Template
    group: Template = ""
    ratio: float = Field(default=1.8, ge=1)
    """How many times the shortest answer the longest one of a family may be."""
    hidden: Template = ""
    """An item whose answer shares a content word with this is left out: the question would tell the
    answer."""


def _domain(value: str) -> str:
    if value and "{" not in value and value not in set(Domain):
        raise ValueError(f"must be {', '.join(Domain)}, or a field in braces")
    return value


class Part(Frozen):
    """Records of one form, and the rule that makes sets of them."""

    name: str = "rows"
    columns: dict[str, _Kind] = Field(default={})
    """Columns by which a table of any kind is known, in small letters with ``_`` for spaces, and
    what they hold: ``any``, ``text``, ``number``, ``texts`` (a list), ``messages``, ``transcript``,
    ``object``, or ``~`` and a regular expression."""
    headings: bool = False
    """Whether ``columns`` are fields that have many names, such as ``prompt`` and ``question``."""
    last: bool = False
    """Whether a table is of this form only where it is of no other one."""
    files: tuple[str, ...] = ()
    """Globs; the first of them that finds files counts. Without them the files are tables."""
    format: Literal["csv", "tsv", "json", "jsonl", "text"] | None = None
    header: tuple[str, ...] = ()
    """Names of the columns of a table without heading."""
    records: str = ""
    """Dotted path to the list of records in a JSON file."""
    pattern: re.Pattern[str] | None = None
    """A regular expression whose named groups become fields. It reads a ``text`` file, or else the
    field ``of``."""
    of: str = ""
    together: tuple[str, ...] = ()
    """Columns of a table with a row for each option: rows that are equal in them make one set."""
    nested: tuple[str, ...] = ()
    """Columns that hold JSON."""
    explode: str = ""
    """A mapping of which every entry becomes a record, with the fields ``entry`` and ``value``."""
    clean: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Regular expressions and what takes the place of what they find, in every field."""
    where: tuple[Condition, ...] = ()
    left_out: tuple[str, ...] = ()
    """Numbers (``#``) of records that readers found wrong or unclear."""
    forbid: re.Pattern[str] | None = None
    """No answer may hold this."""
    shortest: int = 1
    longest: int = 100_000
    """Length of an answer in characters."""
    split: Template = ""
    """Items for which this is equal come from one template. A split keeps them together."""
    space: str = ""
    """Parts of one name here are parallel: a split keeps items together whose ``split`` is equal in
    two of them."""
    culture: Template = ""
    """An id, or the name of a country; ``unspecified`` without it."""
    cultures: dict[str, str] = Field(default={})
    """Label to culture where that differs."""
    names: dict[str, str] = Field(default={})
    """Label to its name in the language, for the field ``name``; with it, records of other labels
    are left out."""
    language: Template | LanguageTag = ""
    """Detected where it is empty, or where a known shape holds what is no language."""
    domain: Annotated[Template, AfterValidator(_domain)] = ""
    topic: Template = ""
    id: Template = ""
    license: Template = ""
    url: Template = ""
    kind: Kind | None = None
    make: Annotated[OptionsAsGiven | Contrast | Mirrored, Field(discriminator="rule")]

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        has_files = bool(self.files)
        if has_files == bool(self.columns) or has_files != bool(self.format):
            raise ValueError("needs files and format, or columns")
        if self.columns and not isinstance(self.make, OptionsAsGiven):
            raise ValueError("columns go with the rule options")
        return self


class PublishedFile(Frozen):
    """A file of a repository."""

    path: str
    name: str | None = Field(default=None, alias="as")
    """Its path in the source's folder; null for its path in the repository."""
    bytes: int
    sha256: str

    @property
    def kept_as(self) -> str:
        """Its path in the source's folder."""
        return self.name or self.path


class Published(Frozen):
    """The files of one source, at one commit of a public repository."""

    repository: str
    """Owner and name on GitHub."""
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    files: tuple[PublishedFile, ...] = Field(min_length=1)


class Declaration(Frozen):
    """One source."""

    name: str
    description: str = ""
    license: str = "LicenseRef-none-stated"
    """SPDX identifier; ``LicenseRef-none-stated`` where no licence was granted."""
    url: str | None = None
    citation: str = ""
    tier: Tier | None = None
    method: Literal["human-vote", "authored", "generated"] = "authored"
    notes: str | None = None
    in_carb_open: bool = True
    """Whether carb-open draws from it."""
    published: Published | None = None
    """Null for files that a user brings."""
    parts: tuple[Part, ...] = ()
    reader: str = ""
    """Where no rule makes the sets, the module that does: its ``build(declaration, path, options,
    seed)`` is like ``Source.rows``, and ``OPTIONS`` the model of its options."""

    @property
    def needs_consent(self) -> bool:
        """Whether no licence was granted, so that a user judges whether the data may be used."""
        return self.license == "LicenseRef-none-stated"

    def provenance(self, source_id: str, notes: str | None = None) -> Provenance:
        """The origin of a set of the source.

        Args:
            source_id: The source item; a split never divides it.
            notes: Remarks on the set; by default those on the source.
        """
        return Provenance(
            source=self.name,
            source_id=source_id,
            license=self.license,
            url=self.url,
            method=self.method,
            tier=self.tier,
            notes=notes or self.notes,
        )


@cache
def shipped() -> Mapping[str, Declaration]:
    """The declarations of sources, by name."""
    return _declared("sources/declarations")


@cache
def shapes() -> Mapping[str, Declaration]:
    """The declarations of well-known tables, by name."""
    return _declared("resources/shapes")


def _declared(folder: str) -> dict[str, Declaration]:
    files = (Path(__file__).parent / folder).glob("*.toml")
    declarations = map(read_declaration, sorted(files))
    return {declaration.name: declaration for declaration in declarations}


def read_declaration(path: Path) -> Declaration:
    """The declaration in a TOML file.

    A part may have ``variants``: tables of fields in which otherwise equal parts differ. A field of
    ``make`` is named ``make.prompt``.

    Raises:
        CarbError: the file is missing, not TOML, or no declaration; with the field.
    """
    content = parse_file(path, "declaration")
    parts = [one for part in content.get("parts", []) for one in _variants(part)]
    whole = content | {"parts": parts}
    return validate(Declaration, whole, f"{path} is not a valid declaration of a source")


def _variants(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for variant in part.pop("variants", [{}]):
        fields = {**part}
        make = {**part.get("make", {})}
        for name, value in variant.items():
            if name.startswith("make."):
                make[name.removeprefix("make.")] = value
            else:
                fields[name] = value
        yield {**fields, "make": make}
