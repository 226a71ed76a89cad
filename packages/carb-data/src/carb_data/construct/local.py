"""Local models run by transformers (extra ``local``), one request at a time in a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio.to_thread

from carb_data.construct.clients import Completion, FatalError, GenerationError
from carb_data.construct.config import EmbedderSpec, ModelSpec
from carb_data.extras import require


class _Loaded:
    """A tokenizer and a model, loaded when first used."""

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind
        self._lock = threading.Lock()
        self._parts: tuple[Any, Any, Any] | None = None

    def __enter__(self) -> tuple[Any, Any, Any]:
        self._lock.acquire()
        try:
            if self._parts is None:
                torch = require("torch", package="carb-data", extra="local")
                transformers = require("transformers", package="carb-data", extra="local")
                try:
                    tokenizer = transformers.AutoTokenizer.from_pretrained(self._name)
                    model = getattr(transformers, self._kind).from_pretrained(self._name).eval()
                except (OSError, ValueError) as error:
                    raise FatalError(f"Cannot load the model '{self._name}': {error}") from None
                self._parts = (torch, tokenizer, model)
        except BaseException:
            self._lock.release()
            raise
        return self._parts

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class LocalClient:
    """A causal language model; with ``chat``, prompts go through its chat template."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._loaded = _Loaded(spec.model, "AutoModelForCausalLM")

    async def complete(self, prompt: str, seed: int) -> Completion:
        return await anyio.to_thread.run_sync(self._complete, prompt, seed)

    def _complete(self, prompt: str, seed: int) -> Completion:
        spec = self._spec
        with self._loaded as (torch, tokenizer, model):
            if spec.chat:
                if tokenizer.chat_template is None:
                    raise FatalError(f"'{spec.model}' has no chat template; set chat = false for a base model.")
                messages = [{"role": "user", "content": prompt}]
                prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=not spec.chat)
            length = inputs["input_ids"].shape[1]
            sampling: dict[str, Any] = (
                {"do_sample": True, "temperature": spec.temperature} if spec.temperature > 0 else {}
            )
            if spec.stop:
                sampling |= {"stop_strings": list(spec.stop), "tokenizer": tokenizer}
            with torch.random.fork_rng(), torch.inference_mode():
                torch.manual_seed(seed)
                try:
                    output = model.generate(**inputs, max_new_tokens=spec.max_tokens, **sampling)
                except RuntimeError as error:  # out of memory, or longer than the model reads
                    raise GenerationError(f"{type(error).__name__}: {error}") from None
            written = output[0, length:]
            text = tokenizer.decode(written, skip_special_tokens=True)
        for stop in spec.stop:
            text = text.partition(stop)[0]
        finish = "length" if len(written) >= spec.max_tokens else "stop"
        return Completion(text, prompt_tokens=length, completion_tokens=len(written), finish=finish)

    async def aclose(self) -> None:
        """Nothing to give back."""


class LocalEmbedder:
    """The mean of a model's last hidden states over the tokens of a text."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self._loaded = _Loaded(spec.model, "AutoModel")

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        return await anyio.to_thread.run_sync(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> tuple[list[list[float]], int]:
        vectors: list[list[float]] = []
        tokens = 0
        with self._loaded as (torch, tokenizer, model), torch.inference_mode():
            for text in texts:  # one by one: a vector must not depend on its neighbours' padding
                inputs = tokenizer(text, return_tensors="pt", truncation=True)
                tokens += inputs["input_ids"].shape[1]
                vectors.append(model(**inputs).last_hidden_state[0].float().mean(dim=0).tolist())
        return vectors, tokens

    async def aclose(self) -> None:
        """Nothing to give back."""
