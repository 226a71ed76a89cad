"""From reference texts to sets: question, right answer, wrong answers under other cultures'
references, filters.

The method is that of Zhang et al., arXiv 2509.21798, section 3.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, FiniteFloat, PositiveInt, model_validator

from carb_data import (
    BonSet,
    CarbError,
    CultureId,
    DataError,
    Dataset,
    Domain,
    Frozen,
    Identifier,
    LanguageTag,
    Problem,
    Provenance,
    Response,
    Role,
    Text,
    cultures,
    names_culture,
    read_file,
    read_lines,
    same_language,
)
from carb_data.surface import is_known
from carb_scorers.generate.instructions import for_answer, for_question
from carb_scorers.generate.writers import (
    Passed,
    Progress,
    WriteReport,
    Writers,
    derived_seed,
    plain_fault,
    similarity,
    write_all,
)


class Reference(Frozen):
    """A piece of cultural reference material, right in one culture."""

    id: Identifier
    culture: CultureId
    domain: Domain
    topic: str | None = None
    language: LanguageTag
    text: Text
    """The reference text; where ``question`` is given, its right answer."""
    question: Text | None = None
    """The question that ``text`` answers, where the source asks one."""
    provenance: Provenance

    @property
    def root(self) -> str:
        """The culture of which its culture is a variety; its own culture if it is none."""
        return cultures.root_id(self.culture)


class ConstructConfig(Frozen):
    """Settings of a construction. Models are specs, such as ``openai:MODEL?url=…&price_in=2`` or
    ``hf:FOLDER``."""

    name: Annotated[str, Field(min_length=1)] = "constructed"
    """``provenance.source`` of the sets, and the beginning of their ids."""
    references: Path
    """A ``.jsonl`` file of ``Reference`` rows; relative to the config file."""
    language: LanguageTag | None = None
    """Language of the sets (BCP 47); by default the language of each reference. In a named language
    that is not the culture's own, a question must name the culture."""
    question: str
    """Writes the question from the reference, where the reference has none."""
    chosen: str
    """Writes the right answer under the right culture's reference."""
    rejected: Annotated[tuple[str, ...], Field(min_length=1)]
    """The pool that writes wrong answers under references of other cultures, taken in a seeded
    order."""
    window: tuple[FiniteFloat, FiniteFloat] = (0.05, 0.95)
    """Least cosine of a wrong answer's character n-grams to the right one's, and the largest to any
    other answer's. Below, it is off topic; above, it is no other answer."""
    length_ratio: Annotated[FiniteFloat, Field(ge=1)] = 2.0
    """How many times longer or shorter than the right answer a wrong one may be, in characters."""
    rejected_per_set: PositiveInt = 3
    attempts: PositiveInt = 4
    """How often a text is written before the set is given up."""
    limit: PositiveInt | None = None
    """Take only the first so many references."""
    seed: int = 0

    @model_validator(mode="after")
    def _window_is_one(self) -> Self:
        if not -1 <= self.window[0] < self.window[1] <= 1:
            raise ValueError("window must be two cosines, the smaller one first")
        return self


def read_construct_config(path: Path) -> ConstructConfig:
    """Read a ``.toml`` or ``.json`` config file.

    Raises:
        CarbError: The file is missing, is no TOML or JSON, or is not a valid config; every reason
            is given.
    """
    config = read_file(ConstructConfig, path, "construction config")
    return config.changed(references=path.parent / config.references)


def construct(
    config: ConstructConfig, out: Path, *, progress: Progress | None = None
) -> WriteReport:
    """Make sets from references and write them to ``out``; say what was made.

    Every answer of a model is in ``OUT.answers.jsonl`` before it is used. After an interruption the
    same call goes on where it stopped, pays for nothing twice, and ends with the same file. ``out``
    appears, or is replaced, when all is done.

    Args:
        config: The references, the models and the limits of similarity.
        out: A ``.jsonl`` or ``.parquet`` file.
        progress: The function that is called after each set with the numbers of sets done, to do,
            and given up.

    Raises:
        CarbError: Unreadable references, a model that refuses every request, or not one set could
            be made.
        MissingExtraError: An extra that a model or the language detector needs is not installed.
    """
    references, usable, skipped = _usable(config)

    async def make(reference: Reference, writers: Writers) -> BonSet:
        return await _make(reference, references, config, writers)

    jobs = [(reference.id, reference) for reference in usable]
    sets, report = write_all(
        jobs,
        make,
        Path(f"{out}.answers.jsonl"),
        progress,
        count=lambda item: f"{item.culture} / {item.domain}",
        skipped=skipped,
    )
    if not sets:
        reasons = Counter(
            reason for failure in report.given_up for reason in failure.reasons
        ).most_common(3)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons) or str(skipped)
        raise CarbError(f"Not one set could be made: {why}. No file was written.")
    Dataset(sets).save(out)
    return report


def _usable(config: ConstructConfig) -> tuple[list[Reference], list[Reference], dict[str, int]]:
    """All references, those that sets can be made from, and why others cannot."""
    problems: list[Problem] = []
    lines = list(read_lines([config.references], Reference, problems))
    known = set()
    for line in lines:
        name = line.content.id
        if name in known:
            reason = f"'{name}' is the id of an earlier line"
            problems.append(Problem(line.file, line.number, "id", reason))
        known.add(name)
    if problems:
        raise DataError(problems, "References are one JSON object a line.")
    references = [line.content for line in lines]
    if not references:
        raise CarbError(f"There are no references in {config.references}.")
    roots: dict[Domain, set[str]] = {}
    for one in references:
        roots.setdefault(one.domain, set()).add(one.root)
    usable = [one for one in references if len(roots[one.domain]) > 1]
    unused = {"no reference of another culture in its domain": len(references) - len(usable)}
    if config.limit is not None:
        unused["beyond the limit"] = max(0, len(usable) - config.limit)
        usable = usable[: config.limit]
    return references, usable, {reason: count for reason, count in unused.items() if count}


