"""What ``carb run`` is to do: from a TOML file, from flags, or from both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from carb_data.validation import parse_file, validate
from carb_scorers.evaluation import WINDOW


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]


class RunConfig(BaseModel):
    """The options of ``carb run``; a configuration file has these keys, with ``-`` or ``_``."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Annotated[Names, Field(min_length=1)]
    """carb-seed, paths, or hf://owner/name."""
    scorer: Annotated[Names, Field(min_length=1)]
    """Specs, KIND:TARGET?key=value&..."""
    out: Path
    """Folder of the run."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Score only this many sets, spread evenly over cultures and domains."""
    cultures: Names = ()
    """The cultures to score; empty for all."""
    domains: Names = ()
    """The domains to score; empty for all."""
    perturbed: bool = True
    """Score the perturbed texts too."""
    seed: int = 0
    """Seed of the order in which candidates are presented."""
    window: Annotated[int, Field(ge=1)] = WINDOW
    """Requests handed to a scorer at once."""
    engine: Literal["local", "ray"] = "local"
    """The engine on which the scorers run."""
    culture_file: Names = ()
    """Files that define further cultures."""


def read_config(file: Path | None, flags: Mapping[str, object]) -> RunConfig:
    """The options from a file and from flags; a flag wins over the file, empty flags count as not given.

    Raises:
        CarbError: the file cannot be read, or an option is unknown, missing or has a bad value.
    """
    read = {} if file is None else parse_file(file, "configuration")
    values = {name.replace("-", "_"): value for name, value in read.items()}
    values |= {name: value for name, value in flags.items() if value is not None and value != ()}
    where = "" if file is None else f" (from {file} and the command line)"
    return validate(RunConfig, values, f"These options of `carb run` are not right{where}", prefix="--")


def to_toml(config: RunConfig) -> str:
    """The configuration as a TOML file with a comment for every key."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("carb run --config THIS-FILE; options on the command line take precedence."))
    for name, field in RunConfig.model_fields.items():
        value = getattr(config, name)
        text = (field.description or "").strip()
        if text:
            document.add(tomlkit.nl())
            document.add(tomlkit.comment(text))
        if value is None:
            document.add(tomlkit.comment(f"{name} ="))
        else:
            document.add(
                name, list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            )
    return tomlkit.dumps(document)
