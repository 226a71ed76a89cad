"""OpenAI-compatible servers over HTTP."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import anyio

from carb_data.construct.clients import Completion, FatalError, GenerationError, as_count
from carb_data.construct.config import EmbedderSpec, ModelSpec
from carb_data.extras import require

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}
HOPELESS = {401, 403, 404, 405}
LONGEST_PAUSE = 60.0
"""Seconds; a server that asks for more is asked again after this."""


@cache
def _certificates() -> Any:
    """Reading them takes a quarter of a second: once for all clients."""
    return require("httpx", package="carb-data", extra="construct").create_ssl_context()


class _Server:
    """Sends requests to one server: bounded in number, with pauses and repetitions."""

    FIRST_PAUSE = 0.5

    def __init__(self, spec: ModelSpec | EmbedderSpec) -> None:
        httpx = require("httpx", package="carb-data", extra="construct")
        assert spec.url is not None
        key = os.environ.get(spec.key_env)
        self._httpx = httpx
        self._spec = spec
        self._limit = anyio.CapacityLimiter(spec.concurrency)
        self._http = httpx.AsyncClient(
            base_url=spec.url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=spec.timeout,
            verify=_certificates(),
        )

    async def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """The JSON answer to a request.

        Raises:
            GenerationError: refused, or still failing after all retries.
            FatalError: the server refuses all requests of this kind.
        """
        reason = "no attempt"
        for attempt in range(self._spec.retries + 1):
            pause = min(self.FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            async with self._limit:
                try:
                    response = await self._http.post(path, json=content)
                except self._httpx.HTTPError as error:
                    reason = f"{type(error).__name__}: {error}".rstrip(": ")
                    response = None
            if response is not None:
                if response.status_code in HOPELESS:
                    raise FatalError(
                        f"{self._spec.url} answers {response.status_code} for the model '{self._spec.model}': "
                        f"{_excerpt(response.text)}. Check url, model, and the key in {self._spec.key_env}."
                    )
                if response.is_success:
                    try:
                        return response.json()
                    except ValueError:
                        reason = f"not JSON: {_excerpt(response.text)}"
                else:
                    reason = f"status {response.status_code}: {_excerpt(response.text)}"
                    if response.status_code not in RETRIED:
                        raise GenerationError(reason)
                    pause = min(_asked_pause(response.headers.get("retry-after")) or pause, LONGEST_PAUSE)
            if attempt < self._spec.retries:
                await anyio.sleep(pause)
        raise GenerationError(f"{reason} (after {self._spec.retries + 1} requests)")

    async def aclose(self) -> None:
        await self._http.aclose()


class OpenAIClient(_Server):
    """``/chat/completions`` or ``/completions``."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._model = spec

    async def complete(self, prompt: str, seed: int) -> Completion:
        spec = self._model
        content: dict[str, Any] = {
            "model": spec.model,
            "temperature": spec.temperature,
            "max_tokens": spec.max_tokens,
            "seed": seed,
        }
        if spec.stop:
            content["stop"] = list(spec.stop)
        if spec.chat:
            content["messages"] = [{"role": "user", "content": prompt}]
        else:
            content["prompt"] = prompt
        answer = await self.post("chat/completions" if spec.chat else "completions", content)
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"] if spec.chat else choice["text"]
            if not isinstance(text, str):
                raise TypeError("no text")
            usage = answer.get("usage") or {}
            return Completion(
                text=text,
                prompt_tokens=as_count(usage.get("prompt_tokens")),
                completion_tokens=as_count(usage.get("completion_tokens")),
                finish=str(choice.get("finish_reason") or "stop"),
            )
        except (KeyError, IndexError, TypeError, AttributeError):
            raise GenerationError(f"an answer without a text: {_excerpt(str(answer))}") from None


class OpenAIEmbedder(_Server):
    """``/embeddings``."""

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        answer = await self.post("embeddings", {"model": self._spec.model, "input": list(texts)})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = [[float(x) for x in row["embedding"]] for row in rows]
            tokens = as_count((answer.get("usage") or {}).get("prompt_tokens"))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise GenerationError(f"an answer without embeddings: {_excerpt(str(answer))}") from None
        if len(vectors) != len(texts):
            raise GenerationError(f"{len(vectors)} embeddings for {len(texts)} texts")
        return vectors, tokens


def _asked_pause(header: str | None) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:200]
