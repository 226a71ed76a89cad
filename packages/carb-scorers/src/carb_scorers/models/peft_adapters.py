"""Adapters that peft saved: a base, small weights on top of it, and perhaps a head.

Everything that decides a score must be in one of the two: a head that is in neither would be made
of random numbers.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from carb_data import CarbError, require
from carb_scorers.models.source import first_line, hf_library, model_source

__all__ = ["adapter_config", "base_of"]

Config = Mapping[str, Any]
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
CLASSIFIER = "AutoModelForSequenceClassification"


def adapter_config(name: str, revision: str | None) -> dict[str, Any] | None:
    """The content of an adapter's ``adapter_config.json``; ``None`` for a model that is none.

    Raises:
        CarbError: it is not JSON, or names no base.
    """
    path = adapter_file(name, CONFIG, revision)
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        base = content["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError):
        base = None
    if any(Path(name).glob("model*.safetensors")):
        raise CarbError(
            f"'{name}' holds an adapter beside the weights of a whole model, which have other "
            "scores. Move one of the two to a folder of its own."
        )
    if not isinstance(base, str) or not base:
        raise CarbError(
            f"The adapter '{name}' names no base model in {CONFIG} (base_model_name_or_path); "
            "merge it into its base with peft's merge_and_unload, and give the merged folder."
        )
    return dict(content)


def adapter_file(name: str, file: str, revision: str | None) -> Path | None:
    """A file of an adapter, in its folder or on the hub; ``None`` where there is none."""
    if Path(name).is_dir():
        path = Path(name) / file
        if not path.is_file():
            return None
        return path
    hub = hf_library("transformers").utils
    try:
        cached = hub.cached_file(
            name, file, revision=revision, _raise_exceptions_for_missing_entries=False
        )
    except OSError:  # no such model, or no network: loading it says which
        return None
    if cached is None:
        return None
    return Path(cached)


def base_of(name: str, config: Config) -> str:
    """The folder or id of an adapter's base.

    Raises:
        CarbError: it is not there, or is an adapter.
    """
    base = str(config["base_model_name_or_path"])
    if (Path(base) / CONFIG).is_file():
        raise CarbError(
            f"'{name}' is an adapter of '{base}', which is an adapter, too. Merge that one into "
            "its base with peft's merge_and_unload, and name the merged folder as the base."
        )
    try:
        return model_source(base)
    except CarbError as error:
        raise CarbError(
            f"'{name}' is an adapter of '{base}' ({CONFIG}), which is not there. {error}"
        ) from None


def load_adapted(
    name: str,
    config: Config,
    loader: Any,
    load_base: Callable[..., tuple[Any, set[str]]],
    revision: str | None,
) -> tuple[Any, list[str]]:
    """The base with the adapter in it, and those weights that neither of them has.

    Args:
        name: the adapter's folder or hub id.
        config: the content of its ``adapter_config.json``.
        loader: a class with ``from_pretrained``, or the name of one of transformers.
        load_base: loads the base with further arguments of ``from_pretrained``; gives the model and
            the names of the weights that it lacks.
        revision: the adapter's on the hub.

    Raises:
        CarbError: it cannot be put into its base.
        MissingExtraError: peft is not installed.
    """
    peft = require("peft", "carb-scorers[peft]")
    weights = adapter_file(name, WEIGHTS, revision)
    if weights is None:
        raise CarbError(f"The adapter '{name}' has no {WEIGHTS}; save it in safetensors format.")
    shapes = _shapes(weights)
    head = _head(config, loader, shapes)
    labels = {"num_labels": shapes[head][0]} if head else {}
    model, missing = load_base(**labels)
    if gone := missing - set(shapes):
        return model, sorted(gone)
    table = _embeddings(model)
    for key, shape in shapes.items():
        if key.endswith(table):
            model.resize_token_embeddings(shape[0])
            break
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is missing, which is looked at below
            adapted = peft.PeftModel.from_pretrained(model, name, revision=revision)
    except (ValueError, RuntimeError, TypeError, KeyError) as error:
        raise CarbError(
            f"peft cannot put the adapter '{name}' into its base: {first_line(error)}"
        ) from None
    if adapted.active_peft_config.is_prompt_learning:
        raise CarbError(
            f"The adapter '{name}' is a learned prompt ({config.get('peft_type')}). Here only "
            "adapters that change weights (LoRA) are read."
        )
    expected = {_plain(key) for key in peft.get_peft_model_state_dict(adapted)}
    lacking = sorted(expected - set(shapes))
    if not lacking:
        _check_read(name, adapted, config, set(shapes) - expected)
    return adapted.get_base_model(), lacking


def _check_read(name: str, adapted: Any, config: Mapping[str, Any], beside: set[str]) -> None:
    """Refuse an adapter that holds weights for which there is no place, or an option that is on and
    that this peft does not know."""
    known = adapted.active_peft_config
    options = [key for key, value in config.items() if value is True and not hasattr(known, key)]
    unread = sorted(beside - {*adapted.get_base_model().state_dict()}) + options
    if unread:
        raise CarbError(
            f"In the adapter '{name}' peft does not read: {', '.join(unread[:3])}. Its "
            f"{CONFIG} is of other weights, or of a newer peft (pip install -U peft)."
        )


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each of an adapter's weights, by the name that it has in the base."""
    safetensors = hf_library("safetensors")
    with safetensors.safe_open(path, "pt") as file:
        keys = list(file.keys())
        return {_plain(key): tuple(file.get_slice(key).get_shape()) for key in keys}


def _plain(key: str) -> str:
    return key.removeprefix("base_model.model.").replace(".modules_to_save.", ".")


def _head(config: Config, loader: Any, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    """The last weight of a classifier's head, if the adapter holds it: its rows are the labels."""
    if loader != CLASSIFIER:
        return None
    transformers = hf_library("transformers")
    torch = hf_library("torch")
    base = transformers.AutoConfig.from_pretrained(
        base_of("", config), revision=config.get("revision")
    )
    with torch.device("meta"):
        empty = transformers.AutoModelForSequenceClassification.from_config(base)
    inside = f"{empty.base_model_prefix}."
    last = None
    for name, _ in empty.named_parameters():
        if len(shapes.get(name, ())) == 2 and not name.startswith(inside):
            last = str(name)
    return last


def _embeddings(model: Any) -> str:
    """The name of the model's table of tokens, as weights call it."""
    table = model.get_input_embeddings().weight
    return str(next(name for name, weights in model.named_parameters() if weights is table))
