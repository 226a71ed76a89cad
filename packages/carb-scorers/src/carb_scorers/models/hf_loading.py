"""Loading models and tokenizers: clear errors, resolved revisions, no code from strangers, no
noise."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import PositiveInt

from carb_data import CarbError, Frozen, JsonObject, home_path
from carb_scorers.models.chat_tokens import template_text
from carb_scorers.models.peft_adapters import (
    CONFIG,
    adapter_config,
    adapter_file,
    base_of,
    load_adapted,
)
from carb_scorers.models.shared_prefix import dense_head
from carb_scorers.models.source import (
    first_line,
    gguf_arguments,
    gguf_revision,
    hf_library,
    model_source,
    reachable,
)
from carb_scorers.models.template_clock import stop_clock

__all__ = ["TemplateOptions", "set_chat_template"]

HASHED = ".json .safetensors .jinja .model .txt .py"
"""Files of a local model folder that decide its scores."""
IDLE = re.compile(
    r"att(?:entio)?n\.(?:masked_)?bias$|inv_freq|rotary|position_ids|mtp|nextn"
    r"|vis(?:ion|ual)|image|audio|multi_?modal"
    r"|lm_head|embed_out|predictions|pred_layer|final_logits_bias|pooler|^cls\.|^decoder\."
)
"""Weights of a file that decide no score of its class: masks and positions of old checkpoints,
drafts of later tokens, other senses, and heads of language models."""


class TemplateOptions(Frozen):
    """Options of every backend that has the model's tokenizer."""

    revision: str | None = None
    """Commit, tag or branch on the hub; by default the main branch."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model. Only for models whose code you have read."""
    chat_template: str | None = None
    """Path of a Jinja chat template to use instead of the tokenizer's, or ``none``: no template at
    all."""
    chat_template_kwargs: JsonObject = "{}"
    """A JSON object of variables for the chat template, such as ``{"enable_thinking": false}``."""

    @property
    def source(self) -> dict[str, Any]:
        """Arguments of ``from_pretrained`` for everything of the model."""
        return {"revision": self.revision, "trust_remote_code": self.trust_remote_code}


class HFOptions(TemplateOptions):
    """Options that every transformers-backed scorer takes."""

    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto"
    """``auto``: float32 on a CPU; on a GPU the dtype of the weights, or bfloat16 for those of a
    GGUF file."""
    device: str = "auto"
    """``auto``: the first GPU where there is one, else the CPU; or ``cpu``, ``cuda``,
    ``cuda:1``."""
    device_map: str | None = None
    """Passed to transformers (``auto`` spreads one model over all GPUs; needs accelerate); replaces
    ``device``."""
    attention: str = "auto"
    """``auto``: what transformers chooses for the architecture; or ``sdpa``, ``eager``, or a flash
    attention that transformers knows."""
    batching: Literal["auto", "item", "budget"] = "auto"
    """``item``: every item has forward passes of its own, so that nothing beside it can change even
    a rounding. ``budget``: items share passes up to ``batch_tokens``. ``auto``: ``item`` on a CPU,
    ``budget`` on a GPU."""
    batch_tokens: PositiveInt | None = None
    """Padded tokens in a forward pass that items share; bounds memory. By default 4,096 on a CPU,
    and on a GPU what half of its free memory holds. Halved where memory runs out."""
    max_length: PositiveInt | None = None
    """Longest row in tokens. Default: the limit of the model's configuration."""


class Loaded(NamedTuple):
    """A model ready to score."""

    model: Any
    tokenizer: Any
    revision: str
    max_length: int
    embeddings: int | None
    """How many tokens the model has embeddings for."""


def load(target: str, options: HFOptions, loader: Any) -> Loaded:
    """Load a model (a folder, a hub id, a GGUF file or an adapter) and its tokenizer in evaluation
    mode.

    ``loader`` is a class with ``from_pretrained``, or the name of one of transformers.

    Raises:
        CarbError: the model is not there, is not of that class, has no safetensors weights or lacks
            some, or has code that was not trusted.
        MissingExtraError: torch or transformers is not installed.
    """
    broken: type[Exception] = hf_library("safetensors").SafetensorError
    failures = (OSError, ValueError, RuntimeError, ImportError, KeyError, AssertionError, broken)
    where = device_of(options)
    try:
        with quiet():
            name = reachable(model_source(target, gguf=True, revision=options.revision))
            model, tokenizer, missing, revision = _opened(name, options, loader)
            if options.device_map is None:
                model.to(where)
    except failures as error:
        reason = first_line(error).rstrip(".")
        raise CarbError(
            f"Cannot load the model '{target}': {reason}. Give a local folder or a "
            "hub id owner/name whose weights are in safetensors format, or a GGUF file."
        ) from None
    if missing:
        raise CarbError(
            f"The model '{target}' has no weights for {', '.join(missing[:3])}, or none of the "
            f"size that {type(model).__name__} needs; scores would come from random numbers. "
            "Choose a model that was trained for this kind of scorer."
        )
    dense_head(model.eval())
    _keep_sparse(model)
    revision += set_chat_template(tokenizer, options)
    if model.dtype.itemsize < 4:
        # a run that goes on without a GPU, where ``auto`` is float32, would mix two numbers
        revision += f"+{model.dtype}"
    limit = options.max_length or _position_limit(model) or 1_000_000
    return Loaded(model, tokenizer, revision, limit, _embeddings(model))


