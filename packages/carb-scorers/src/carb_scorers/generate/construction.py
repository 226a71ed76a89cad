"""From reference texts to sets: question, right answer, wrong answers under other cultures' references, filters.

The method is that of Zhang et al., arXiv 2509.21798, section 3.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from carb_data import BonSet, CarbError, DataError, Dataset, Domain, Problem, Provenance, Response, Role, cultures
from carb_data.facts import read_lines
from carb_data.labels import is_known, names_culture
from carb_data.language import in_language
from carb_data.models import CultureId, Frozen, Identifier, LanguageTag, Text
from carb_data.validation import read_file
from carb_scorers.generate.instructions import Instructions, fill
from carb_scorers.generate.writers import Answer, Writers, WritingError, clean, derived_seed, similarity, work_off
from carb_scorers.scorer import Usage
from carb_scorers.waiting import wait_for

__all__ = ["ConstructConfig", "ConstructReport", "Reference", "construct", "plan_construction", "read_construct_config"]

Progress = Callable[[int, int, int], None]
"""``(sets done, sets to make, sets given up)``."""
_Check = Callable[[str], Awaitable[str | None]]
"""A text to the reason to write it again, or null."""


class Reference(Frozen):
    """A piece of cultural reference material: what is right in a culture."""

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
        """The culture into which its culture rolls up; an unregistered one is its own."""
        return cultures.root(self.culture).id if self.culture in cultures else self.culture


class ConstructConfig(Frozen):
    """What a construction needs. Models are specs, such as ``openai:MODEL?url=…&price_in=2`` or ``hf:FOLDER``."""

    name: Annotated[str, Field(min_length=1)] = "constructed"
    """``provenance.source`` of the sets, and the beginning of their ids."""
    references: Path
    """A ``.jsonl`` file of ``Reference`` rows; relative to the config file."""
    language: LanguageTag | Literal["own"] | None = None
    """Language of the sets: a BCP 47 tag, ``own`` for the main language of each culture, or by default the language of
    each reference. In a named language that is not the culture's own, a question must name the culture."""
    question: str
    """Writes the question from the reference, where the reference has none."""
    chosen: str
    """Writes the right answer under the right culture's reference."""
    rejected: Annotated[tuple[str, ...], Field(min_length=1)]
    """The pool that writes wrong answers under references of other cultures, taken in a seeded order."""
    window: tuple[float, float] = (0.05, 0.95)
    """Least cosine of a wrong answer's character n-grams to the right one's, and the largest to any other answer's:
    below it is off topic, above not another answer."""
    length_ratio: Annotated[float, Field(ge=1)] = 2.0
    """How many times longer or shorter than the right answer a wrong one may be, in characters."""
    rejected_per_set: Annotated[int, Field(ge=1)] = 3
    attempts: Annotated[int, Field(ge=1)] = 4
    """How often a text is written before the set is given up."""
    parallel: Annotated[int, Field(ge=1)] = 8
    """Sets in work at a time."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Take only the first so many references."""
    license: str | None = None
    """Licence of the sets; that of the reference where not given."""
    seed: int = 0
    instructions: Instructions = Instructions()

    @model_validator(mode="after")
    def _window_is_one(self) -> Self:
        if not -1 <= self.window[0] < self.window[1] <= 1:
            raise ValueError("window must be two cosines, the smaller one first")
        return self


def read_construct_config(path: Path) -> ConstructConfig:
    """Read a ``.toml`` or ``.json`` config file.

    Raises:
        CarbError: The file is missing, is no TOML or JSON, or is not a valid config; every reason is given.
    """
    config = read_file(ConstructConfig, path, "construction config")
    return config.model_copy(update={"references": path.parent / config.references})


class FailedSet(Frozen):
    """A set that could not be made."""

    reference: str
    """Id of the reference."""
    step: str
    reasons: tuple[str, ...]
    """One for each attempt."""


class ConstructReport(Frozen):
    """What a construction made and what it cost."""

    out: str
    references: int
    built: int
    counts: dict[str, int]
    """Sets built by ``culture / domain``."""
    failed: tuple[FailedSet, ...]
    """Sets that could not be made, in the order of the references."""
    unused: dict[str, int]
    """Reason to number of references that no set could be made from."""
    discarded: dict[str, int]
    """Reason to number of texts that were written again, most frequent first."""
    usage: dict[str, Usage]
    """What this run asked, by model."""
    cost: float
    """Cost of this run's calls by the prices in the models' specs."""


def plan_construction(config: ConstructConfig) -> dict[str, Any]:
    """The sets that ``construct`` would make, and between how many calls; no model is asked.

    Raises:
        DataError: with every line that is no reference.
        CarbError: The references cannot be read.
    """
    references, usable, unused = _usable(config)
    asked = sum(_needs_question(config, one) for one in usable)
    least = asked + len(usable) * (1 + config.rejected_per_set)
    return {
        "references": len(references),
        "sets": dict(sorted(Counter(f"{one.culture} / {one.domain}" for one in usable).items())),
        "unused": unused,
        "least_calls": least,
        "most_calls": least * config.attempts,
    }


