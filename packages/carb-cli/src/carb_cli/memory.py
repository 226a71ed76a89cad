"""Does a model fit into the memory at hand?"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carb_cli.environment import Gpu
from carb_cli.output import OutputPart
from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.models.source import model_source

OVERHEAD = 1.2
"""Activations, cache and allocator beside the weights."""


class ModelNeeds(OutputPart):
    """What a model needs. Sizes in bytes, 20% above the weights alone."""

    name: str
    parameters: int
    bfloat16: int
    float32: int
    fits: bool
    verdict: str


def needs_of(name: str, *, gpus: Sequence[Gpu], memory: int | None) -> ModelNeeds:
    """Whether a model fits: in bfloat16 on the GPUs together, else in float32 in main memory.

    Args:
        name: a folder with safetensors files, or a hub id that was fetched before. Nothing is downloaded.
        gpus: the GPUs of this machine; empty means that it has none.
        memory: free bytes of main memory.

    Raises:
        CarbError: there is no such model, or it has no safetensors files.
    """
    parameters = sum(_parameters(file) for file in _files(name))
    half, full = math.ceil(2 * parameters * OVERHEAD), math.ceil(4 * parameters * OVERHEAD)
    on_gpus = sum(gpu.free for gpu in gpus)
    if gpus and half <= on_gpus:
        fits, verdict = True, f"yes, on {len(gpus)} GPU{'' if len(gpus) == 1 else 's'} in bfloat16"
    elif memory is not None and full <= memory:
        fits, verdict = True, "yes, in main memory in float32" + (", not on the GPUs" if gpus else "")
    elif memory is not None and half <= memory:
        fits, verdict = True, "yes, in main memory in bfloat16 only, which is slow on most CPUs"
    else:
        fits, verdict = False, "no: take a smaller model, a quantised one, or a server (judge:...?backend=openai)"
    return ModelNeeds(name=name, parameters=parameters, bfloat16=half, float32=full, fits=fits, verdict=verdict)


def _files(name: str) -> list[Path]:
    name = model_source(name)
    folder = Path(name) if Path(name).is_dir() else _fetched(name)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CarbError(f"{folder} holds no .safetensors file, so the size of the model is not known.")
    return files


def _fetched(name: str) -> Path:
    hub = require("huggingface_hub", package="carb-scorers", extra="hf")
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        raise CarbError(f"The model '{name}' was not fetched yet; its size is not known.") from None


def _parameters(file: Path) -> int:
    """Numbers in a safetensors file, from its header alone (https://github.com/huggingface/safetensors)."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > file.stat().st_size:
                raise ValueError("the header is longer than the file")
            header: dict[str, Any] = json.loads(stream.read(length))
        return sum(math.prod(tensor["shape"]) for key, tensor in header.items() if key != "__metadata__")
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise CarbError(f"{file} is not a safetensors file: {error}") from None
