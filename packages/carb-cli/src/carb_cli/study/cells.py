"""Cells of a study on disk: each is computed once, and again only when what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from carb_cli.output import write
from carb_data import CarbError
from carb_data.models import Frozen
from carb_scorers.specs import parse_spec

M = TypeVar("M", bound=BaseModel)


class CachedCell(Frozen):
    """A file of the cache."""

    key: str
    """sha256 of what the content depends on."""
    content: dict[str, Any]


def key_of(**parts: Any) -> str:
    """The key of a cell that depends on the given values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def read_cell(path: Path, key: str, model: type[M]) -> M | None:
    """The content of a cell, or null where there is none for that key."""
    try:
        cell = CachedCell.model_validate_json(path.read_bytes())
        return model.model_validate(cell.content) if cell.key == key else None
    except (OSError, ValidationError):
        return None


def write_cell(path: Path, key: str, content: BaseModel) -> None:
    """Keep a cell; a reader sees the old one or the new one."""
    partial = path.with_name(f".partial-{path.name}")
    write(partial, CachedCell(key=key, content=content.model_dump(mode="json")).model_dump_json() + "\n")
    partial.replace(path)


def stamp(spec: str) -> dict[str, Any]:
    """What tells that the models behind a spec have changed: names, sizes and times of the files of local folders."""
    try:
        parsed = parse_spec(spec)
    except CarbError:
        return {"spec": spec}
    places = {parsed.target, *parsed.options.values()}
    return {"spec": str(parsed), "files": {place: _files(Path(place).expanduser()) for place in sorted(places)}}


def _files(path: Path) -> list[tuple[str, int, int]]:
    try:
        found = [path] if path.is_file() else sorted(p for p in path.glob("*") if p.is_file())
        return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in found]
    except OSError:  # a name that cannot be a path
        return []
