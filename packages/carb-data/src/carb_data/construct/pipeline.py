"""From a reference to a set: question, right answer, wrong answers under other cultures' references, filters.

The method is that of Zhang et al., arXiv 2509.21798, section 3 (``paper.md``: how a set is made).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from carb_data.construct.calls import Calls
from carb_data.construct.clients import Completion, GenerationError, cosine
from carb_data.construct.config import Config, ModelSpec
from carb_data.construct.prompts import fill, language_name
from carb_data.construct.report import FailedSet
from carb_data.labels import is_known, names_culture
from carb_data.models import BonSet, Provenance, Response, Role
from carb_data.registry import cultures
from carb_data.sources.models import Reference


class GivenUpError(Exception):
    """No attempt gave a usable text."""

    def __init__(self, step: str, reasons: Sequence[str]) -> None:
        super().__init__(step)
        self.step, self.reasons = step, tuple(reasons)


@dataclass(frozen=True, slots=True)
class Request:
    """One text to be written."""

    model: ModelSpec
    prompt: str
    inputs: tuple[Reference, ...]


@dataclass(slots=True)
class WrittenText:
    """A text that passed, with all that went into it."""

    text: str
    request: Request
    record: dict[str, Any]


Check = Callable[[str, dict[str, Any]], Awaitable[str | None]]
"""``(text, record) -> reason to write it again, or None``; may add what it measured to the record."""


@dataclass(slots=True)
class SetMaker:
    """Makes one set after the other from references."""

    config: Config
    calls: Calls
    others: dict[str, list[Reference]]
    """All references, by domain."""
    discarded: Counter[str] = field(default_factory=Counter)

    async def make(self, reference: Reference) -> BonSet | FailedSet:
        """A set, or why there is none."""
        try:
            return await self._make(reference)
        except GivenUpError as failure:
            return FailedSet(reference=reference.id, step=failure.step, reasons=failure.reasons)

    async def _make(self, reference: Reference) -> BonSet:
        config, tag = self.config, target_language(self.config, reference)
        language = language_name(tag)
        steps: list[dict[str, Any]] = []
        if needs_question(config, reference):
            prompt = fill(
                config.prompts.question,
                **_fields(reference, language, question="", text=""),
            )
            ask = Request(config.question, prompt, (reference,))
            asked = await self._write(reference, "question", lambda _: ask, self._question_check(reference))
            question = asked.text
            steps.append(asked.record)
        else:
            question = str(reference.question)
        prompt = fill(config.prompts.answer, **_fields(reference, language, question=question, text=""))
        right = Request(config.chosen, prompt, (reference,))
        chosen = await self._write(reference, "chosen", lambda _: right, self._plain_check(reference))
        steps.append(chosen.record)
        rejected: list[WrittenText] = []
        candidates = await self._mismatched(reference)
        pool = shuffled(config.rejected, f"{config.seed}\0{reference.id}\0pool")
        for place in range(config.rejected_per_set):
            used = {culture_root(w.request.inputs[0]) for w in rejected}
            fresh = [r for r in candidates if culture_root(r) not in used] or candidates

            def wrong(attempt: int, place: int = place, fresh: Sequence[Reference] = fresh) -> Request:
                other = fresh[attempt % len(fresh)]
                fields = _fields(other, language, question=question, text="")
                model = pool[(place + attempt) % len(pool)]
                return Request(model, fill(config.prompts.answer, **fields), (other,))

            step = f"rejected-{place + 1}"
            check = self._rejected_check(reference, chosen.text, [w.text for w in rejected])
            rejected.append(await self._write(reference, step, wrong, check))
            steps.append(rejected[-1].record)
        return self._assemble(reference, question, chosen, rejected, steps)

    async def _write(
        self, reference: Reference, step: str, request: Callable[[int], Request], check: Check
    ) -> WrittenText:
        """Write a text until it passes.

        Raises:
            GivenUpError: with the reason of every attempt.
        """
        reasons: list[str] = []
        for attempt in range(self.config.attempts):
            asked = request(attempt)
            seed = derived(f"{self.config.seed}\0{reference.id}\0{step}\0{attempt}")
            try:
                answer = await self.calls.complete(asked.model, step, asked.prompt, seed)
                text = clean(answer.text)
                record: dict[str, Any] = {
                    "step": step,
                    "model": asked.model.model,
                    "seed": seed,
                    "references": [r.id for r in asked.inputs],
                    "prompt": asked.prompt,
                    "discarded": list(reasons),
                }
                reason = self._cut_off(answer) or await check(text, record)
            except GenerationError as error:
                text, record, reason = "", {}, f"the model failed: {error}"
            if reason is None:
                return WrittenText(text, asked, record)
            reasons.append(reason)
            self.discarded[reason.partition(":")[0]] += 1
        raise GivenUpError(step, reasons)

    def _cut_off(self, answer: Completion) -> str | None:
        if answer.finish == "length" and not self.config.accept_cut_off:
            return "cut off at max_tokens"
        return None

    def _plain_check(self, reference: Reference) -> Check:
        async def check(text: str, record: dict[str, Any]) -> str | None:  # noqa: ARG001 - one signature for all checks
            if not text:
                return "empty"
            if self.config.check_language:
                from carb_data.language import in_language

                if not in_language(text, target_language(self.config, reference)):
                    return "not in the prompt's language"
            return None

        return check

    def _question_check(self, reference: Reference) -> Check:
        plain, tag = self._plain_check(reference), target_language(self.config, reference)
        root = culture_root(reference)
        own = root in cultures and _primary(cultures[root].language) == _primary(tag)
        must_name = self.config.language is not None and not own and root in cultures and is_known(root, tag)

        async def check(text: str, record: dict[str, Any]) -> str | None:
            reason = await plain(text, record)
            if reason is None and must_name and not names_culture(text, reference.culture):
                return "the question does not name the culture"
            return reason

        return check

    async def _mismatched(self, reference: Reference) -> list[Reference]:
        """References of other cultures, the best for a wrong answer first; cultures take turns."""
        config = self.config
        order = mismatched(reference, self.others[reference.domain], config.seed)
        if config.mismatch == "similarity":
            own, *theirs = await self.calls.embed([reference.text, *(other.text for other in order)])
            near = {other.id: cosine(own, vector) for other, vector in zip(order, theirs, strict=True)}
            order = in_turn(sorted(order, key=lambda other: -near[other.id]))
        return order

    def _rejected_check(self, reference: Reference, chosen: str, earlier: Sequence[str]) -> Check:
        plain, config = self._plain_check(reference), self.config

        async def check(text: str, record: dict[str, Any]) -> str | None:
            reason = await plain(text, record)
            if reason is not None:
                return reason
            ratio = len(text) / len(chosen)
            if not 1 / config.length_ratio <= ratio <= config.length_ratio:
                return f"length: {len(text)} characters beside {len(chosen)}"
            if shares(text, (chosen, *earlier), config.near_duplicate):
                return "nearly the same as another answer"
            similarity = await self.calls.similarity(chosen, text)
            record["similarity"] = round(similarity, 6)
            if similarity < config.window[0]:
                return f"off topic: similarity {similarity:.3f}"
            if similarity > config.window[1]:
                return f"too close to the right answer: similarity {similarity:.3f}"
            return None

        return check

    def _assemble(
        self,
        reference: Reference,
        question: str,
        chosen: WrittenText,
        rejected: Sequence[WrittenText],
        steps: list[Any],
    ) -> BonSet:
        config = self.config
        responses = [
            Response(
                id=name,
                text=written.text,
                role=Role.CHOSEN if name == "c" else Role.REJECTED,
                language=target_language(config, reference),
                culture=written.request.inputs[0].culture,
                generator=written.request.model.model,
            )
            for name, written in [("c", chosen), *((f"r{n}", w) for n, w in enumerate(rejected, 1))]
        ]
        detail = {"reference_source": reference.provenance.source, "seed": config.seed, "steps": steps}
        return BonSet(
            id=f"{config.name}/{reference.id}",
            culture=reference.culture,
            domain=reference.domain,
            topic=reference.topic,
            language=target_language(config, reference),
            prompt=question,
            responses=tuple(shuffled(responses, f"{config.seed}\0{reference.id}\0order")),
            provenance=Provenance(
                source=config.name,
                source_id=reference.provenance.source_id or reference.id,
                license=config.license or reference.provenance.license,
                url=reference.provenance.url,
                method="generated",
                notes=json.dumps(detail, ensure_ascii=False),
            ),
        )


def _fields(reference: Reference, language: str, *, question: str, text: str) -> dict[str, str]:
    culture = cultures[reference.culture].name if reference.culture in cultures else reference.culture
    return {
        "culture": culture, "language": language, "question": question, "reference": reference.text, "text": text,
    }  # fmt: skip


def culture_root(reference: Reference) -> str:
    """The culture into which a reference's culture rolls up; an unregistered one is its own."""
    return cultures.root(reference.culture).id if reference.culture in cultures else reference.culture