def construct(
    config: ConstructConfig, out: Path, *, store: Path | None = None, progress: Progress | None = None
) -> ConstructReport:
    """Make sets from references and write them to ``out``.

    Every answer of a model is in the store before it is used: after an interruption the same call goes on where it
    stopped, asks for nothing twice, and ends with the same file. ``out`` appears, or is replaced, when all is done.

    Args:
        config: The references, the models and the limits of similarity.
        out: A ``.jsonl`` or ``.parquet`` file.
        store: The file of answers; by default ``OUT.answers.jsonl`` beside ``out``.
        progress: The function that is called after each set.

    Raises:
        CarbError: Unreadable references, a model that refuses every request, or not one set could be made.
        MissingExtraError: An extra that a model or the language detector needs is not installed.
    """
    return wait_for(_construct, config, out, store or Path(f"{out}.answers.jsonl"), progress)


async def _construct(config: ConstructConfig, out: Path, store: Path, progress: Progress | None) -> ConstructReport:
    references, usable, unused = _usable(config)
    results: dict[int, BonSet | FailedSet] = {}
    async with Writers(store) as writers:
        maker = _Maker(config, writers, references)

        async def work(job: tuple[int, Reference]) -> None:
            results[job[0]] = await maker.make(job[1])
            if progress is not None:
                given_up = sum(isinstance(result, FailedSet) for result in results.values())
                progress(len(results), len(usable), given_up)

        await work_off(enumerate(usable), work, config.parallel)
    ordered = [result for _, result in sorted(results.items())]
    sets = [result for result in ordered if isinstance(result, BonSet)]
    failed = [result for result in ordered if isinstance(result, FailedSet)]
    if not sets:
        reasons = Counter(reason for failure in failed for reason in failure.reasons).most_common(3)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons) or str(unused)
        raise CarbError(f"Not one set could be made: {why}. No file was written.")
    Dataset(sets).save(out)
    return ConstructReport(
        out=str(out),
        references=len(references),
        built=len(sets),
        counts=dict(sorted(Counter(f"{item.culture} / {item.domain}" for item in sets).items())),
        failed=tuple(failed),
        unused=unused,
        discarded=dict(maker.discarded.most_common()),
        usage=dict(sorted(writers.usage.items())),
        cost=writers.cost,
    )


def _usable(config: ConstructConfig) -> tuple[list[Reference], list[Reference], dict[str, int]]:
    """All references, those that sets can be made from, and why others cannot."""
    problems: list[Problem] = []
    lines = list(read_lines([config.references], Reference, problems))
    for n, line in enumerate(lines):
        if line.content.id in {other.content.id for other in lines[:n]}:
            problems.append(Problem(line.file, line.number, "id", f"'{line.content.id}' is the id of an earlier line"))
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


class _GivenUpError(Exception):
    """No attempt gave a usable text."""

    def __init__(self, step: str, reasons: Sequence[str]) -> None:
        super().__init__(step)
        self.step, self.reasons = step, tuple(reasons)


