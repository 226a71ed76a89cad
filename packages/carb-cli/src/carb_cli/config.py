"""What ``carb run`` is to do: from a TOML file, from flags, or from both."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from carb_data import CarbError
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
    """Only these cultures; empty: all."""
    domains: Names = ()
    """Only these domains; empty: all."""
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
    values = {} if file is None else _read(file)
    values |= {name: value for name, value in flags.items() if value is not None and value != ()}
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        reasons = [_reason(detail) for detail in error.errors(include_url=False)]
        where = "" if file is None else f" (from {file} and the command line)"
        raise CarbError(f"These options of `carb run` are not right{where}: {'; '.join(reasons)}.") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CarbError(f"Cannot read the configuration {file}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CarbError(f"{file} is not TOML: {error}. `carb run --print-config` prints an example.") from None
    return {name.replace("-", "_"): value for name, value in content.items()}


def _reason(detail: Any) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else ""
    flag = "--" + name.replace("_", "-")
    if detail["type"] == "missing":
        return f"{flag} is missing"
    if detail["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, RunConfig.model_fields, n=1)
        return f"'{name}' is unknown" + (f", did you mean '{close[0]}'?" if close else "")
    if name == "limit" and detail["type"] == "greater_than_equal":
        return f"--limit must be at least 1, got {detail['input']}"
    return f"{flag}: {detail['msg']}, got {detail['input']!r}"


def to_toml(config: RunConfig) -> str:
    """The configuration as a TOML file with a comment for every key."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("carb run --config THIS-FILE; flags on the command line win over it."))
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
