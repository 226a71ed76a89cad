"""Data files that people write (TOML or JSON), read into models: what is wrong with one is said by file and field."""

from __future__ import annotations

import json
import tomllib
from importlib.resources.abc import Traversable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from carb_data import CarbError
from carb_data.options import closest

_M = TypeVar("_M", bound=BaseModel)


def read_file(model: type[_M], file: Traversable) -> _M:
    """Read a file and validate it against a model.

    Args:
        model: the model, which forbids unknown fields.
        file: a ``.json`` file, or any other name for TOML.

    Raises:
        CarbError: the file cannot be read, is neither TOML nor JSON, or a field is unknown, missing or wrong. All
            fields at fault are named.
    """
    try:
        text = file.read_text(encoding="utf-8")
        return model.model_validate(json.loads(text) if file.name.endswith(".json") else tomllib.loads(text))
    except OSError as error:
        raise CarbError(f"Cannot read {file}: {error.strerror}.") from None
    except ValidationError as error:
        reasons = []
        for detail in error.errors(include_url=False):
            field = ".".join(map(str, detail["loc"])) or "the file"
            if detail["type"] == "extra_forbidden":
                known = model.model_fields if len(detail["loc"]) == 1 else ()
                reasons.append(f"{field}: unknown field.{closest(field, known)}")
            else:
                reasons.append(f"{field}: {detail['msg'].removeprefix('Value error, ')}")
        raise CarbError(f"{file} is not right. " + "; ".join(reasons)) from None
    except ValueError as error:  # a decoder's, which names line and column
        kind = "JSON" if file.name.endswith(".json") else "TOML"
        raise CarbError(f"{file} is not {kind}: {error}.") from None
