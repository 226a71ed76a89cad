"""Language models that write: by spec, through a store, so that nothing is paid for twice."""

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
from pydantic import Field, PositiveInt

from carb_data import CarbError, Frozen, Store, in_language, require
from carb_scorers.models.marks import without_thinking
from carb_scorers.models.protocol import (
    LANGUAGE_MODELS,
    Failure,
    LanguageModel,
    NonNegative,
    Prompt,
    Writing,
    message,
    read_backend_options,
)
from carb_scorers.spec import parse_spec
from carb_scorers.waiting import wait_for

AT_ONCE = 8
"""Things in work at a time."""
Progress = Callable[[int, int, int], None]
"""``(done, to do, given up)``."""
_Job = TypeVar("_Job")
_Made = TypeVar("_Made")
_Options = TypeVar("_Options", bound=Frozen)


class WriterOptions(Frozen):
    """Options of a model that writes, beside its backend's."""

    backend: str = "hf"
    temperature: NonNegative = 0.7
    max_new_tokens: PositiveInt = 400
    one_line: bool = False
    """An answer ends with its first line, as base models need."""


class Answer(Frozen):
    """A model's text; one record of the store."""

    key: str
    """sha256 of the request."""
    text: str = ""
    finished: bool = True
    """Whether the model ended by itself; false where ``max_new_tokens`` cut it off."""


class StoreHead(Frozen):
    """The first line of a store of answers."""

    format: str = "carb.answers/1"


class GivenUp(Frozen):
    """Texts that no attempt produced in a usable form."""

    name: str
    """Id of the reference, or of the set and the version."""
    step: str
    """The text that could not be written: ``question``, ``rejected-1``, ``RP`` and so on."""
    reasons: tuple[str, ...]
    """One for each attempt."""


class WriteReport(Frozen):
    """Counts of texts made, left out and given up, and their cost."""

    made: dict[str, int]
    """Number of sets by ``culture / domain``, or of new texts by perturbation."""
    skipped: dict[str, int]
    """Reason to number of references or versions that were not tried."""
    given_up: tuple[GivenUp, ...]
    """In the order in which they were to be made; ``made``, ``skipped`` and these sum to all."""
    discarded: dict[str, int]
    """Reason to number of texts that were written again, most frequent first."""
    cost: float
    """Cost of this run's calls by ``price_in`` and ``price_out`` of the models' specs."""


class Passed(Frozen):
    """A text that passed, and how it came about."""

    step: str
    model: str
    prompt: str
    seed: int
    discarded: tuple[str, ...]
    """The reasons against earlier attempts."""
    text: str = Field(exclude=True)


class GivenUpError(Exception):
    """No attempt gave a usable text: its set is given up, the others go on."""

    def __init__(self, step: str, reasons: Sequence[str]) -> None:
        super().__init__(step)
        self.step = step
        self.reasons = tuple(reasons)


@dataclass
class Writers:
    """The models of a run, opened when they are first asked, behind one store."""

    store: Store[StoreHead, Answer, str]
    opened: AsyncExitStack
    discarded: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0
    models: dict[str, tuple[LanguageModel, Any]] = field(default_factory=dict)

    async def until(
        self,
        step: str,
        requests: Sequence[tuple[str, str]],
        key: Sequence[object],
        fault: Callable[[str], str | None],
    ) -> Passed:
        """Write a text until ``fault``, which gives a reason to write it again, gives none.

        ``requests`` are the model and the prompt of each attempt; its seed comes from ``key``, the
        step and its number.

        Raises:
            GivenUpError: with the reason of every attempt.
            CarbError: Every request will fail: a wrong key, an unknown model.
        """
        reasons: list[str] = []
        for attempt, (model, prompt) in enumerate(requests):
            seed = derived_seed(*key, step, attempt)
            answer = await self._answer(model, prompt, seed)
            if isinstance(answer, Failure):
                reason: str | None = f"the model failed: {answer.error.message}"
            else:
                text = clean(answer.text)
                reason = "cut off at max_new_tokens"
                if answer.finished:
                    reason = fault(text)
                if reason is None:
                    return Passed(
                        step=step,
                        model=model,
                        prompt=prompt,
                        seed=seed,
                        discarded=tuple(reasons),
                        text=text,
                    )
            reasons.append(reason or "")
            self.discarded[reasons[-1].partition(":")[0]] += 1
        raise GivenUpError(step, reasons)

    def report(self, made: Counter[str], **given: Any) -> WriteReport:
        """The report, with the texts that were written again and the cost."""
        return WriteReport(
            made=dict(sorted(made.items())),
            discarded=dict(self.discarded.most_common()),
            cost=self.cost,
            **given,
        )

    async def _answer(self, spec: str, prompt: str, seed: int) -> Answer | Failure:
        """A text from the store, or else from the model."""
        key = sha256(parse_spec(spec).name, prompt, seed)
        kept = self.store.values.get(key)
        if kept is not None:
            return kept
        if spec not in self.models:
            self.models[spec] = open_writer(spec, WriterOptions)
            self.opened.push_async_callback(self.models[spec][0].aclose)
        model, options = self.models[spec]
        stop: tuple[str, ...] = ()
        if options.one_line:
            stop = ("\n",)
        writing = Writing(options.max_new_tokens, options.temperature, seed, stop)
        asked = Prompt((message("user", prompt),), bare=True)
        (generation,) = await model.generate([asked], writing)
        usage = generation.usage
        counts = {"price_in": usage.input_tokens, "price_out": usage.output_tokens}
        for name, tokens in counts.items():
            price = getattr(options, name, None) or 0.0
            self.cost += tokens * price / 1e6
        if isinstance(generation, Failure):
            return generation
        text = without_thinking(generation.text)
        answer = Answer(key=key, text=text, finished=generation.finished)
        self.store.append([answer])
        return answer