async def _make(
    reference: Reference, references: Sequence[Reference], config: ConstructConfig, writers: Writers
) -> BonSet:
    """A set from a reference.

    Raises:
        GivenUpError: a text of it did not pass in any attempt.
    """
    language = config.language or reference.language
    key = (config.seed, reference.id)
    steps: list[tuple[Passed, Reference]] = []
    question = reference.question or ""
    if reference.question is None or not same_language(language, reference.language):
        asked = for_question(reference.text, culture=reference.culture, language=language)
        asks = [(config.question, asked)] * config.attempts
        passed = await writers.until(
            "question", asks, key, lambda text: _question_fault(text, reference, config)
        )
        steps.append((passed, reference))
        question = passed.text

    def told(source: Reference) -> str:
        return for_answer(source.text, question, language=language)

    right = [(config.chosen, told(reference))] * config.attempts
    chosen = await writers.until("chosen", right, key, partial(plain_fault, language=language))
    answers = [(chosen, reference)]
    for number in range(1, config.rejected_per_set + 1):
        wrong = _asked_for_wrong(number, reference, references, config, answers, told)
        others = [one.text for one, _ in answers]
        fault = partial(_wrong_fault, others=others, config=config, language=language)
        asks = [(model, prompt) for model, prompt, _ in wrong]
        passed = await writers.until(f"rejected-{number}", asks, key, fault)
        _, _, source = wrong[len(passed.discarded)]
        answers.append((passed, source))
    return _assembled(reference, config, question, answers, [*steps, *answers])


def _asked_for_wrong(
    number: int,
    reference: Reference,
    references: Sequence[Reference],
    config: ConstructConfig,
    answers: Sequence[tuple[Passed, Reference]],
    told: Callable[[Reference], str],
) -> list[tuple[str, str, Reference]]:
    """Model, prompt and source of each attempt at a wrong answer, under references of cultures that
    no answer has yet while there are any."""
    candidates = mismatched(reference, references, config.seed)
    pool = _shuffled(config.rejected, config.seed, reference.id, "pool")
    used = {source.root for _, source in answers}
    fresh = [one for one in candidates if one.root not in used] or candidates
    asks = []
    for attempt in range(config.attempts):
        source = fresh[attempt % len(fresh)]
        model = pool[(number - 1 + attempt) % len(pool)]
        asks.append((model, told(source), source))
    return asks


def _assembled(
    reference: Reference,
    config: ConstructConfig,
    question: str,
    answers: Sequence[tuple[Passed, Reference]],
    steps: Sequence[tuple[Passed, Reference]],
) -> BonSet:
    language = config.language or reference.language
    responses = []
    for number, (passed, home) in enumerate(answers):
        role = Role.REJECTED if number else Role.CHOSEN
        response = Response(
            id=f"r{number}" if number else "c",
            text=passed.text,
            role=role,
            language=language,
            culture=home.culture,
            generator=passed.model,
        )
        responses.append(response)
    origin = reference.provenance
    dumped = [{"reference": home.id, **passed.model_dump()} for passed, home in steps]
    notes = {"reference_source": origin.source, "steps": dumped}
    return BonSet(
        id=f"{config.name}/{reference.id}",
        culture=reference.culture,
        domain=reference.domain,
        topic=reference.topic,
        language=language,
        prompt=question,
        responses=tuple(_shuffled(responses, config.seed, reference.id, "order")),
        provenance=Provenance(
            source=config.name,
            source_id=origin.source_id or reference.id,
            license=origin.license,
            url=origin.url,
            method="generated",
            notes=json.dumps(notes, ensure_ascii=False),
        ),
    )


def _question_fault(text: str, reference: Reference, config: ConstructConfig) -> str | None:
    """The reason to write a question again, or null."""
    language = config.language or reference.language
    spoken = reference.root in cultures and same_language(
        cultures[reference.root].language, language
    )
    named = config.language is not None and not spoken and is_known(reference.culture, language)
    reason = plain_fault(text, language)
    if reason is None and named and not names_culture(text, reference.culture):
        return "the question does not name the culture"
    return reason


def _wrong_fault(
    text: str, others: Sequence[str], config: ConstructConfig, language: str
) -> str | None:
    """The reason to write a wrong answer again, or null; the first of the other answers is the
    right one."""
    reason = plain_fault(text, language, beside=others[0], ratio=config.length_ratio)
    if reason is not None:
        return reason
    near = [similarity(other, text) for other in others]
    if near[0] < config.window[0]:
        return f"off topic: similarity {near[0]:.3f}"
    if max(near) > config.window[1]:
        return f"nearly the same as another answer: similarity {max(near):.3f}"
    return None


def mismatched(reference: Reference, references: Sequence[Reference], seed: int) -> list[Reference]:
    """References of other cultures in its domain, those on its topic first, in a seeded order."""
    topic = reference.topic
    beside = [one for one in references if one.domain is reference.domain]
    foreign = [one for one in beside if one.root != reference.root]
    foreign = _shuffled(foreign, seed, reference.id, "references")
    return sorted(foreign, key=lambda one: topic is None or one.topic != topic)


def _shuffled(items: Sequence[Any], *key: object) -> list[Any]:
    """The items in an order that depends on the key alone."""
    order = list(items)
    random.Random(derived_seed(*key)).shuffle(order)
    return order