class _Maker:
    """Makes one set after the other from references."""

    def __init__(self, config: ConstructConfig, writers: Writers, references: Sequence[Reference]) -> None:
        self.discarded: Counter[str] = Counter()
        self._config, self._writers, self._references = config, writers, references

    async def make(self, reference: Reference) -> BonSet | FailedSet:
        """A set, or why there is none."""
        try:
            return await self._make(reference)
        except _GivenUpError as failure:
            return FailedSet(reference=reference.id, step=failure.step, reasons=failure.reasons)

    async def _make(self, reference: Reference) -> BonSet:
        config, template = self._config, self._config.instructions
        language = _target_language(config, reference)
        steps: list[dict[str, Any]] = []

        def given(other: Reference, question: str = "") -> dict[str, str]:
            return {"culture": other.culture, "language": language, "reference": other.text, "question": question}

        async def plain(text: str) -> str | None:
            return _language_fault(text, language)

        question = reference.question or ""
        if _needs_question(config, reference):
            ask = (config.question, fill(template.question, **given(reference)), reference)
            question = await self._write(reference, "question", [ask], self._question_check(reference), steps)
        right = (config.chosen, fill(template.answer, **given(reference, question)), reference)
        chosen = await self._write(reference, "chosen", [right], plain, steps)
        texts, homes = [chosen], [reference]
        candidates = mismatched(reference, self._references, config.seed)
        pool = _shuffled(config.rejected, config.seed, reference.id, "pool")
        for place in range(config.rejected_per_set):
            used = {home.root for home in homes}
            fresh = [one for one in candidates if one.root not in used] or candidates
            wrong = [
                (
                    pool[(place + attempt) % len(pool)],
                    fill(template.answer, **given(fresh[attempt % len(fresh)], question)),
                    fresh[attempt % len(fresh)],
                )
                for attempt in range(config.attempts)
            ]
            texts.append(
                await self._write(reference, f"rejected-{place + 1}", wrong, self._wrong_check(texts, language), steps)
            )
            homes.append(next(one for one in candidates if one.id == steps[-1]["reference"]))
        return self._assemble(reference, question, list(zip(texts, homes, steps[-len(texts) :], strict=True)), steps)

    async def _write(
        self,
        reference: Reference,
        step: str,
        requests: Sequence[tuple[str, str, Reference]],
        check: _Check,
        steps: list[dict[str, Any]],
    ) -> str:
        """Write a text until it passes; what went into it is added to ``steps``.

        Args:
            reference: The set's own reference.
            step: The name of what is written.
            requests: Model, prompt and reference of each attempt; the last one serves for all further ones.
            check: Gives the reason to write a text again.
            steps: The record of the set so far.

        Raises:
            _GivenUpError: with the reason of every attempt.
        """
        reasons: list[str] = []
        for attempt in range(self._config.attempts):
            model, prompt, source = requests[min(attempt, len(requests) - 1)]
            seed = derived_seed(self._config.seed, reference.id, step, attempt)
            text, reason = "", None
            try:
                answer: Answer = await self._writers.write(model, prompt, seed)
                text = clean(answer.text)
                reason = await check(text) if answer.finished else "cut off at max_new_tokens"
            except WritingError as error:
                reason = f"the model failed: {error}"
            if reason is None:
                made = {"step": step, "model": model, "seed": seed, "reference": source.id, "prompt": prompt}
                steps.append({**made, "discarded": list(reasons)})
                return text
            reasons.append(reason)
            self.discarded[reason.partition(":")[0]] += 1
        raise _GivenUpError(step, reasons)

    def _question_check(self, reference: Reference) -> _Check:
        language = _target_language(self._config, reference)
        own = reference.root in cultures and _primary(cultures[reference.root].language) == _primary(language)
        named = self._config.language is not None and not own and is_known(reference.culture, language)

        async def check(text: str) -> str | None:
            reason = _language_fault(text, language)
            if reason is None and named and not names_culture(text, reference.culture):
                return "the question does not name the culture"
            return reason

        return check

    def _wrong_check(self, earlier: Sequence[str], language: str) -> _Check:
        config, others = self._config, tuple(earlier)

        async def check(text: str) -> str | None:
            reason = _language_fault(text, language)
            if reason is not None:
                return reason
            if not 1 / config.length_ratio <= len(text) / len(others[0]) <= config.length_ratio:
                return f"length: {len(text)} characters beside {len(others[0])}"
            near = [similarity(other, text) for other in others]
            if near[0] < config.window[0]:
                return f"off topic: similarity {near[0]:.3f}"
            if max(near) > config.window[1]:
                return f"nearly the same as another answer: similarity {max(near):.3f}"
            return None

        return check

    def _assemble(
        self, reference: Reference, question: str, answers: Sequence[tuple[str, Reference, dict[str, Any]]], steps: Any
    ) -> BonSet:
        config, language = self._config, _target_language(self._config, reference)
        responses = [
            Response(
                id=f"r{n}" if n else "c",
                text=text,
                role=Role.REJECTED if n else Role.CHOSEN,
                language=language,
                culture=home.culture,
                generator=step["model"],
            )
            for n, (text, home, step) in enumerate(answers)
        ]
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
                source_id=reference.provenance.source_id or reference.id,
                license=config.license or reference.provenance.license,
                url=reference.provenance.url,
                method="generated",
                notes=json.dumps({"reference_source": reference.provenance.source, "steps": steps}, ensure_ascii=False),
            ),
        )


def mismatched(reference: Reference, references: Sequence[Reference], seed: int) -> list[Reference]:
    """References of other cultures in its domain, those on its topic first, in a seeded order; cultures take turns."""
    foreign = [one for one in references if one.domain is reference.domain and one.root != reference.root]
    foreign = _shuffled(foreign, seed, reference.id, "references")
    foreign.sort(key=lambda one: reference.topic is None or one.topic != reference.topic)
    turns: Counter[str] = Counter()
    order = []
    for one in foreign:
        order.append((turns[one.root], one))
        turns[one.root] += 1
    return [one for _, one in sorted(order, key=lambda entry: entry[0])]


def _target_language(config: ConstructConfig, reference: Reference) -> str:
    """The language in which a reference's set is written."""
    if config.language == "own":
        return cultures[reference.culture].language if reference.culture in cultures else reference.language
    return config.language or reference.language


def _needs_question(config: ConstructConfig, reference: Reference) -> bool:
    """Whether the question is to be written: the reference has none, or one in another language."""
    return reference.question is None or _primary(_target_language(config, reference)) != _primary(reference.language)


def _language_fault(text: str, language: str) -> str | None:
    if not text:
        return "empty"
    return None if in_language(text, language) else "not in the prompt's language"


def _shuffled(items: Sequence[Any], *key: object) -> list[Any]:
    """The items in an order that depends on the key alone."""
    order = list(items)
    random.Random(derived_seed(*key)).shuffle(order)
    return order


def _primary(tag: str) -> str:
    return tag.partition("-")[0].lower()
