"""Loading models and tokenizers: clear errors, resolved revisions, no code from strangers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.specs import Options


class HFOptions(Options):
    """Options that every transformers-backed scorer takes."""

    backend: Literal["hf"] = "hf"
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto``: the dtype of the weights on a GPU, float32 on a CPU."""
    device: str = "auto"
    """``auto``: the first GPU where there is one, else the CPU."""
    attention: str = "sdpa"
    batch_tokens: int = Field(default=4096, ge=1)
    """Padded tokens in one forward pass; bounds memory."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest row; a longer one is an error row. Default: what the model's configuration allows."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model. Only for models whose code you have read."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to score."""

    model: Any
    tokenizer: Any
    revision: str
    max_tokens: int


def load(target: str, options: HFOptions, auto_class: str, **model_options: Any) -> Loaded:
    """Load a model and its tokenizer in evaluation mode.

    Args:
        target: folder or hub id.
        options: see ``HFOptions``.
        auto_class: name of the transformers class, for example ``"AutoModelForCausalLM"``.
        model_options: passed on to ``from_pretrained``.

    Raises:
        CarbError: the model is not there, is not of that class, or has no safetensors weights.
        MissingExtraError: torch or transformers is not installed.
    """
    torch = require("torch", package="carb-scorers", extra="hf")
    transformers = require("transformers", package="carb-scorers", extra="hf")
    if target.startswith((".", "/", "~")) and not Path(target).expanduser().is_dir():
        raise CarbError(f"There is no model folder '{target}'. Give a folder with config.json, or a hub id owner/name.")
    target = str(Path(target).expanduser()) if Path(target).expanduser().is_dir() else target
    device = _device(torch, options.device)
    dtype = _dtype(torch, options.dtype, device)
    source = {"revision": options.revision, "trust_remote_code": options.trust_remote_code}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(target, **source)
        model = getattr(transformers, auto_class).from_pretrained(
            target,
            dtype=dtype,
            attn_implementation=options.attention,
            use_safetensors=True,
            **source,
            **model_options,
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CarbError(
            f"Cannot load the model '{target}': {reason} Give a local folder or a hub id owner/name whose weights "
            f"are in safetensors format."
        ) from None
    model.to(device).eval()
    limit = options.max_tokens or _position_limit(model.config) or 1_000_000
    return Loaded(model, tokenizer, _revision(target, model), limit)


def _device(torch: Any, wanted: str) -> Any:
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise CarbError(f"Unknown device '{wanted}'; write cpu, cuda or cuda:1.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CarbError(f"device={wanted} was asked for, but torch sees no GPU here. Leave the option out, or use cpu.")
    return device


def _dtype(torch: Any, wanted: str, device: Any) -> Any:
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    return getattr(torch, wanted)


def _position_limit(config: Any) -> int | None:
    text_config = config.get_text_config()
    limit = getattr(text_config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _revision(target: str, model: Any) -> str:
    """The hub commit, or a hash over the names and bytes of a local folder's configuration and weights."""
    commit = getattr(model.config, "_commit_hash", None)
    if isinstance(commit, str):
        return commit
    digest = hashlib.sha256()
    for path in sorted(Path(target).glob("*")):
        if path.suffix in {".json", ".safetensors"}:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"
