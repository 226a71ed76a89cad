"""The sets that people's tables hold: each row read by the table's shape, each defect reported.

Without a column for it, culture and domain are ``unspecified``, and the language is detected;
``unsaid`` tells the user.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from carb_data.columns import ENTITY
from carb_data.declaration import Declaration, Template, fill, shuffled, template_fields
from carb_data.errors import CarbError, DataError, Problem
from carb_data.given import Asked, TieError, keys_of, options_of, plain_reader, read_record
from carb_data.keys import Options, System, system_of
from carb_data.language import DETECTED, UNDETERMINED, detect_all, language_defect, language_tag
from carb_data.models import UNSPECIFIED, BonSet, Domain
from carb_data.registry import Registry, cultures, find_country
from carb_data.shapes import (
    GIVEN,
    TEMPLATES,
    Shape,
    find_shape,
    heading_of,
    is_known,
    note_columns,
)
from carb_data.tables import Record, Row, Table, read_table
from carb_data.turn_marks import refuse_turns
from carb_data.validation import line_problems
from carb_data.values import Defect, UnreadError, at, text_at

_UNDECLARED = Declaration(name="own")
"""The source of a table that no declaration describes."""
_SHARED = itemgetter(*TEMPLATES[1:])
_DETECTED = "language detected"
"""The provenance's note in a set whose language was not given."""
_EMPTY = "is empty"
_LONGEST_ID = 256
_PATTERNS = 1_000
"""Most sets of a table after which others are made."""
_TELLING = 250
"""Characters of a question and of an answer that tell their language."""
_BATCH = 5_000
"""Sets whose languages are detected at once."""

Progress = Callable[[int, int], None]
"""Function that is called as the work goes on, with two numbers such as those done and of all."""
_Fields = dict[str, str]
"""The fields of a set beside its question and answers."""


