"""vLLM's engine, for judges, implicit rewards and classifiers.

It is given token ids made by the same code as for transformers, so that both backends ask exactly
the same.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import anyio.to_thread
from anyio.from_thread import start_blocking_portal
from pydantic import PositiveInt

from carb_data import CarbError, JsonObject, require
from carb_scorers.models.chat_tokens import (
    Ids,
    conversation,
    warn_of_open_turn,
    watched_choices,
    watched_ids,
)
from carb_scorers.models.hf_loading import TemplateOptions, revision_of, set_chat_template
from carb_scorers.models.hf_reward import Adapter, adapter_for
from carb_scorers.models.marks import until, written_text
from carb_scorers.models.protocol import (
    BackendKind,
    Failure,
    Generation,
    Prompt,
    Prompts,
    Reward,
    Texts,
    Writing,
    seeds_for,
)
from carb_scorers.models.source import first_line, model_source, reachable
from carb_scorers.models.token_rows import (
    Finish,
    Fitted,
    Row,
    RowsOf,
    TokenLanguageModel,
    fitted,
    without_padding,
)
from carb_scorers.scorer import Usage

A = TypeVar("A")

IN_FLIGHT = 256
"""Requests that a scorer may have under way at once: as many sequences as vLLM computes at the same
time by default."""

_ON_CPU = {"enable_chunked_prefill": False}
"""vLLM 0.32 ends on a CPU when a row has a seed and its prompt is computed in parts: 'CPU Generator
does not use offset'."""


class VLLMOptions(TemplateOptions):
    """Options of ``backend=vllm``."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto`` is vLLM's own choice: bfloat16 for most models."""
    max_length: PositiveInt | None = None
    """Longest prompt and answer in tokens, vLLM's ``max_model_len``. Default: the model's limit."""
    tensor_parallel: PositiveInt = 1
    """GPUs over which one model is spread."""
    engine_args: JsonObject = "{}"
    """A JSON object of further arguments of ``vllm.LLM``: ``{"gpu_memory_utilization": 0.5}``."""


