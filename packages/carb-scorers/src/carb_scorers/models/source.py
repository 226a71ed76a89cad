"""The source of a model: a folder, a hub id or a GGUF file; an ambiguous name is refused.

Weights of a GGUF file are unpacked while it is loaded. A llama.cpp server computes on packed ones,
and ``backend=openai`` asks it.
"""

import hashlib
import re
import struct
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from carb_data import HUB_ANSWERS_WITHIN, CarbError, closest, home_path, require
from carb_scorers.known import known_models

__all__ = ["has_chat_template", "model_source", "reachable"]

BESIDE = (
    "chat_template.jinja",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""Files that transformers reads beside a GGUF file, where they are there."""

CONFIGURATIONS = ("config.json", "adapter_config.json")

_HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+")


def hf_library(name: str) -> Any:
    """A library of the extra ``hf``.

    Raises:
        MissingExtraError: it is not installed.
    """
    return require(name, "carb-scorers[hf]")


def first_line(error: Exception) -> str:
    """The first line of an error's message; its type where it has none."""
    lines = str(error).strip().splitlines()
    return next(iter(lines), type(error).__name__)


def model_source(target: str, *, gguf: bool = False, revision: str | None = None) -> str:
    """The name to load a model by: its folder or file where there is one, else its hub id.

    A name that can be neither is refused before anything asks the network for it.

    Args:
        target: a folder or a ``.gguf`` file, ``~`` allowed, or a hub id ``owner/name``.
        gguf: whether the caller reads GGUF files.
        revision: the wanted one of a hub id.

    Raises:
        CarbError: it is neither of these, or a GGUF file that the caller does not read. Or it is
            here, where there are no revisions.
    """
    folder = home_path(target)
    if revision is not None and folder.exists():
        raise CarbError(
            f"'{target}' is a folder or a file, which has no revision '{revision}'. Leave the "
            "revision out."
        )
    if folder.is_dir():
        return str(folder)
    if folder.suffix == ".gguf":
        if not gguf:
            raise CarbError(
                f"'{target}' is a GGUF file. Only judge:, implicit: and think: read it, with "
                "backend=hf. Give a folder with config.json and safetensors weights, or a hub id "
                "owner/name."
            )
        if folder.is_file():
            return str(folder)
        raise CarbError(f"There is no file '{target}'.")
    if (
        target.count("/") == 1 and folder.parent.is_dir()
    ):  # of a local folder: no hub is asked for a typing error
        models = folder.parent.glob("*/config.json")
        names = sorted(config.parent.name for config in models)
        held = ""
        if names:
            held = f" It holds {', '.join(names[:8])}."
        raise CarbError(
            f"There is no model folder '{target}': the folder '{folder.parent}' has no "
            f"'{folder.name}'.{held}"
        )
    if _HUB_ID.fullmatch(target):
        return target
    published = [model.name for model in known_models().models]
    near = closest(target.lower(), published)
    raise CarbError(
        f"There is no model folder '{target}'.{near} Give a folder with config.json, or a hub id "
        "owner/name."
    )


def reachable(name: str) -> str:
    """The name, unless it is a hub id outside the cache and the hub does not answer. The hub's own
    client would try again for half a minute, file by file.

    Raises:
        CarbError: it names the nearest folder that holds a model.
    """
    if Path(name).exists():
        return name
    hub = hf_library("huggingface_hub")
    cached = (hub.try_to_load_from_cache(name, file) for file in CONFIGURATIONS)
    if any(isinstance(path, str) for path in cached):
        return name
    utils, constants = (import_module(f"huggingface_hub.{part}") for part in ("utils", "constants"))
    try:
        utils.get_session().head(constants.ENDPOINT, timeout=HUB_ANSWERS_WITHIN)
    except Exception:  # each version of the hub's client has its own errors of connection
        configs = chain(Path().glob("*/config.json"), Path().glob("*/*/config.json"))
        folders = (path.parent.as_posix() for path in islice(configs, 1000))
        near = closest(name, folders)
        raise CarbError(
            f"There is no model folder '{name}', and the model hub cannot be reached to look for "
            f"a model of this id.{near}"
        ) from None
    return name


def gguf_arguments(path: Path) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` besides the file's folder.

    Raises:
        CarbError: it is no GGUF file, or transformers would derive a wrong tokenizer from it.
        MissingExtraError: ``carb-scorers[gguf]`` is not installed, or is too old.
    """
    metadata = _metadata(path)
    known = require("transformers.integrations.gguf.gguf_tokenizer_mapping", "carb-scorers[gguf]")
    rule = metadata.get("tokenizer.ggml.pre", "default")
    named = (
        metadata.get("tokenizer.ggml.model") == "gpt2"
        and not (path.parent / "tokenizer.json").is_file()
    )
    if named and rule not in {"gpt-2", *known.GGUF_PRE_TOKENIZER_SPLITS}:
        raise CarbError(
            f"The tokenizer of '{path}' splits texts by the rule '{rule}', which transformers does "
            "not know, and it would split them by another one. Put the model's tokenizer.json and "
            "tokenizer_config.json beside the file."
        )
    return {
        "gguf_file": str(path.absolute())
    }  # a bare name would be looked for in the working folder first


def has_chat_template(path: Path) -> bool:
    """Whether a GGUF file holds a chat template.

    Raises:
        CarbError: it is no GGUF file.
        MissingExtraError: ``carb-scorers[gguf]`` is not installed, or is too old.
    """
    return "tokenizer.chat_template" in _metadata(path)


def _metadata(path: Path) -> dict[str, Any]:
    for module in ("gguf", "accelerate"):
        require(module, "carb-scorers[gguf]")
    reader = require("transformers.integrations.gguf", "carb-scorers[gguf]")
    try:
        metadata: dict[str, Any] = reader.read_gguf_metadata(str(path))[0]
    except (ValueError, OSError, struct.error) as error:
        raise CarbError(f"Cannot read '{path}' as a GGUF file: {error}.") from None
    return metadata


def gguf_revision(path: Path) -> str:
    """The hash of a GGUF file and of the files that are read with it."""
    with path.open("rb") as file:
        revision = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    named = b""
    for name in BESIDE:
        other = path.parent / name
        if other.is_file():
            named += name.encode() + hashlib.sha256(other.read_bytes()).digest()
    if not named:
        return revision
    return f"{revision}+tokenizer:{hashlib.sha256(named).hexdigest()[:16]}"
