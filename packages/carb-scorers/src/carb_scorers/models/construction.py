"""Models for ``carb_data.construct``, which declares what it needs and opens none itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio.to_thread

from carb_data import CarbError
from carb_data.construct import Completion, Embedder, EmbedderSpec, GenerationError, ModelSpec, NgramEmbedder, Writer
from carb_data.extras import require
from carb_scorers.models.openai import OpenAIModel, OpenAIOptions, open_openai
from carb_scorers.models.protocol import Failure, LanguageModel, Prompt, Turn, Writing
from carb_scorers.models.transformers.loading import HFOptions, Loaded, load

__all__ = ["ConstructionModels"]


class ConstructionModels:
    """Opens the models that a construction's configuration names: ``construct(config, out, models=...)``."""

    def writer(self, spec: ModelSpec) -> Writer:
        """A language model on a server or of transformers.

        Raises:
            CarbError: it cannot be opened, or has no chat template where ``chat`` asks for one.
        """
        if spec.kind == "openai":
            return _LanguageWriter(spec, _server(spec, "chat" if spec.chat else "completions"))
        from carb_scorers.models.transformers.language import open_language_model

        model = open_language_model(spec.model, HFOptions(chat_template=None if spec.chat else "none"))
        if spec.chat and not model.is_chat:
            raise CarbError(f"'{spec.model}' has no chat template; set chat = false for a base model.")
        return _LanguageWriter(spec, model)

    def embedder(self, spec: EmbedderSpec) -> Embedder:
        """What similarity is measured with; character n-grams need no model.

        Raises:
            CarbError: it cannot be opened.
        """
        if spec.kind == "openai":
            return _ServerEmbedder(_server(spec, "chat"))
        return NgramEmbedder() if spec.kind == "ngrams" else _MeanEmbedder(load(spec.model, HFOptions(), "AutoModel"))


def _server(spec: ModelSpec | EmbedderSpec, api: str) -> OpenAIModel:
    given: dict[str, Any] = {"url": spec.url, "api": api, "patience": 0.0}
    given |= {name: getattr(spec, name) for name in ("concurrency", "timeout", "retries")}
    if isinstance(spec, ModelSpec):
        given["body"] = spec.body
    if spec.key_env != type(spec).model_fields["key_env"].default:
        given["key_env"] = spec.key_env
    return open_openai(spec.model, OpenAIOptions.model_validate(given))


class _LanguageWriter:
    """See ``Writer``."""

    def __init__(self, spec: ModelSpec, model: LanguageModel) -> None:
        self._spec = spec
        self._model = model

    async def complete(self, prompt: str, seed: int) -> Completion:
        spec = self._spec
        asked = Prompt((Turn(role="user", content=prompt),), bare=True)
        writing = Writing(spec.max_tokens, spec.temperature, seed, tuple(spec.stop))
        (found,) = await self._model.generate([asked], writing)
        if isinstance(found, Failure):
            raise GenerationError(found.error.message)
        usage = found.usage
        finish = "stop" if found.finished else "length"
        return Completion(found.text, usage.input_tokens, usage.output_tokens, finish)

    async def aclose(self) -> None:
        await self._model.aclose()


class _ServerEmbedder:
    """``/embeddings`` of a server."""

    def __init__(self, model: OpenAIModel) -> None:
        self._model = model

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        found = await self._model.embeddings(texts)
        if isinstance(found, Failure):
            raise GenerationError(found.error.message)
        return found

    async def aclose(self) -> None:
        await self._model.aclose()


class _MeanEmbedder:
    """The mean of a model's last hidden states over the tokens of a text."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded: Loaded | None = loaded
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        return await anyio.to_thread.run_sync(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        torch = require("torch", package="carb-scorers", extra="hf")
        vectors: list[list[float]] = []
        tokens = 0
        with self._lock, torch.inference_mode():
            if self._loaded is None:
                raise CarbError("This embedder was closed.")
            for text in texts:  # one by one: a vector must not depend on its neighbours' padding
                limit = {"truncation": True, "max_length": self._loaded.max_length}
                inputs = self._loaded.tokenizer(text, return_tensors="pt", **limit).to(self._loaded.model.device)
                tokens += inputs["input_ids"].shape[1]
                hidden = self._loaded.model(**inputs).last_hidden_state[0]
                vectors.append(hidden.float().mean(dim=0).tolist())
        return vectors, tokens

    async def aclose(self) -> None:
        self._loaded = None