class VLLMEngine:
    """A vLLM engine, its tokenizer, and rows that fit.

    Rows of any number of callers stream in and their outputs out, so that it is never drained
    between windows. An asynchronous engine of vLLM belongs to one event loop. This one has a loop
    and a thread of its own, wherever a caller runs.
    """

    def __init__(self, target: str, options: VLLMOptions, **arguments: Any) -> None:
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        vllm = require("vllm", "carb-scorers[vllm]")
        transformers = require("transformers", "carb-scorers[vllm]")
        name = reachable(model_source(target, revision=options.revision))
        source = options.source
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
            template = set_chat_template(self.tokenizer, options)
            config = transformers.AutoConfig.from_pretrained(name, **source)
            if vllm.platforms.current_platform.is_cpu():
                arguments = _ON_CPU | arguments
            arguments |= json.loads(options.engine_args)
            wanted = vllm.AsyncEngineArgs(
                name,
                dtype=options.dtype,
                max_model_len=options.max_length,
                tensor_parallel_size=options.tensor_parallel,
                enable_prefix_caching=True,
                disable_log_stats=True,
                seed=0,
                **source,
                **arguments,
            )
            with contextlib.ExitStack() as ending:
                self._portal = ending.enter_context(start_blocking_portal("asyncio", name="vllm"))
                self.llm: Any = self._portal.call(_made, vllm, wanted)
                self._ending = ending.pop_all()
        except (OSError, ValueError, RuntimeError, ImportError, TypeError) as error:
            raise CarbError(f"vLLM cannot load the model '{target}': {first_line(error)}") from None
        self.target = target
        self.revision = revision_of(name, options.revision) + template
        self.config = config
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    async def run(
        self,
        prompts: Prompts,
        answers: Texts | None,
        rows_of: RowsOf,
        asked: Callable[[int, Row], tuple[Ids, Any]],
        finish: Callable[[Sequence[tuple[Row, Any]], Usage], A],
        *,
        room: int = 1,
    ) -> list[A | Failure]:
        """An answer to each prompt, whose rows are put beside all others that are under way.

        ``asked`` gives the token ids and vLLM's parameters for a prompt's place and a row of it;
        ``finish`` makes the answer from the rows, each with vLLM's output. ``room`` is left for
        what is written behind a row, in tokens.

        Raises:
            CarbError: the engine was closed, or has ended by itself.
        """
        limit = max(1, self._open().model_config.max_model_len - room)
        made = await anyio.to_thread.run_sync(
            partial(self._fitted, prompts, answers, rows_of, limit)
        )
        rows = [
            (index, row)
            for index, entry in enumerate(made)
            if not isinstance(entry, Failure)
            for row in entry[0]
        ]
        calls = [asked(index, row) for index, row in rows]
        outputs = iter(await self.ask(calls))
        of_prompts: list[A | Failure] = []
        for entry in made:
            if isinstance(entry, Failure):
                of_prompts.append(entry)
                continue
            of_rows = [(row, next(outputs)) for row in entry[0]]
            of_prompts.append(finish(of_rows, entry[1]))
        return of_prompts

    async def ask(self, asked: Sequence[tuple[Ids, Any]]) -> list[Any]:
        """vLLM's finished outputs for token ids, each with its parameters; see ``run``."""
        self._open()
        waiting = self._portal.start_task_soon(self._together, asked)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # another library's event loop
            return await anyio.to_thread.run_sync(waiting.result)
        return await asyncio.wrap_future(
            waiting
        )  # cancelled with its caller, and then vLLM forgets the rows

    def _open(self) -> Any:
        if self.llm is None:
            raise CarbError("This scorer was closed; open it again.")
        return self.llm

    def _fitted(
        self, prompts: Prompts, answers: Texts | None, rows_of: RowsOf, limit: int
    ) -> list[Fitted]:
        with self._lock:  # a tokenizer serves one thread at a time
            return fitted(prompts, answers, rows_of, limit=limit)

    async def _together(self, asked: Sequence[tuple[Ids, Any]]) -> list[Any]:
        try:
            async with asyncio.TaskGroup() as group:
                rows = [
                    group.create_task(self._output(tokens, parameters))
                    for tokens, parameters in asked
                ]
        except BaseExceptionGroup as errors:
            if self.llm is None or self.llm.errored:
                raise CarbError(
                    f"vLLM's engine of '{self.target}' has ended; run the same command again."
                ) from errors
            raise errors.exceptions[0] from None
        return [row.result() for row in rows]

    async def _output(self, tokens: Ids, parameters: Any) -> Any:
        call = self.llm.generate
        if hasattr(parameters, "use_activation"):
            call = self.llm.encode
        prompt = {"prompt_token_ids": list(tokens)}
        outputs = call(prompt, parameters, str(next(self._numbers)))
        return [output async for output in outputs][-1]

    def close(self) -> None:
        """End the engine's processes and give their memory back."""
        with self._lock:
            if self.llm is None:
                return
            llm = self.llm
            self.llm = None
            with contextlib.suppress(Exception):  # how an engine is ended differs between versions
                llm.shutdown()
            self._portal.call(self._portal.stop, True)
            self._ending.close()
        gc.collect()


async def _made(vllm: Any, wanted: Any) -> Any:
    """The engine, made in the loop in which it is to run."""
    return vllm.AsyncLLMEngine.from_engine_args(wanted)


class VLLMLanguageModel(TokenLanguageModel):
    """See ``LanguageModel``."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        super().__init__(target, engine.revision, engine.tokenizer)
        self.in_flight: int | None = IN_FLIGHT
        self.engine = engine

    async def generate(self, prompts: Prompts, writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``."""
        watched = list(watched_ids(self._tokenizer, writing.watch))
        seeds = seeds_for(prompts, writing)

        common: dict[str, Any] = {
            "max_tokens": writing.max_tokens,
            "temperature": writing.temperature,
            "stop": list(writing.stop) or None,
        }
        if watched:
            common["logprob_token_ids"] = watched

        def asked(index: int, row: Row) -> tuple[Ids, Any]:
            seed = None
            if writing.temperature > 0:
                seed = seeds[index]
            return row.tokens, _sampling(**common, seed=seed)

        def finish(outputs: Sequence[tuple[Row, Any]], usage: Usage) -> Generation:
            (best,) = outputs[0][1].outputs
            usage = usage.changed(output_tokens=len(best.token_ids))

            def values_at(index: int) -> list[float]:
                return [best.logprobs[index][token].logprob for token in watched]

            ids = best.token_ids
            choices = watched_choices(self._tokenizer, writing.watch, ids, values_at)
            # vLLM's own text lacks special tokens, and with them the marks of some thoughts
            text = until(written_text(self._tokenizer, best.token_ids), writing.stop)
            return Generation(text, usage, best.finish_reason == "stop", choices)

        room = writing.max_tokens
        return await self.engine.run(prompts, None, self._asked, asked, finish, room=room)

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self.engine.close)

    async def _logprobs(
        self,
        prompts: Prompts,
        answers: Texts | None,
        rows_of: RowsOf,
        finish: Finish[A],
    ) -> list[A | Failure]:
        def asked(_: int, row: Row) -> tuple[Ids, Any]:
            if row.keep == 1:
                wanted = list(row.targets)
                return row.tokens, _sampling(
                    max_tokens=1, temperature=0.0, logprob_token_ids=wanted
                )
            tokens = (*row.tokens, row.targets[-1])
            return tokens, _sampling(max_tokens=1, temperature=0.0, prompt_logprobs=0)

        def done(outputs: Sequence[tuple[Row, Any]], usage: Usage) -> A:
            return finish([_values(row, output) for row, output in outputs], usage)

        return await self.engine.run(prompts, answers, rows_of, asked, done, room=2)