def _opened(name: str, options: HFOptions, loader: Any) -> tuple[Any, Any, list[str], str]:
    """A model before its head is checked, its tokenizer, those of its weights that would be random
    numbers, and its revision."""
    transformers = hf_library("transformers")
    source = options.source
    if name.endswith(".gguf"):
        file = Path(name)
        source |= gguf_arguments(file)
        folder = str(file.parent)
        with redirect_stderr(StringIO()):  # a bar that no setting hides
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **source)
            source["quantization_config"] = transformers.GgufConfig(dequantize=True)
            model, lacking = _weights(folder, options, loader, **source)
        return model, tokenizer, sorted(lacking), gguf_revision(file)
    config = adapter_config(name, options.revision)
    if config is None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
        model, lacking = _weights(name, options, loader, **source)
        revision = revision_of(name, options.revision)
        return model, tokenizer, sorted(lacking), revision
    base = base_of(name, config)
    at = source | {"revision": config.get("revision")}
    config_file = adapter_file(name, "tokenizer_config.json", options.revision)
    if config_file is None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(base, **at)
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
    load_base = partial(_weights, base, options, loader, **at)
    model, missing = load_adapted(name, config, loader, load_base, options.revision)
    body = model.config.get_text_config()
    if config_file is not None and body.pad_token_id is None:
        # trainers set it, to find the token at which they read the head, and peft does not save it
        body.pad_token_id = tokenizer.pad_token_id
    # both decide every score
    above = revision_of(name, options.revision, CONFIG)
    below = revision_of(base, config.get("revision"))
    return model, tokenizer, missing, f"{above}+base:{below}"


def _weights(name: str, options: HFOptions, loader: Any, **given: Any) -> tuple[Any, set[str]]:
    """A model, and the names of those of its weights that the file lacks or has in another size."""
    torch = hf_library("torch")
    transformers = hf_library("transformers")
    placed = {}
    if options.device_map is not None:
        placed = {"device_map": options.device_map}
    if options.attention != "auto":
        placed["attn_implementation"] = options.attention
    dtype: Any = "auto"
    if options.dtype != "auto":
        dtype = getattr(torch, options.dtype)
    elif device_of(options).type == "cpu":
        dtype = torch.float32
    elif "gguf_file" in given:
        dtype = torch.bfloat16
    model, info = getattr(transformers, str(loader), loader).from_pretrained(
        name,
        dtype=dtype,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **placed,
        **given,
    )
    _refuse_other_code(name, model, loader)
    refuse_dropped(name, model, info["unexpected_keys"])
    resized = {str(weight) for weight, *_ in info["mismatched_keys"]}
    return model, resized.union(info["missing_keys"])


def refuse_dropped(name: str, model: Any, unexpected: Iterable[str]) -> None:
    """Refuse weights of the file that decide a score and that the model's class does not use.

    A language model's head is no part of a classifier's score, and a second head no part of a
    language model's. But a layer of the body would be lost, or computed without them. A
    classifier's second head, gate or scale was trained with it.

    Raises:
        CarbError: some weights of the file would be lost.
    """
    layers = {weight.rpartition(".")[0] for weight, _ in model.named_parameters()}
    part = f"{model.base_model_prefix}."
    if type(model).__name__.endswith("ForSequenceClassification"):
        part = ""
    dropped = [
        key
        for key in sorted(map(str, unexpected))
        if key.rpartition(".")[0] in layers or (key.startswith(part) and not IDLE.search(key))
    ]
    if dropped:
        raise CarbError(
            f"{type(model).__name__} does not use the weights {', '.join(dropped[:3])} "
            f"of '{name}', so its score would be another one. "
            "Serve it with the code that trained it, and score the server (docs/servers.md)."
        )


