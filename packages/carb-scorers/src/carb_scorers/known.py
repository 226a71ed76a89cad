"""Published reward models: what each is, how it is asked, what it needs, and which figures were published about it.

All of it stands in ``resources/known_models.toml``; there is no code for any one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from carb_data import CarbError
from carb_data.models import Frozen
from carb_data.options import closest
from carb_data.validation import read_file

__all__ = ["Benchmark", "KnownModel", "KnownModels", "find", "known", "known_models", "parameters", "resolved"]

BYTES = 2
"""The size of a parameter in bfloat16, in bytes."""


class Benchmark(Frozen):
    """Where figures were published."""

    title: str
    source: str
    """URL of the publication."""
    table: str
    """Which table, and what its figures are."""


class Shape(Frozen):
    """The configuration that models of one base share."""

    source: str
    """Where its numbers were published."""
    config: Mapping[str, JsonValue]
    """Fields of ``config.json``."""


class KnownModel(Frozen):
    """A published reward model."""

    id: str
    """Hub id, or a server's name for the model."""
    ask: str
    """Scorer spec; ``{id}`` stands for the model."""
    architecture: str | None = None
    """The architecture as ``config.json`` names it; ``None`` where it is not known here."""
    shape: str | None = None
    """Base model whose configuration it has; ``None`` for models behind a provider's API."""
    config: Mapping[str, JsonValue] = Field(default={})
    """Fields of ``config.json`` that differ from the base's."""
    head: str | None = None
    """How a classifier's score is read."""
    remote_code: bool = False
    """Whether it needs Python code that comes with it (``trust_remote_code=true``)."""
    licence: str | None = None
    """The licence as its page says; ``None`` where it was not found."""
    licence_source: str | None = None
    """URL where the licence was read; ``None`` where nobody has confirmed it."""
    unconfirmed: tuple[str, ...] = ()
    """What was not found at a source: ``architecture``, or names of fields of its configuration."""
    note: str | None = None
    scores: Mapping[str, Mapping[str, Annotated[float, Field(ge=0, le=100)]]] = Field(default={})
    """Benchmark to figure, in percent: ``rewardbench2`` to ``average``, ``factuality`` and so on."""

    @property
    def name(self) -> str:
        """Short name: the last part of the id, in lower case."""
        return self.id.rpartition("/")[2].lower()

    @property
    def kind(self) -> str:
        """``classifier`` or ``judge``."""
        return self.ask.partition(":")[0]

    def spec(self, weights: str | None = None) -> str:
        """The scorer spec.

        Args:
            weights: folder of the model; by default its hub id.
        """
        return self.ask.replace("{id}", weights or self.id)


class KnownModels(Frozen):
    """The content of ``known_models.toml``."""

    benchmarks: Mapping[str, Benchmark]
    shapes: Mapping[str, Shape]
    models: tuple[KnownModel, ...]

    @model_validator(mode="after")
    def _names_are_declared(self) -> Self:
        names = [model.name for model in self.models]
        if len(set(names)) != len(names):
            raise ValueError("two models have the same name")
        for model in self.models:
            if model.shape is not None and model.shape not in self.shapes:
                raise ValueError(f"{model.id}: there is no shape '{model.shape}'")
            if unknown := sorted(set(model.unconfirmed) - {"architecture", *(self.config(model) or {})}):
                raise ValueError(f"{model.id}: its configuration has no '{unknown[0]}' that could be unconfirmed")
            if model.licence_source is not None and model.licence is None:
                raise ValueError(f"{model.id}: there is a source for a licence, but no licence")
            if unknown := sorted(model.scores.keys() - self.benchmarks.keys()):
                raise ValueError(f"{model.id}: there is no benchmark '{unknown[0]}'")
        return self

    def config(self, model: KnownModel) -> dict[str, JsonValue] | None:
        """The fields of a model's ``config.json`` that fix its computation; ``None`` where they are not known."""
        if model.shape is None:
            return None
        labels: dict[str, JsonValue] = {"num_labels": 1} if model.kind == "classifier" else {}
        named: dict[str, JsonValue] = {} if model.architecture is None else {"architectures": [model.architecture]}
        return {**self.shapes[model.shape].config, **labels, **named, **model.config}

    def parameters(self, model: KnownModel) -> int | None:
        """How many parameters a model has; see ``parameters``."""
        config = self.config(model)
        return None if config is None else parameters(config, lm_head=model.kind != "classifier")

    def memory(self, model: KnownModel) -> int | None:
        """Bytes of the weights in bfloat16: twice the parameters. A run needs some more for activations and cache."""
        count = self.parameters(model)
        return None if count is None else BYTES * count


@cache
def known_models() -> KnownModels:
    """The registry."""
    return read_file(
        KnownModels, resources.files("carb_scorers") / "resources" / "known_models.toml", "registry of models"
    )


def find(name: str) -> KnownModel | None:
    """The model with this hub id or short name, in any case; ``None`` where there is none."""
    wanted = name.lower()
    return next((model for model in known_models().models if wanted in (model.id.lower(), model.name)), None)


def known(name: str) -> KnownModel:
    """The model with this hub id or short name.

    Raises:
        CarbError: there is none; the message names the nearest.
    """
    model = find(name)
    if model is None:
        names = [model.name for model in known_models().models]
        raise CarbError(f"'{name}' is no known model.{closest(name.lower(), names)} `carb models` shows all.")
    return model


def resolved(target: str, kind: Literal["classifier", "judge"]) -> str:
    """A spec's target with a known model's short name replaced by its hub id; any other target as it is.

    A folder of that name comes first.

    Args:
        target: The target of a spec ``classifier:TARGET`` or ``judge:TARGET``.
        kind: The kind of the spec; names of the other kind stay as they are.
    """
    if "/" in target or Path(target).expanduser().exists():
        return target
    model = find(target)
    return target if model is None or model.kind != kind else model.id


def parameters(config: Mapping[str, JsonValue], *, lm_head: bool) -> int:
    """Parameters of a decoder (Llama, Mistral, Qwen 2 and 3, Gemma 2, InternLM 2) with a language model's or a linear
    head.

    V·H for the embeddings, and again for a language model's head that is not tied; a layer has 2·H·A + 2·H·K for
    attention (A and K: heads and key-value heads times their width), 3·H·I for the gated feed-forward part, its norms
    (4·H in Gemma 2, else 2·H), A + 2·K biases in Qwen 2, and 2 norms of a head's width in Qwen 3; H for the last norm;
    H for each output of a classifier. A head of several layers, or with a gate, counts as one layer, within 1%.

    Args:
        config: The fields of the model's ``config.json``.
        lm_head: whether the model has a language model's head, rather than a classifier's.
    """

    def number(name: str, default: int = 0) -> int:
        value = config.get(name, default)
        return int(value) if isinstance(value, (int, float)) else default

    hidden, vocabulary = number("hidden_size"), number("vocab_size")
    width = number("head_dim") or hidden // number("num_attention_heads", 1)
    attention, keys = number("num_attention_heads") * width, number("num_key_value_heads") * width
    family = config.get("model_type")
    layer = 2 * hidden * (attention + keys) + 3 * hidden * number("intermediate_size")
    layer += (4 if family == "gemma2" else 2) * hidden
    layer += attention + 2 * keys if family == "qwen2" else 2 * width if family == "qwen3" else 0
    if lm_head:
        head = 0 if config.get("tie_word_embeddings") else vocabulary * hidden
    else:
        head = number("num_labels", 1) * hidden
    return vocabulary * hidden + number("num_hidden_layers") * layer + hidden + head