class VLLMRewardModel:
    """See ``RewardModel``; a sequence classifier as a pooling model of vLLM."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        self.model = target
        self.revision: str | None = engine.revision
        self.in_flight: int | None = IN_FLIGHT
        self.engine = engine
        warn_of_open_turn(engine.tokenizer)

    async def rewards(self, prompts: Prompts, answers: Texts) -> list[Reward | Failure]:
        """See ``RewardModel``. The head's own output, without the sigmoid that vLLM would put
        behind it."""
        from vllm import PoolingParams

        raw = PoolingParams(task="classify", use_activation=False)
        padding = getattr(self.engine.config.get_text_config(), "pad_token_id", None)

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            ids, types = conversation(self.engine.tokenizer, prompt, answer)
            if any(types):
                raise CarbError(
                    f"The tokenizer of '{self.model}' gives token types, which backend=vllm does "
                    "not pass on; use backend=hf."
                )
            return [Row(without_padding(ids, padding))]  # vLLM reads the last token

        def finish(outputs: Sequence[tuple[Row, Any]], usage: Usage) -> Reward:
            _, output = outputs[0]
            return Reward(float(output.outputs.data[0]), usage)

        def asked(_: int, row: Row) -> tuple[Ids, Any]:
            return row.tokens, raw

        return await self.engine.run(prompts, answers, rows_of, asked, finish, room=0)

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self.engine.close)


def _sampling(**given: Any) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(**given, output_kind=RequestOutputKind.FINAL_ONLY)


def _values(row: Row, output: Any) -> list[float]:
    """The log-probabilities of a row's targets: of the next token, or of the last ones of the row
    that was given."""
    if row.keep == 1:
        reported = output.outputs[0].logprobs[0]
        return [reported[token].logprob for token in row.targets]
    given = output.prompt_logprobs[-row.keep :]
    return [step[token].logprob for step, token in zip(given, row.targets, strict=True)]


def open_language_model(target: str, options: VLLMOptions) -> VLLMLanguageModel:
    """Start an engine for a generative model.

    Raises:
        CarbError: vLLM is not installed, is too old, or cannot load the model.
    """
    vllm = require("vllm", "carb-scorers[vllm]")
    if "logprob_token_ids" not in vllm.SamplingParams.__struct_fields__:
        raise CarbError(
            f"vLLM {vllm.__version__} is too old: it cannot report the log-probabilities of "
            "given tokens."
        )
    return VLLMLanguageModel(target, VLLMEngine(target, options))


def open_reward_model(target: str, options: VLLMOptions) -> VLLMRewardModel:
    """Start an engine for a sequence classifier with a scalar head.

    Raises:
        CarbError: vLLM is not installed or cannot load the model, or the head has several outputs.
    """
    require("vllm", "carb-scorers[vllm]")
    adapter, _ = adapter_for(target, options)
    if adapter != Adapter():
        raise CarbError(f"'{target}' has a head that backend=vllm does not read; use backend=hf.")
    engine = VLLMEngine(target, options, runner="pooling", convert="classify")
    labels = int(engine.config.num_labels)
    if labels != 1:
        engine.close()
        raise CarbError(
            f"'{target}' has {labels} outputs, and backend=vllm reads a scalar head; use "
            "backend=hf."
        )
    return VLLMRewardModel(target, engine)


LANGUAGE_MODEL = BackendKind(VLLMOptions, open_language_model)
REWARD_MODEL = BackendKind(VLLMOptions, open_reward_model)
