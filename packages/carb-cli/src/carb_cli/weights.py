"""The size of a model's weights: on this disk, or on the model hub."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from carb_cli import display
from carb_data import HUB_ANSWERS_WITHIN, Frozen, home_path, require
from carb_scorers import ParsedSpec, known_model

FORMATS = (".safetensors", ".bin", ".gguf")
"""A model in several formats is loaded from the first."""
Model = tuple[str, str | None]
"""A folder, a file or a hub id, and its revision."""


class Weights(Frozen):
    """Bytes of the weights of a scorer's models; null where not known."""

    on_disk: int | None = None
    to_fetch: int | None = None
    in_bfloat16: int | None = None
    """By the registry's count of parameters, where the hub does not tell."""

    def __str__(self) -> str:
        if self.in_bfloat16 is not None:
            return f"{display.size(self.in_bfloat16)} if in bfloat16"
        if self.on_disk is None or self.to_fetch is None:
            return "not known"
        if self.to_fetch:
            return f"{display.size(self.to_fetch)} to fetch"
        if not self.on_disk:
            return "none"
        return f"{display.size(self.on_disk)} on disk"


def of_hub(models: Sequence[Model], **options: Any) -> Iterator[tuple[str, str | None, Any]]:
    """The hub's records of models, of those that it knows; none where it cannot be reached.

    Args:
        models: hub ids with their revisions.
        options: as ``huggingface_hub.model_info`` takes them.
    """
    # whatever a missing network, a proxy, the offline mode or a missing library raises
    with suppress(Exception):
        hub = require("huggingface_hub", "carb-scorers[hf]")
        options["timeout"] = HUB_ANSWERS_WITHIN
        for name, revision in models:
            with suppress(hub.errors.HfHubHTTPError):  # an answer about this model alone
                yield name, revision, hub.model_info(name, revision=revision, **options)


def weights(specs: Sequence[ParsedSpec]) -> list[Weights]:
    """The weights of each scorer, with its reference model; the hub is asked for those that are not
    here."""
    wanted = [_models(spec) for spec in specs]
    here = {model: _on_disk(*model) for models in wanted for model in models}
    asked = [model for model, size in here.items() if size is None and "/" in model[0]]
    there: dict[Model, int | None] = {}
    for name, revision, info in of_hub(asked, files_metadata=True):
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        there[name, revision] = _size(files)
    return [_sum(models, here, there) for models in wanted]


def _sum(
    models: Sequence[Model],
    here: Mapping[Model, int | None],
    there: Mapping[Model, int | None],
) -> Weights:
    """The weights of models by their bytes here and on the hub; unknown where those of one are."""
    on_disk = 0
    to_fetch = 0
    for model in models:
        size = here[model]
        if size is not None:
            on_disk += size
            continue
        size = there.get(model)
        if size is None:
            known = known_model(model[0])
            return Weights(in_bfloat16=known.memory if known and len(models) == 1 else None)
        to_fetch += size
    return Weights(on_disk=on_disk, to_fetch=to_fetch)


def _models(spec: ParsedSpec) -> list[Model]:
    """The models that this machine opens for a scorer, with their revisions."""
    options = spec.options
    if spec.kind == "baseline" or options.get("backend") == "openai":
        return []
    models = [(spec.target, options.get("revision"))]
    reference = options.get("ref", "none")
    if reference != "none":
        models.append((reference, options.get("ref_revision")))
    return models


def _on_disk(name: str, revision: str | None) -> int | None:
    """The bytes of a folder's or file's weights, or of a hub's model in the cache; null where they
    are not all here."""
    path = home_path(name)
    if not path.exists() and "/" in name:
        with suppress(Exception):  # as above; a name that is no hub id
            hub = require("huggingface_hub", "carb-scorers[hf]")
            cached = hub.try_to_load_from_cache(name, "config.json", revision=revision)
            if isinstance(cached, str):
                path = Path(cached).parent
    files = [path]
    if path.is_dir():
        files = [*path.iterdir()]
    sizes = {file.name: file.stat().st_size for file in files if file.is_file()}
    return _size(sizes)


def _size(files: Mapping[str, int]) -> int | None:
    """The bytes of the weights among files, by name; null where there are none or parts lack."""
    for ending in FORMATS:
        parts = [name for name in files if name.endswith(ending) and "/" not in name]
        if not parts:
            continue
        number = re.search(r"-of-0*(\d+)\.", parts[0])
        if number is None or int(number[1]) == len(parts):
            return sum(files[name] for name in parts)
    return None