def mismatched(reference: Reference, others: Sequence[Reference], seed: int) -> list[Reference]:
    """References of other cultures, those on the same topic first, else in a seeded order; cultures take turns."""
    root = culture_root(reference)
    foreign = shuffled([r for r in others if culture_root(r) != root], f"{seed}\0{reference.id}\0references")
    foreign.sort(key=lambda r: reference.topic is None or r.topic != reference.topic)
    return in_turn(foreign)


def in_turn(references: Sequence[Reference]) -> list[Reference]:
    """The first of every culture, then the second of every culture, and so on, each in the order given."""
    turns: Counter[str] = Counter()
    order = []
    for reference in references:
        order.append((turns[culture_root(reference)], reference))
        turns[culture_root(reference)] += 1
    return [reference for _, reference in sorted(order, key=lambda entry: entry[0])]


def target_language(config: Config, reference: Reference) -> str:
    """The language in which a reference's set is written."""
    if config.language == "own":
        return cultures[reference.culture].language if reference.culture in cultures else reference.language
    return config.language or reference.language


def needs_question(config: Config, reference: Reference) -> bool:
    """Whether the question is to be written: the reference has none, or one in another language."""
    return reference.question is None or _primary(target_language(config, reference)) != _primary(reference.language)


def _primary(tag: str) -> str:
    return tag.partition("-")[0].lower()


def derived(text: str) -> int:
    """A seed of 31 bits that depends on ``text`` alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def shuffled(items: Sequence[Any], key: str) -> list[Any]:
    """The items in an order that depends on ``key`` alone."""
    order = list(items)
    random.Random(derived(key)).shuffle(order)
    return order


def clean(text: str) -> str:
    """A model's answer without white space and quotation marks around it."""
    text = text.strip()
    for opening, closing in ('""', "“”", "«»", "「」", "„“"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing and opening not in text[1:-1]:
            text = text[1:-1].strip()
    return text


def shares(text: str, others: Sequence[str], share: float) -> bool:
    """Whether ``text`` holds, or is held by, another text to this share of n-grams."""
    from carb_data.ngrams import NgramIndex

    forwards = NgramIndex(list(others), share).matches([text])
    backwards = NgramIndex([text], share).matches(others)
    return any(True for _ in forwards) or any(True for _ in backwards)