def device_of(options: HFOptions) -> Any:
    """The device of torch that a model is loaded onto.

    Raises:
        CarbError: an unknown device, or a GPU where there is none.
    """
    torch = hf_library("torch")
    if options.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(options.device)
    except RuntimeError:
        raise CarbError(f"Unknown device '{options.device}'; write cpu, cuda or cuda:1.") from None
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= gpus:
        raise CarbError(
            f"device={options.device} was asked for, but torch sees {gpus or 'no'} GPU "
            "here; use device=cpu."
        )
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and remarks off the terminal meanwhile; its errors still
    show."""
    log = hf_library("transformers").utils.logging
    bars = log.is_progress_bar_enabled()
    verbosity = log.get_verbosity()
    log.disable_progress_bar()
    log.set_verbosity_error()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


def set_chat_template(tokenizer: Any, options: TemplateOptions) -> str:
    """Give a tokenizer the template and the variables that the options ask for, for every later
    call.

    Returns:
        The addition of another template to the model's revision.

    Raises:
        CarbError: the template's file cannot be read, or no template uses a variable of that name.
    """
    added = _replace_template(tokenizer, options.chat_template)
    variables = json.loads(options.chat_template_kwargs)
    written = template_text(tokenizer)
    # its own arguments are set here, or would change the form of what it gives
    ours = {"messages", *signature(type(tokenizer).apply_chat_template).parameters}
    for name in variables:
        if name in ours or not re.search(rf"\b{re.escape(name)}\b", written):
            reason = "is no variable of this model's chat template"
            if name in ours:
                reason = "is not for users to set"
            raise CarbError(
                f"chat_template_kwargs=: '{name}' {reason}."
                + ("" if written else " The model has no chat template; leave the option out.")
            )
    if variables:
        tokenizer.apply_chat_template = partial(tokenizer.apply_chat_template, **variables)
    return added + stop_clock(tokenizer)


def _replace_template(tokenizer: Any, given: str | None) -> str:
    if given is None:
        return ""
    if given == "none":
        tokenizer.chat_template = None
        return "+template:none"
    try:
        tokenizer.chat_template = home_path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CarbError(
            f"chat_template={given}: cannot read that file: {error}. Give a path, or none."
        ) from None
    return f"+template:{hashlib.sha256(tokenizer.chat_template.encode()).hexdigest()[:16]}"


def _keep_sparse(model: Any) -> None:
    """Let BigBird read each row with the attention of its own length: a short row turns it to full
    attention for good, and padding to a sparse one."""
    config = model.config
    body = model.base_model
    if hasattr(body, "set_attention_type"):
        model.register_forward_pre_hook(lambda *_: body.set_attention_type(config.attention_type))
        config.sliding_window = 0  # no row is padded


def _refuse_other_code(name: str, model: Any, loader: Any) -> None:
    """Refuse a model whose configuration names a class in its folder, where another one was loaded
    in its place.

    Raises:
        CarbError: it does.
    """
    classes = getattr(model.config, "auto_map", None) or {}
    named = str(classes.get(str(loader), classes.get("AutoModel", "")))
    loaded = {type(part).__name__ for part in (model, model.base_model)}
    if isinstance(loader, str) and named.rpartition(".")[2] not in {"", *loaded}:
        raise CarbError(
            f"The model '{name}' needs code of its own ({named}) for its score. Read that code, "
            "and if you trust it, add trust_remote_code=true. If transformers still does not use "
            "it, score a server that does."
        )


def _position_limit(model: Any) -> int | None:
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if not isinstance(limit, int):
        return None
    if isinstance(padding, int):
        limit -= padding + 1  # RoBERTa and its kin count positions from behind the padding's own
    return max(limit, 0) or None


def _embeddings(model: Any) -> int | None:
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):  # a model with a table of another kind
        return None


def revision_of(name: str, revision: str | None, file: str = "config.json") -> str:
    """The hub commit of a model; of a local folder a hash of the names and bytes of its
    configuration and weights.

    Args:
        name: a folder or a hub id.
        revision: the requested one.
        file: a file of the model, which is in the cache.

    Raises:
        CarbError: the cache does not say which commit it is.
    """
    if Path(name).is_dir():
        digest = hashlib.sha256()
        for path in sorted(Path(name).glob("*")):
            if path.suffix in HASHED.split():
                digest.update(path.name.encode())
                with path.open("rb") as weights:
                    digest.update(hashlib.file_digest(weights, "sha256").digest())
        return f"sha256:{digest.hexdigest()}"
    hub = hf_library("transformers").utils.hub
    path = hub.cached_file(name, file, revision=revision)
    commit = hub.extract_commit_hash(str(path), None)
    if commit is None:
        raise CarbError(f"The commit of '{name}' is not known; give a folder.")
    return str(commit)
