"""Models in one GGUF file, which transformers unpacks while it loads them.

Weights do not stay packed: transformers computes on packed ones for three architectures alone, with kernels from the
hub for a GPU, whose rounding depends on how many rows are computed together. A llama.cpp server computes on them, and
``backend=openai`` asks it.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

from carb_data import CarbError
from carb_data.extras import require

__all__ = ["has_chat_template"]

BESIDE = ("chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
"""Files that transformers reads beside a GGUF file, where they are there."""


def gguf_arguments(path: Path) -> dict[str, Any]:
    """What ``from_pretrained`` needs besides the file's folder.

    Raises:
        CarbError: it is no GGUF file, or transformers would derive a wrong tokenizer from it.
        MissingExtraError: ``carb-scorers[gguf]`` is not installed, or is too old.
    """
    metadata = _metadata(path)
    known = require("transformers.integrations.gguf.gguf_tokenizer_mapping", package="carb-scorers", extra="gguf")
    rule = metadata.get("tokenizer.ggml.pre", "default")
    named = metadata.get("tokenizer.ggml.model") == "gpt2" and not (path.parent / "tokenizer.json").is_file()
    if named and rule not in {"gpt-2", *known.GGUF_PRE_TOKENIZER_SPLITS}:
        raise CarbError(
            f"The tokenizer of '{path}' splits texts by the rule '{rule}', which transformers does not know, "
            f"and it would split them by another one. Put the model's tokenizer.json and tokenizer_config.json beside "
            f"the file."
        )
    return {"gguf_file": str(path.absolute())}  # a bare name would be looked for in the working folder first


def has_chat_template(path: Path) -> bool:
    """Whether a GGUF file holds a chat template.

    Raises:
        CarbError: it is no GGUF file.
        MissingExtraError: ``carb-scorers[gguf]`` is not installed, or is too old.
    """
    return "tokenizer.chat_template" in _metadata(path)


def _metadata(path: Path) -> dict[str, Any]:
    for module in ("gguf", "accelerate"):
        require(module, package="carb-scorers", extra="gguf")
    reader = require("transformers.integrations.gguf", package="carb-scorers", extra="gguf")
    try:
        metadata: dict[str, Any] = reader.read_gguf_metadata(str(path))[0]
    except (ValueError, OSError, struct.error) as error:
        raise CarbError(f"Cannot read '{path}' as a GGUF file: {error}.") from None
    return metadata


def gguf_revision(path: Path) -> str:
    """The hash of a GGUF file, and of what stands beside it and is read with it."""
    with path.open("rb") as file:
        revision = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    beside = [path.parent / name for name in BESIDE if (path.parent / name).is_file()]
    if not beside:
        return revision
    named = b"".join(other.name.encode() + hashlib.sha256(other.read_bytes()).digest() for other in beside)
    return f"{revision}+tokenizer:{hashlib.sha256(named).hexdigest()[:16]}"