def silent(_done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Loaded:
    """The sets of a table, and notes about the reading."""

    sets: list[BonSet]
    notes: list[str]
    filled: set[str]
    """Fields that a value for all rows filled in at least one."""


def read_sets(
    path: Path,
    *,
    defaults: Mapping[str, str],
    registry: Registry | None = cultures,
    prefix: str = "",
    skip_bad: float = 0,
    progress: Progress = silent,
) -> Loaded:
    """The sets of a table.

    Args:
        path: a file that ``tables`` reads, with a row a set.
        defaults: fields of rows without their own, as ``checked`` gives them.
        registry: cultures that may occur; null accepts any.
        prefix: what stands before the ids, so that tables can be put together.
        skip_bad: how many rows, or which share below 1, may be left out because they make no set.
        progress: called with how many rows were read, of how many.

    Raises:
        DataError: with every row that makes no set; rows count from 1, the heading of a table being
            row 1.
        CarbError: the file cannot be read, its columns have no known shape, or its numbers can
            count from 0 and from 1.
    """
    table = read_table(path, is_known, heading_of)
    if not table.rows and not table.problems:
        raise CarbError(f"{path} holds no rows.")
    rows = len(table.rows)
    sets = []
    if rows:
        shape = find_shape(table)
        for item in Reader(table, shape, defaults, registry, prefix).sets():
            sets.append(item)
            if len(sets) % _BATCH == 0:
                progress(rows - len(table.rows), rows)
    left_out(table.problems, rows, skip_bad, table.notes)
    return Loaded(sets, table.notes, table.defaulted)


def checked(defaults: Mapping[str, str], registry: Registry | None) -> dict[str, str]:
    """The values given for all rows, with the culture's id and the language's tag.

    Raises:
        CarbError: no such language or domain, or no or several such cultures.
    """
    given = {**defaults}
    if "language" in given:
        tag = language_tag(given["language"])
        if defect := language_defect(tag):
            raise CarbError(f"--language: {defect}")
        given["language"] = tag
    domain = given.get("domain", UNSPECIFIED)
    if domain.casefold() not in (*Domain, UNSPECIFIED):
        raise CarbError(f"--domain: '{domain}' is none; there are {', '.join(Domain)}.")
    if "culture" in given and registry is not None:
        culture = _culture(given["culture"], registry)
        if culture is None:
            raise registry.unknown(given["culture"])
        given["culture"] = culture
    return given


def _culture(name: str, registry: Registry) -> str | None:
    """The id of a culture by its id or name, or by a country; null where none or several are
    meant, and where a language is the name: Kenya is not all that speaks Swahili."""
    if name in registry:
        return name
    meant = registry.meant(name)
    if len(meant) != 1:
        return None
    (culture,) = meant
    named = find_country(name) is not None or registry.is_called(culture, name)
    if named or culture in registry.listed:
        return culture
    return None


def left_out(
    problems: list[Problem],
    rows: int,
    skip_bad: float,
    notes: list[str],
) -> None:
    """Raise for rows that make no set, or note them where so many may be left out.

    Raises:
        DataError: there are more of them.
    """
    problems = sorted(problems, key=lambda problem: problem.line)
    rows_refused = {(problem.file, problem.line) for problem in problems}
    bad = len(rows_refused)
    most = skip_bad
    if skip_bad < 1:
        most *= rows or 1
    if bad > most:
        hint = f"Correct these rows and run the command again, or leave them out: --skip-bad {bad}."
        empty = {problem.field for problem in problems if problem.reason == _EMPTY}
        if options := [f"--{field}" for field in sorted(empty.intersection(GIVEN))]:
            hint += f" One value for all rows without one: {', '.join(options)}."
        raise DataError(problems, hint)
    if bad:
        first = "; ".join(map(str, problems[:3]))
        notes.append(f"{bad:,} rows make no set and are left out, such as {first}.")


def _gathered(table: Table, shape: Shape) -> list[Row]:
    """Rows of one option each as rows of a question, whose options and scores are lists."""
    paths = (*shape.rule.options, *shape.rule.scores)
    groups: dict[str, Row] = {}
    for number, row in table.rows:
        together = [at(row, name) for name in shape.part.together]
        _, record = groups.setdefault(repr(together), (number, {}))
        for path in paths:
            cell = at(row, path)
            if cell is None:
                table.refuse(number, _EMPTY, path)
            record.setdefault(path, []).append(cell)
        record.update(row | record)  # an earlier row counts
    return [*groups.values()]


@dataclass(slots=True)
class _Draft:
    """The content of a set to be made."""

    number: int
    """The row."""
    id: str
    source_id: str
    prompt: Asked
    texts: list[str]
    """All answers, in an order that does not depend on the key."""
    right: int
    """The index of the right one."""
    fields: _Fields
    notes: str | None = None

    @property
    def asked(self) -> str:
        """The words whose language is the set's: the last turn and the right answer."""
        prompt = self.prompt
        if not isinstance(prompt, str):
            prompt = prompt[-1]["content"]
        answer = self.texts[self.right]
        return f"{prompt[:_TELLING]}\n{answer[:_TELLING]}"


@dataclass
class Reader:
    """Reads the rows of one table, and counts the facts for the notes."""

    table: Table
    shape: Shape
    defaults: Mapping[str, str]
    registry: Registry | None
    prefix: str

    def __post_init__(self) -> None:
        table = self.table
        shape = self.shape
        note_columns(table, shape)
        if shape.part.together:
            table.rows = _gathered(table, shape)
        self.seen: dict[str, int] = {}
        self.ties = self.lettered = self.escaped = 0
        self.meant: dict[str, str | None] = {}
        self.unregistered: Counter[str] = Counter()
        self.patterns: dict[tuple[object, ...], BonSet] = {}
        self.plain = plain_reader(shape.rule)
        self.system = _system(table, shape)
        templates = [value for field, value in shape.templates.items() if field != "id"]
        self.names = [name for template in templates for name in template_fields(template)]
        """The columns that fill the fields of a set, but for its id."""
        self.known: dict[str, _Fields] = {}

    def sets(self) -> Iterator[BonSet]:
        """The sets of the rows, which it uses up; what has no reading goes to the table's problems,
        what the user should know to its notes, and which defaults filled a row to ``defaulted``."""
        drafts = self._all_drafts()
        while batch := list(islice(drafts, _BATCH)):
            _detect(batch, self.shape.part.clean)
            for draft in batch:
                try:
                    yield self._made(draft)
                except ValidationError as error:
                    problems = list(line_problems(self.table.path, draft.number, error))
                    # its answers have their language from the row
                    whole = [one for one in problems if not one.field.startswith("responses")]
                    self.table.problems.extend(whole or problems)
        self._note()

    def _all_drafts(self) -> Iterator[_Draft]:
        """The content of each set to be made; the rows are used up, to free their memory."""
        rows = self.table.rows
        rows.reverse()
        while rows:
            number, row = rows.pop()
            try:
                yield from self._drafts(number, self.shape.record(row))
            except TieError:
                self.ties += 1
            except UnreadError as error:
                for field, reason in error.defects:
                    self.table.refuse(number, reason, field)

    def _drafts(self, number: int, record: Record) -> Iterator[_Draft]:
        defects: list[Defect] = []
        fields: _Fields = {}
        try:
            fields = self._fields(record)
        except UnreadError as error:
            defects += error.defects
        try:
            given = self.plain(record) or read_record(self.shape.rule, record, self.system)
            refuse_turns(given.prompt, (*given.right, *given.wrong))
        except UnreadError as error:
            raise UnreadError(*error.defects, *defects) from None
        if defects:
            raise UnreadError(*defects)
        self.lettered += given.lettered
        name = item = self._id(fields["id"], number)
        for position, right in enumerate(given.right, 1):
            texts = shuffled([right, *given.wrong], given.prompt)
            self.escaped += any(map(ENTITY.search, (given.asked, *texts)))
            if len(given.right) > 1:
                item = f"{name}/{position}"
            index = texts.index(right)
            yield _Draft(number, item, name, given.prompt, texts, index, fields)

    def _made(self, draft: _Draft) -> BonSet:
        """The set of a draft: validated, or like an earlier one that was.

        Raises:
            ValidationError: something of it has not its form.
        """
        shared = _SHARED(draft.fields)
        kind = (*shared, draft.notes, draft.right, len(draft.texts))
        pattern = self.patterns.get(kind)
        is_id = draft.id.isprintable() and len(draft.id) <= _LONGEST_ID
        if pattern is None or not is_id or not isinstance(draft.prompt, str):
            content = _content(draft, self.shape.source)
            item = BonSet.model_validate(content).compacted()
            if len(self.patterns) < _PATTERNS:
                self.patterns[kind] = item
            return item
        answers = zip(pattern.responses, draft.texts, strict=True)
        responses = [response.changed(text=text) for response, text in answers]
        return pattern.changed(
            id=draft.id,
            prompt=draft.prompt,
            responses=tuple(responses),
            provenance=pattern.provenance.changed(source_id=draft.source_id),
        )

    def _id(self, given: str, number: int) -> str:
        name = given or f"row-{number}"
        if self.prefix:
            name = f"{self.prefix}:{name}"
        if name in self.seen:
            if not self.shape.named:
                reason = f"'{given}' is the id of an earlier row, {self.seen[name]}"
                raise UnreadError(("id", reason))
            name = f"{name}/row-{number}"
        self.seen[name] = number
        return name

    def _fields(self, record: Record) -> _Fields:
        """The fields of a set beside its question and answers; rows with equal columns share
        them."""
        values = [at(record, name) for name in self.names]
        key = repr(values)
        template = self.shape.templates.get("id")
        if known := self.known.get(key):
            if template is None:
                return known
            return known | {"id": _filled(template, record, "id")}
        fields = self._read_fields(record)
        if len(self.known) < _PATTERNS and not self.shape.loose:
            self.known[key] = fields
        return fields

    def _read_fields(self, record: Record) -> _Fields:
        defects: list[Defect] = []
        fields = dict.fromkeys(TEMPLATES, "")
        for field, template in self.shape.templates.items():
            try:
                fields[field] = _filled(template, record, field)
            except UnreadError as error:
                defects += error.defects
        unread = {field for field, _ in defects}
        for field in GIVEN:
            if fields[field]:
                continue
            if field in self.defaults:
                self.table.defaulted.add(field)
                fields[field] = self.defaults[field]
            elif field in self.shape.by_field and field not in unread:
                defects.append((field, _EMPTY))
        defects += self._named_culture(fields)
        defects += self._named_language(fields)
        if defects:
            raise UnreadError(*defects)
        return fields

    def _named_culture(self, fields: _Fields) -> list[Defect]:
        name = fields["culture"]
        if not name or self.registry is None:
            return []
        if name not in self.meant:
            self.meant[name] = _culture(name, self.registry)
        known = self.meant[name]
        if known is None:
            if not self.shape.loose:
                unknown = self.registry.unknown(name)
                return [("culture", str(unknown))]
            self.unregistered[name] += 1
            known = self.defaults.get("culture", "")
        fields["culture"] = known
        return []

    def _named_language(self, fields: _Fields) -> list[Defect]:
        if not fields["language"]:
            return []
        tag = language_tag(fields["language"])
        if defect := language_defect(tag):
            if not self.shape.loose:
                return [("language", defect)]
            tag = self.defaults.get("language", "")
        fields["language"] = tag
        return []

    def _note(self) -> None:
        """Note omissions and changes."""
        omissions = {
            "{:,} rows are ties, name several answers or have no wrong one, and are left out.": (
                self.ties
            ),
            "The options of {:,} rows carry their own letters, which are taken off.": self.lettered,
            "{:,} rows hold characters as HTML writes them (&amp;), which stay.": self.escaped,
        }
        for said, count in omissions.items():
            if count:
                self.table.notes.append(said.format(count))
        if self.unregistered:
            most = self.unregistered.most_common(10)
            places = ", ".join(f"{name} {count:,}" for name, count in most)
            self.table.notes.append(f"No culture is registered for these places: {places}.")


def _filled(template: Template, record: Record, field: str) -> str:
    names = template_fields(template)
    return fill(template, {name: text_at(record, name, field) for name in names})


def _system(table: Table, shape: Shape) -> System:
    """How the keys of a table count."""
    rule = shape.rule
    if not rule.key or rule.keys:
        return System()

    def keyed() -> Iterator[tuple[Collection[str], Options]]:
        for _, row in table.rows:
            record = shape.record(row)
            try:
                given, _ = options_of(rule, record)
                keys = keys_of(rule, record)
            except (UnreadError, TieError):
                continue
            yield keys.values(), given

    first = rule.first
    options = shape.columns.options if shape.columns else ()
    if options and options[0].endswith("0"):
        first = 0  # as the columns are numbered
    system = system_of(keyed(), table.path, first)
    if rule.first is None and system.first is not None:
        table.notes.append(f"Answers that are numbers count from {system.first}.")
    return system


def _detect(batch: Sequence[_Draft], clean: Iterable[tuple[object, str]]) -> None:
    """Set the language of sets without one; words that the declaration wrote do not count."""
    unsaid = [draft for draft in batch if not draft.fields["language"]]
    texts = [draft.asked for draft in unsaid]
    for _, written in clean:
        texts = [text.replace(written, "") for text in texts]
    languages = detect_all(texts)
    for draft, language in zip(unsaid, languages, strict=True):
        spoken = {"language": language or UNDETERMINED}
        draft.fields = draft.fields | spoken
        draft.notes = _DETECTED


def _content(draft: _Draft, declared: Declaration | None) -> dict[str, Any]:
    """The content of a set."""
    fields = draft.fields
    source = declared or _UNDECLARED
    responses = [
        {
            "id": str(index + 1),
            "text": text,
            "role": "chosen" if index == draft.right else "rejected",
            "language": fields["language"],
        }
        for index, text in enumerate(draft.texts)
    ]
    return {
        "id": draft.id,
        "culture": fields["culture"] or UNSPECIFIED,
        "domain": fields["domain"] or UNSPECIFIED,
        "language": fields["language"],
        "topic": fields["topic"] or None,
        "prompt": draft.prompt,
        "responses": responses,
        "provenance": {
            "source": source.name,
            "source_id": draft.source_id,
            "license": fields["license"] or source.license,
            "url": fields["url"] or source.url,
            "method": source.method,
            "tier": source.tier,
            "notes": draft.notes,
        },
    }


def unsaid(sets: Iterable[BonSet]) -> list[str]:
    """The fields that a data set lacks, in sentences for the user; empty where it has all."""
    items = list(sets)
    gaps = []
    for field, what in (("culture", "by culture"), ("domain", "by domain")):
        count = sum(getattr(item, field) == UNSPECIFIED for item in items)
        if count:
            gaps.append(
                f"No {field} in {count:,} sets: results {what} leave them out. "
                f"To set one for all: --{field}."
            )
    detected = (item.language for item in items if item.provenance.notes == _DETECTED)
    told = Counter(detected)
    if told:
        named = ", ".join(f"{language} {count:,}" for language, count in told.most_common())
        gaps.append(
            f"Languages were detected: {named}, out of {', '.join(DETECTED)}; und "
            "marks a text in none of these. To set one for all: --language."
        )
    return gaps
