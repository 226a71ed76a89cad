"""Language models that write: by spec, through a store, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import anyio
from pydantic import Field

from carb_data import CarbError
from carb_data.extras import require
from carb_data.journal import Store
from carb_data.models import Frozen
from carb_scorers.models.protocol import (
    LANGUAGE_MODELS,
    Failure,
    LanguageModel,
    Prompt,
    Turn,
    Writing,
    read_backend_options,
)
from carb_scorers.spec import parse_spec

__all__ = ["GivenUpError", "Writers", "clean", "derived_seed", "open_writer", "similarity", "work_off"]

_Job = TypeVar("_Job")
_Options = TypeVar("_Options", bound=Frozen)


class WriterOptions(Frozen):
    """Options of a model that writes, beside its backend's."""

    backend: str = "hf"
    temperature: Annotated[float, Field(ge=0)] = 0.7
    max_new_tokens: Annotated[int, Field(ge=1)] = 400
    one_line: bool = False
    """An answer ends with its first line, as base models need."""


class Answer(Frozen):
    """What a model wrote; one record of the store."""

    key: str
    """sha256 of the request."""
    text: str = ""
    finished: bool = True
    """Whether the model ended by itself; false where ``max_new_tokens`` cut it off."""


class StoreHead(Frozen):
    """The first line of a store of answers."""

    format: str = "carb.answers/1"


class GivenUpError(Exception):
    """No attempt gave a usable text: what it was for is given up, the others go on."""

    def __init__(self, step: str, reasons: Sequence[str]) -> None:
        super().__init__(step)
        self.step, self.reasons = step, tuple(reasons)


class Writers:
    """The models of a run behind one store. An async context manager: it closes what it opened."""

    def __init__(self, store: Path | None) -> None:
        """Open the store of the answers; null keeps them in memory."""
        self.cost = 0.0
        """Cost of this run's calls by ``price_in`` and ``price_out`` of the models' specs."""
        self.discarded: Counter[str] = Counter()
        """Reason to number of texts that were written again."""
        self._store = Store(store, StoreHead(), Answer, lambda answer: answer.key)
        self._writers: dict[str, tuple[LanguageModel, Any]] = {}

    async def until(
        self,
        step: str,
        requests: Sequence[tuple[str, str]],
        key: Sequence[object],
        attempts: int,
        fault: Callable[[str], str | None],
    ) -> tuple[str, int, list[str]]:
        """Write a text until it passes.

        Args:
            step: The name of what is written.
            requests: Model and prompt of each attempt; the last pair serves for all further ones.
            key: The parts from which the seed of each attempt is derived, besides its number.
            attempts: The number of times that the text is written before it is given up.
            fault: The function that gives the reason to write a text again, or null.

        Returns:
            The text, the number of its attempt from 0, and the reasons against earlier ones.

        Raises:
            GivenUpError: with the reason of every attempt.
            CarbError: Every request will fail: a wrong key, an unknown model.
        """
        reasons: list[str] = []
        for attempt in range(attempts):
            model, prompt = requests[min(attempt, len(requests) - 1)]
            answer = await self._answer(model, prompt, derived_seed(*key, attempt))
            if isinstance(answer, Failure):
                reason: str | None = f"the model failed: {answer.error.message}"
            else:
                text = clean(answer.text)
                reason = fault(text) if answer.finished else "cut off at max_new_tokens"
                if reason is None:
                    return text, attempt, reasons
            reasons.append(reason or "")
            self.discarded[reasons[-1].partition(":")[0]] += 1
        raise GivenUpError(step, reasons)

    async def _answer(self, spec: str, prompt: str, seed: int) -> Answer | Failure:
        """A text from the store, or else from the model."""
        key = _key(parse_spec(spec).name, prompt, seed)
        kept = self._store.values.get(key)
        if kept is not None:
            return kept
        if spec not in self._writers:
            self._writers[spec] = open_writer(spec, WriterOptions)
        model, options = self._writers[spec]
        stop = ("\n",) if options.one_line else ()
        writing = Writing(options.max_new_tokens, options.temperature, seed, stop)
        (found,) = await model.generate([Prompt((Turn(role="user", content=prompt),), bare=True)], writing)
        for tokens, price in ((found.usage.input_tokens, "price_in"), (found.usage.output_tokens, "price_out")):
            self.cost += tokens * (getattr(options, price, None) or 0.0) / 1e6
        if isinstance(found, Failure):
            return found
        answer = Answer(key=key, text=found.text, finished=found.finished)
        self._store.append([answer])
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for model, _options in self._writers.values():
            await model.aclose()
        self._store.close()


async def work_off(jobs: Iterable[_Job], work: Callable[[_Job], Awaitable[None]], parallel: int) -> None:
    """Do all jobs, ``parallel`` of them at a time.

    Raises:
        CarbError: A job met something that ends the run; the others are stopped.
    """
    waiting = iter(jobs)
    fatal: list[CarbError] = []

    async def worker() -> None:
        for job in waiting:
            try:
                await work(job)
            except CarbError as error:
                fatal.append(error)
                group.cancel_scope.cancel()
                return

    async with anyio.create_task_group() as group:
        for _ in range(parallel):
            group.start_soon(worker)
    if fatal:
        raise fatal[0]


def derived_seed(*parts: object) -> int:
    """A seed of 31 bits that depends on the parts alone."""
    return int(_key(*parts)[:8], 16) >> 1


def clean(text: str) -> str:
    """A model's answer without white space and quotation marks around it."""
    text = text.strip()
    for opening, closing in ('""', "“”", "«»", "「」", "„“"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing and opening not in text[1:-1]:
            text = text[1:-1].strip()
    return text


def similarity(first: str, second: str) -> float:
    """Cosine of two texts' counts of character 2- and 3-grams: it sees wording, not meaning."""
    feature = require("sklearn.feature_extraction.text", package="carb-data", extra="checks")
    hashing = feature.HashingVectorizer(analyzer="char_wb", ngram_range=(2, 3), alternate_sign=False)
    one, other = hashing.transform([first, second])
    return float((one @ other.T).sum())


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def open_writer(spec: str, options: type[_Options]) -> tuple[LanguageModel, _Options]:
    """Open a language model from its spec, ``hf:MODEL?temperature=0.8``.

    Args:
        spec: The spec.
        options: The options that it takes beside its backend's.

    Returns:
        The model, and the options with the backend's among them.

    Raises:
        CarbError: An unknown kind, option or model, or a missing extra.
    """
    parsed = parse_spec(spec)
    if parsed.kind not in LANGUAGE_MODELS:
        raise CarbError(f"'{spec}' cannot write; name a language model as {', '.join(LANGUAGE_MODELS)}:MODEL.")
    given = {**parsed.options, "backend": parsed.kind}
    read, kind = read_backend_options(options, LANGUAGE_MODELS, str(parsed), given)
    return kind.open(parsed.target, read), read
