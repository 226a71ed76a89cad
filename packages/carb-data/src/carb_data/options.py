"""Options written after a question mark, ``key=value&...``: what is wrong with them is said in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from carb_data.errors import CarbError

__all__ = ["closest", "read_options", "read_query"]

_M = TypeVar("_M", bound=BaseModel)


def closest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'X'?`` for the known name nearest to ``name``, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


def read_query(query: str | None, owner: str) -> dict[str, str]:
    """The names and values of ``key=value&...``; ``owner`` says in an error whose they are: ``Scorer 'judge:x'``.

    Raises:
        CarbError: it does not have that form, or gives an option twice.
    """
    try:
        pairs = parse_qsl(query or "", keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise CarbError(f"{owner}: the part after '?' must be key=value pairs joined by '&'.") from None
    if len(dict(pairs)) != len(pairs):
        raise CarbError(f"{owner} gives an option twice.")
    return dict(pairs)


def read_options(model: type[_M], owner: str, options: Mapping[str, Any]) -> _M:
    """Validate options against a model that forbids unknown ones.

    Raises:
        CarbError: names every option that is unknown or has a bad value.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        reasons = []
        for detail in error.errors(include_url=False):
            option = ".".join(map(str, detail["loc"]))
            if detail["type"] == "extra_forbidden":
                close = difflib.get_close_matches(option, model.model_fields, n=1)
                reasons.append(f"unknown option '{option}'" + (f", did you mean '{close[0]}'?" if close else ""))
            else:
                reasons.append(f"{option}={detail['input']!r}: {detail['msg'].removeprefix('Value error, ')}")
        known = ", ".join(model.model_fields) or "no options"
        raise CarbError(f"{owner}: {'; '.join(reasons)}. It takes {known}.") from None
