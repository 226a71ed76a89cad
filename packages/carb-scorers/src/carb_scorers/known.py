"""Published reward models: kind, spec, needs, and published figures of each.

All of it stands in ``resources/known_models.toml``; there is no code for any one model.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from carb_data import Frozen, home_path, read_file

BYTES = 2
"""The size of a parameter in bfloat16, in bytes."""


class Benchmark(Frozen):
    """The pages of published figures."""

    title: str
    source: str
    """URL of the publication."""
    table: str
    """The table and the unit of its figures."""


class KnownModel(Frozen):
    """A published reward model."""

    id: str
    """Hub id, or a server's name for the model."""
    ask: str
    """Scorer spec; ``{id}`` stands for the model."""
    architecture: str | None = None
    """The architecture as ``config.json`` names it; ``None`` where it is not known here."""
    parameters: PositiveInt | None = None
    """How many parameters it has; ``None`` for models behind a provider's API."""
    remote_code: bool = False
    """Whether it needs Python code that comes with it (``trust_remote_code=true``)."""
    licence: str | None = None
    """The licence as its page says; ``None`` where it was not found."""
    licence_source: str | None = None
    """URL where the licence was read; ``None`` where it is not confirmed."""
    revision: Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")] | None = None
    """A commit on the hub with its weights; ``None`` where none was found."""
    tried: bool = False
    """Whether its published weights were run with this project."""
    note: str | None = None
    scores: Mapping[str, Mapping[str, Annotated[float, Field(ge=0, le=100)]]] = Field(default={})
    """Benchmark to figure, in percent: ``rewardbench2`` to ``average``, ``factuality`` and so
    on."""

    @property
    def name(self) -> str:
        """Short name: the last part of the id, in lower case."""
        return self.id.rpartition("/")[2].lower()

    @property
    def kind(self) -> str:
        """``classifier`` or ``judge``."""
        return self.ask.partition(":")[0]

    @property
    def memory(self) -> int | None:
        """Bytes of the weights in bfloat16: twice the parameters. A run needs some more for
        activations and cache."""
        if self.parameters is None:
            return None
        return BYTES * self.parameters

    def spec(self) -> str:
        """The scorer spec."""
        return self.ask.replace("{id}", self.id)


class KnownModels(Frozen):
    """The content of ``known_models.toml``."""

    benchmarks: Mapping[str, Benchmark]
    models: tuple[KnownModel, ...]


@cache
def known_models() -> KnownModels:
    """The registry of published reward models, read from the package's own file once."""
    return read_file(
        KnownModels,
        resources.files("carb_scorers") / "resources" / "known_models.toml",
        "registry of models",
    )


def known_model(name: str) -> KnownModel | None:
    """The model with this hub id or short name, in any case; ``None`` where there is none."""
    wanted = name.lower()
    for model in known_models().models:
        if wanted in (model.id.lower(), model.name):
            return model
    return None


def resolved(target: str, kind: Literal["classifier", "judge"]) -> str:
    """A spec's target with a known model's short name replaced by its hub id; any other target as
    it is.

    A folder of that name comes first, and names of models of the other kind stay as they are.
    """
    if "/" in target or home_path(target).exists():
        return target
    model = known_model(target)
    if model is None or model.kind != kind:
        return target
    return model.id
