"""What a construction run needs: references, models, windows. Read from TOML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from carb_data.construct.prompts import Prompts
from carb_data.models import Frozen, LanguageTag
from carb_data.validation import JsonObject, read_file


class _Endpoint(Frozen):
    kind: Literal["openai", "transformers"] = "openai"
    """An OpenAI-compatible server, or a local model run by transformers."""
    model: Annotated[str, Field(min_length=1)]
    """The server's name for the model, or for ``transformers`` a folder or hub id."""
    url: str | None = None
    """Base URL of the server, for example ``http://localhost:8000/v1``."""
    key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; keys are never written anywhere. Unset means no key."""
    concurrency: Annotated[int, Field(ge=1)] = 4
    """Requests at a time; a local model answers one at a time."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds that one request may take."""
    retries: Annotated[int, Field(ge=0)] = 5
    """How often a request is sent again after a refusal for load, a server's error or a broken connection."""

    @model_validator(mode="after")
    def _server_has_a_url(self) -> Self:
        if self.kind == "openai" and self.url is None:
            raise ValueError("a model of kind 'openai' needs 'url', for example http://localhost:8000/v1")
        return self


class ModelSpec(_Endpoint):
    """A language model that writes."""

    chat: bool = True
    """Chat messages (``/chat/completions``, chat template) or plain text (``/completions``), as base models want."""
    temperature: Annotated[float, Field(ge=0)] = 0.7
    max_tokens: Annotated[int, Field(ge=1)] = 400
    body: JsonObject = "{}"
    """A JSON object put into every request to a server; a null takes a field out. Reasoning models, for example:
    ``{"max_tokens": null, "max_completion_tokens": 4096, "temperature": null}``."""
    stop: tuple[str, ...] = ()
    """Texts at which the answer ends."""
    price_in: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million prompt tokens, in any currency; the same for all models."""
    price_out: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million written tokens."""

    @property
    def identity(self) -> dict[str, Any]:
        """What an answer depends on, besides prompt and seed."""
        fields = {"kind", "model", "url", "chat", "temperature", "max_tokens", "stop"}
        return self.model_dump(include=fields if self.body == "{}" else {*fields, "body"}, mode="json")


class EmbedderSpec(Frozen):
    """What similarity is measured with."""

    kind: Literal["openai", "transformers", "ngrams"] = "ngrams"
    """``ngrams`` needs no model: cosine of character n-gram counts, which sees wording and not meaning."""
    model: str = "character n-grams"
    url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    concurrency: Annotated[int, Field(ge=1)] = 4
    timeout: Annotated[float, Field(gt=0)] = 120.0
    retries: Annotated[int, Field(ge=0)] = 5
    price_in: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _server_has_a_url(self) -> Self:
        if self.kind == "openai" and self.url is None:
            raise ValueError("an embedder of kind 'openai' needs 'url', for example http://localhost:8000/v1")
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """What a similarity depends on, besides the texts."""
        return self.model_dump(include={"kind", "model", "url"}, mode="json")


class Config(Frozen):
    """A construction run."""

    name: Annotated[str, Field(min_length=1)] = "constructed"
    """``provenance.source`` of the sets, and the beginning of their ids."""
    references: Path
    """A ``.jsonl`` file of ``Reference`` rows, as sources of references yield them; relative to the config file."""
    language: LanguageTag | Literal["own"] | None = None
    """Language of the sets: a BCP 47 tag, ``own`` for the main language of each culture, or by default the language of
    each reference. In a named language that is not the culture's own, a question must name the culture."""
    mismatch: Literal["topic", "similarity"] = "topic"
    """Which references of other cultures come first for wrong answers: those on the same topic in a seeded order, or
    those whose text is most similar to the right reference by ``embedder``. Cultures take turns in both."""
    question: ModelSpec
    """Writes the question from the reference, where the reference has none."""
    chosen: ModelSpec
    """Writes the right answer under the right culture's reference."""
    rejected: Annotated[tuple[ModelSpec, ...], Field(min_length=1)]
    """The pool that writes wrong answers under references of other cultures, taken in a seeded order."""
    embedder: EmbedderSpec = EmbedderSpec()
    window: tuple[float, float] = (0.05, 0.95)
    """Least and largest cosine of a wrong answer to the right one: below it is off topic, above not wrong. What is near
    depends on the embedder: make a few sets, and look at the similarities in their provenance."""
    near_duplicate: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of n-grams that one answer of a set may at most have in common with another."""
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
    accept_cut_off: bool = False
    """Keep answers that ``max_tokens`` cut off; they tell themselves apart by their looks."""
    check_language: bool = True
    """Refuse answers that are not in the prompt's language (needs the extra ``checks``)."""
    prompts: Prompts = Prompts()

    @model_validator(mode="after")
    def _window_is_one(self) -> Self:
        if not -1 <= self.window[0] < self.window[1] <= 1:
            raise ValueError("window must be two cosines, the smaller one first")
        return self


def load_config(path: str | Path) -> Config:
    """Read a ``.toml`` or ``.json`` config file.

    Raises:
        CarbError: the file is missing, is no TOML or JSON, or is not a valid config (every reason is given).
    """
    path = Path(path)
    config = read_file(Config, path, "construction config")
    return config.model_copy(update={"references": path.parent / config.references})
