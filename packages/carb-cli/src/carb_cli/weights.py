"""The size of a model's weights: on this disk, or on the model hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from carb_cli import display
from carb_data import HUB_ANSWERS_WITHIN, Frozen, require
from carb_scorers import ParsedSpec

FORMATS = (".safetensors", ".bin", ".gguf")
"""A model in several formats is loaded from the first."""


class Weights(Frozen):
    """Bytes of the weights of a scorer's models; null where not known."""

    on_disk: int | None = None
    to_fetch: int | None = None

    def __str__(self) -> str:
        if self.on_disk is None or self.to_fetch is None:
            return "not known"
        if self.to_fetch:
            return f"{display.size(self.to_fetch)} to fetch"
        return f"{display.size(self.on_disk)} on disk" if self.on_disk else "none"


def of_hub(
    models: Sequence[tuple[str, str | None]], **options: Any
) -> Iterator[tuple[str, str | None, Any]]:
    """The hub's records of models, of those that it knows; none where it cannot be reached.

    Args:
        models: hub ids with their revisions.
        options: as ``huggingface_hub.model_info`` takes them.
    """
    # whatever a missing network, a proxy, the offline mode or a missing library raises
    with suppress(Exception):
        hub = require("huggingface_hub", package="carb-scorers", extra="hf")
        for name, revision in models:
            with suppress(hub.errors.HfHubHTTPError):  # an answer about this model alone
                asked = hub.model_info(
                    name, revision=revision, timeout=HUB_ANSWERS_WITHIN, **options
                )
                yield name, revision, asked


def weights(specs: Sequence[ParsedSpec]) -> list[Weights]:
    """The weights of each scorer, with its reference model; the hub is asked for those that are not
    here."""
    wanted = list(map(_models, specs))
    here = {model: _on_disk(*model) for models in wanted for model in models}
    asked = [model for model, size in here.items() if size is None and "/" in model[0]]
    there: dict[tuple[str, str | None], int | None] = {}
    for name, revision, info in of_hub(asked, files_metadata=True):
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        there[name, revision] = _size(files)
    sizes = [[(here[model], there.get(model)) for model in models] for models in wanted]
    return list(map(_sum, sizes))


def _sum(sizes: Sequence[tuple[int | None, int | None]]) -> Weights:
    """The weights of models by their bytes here and on the hub; unknown where those of one are."""
    on_disk = to_fetch = 0
    for here, there in sizes:
        if here is not None:
            on_disk += here
        elif there is not None:
            to_fetch += there
        else:
            return Weights()
    return Weights(on_disk=on_disk, to_fetch=to_fetch)


def _models(spec: ParsedSpec) -> list[tuple[str, str | None]]:
    """The models that this machine opens for a scorer, with their revisions."""
    if spec.kind == "baseline" or spec.options.get("backend") == "openai":
        return []
    reference = spec.options.get("ref", "none")
    others = [] if reference == "none" else [(reference, spec.options.get("ref_revision"))]
    return [(spec.target, spec.options.get("revision")), *others]


def _on_disk(name: str, revision: str | None) -> int | None:
    """The bytes of a folder's or file's weights, or of a hub's model in the cache; null where they
    are not all here."""
    path = Path(name).expanduser()
    if not path.exists() and "/" in name:
        with suppress(Exception):  # as above; a name that is no hub id
            hub = require("huggingface_hub", package="carb-scorers", extra="hf")
            cached = hub.try_to_load_from_cache(name, "config.json", revision=revision)
            path = Path(cached).parent if isinstance(cached, str) else path
    files = path.iterdir() if path.is_dir() else [path] if path.is_file() else []
    return _size({file.name: file.stat().st_size for file in files if file.is_file()})


def _size(files: Mapping[str, int]) -> int | None:
    """The bytes of the weights among files, by name; null where there are none or parts lack."""
    for ending in FORMATS:
        parts = [name for name in files if name.endswith(ending) and "/" not in name]
        number = re.search(r"-of-0*(\d+)\.", parts[0]) if parts else None
        if parts and (number is None or int(number[1]) == len(parts)):
            return sum(files[name] for name in parts)
    return None
