"""Calls to models through the journal, counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from carb_data.construct.clients import Completion, Embedder, Models, NgramEmbedder, Writer, cosine
from carb_data.construct.config import EmbedderSpec, ModelSpec
from carb_data.construct.journal import AnswerJournal, request_key
from carb_data.errors import CarbError
from carb_data.extras import require
from carb_data.models import Frozen
from carb_data.verification import VersionCalibration, calibrate, calibration_id

__all__ = ["ModelUsage"]

Job = TypeVar("Job")
KEPT_VECTORS = 10_000


class ModelUsage(Frozen):
    """What one model was asked in one run."""

    calls: int = 0
    """Requests answered by the model in this run."""
    from_journal: int = 0
    """Requests that an earlier run had paid for."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens of this run's calls, as the server counts them (0 where it does not say)."""
    cost: float = 0.0
    """Cost of this run's calls by the prices in the config."""

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(**{name: getattr(self, name) + getattr(other, name) for name in ModelUsage.model_fields})


class Calls:
    """Models and an embedder behind one journal. An async context manager: it closes what it opened."""

    def __init__(self, journal: AnswerJournal, embedder: EmbedderSpec | None, models: Models | None) -> None:
        self.usage: dict[str, ModelUsage] = {}
        self._journal = journal
        self._models = models
        self._clients: dict[str, Writer] = {}
        self._embedder_spec = embedder
        self._embedder: Embedder | None = None
        self._vectors: dict[str, list[float]] = {}
        self._stack = AsyncExitStack()

    async def complete(self, spec: ModelSpec, step: str, prompt: str, seed: int) -> Completion:
        """A text from the journal, or else from the model.

        Raises:
            GenerationError, CarbError: as ``Writer.complete``.
        """
        key = request_key(step=step, model=spec.identity, prompt=prompt, seed=seed)
        kept = self._journal.get(key)
        if kept is not None:
            self._count(spec.model, ModelUsage(from_journal=1))
            return Completion(**kept)
        name = request_key(model=spec.identity)
        if name not in self._clients:
            self._clients[name] = self._opened.writer(spec)
            self._stack.push_async_callback(self._clients[name].aclose)
        answer = await self._clients[name].complete(prompt, seed)
        self._journal.put(
            key,
            {
                "text": answer.text,
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
                "finish": answer.finish,
            },
        )
        cost = (answer.prompt_tokens * spec.price_in + answer.completion_tokens * spec.price_out) / 1e6
        counted: dict[str, Any] = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        self._count(spec.model, ModelUsage(calls=1, cost=cost, **counted))
        return answer

    async def similarity(self, first: str, second: str) -> float:
        """Cosine of two texts' vectors, from the journal or else from the embedder."""
        spec = self._embedder_spec
        assert spec is not None
        key = request_key(embedder=spec.identity, texts=sorted([first, second]))
        kept = self._journal.get(key)
        if kept is not None:
            self._count(spec.model, ModelUsage(from_journal=1))
            return float(kept)
        vectors = dict(zip((first, second), await self.embed((first, second)), strict=True))
        value = cosine(vectors[first], vectors[second])
        self._journal.put(key, value)
        return value

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, from memory or else from the embedder."""
        spec = self._embedder_spec
        assert spec is not None
        if self._embedder is None:
            self._embedder = NgramEmbedder() if spec.kind == "ngrams" else self._opened.embedder(spec)
            self._stack.push_async_callback(self._embedder.aclose)
        vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        if new:
            found, tokens = await self._embedder.embed(new)
            vectors |= dict(zip(new, found, strict=True))
            self._count(spec.model, ModelUsage(calls=1, prompt_tokens=tokens, cost=tokens * spec.price_in / 1e6))
            if len(self._vectors) > KEPT_VECTORS:
                self._vectors.clear()
            self._vectors |= vectors
        return [vectors[text] for text in texts]

    async def calibration(self) -> VersionCalibration:
        """What the embedder's cosines mean, from the journal or else measured on the seed."""
        spec = self._embedder_spec
        assert spec is not None
        key = request_key(embedder=spec.identity, calibration=calibration_id())
        kept = self._journal.get(key)
        if kept is not None:
            return VersionCalibration.model_validate(kept)
        found = await calibrate(self.embed)
        self._journal.put(key, found.model_dump(mode="json"))
        return found

    @property
    def _opened(self) -> Models:
        if self._models is None:
            raise CarbError(
                "Construction opens no models itself: give models=, for example ConstructionModels() of "
                "carb_scorers.models.construction."
            )
        return self._models

    def _count(self, model: str, usage: ModelUsage) -> None:
        self.usage[model] = self.usage.get(model, ModelUsage()) + usage

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()


async def work_off(jobs: Iterable[Job], work: Callable[[Job], Awaitable[None]], parallel: int) -> None:
    """Do all jobs, ``parallel`` of them at a time.

    Raises:
        CarbError: a job met something that ends the run (a refusing server, a missing extra); the others are stopped.
    """
    anyio = require("anyio", package="carb-data", extra="construct")
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
