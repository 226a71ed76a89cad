"""A vLLM engine: its options, its tokenizer, and rows of tokens that fit into it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.contract import Usage
from carb_scorers.models.fitting import fitted
from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.source import model_source
from carb_scorers.models.templating import TemplateOptions, set_chat_template
from carb_scorers.models.tokens import groups_of
from carb_scorers.models.transformers.loading import _revision
from carb_scorers.specs import JsonObject

Tokens = tuple[int, ...]
T = TypeVar("T")


class VLLMOptions(TemplateOptions):
    """Options of ``backend=vllm``."""

    revision: str | None = None
    """Commit, tag or branch on the hub; by default the main branch."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto`` is vLLM's own choice: bfloat16 for most models."""
    max_length: Annotated[int, Field(ge=1)] | None = None
    """Longest prompt and answer in tokens, vLLM's ``max_model_len``. Default: what the model allows."""
    truncate: Literal["error", "middle"] = "error"
    """What becomes of a longer row: an error row, or the middle of its question is cut out and counted."""
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    """GPUs over which one model is spread."""
    gpu_memory: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of a GPU's memory that vLLM may take."""
    eager: bool = False
    """Skip CUDA graphs and compilation: slower, but ready sooner."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model. Only for models whose code you have read."""
    engine_args: JsonObject = "{}"
    """A JSON object of further arguments of ``vllm.LLM``: ``{"quantization": "fp8"}``."""


class Engine:
    """A vLLM engine, its tokenizer, and rows that fit."""

    def __init__(self, target: str, options: VLLMOptions, **arguments: Any) -> None:
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        vllm = require("vllm", package="carb-scorers", extra="vllm")
        transformers = require("transformers", package="carb-scorers", extra="vllm")
        name = model_source(target)
        source = {"revision": options.revision, "trust_remote_code": options.trust_remote_code}
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
            template = set_chat_template(self.tokenizer, options)
            config = transformers.AutoConfig.from_pretrained(name, **source)
            self._llm: Any = vllm.LLM(
                name,
                dtype=options.dtype,
                max_model_len=options.max_length,
                tensor_parallel_size=options.tensor_parallel,
                gpu_memory_utilization=options.gpu_memory,
                enforce_eager=options.eager,
                enable_prefix_caching=True,
                disable_log_stats=True,
                seed=0,
                **source,
                **arguments,
                **json.loads(options.engine_args),
            )
        except (OSError, ValueError, RuntimeError, ImportError, TypeError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise CarbError(f"vLLM cannot load the model '{target}': {reason}") from None
        self.revision = _revision(name, SimpleNamespace(config=config)) + template
        self.config = config
        self.max_length = int(self._llm.llm_engine.model_config.max_model_len)
        self._truncate = options.truncate
        self._one_call = threading.Lock()

    def run(self, call: Callable[[Any], T]) -> T:
        """Use the engine, which takes one call at a time.

        Raises:
            CarbError: it was closed.
        """
        with self._one_call:
            if self._llm is None:
                raise CarbError("This scorer was closed; open it again.")
            return call(self._llm)

    def close(self) -> None:
        """End the engine's processes and give their memory back."""
        with self._one_call:
            if self._llm is None:
                return
            with contextlib.suppress(Exception):  # how an engine is ended differs between versions
                self._llm.llm_engine.engine_core.shutdown()
            self._llm = None
        gc.collect()

    def rows(
        self, prompts: Sequence[Prompt], row_of: Callable[[int, Prompt], Tokens], *, room: int = 1
    ) -> list[tuple[Tokens, Usage] | Failure]:
        """The token ids of each prompt, with room left behind it.

        Prompts of one group are shortened together; see ``fitted``.
        """
        out: dict[int, tuple[Tokens, Usage] | Failure] = {}
        limit = max(1, self.max_length - room)
        for group in groups_of([prompt.group for prompt in prompts]):
            asked = [(prompts[i], str(i)) for i in group]
            found = fitted(
                self.tokenizer,
                asked,
                lambda prompt, place: row_of(int(place), prompt),
                lambda tokens: [len(tokens)],
                limit=limit,
                truncate=self._truncate,
            )
            for i, (tokens, usage) in zip(group, found, strict=True):
                out[i] = Failure(tokens.error, usage) if isinstance(tokens, Failure) else (tokens, usage)
        return [out[i] for i in range(len(prompts))]
