"""Models behind one small interface: a prompt in, a text and its cost in tokens out; texts in, vectors out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from carb_data.construct.config import EmbedderSpec, ModelSpec


class GenerationError(Exception):
    """One request failed for good: its set is given up, the others go on."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str
    """``stop``, or ``length`` where ``max_tokens`` cut it off."""


class Writer(Protocol):
    """A language model."""

    async def complete(self, prompt: str, seed: int) -> Completion:
        """Write a text.

        Raises:
            GenerationError: this request failed, after all retries.
            CarbError: every request will fail: wrong key, unknown model, model not readable.
        """
        ...

    async def aclose(self) -> None: ...


class Embedder(Protocol):
    """A model of similarity."""

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        """A vector for each text, and the tokens read. Raises as ``Writer.complete`` does."""
        ...

    async def aclose(self) -> None: ...


class Models(Protocol):
    """Opens what a configuration names; ``carb_scorers.models.construction.ConstructionModels`` is one."""

    def writer(self, spec: ModelSpec) -> Writer:
        """A language model. Raises ``CarbError`` where it cannot be opened."""
        ...

    def embedder(self, spec: EmbedderSpec) -> Embedder:
        """What similarity is measured with. Raises ``CarbError`` where it cannot be opened."""
        ...


class NgramEmbedder:
    """Counts of hashed character n-grams: no model, no cost; sees wording, not meaning."""

    SIZE = 4096

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        from carb_data.ngrams import normalise

        vectors = []
        for text in texts:
            vector = [0.0] * self.SIZE
            folded = f" {normalise(text)} "
            for n in (2, 3):
                for start in range(len(folded) - n + 1):
                    vector[_hash(folded[start : start + n]) % self.SIZE] += 1.0
            vectors.append(vector)
        return vectors, 0

    async def aclose(self) -> None:
        """Nothing to give back."""


def _hash(text: str) -> int:
    """A hash that is the same in every process."""
    value = 0
    for character in text:
        value = (value * 1_000_003 + ord(character)) & 0xFFFFFFFF
    return value ^ (value >> 15)


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Cosine of the angle between two vectors; 0 where one of them is null."""
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0