def write_all(
    jobs: Sequence[tuple[str, _Job]],
    make: Callable[[_Job, Writers], Awaitable[_Made]],
    store: Path | None,
    progress: Progress | None,
    *,
    count: Callable[[_Made], str],
    skipped: Mapping[str, int],
) -> tuple[list[_Made], WriteReport]:
    """Do jobs, each with a name, several at a time. Every answer of a model is in the store before
    it is used.

    ``make`` raises ``GivenUpError`` where it cannot do a job. ``count`` gives the report's name for
    a result, and ``skipped`` the counts of what is no job. Without a store answers are kept in
    memory.

    Raises:
        CarbError: A job met something that ends the run; the others are stopped.
    """
    made: dict[int, _Made] = {}
    given_up: dict[int, GivenUp] = {}
    waiting = iter(enumerate(jobs))
    say = progress or (lambda *_: None)

    async def work(writers: Writers) -> None:
        for number, (name, job) in waiting:
            try:
                made[number] = await make(job, writers)
            except GivenUpError as failure:
                given_up[number] = GivenUp(name=name, step=failure.step, reasons=failure.reasons)
            done = len(made) + len(given_up)
            say(done, len(jobs), len(given_up))

    async def run() -> Writers:
        with Store(store, StoreHead(), Answer, lambda answer: answer.key) as kept:
            async with AsyncExitStack() as opened, anyio.create_task_group() as group:
                writers = Writers(kept, opened)
                for _ in range(AT_ONCE):
                    group.start_soon(work, writers)
        return writers

    try:
        writers = wait_for(run)
    except* CarbError as errors:
        raise errors.exceptions[0] from None
    done = [made[number] for number in sorted(made)]
    counts = Counter(map(count, done))
    lost = tuple(given_up[number] for number in sorted(given_up))
    return done, writers.report(made=counts, skipped=skipped, given_up=lost)


def derived_seed(*parts: object) -> int:
    """A seed of 31 bits that depends on the parts alone."""
    return int(sha256(*parts)[:8], 16) >> 1


def clean(text: str) -> str:
    """A model's answer without white space and quotation marks around it."""
    text = text.strip()
    for opening, closing in ('""', "“”", "«»", "「」", "„“"):
        inner = text[1:-1]
        if text == f"{opening}{inner}{closing}" and opening not in inner:
            text = inner.strip()
    return text


def plain_fault(
    text: str, language: str, *, beside: str | None = None, ratio: float = 1.0
) -> str | None:
    """The reason to write a text again, or null: its language, or its length beside another
    text's."""
    if not text:
        return "empty"
    if not in_language(text, language):
        return f"not in '{language}'"
    if beside is None:
        return None
    share = len(text) / len(beside)
    if 1 / ratio <= share <= ratio:
        return None
    return f"length: {len(text)} characters beside {len(beside)}"


def similarity(first: str, second: str) -> float:
    """Cosine of two texts' counts of character 2- and 3-grams: it sees wording, not meaning."""
    feature = require("sklearn.feature_extraction.text", "carb-data[checks]")
    hashing = feature.HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 3), alternate_sign=False
    )
    one, other = hashing.transform([first, second])
    return float((one @ other.T).sum())


def sha256(*parts: object) -> str:
    """A fingerprint of what JSON can hold."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def open_writer(spec: str, options: type[_Options]) -> tuple[LanguageModel, _Options]:
    """Open a language model from its spec, ``hf:MODEL?temperature=0.8``, and read its options with
    its backend's.

    Raises:
        CarbError: An unknown kind, option or model, or a missing extra.
    """
    parsed = parse_spec(spec)
    if parsed.kind not in LANGUAGE_MODELS:
        raise CarbError(
            f"'{spec}' cannot write; name a language model as {', '.join(LANGUAGE_MODELS)}:MODEL."
        )
    given = {**parsed.options, "backend": parsed.kind}
    read, kind = read_backend_options(options, str(parsed), given)
    return kind.open(parsed.target, read), read
