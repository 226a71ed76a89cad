"""vLLM's engine, for judges, implicit rewards and classifiers.

It is given token ids made by the same code as for transformers, so that both backends ask exactly the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio.to_thread

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.models.protocol import BackendKind, Choices, Failure, Generation, Prompt, Reward, Writing, seeds_for
from carb_scorers.models.token_rows import Row, RowsOf, TokenLanguageModel
from carb_scorers.models.tokens import conversation_ids, prompt_ids, watched_ids, watched_place
from carb_scorers.models.vllm_engine import IN_FLIGHT, Tokens, VLLMEngine, VLLMOptions
from carb_scorers.scorer import Usage

A = TypeVar("A")


class VLLMLanguageModel(TokenLanguageModel):
    """See ``LanguageModel``."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        super().__init__(target, engine.revision, engine.tokenizer)
        self.in_flight: int | None = IN_FLIGHT
        self._engine = engine

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``."""
        watch, temperature = writing.watch, writing.temperature
        watched = [] if watch is None else list(watched_ids(self._tokenizer, watch))
        seeds = seeds_for(prompts, writing)

        def rows_of(prompt: Prompt, _: str) -> list[Row]:
            return [Row(tuple(prompt_ids(self._tokenizer, prompt)))]

        def asked(place: int, row: Row) -> tuple[Tokens, Any]:
            return row.tokens, _sampling(
                max_tokens=writing.max_tokens,
                temperature=temperature,
                stop=list(writing.stop) or None,
                seed=seeds[place] if temperature > 0 else None,
                **({"logprob_token_ids": watched} if watched else {}),
            )

        def finish(found: Sequence[tuple[Row, Any]], usage: Usage) -> Generation:
            (best,) = found[0][1].outputs
            usage = usage.model_copy(update={"output_tokens": len(best.token_ids)})
            place = None if watch is None else watched_place(self._tokenizer, watch, best.token_ids)
            choices = None
            if watch is not None and place is not None:
                values = [best.logprobs[place][token].logprob for token in watched]
                choices = Choices(dict(zip(watch.words, values, strict=True)))
            return Generation(best.text, usage, best.finish_reason != "length", choices)

        return await self._engine.run(prompts, None, rows_of, asked, finish, room=writing.max_tokens)

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self._engine.close)

    async def _logprobs(
        self,
        prompts: Sequence[Prompt],
        answers: Sequence[str] | None,
        rows_of: RowsOf,
        finish: Callable[[Sequence[Sequence[float]], Usage], A],
    ) -> list[A | Failure]:
        def asked(_: int, row: Row) -> tuple[Tokens, Any]:
            if row.keep == 1:
                return row.tokens, _sampling(max_tokens=1, temperature=0.0, logprob_token_ids=list(row.targets))
            return (*row.tokens, row.targets[-1]), _sampling(max_tokens=1, temperature=0.0, prompt_logprobs=0)

        def done(found: Sequence[tuple[Row, Any]], usage: Usage) -> A:
            return finish([_values(row, output) for row, output in found], usage)

        return await self._engine.run(prompts, answers, rows_of, asked, done, room=2)


class VLLMRewardModel:
    """See ``RewardModel``; a sequence classifier as a pooling model of vLLM."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        self.model = target
        self.revision: str | None = engine.revision
        self.in_flight: int | None = IN_FLIGHT
        self._engine = engine

    async def rewards(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> list[Reward | Failure]:
        """See ``RewardModel``. The head's own output, without the sigmoid that vLLM would put behind it."""
        from vllm import PoolingParams

        raw = PoolingParams(task="classify", use_activation=False)

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            return [Row(tuple(conversation_ids(self._engine.tokenizer, prompt, answer)))]

        def finish(found: Sequence[tuple[Row, Any]], usage: Usage) -> Reward:
            return Reward(float(found[0][1].outputs.data[0]), usage)

        return await self._engine.run(prompts, answers, rows_of, lambda _, row: (row.tokens, raw), finish, room=0)

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self._engine.close)


def _sampling(**given: Any) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(**given, output_kind=RequestOutputKind.FINAL_ONLY)


def _values(row: Row, output: Any) -> list[float]:
    """The log-probabilities of a row's targets: of the next token, or of the last ones of the row that was given."""
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
    vllm = require("vllm", package="carb-scorers", extra="vllm")
    if "logprob_token_ids" not in vllm.SamplingParams.__struct_fields__:
        raise CarbError(f"vLLM {vllm.__version__} is too old: it cannot report the log-probabilities of given tokens.")
    return VLLMLanguageModel(target, VLLMEngine(target, options))


def open_reward_model(target: str, options: VLLMOptions) -> VLLMRewardModel:
    """Start an engine for a sequence classifier with a scalar head.

    Raises:
        CarbError: vLLM is not installed or cannot load the model, or the head has several outputs.
    """
    engine = VLLMEngine(target, options, runner="pooling", convert="classify")
    labels = int(engine.config.num_labels)
    if labels != 1:
        engine.close()
        raise CarbError(f"'{target}' has {labels} outputs, and backend=vllm reads a scalar head; use backend=hf.")
    return VLLMRewardModel(target, engine)


LANGUAGE_MODEL = BackendKind(VLLMOptions, open_language_model)
REWARD_MODEL = BackendKind(VLLMOptions, open_reward_model)
