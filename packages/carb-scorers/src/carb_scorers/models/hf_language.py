"""Language models on transformers: the ``hf`` backend of ``judge`` and ``implicit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from carb_data.extras import require
from carb_scorers.models.hf_loading import HFOptions, Loaded, load, uncollected
from carb_scorers.models.hf_passes import Passes
from carb_scorers.models.hf_writing import generate
from carb_scorers.models.protocol import BackendKind, Failure, Generation, Prompt, Writing, seeds_for
from carb_scorers.models.source import model_source
from carb_scorers.models.token_rows import Row, RowsOf, TokenLanguageModel, fitted
from carb_scorers.models.tokens import prompt_ids
from carb_scorers.scorer import Usage

A = TypeVar("A")


class HFLanguageModel(TokenLanguageModel):
    """See ``LanguageModel``; what the prompts of an item have in common is computed once."""

    def __init__(self, target: str, loaded: Loaded, options: HFOptions) -> None:
        super().__init__(target, loaded.revision, loaded.tokenizer)
        model = loaded.model
        self._passes = Passes(
            loaded,
            options,
            forward=model,
            outputs=lambda output: output.logits,
            whole=lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits,
        )
        self.in_flight: int | None = self._passes.in_flight
        self._budget = options.batch_tokens

    async def aclose(self) -> None:
        """Drop the model."""
        self._passes.close()

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. Greedy texts are the same in any batch, but for ties within rounding."""

        def rows_of(prompt: Prompt, _: str) -> list[Row]:
            return [Row(tuple(prompt_ids(self._tokenizer, prompt)))]

        def run() -> list[Generation | Failure]:
            loaded = self._passes.open()
            encoded = fitted(prompts, None, rows_of, limit=max(1, loaded.max_length - writing.max_tokens))
            return generate(loaded, seeds_for(prompts, writing), encoded, writing, budget=self._budget)

        return await anyio.to_thread.run_sync(run)

    async def _logprobs(
        self,
        prompts: Sequence[Prompt],
        answers: Sequence[str] | None,
        rows_of: RowsOf,
        finish: Callable[[Sequence[Sequence[float]], Usage], A],
    ) -> list[A | Failure]:
        return await anyio.to_thread.run_sync(partial(self._passes.run, prompts, answers, rows_of, _read, finish))


def _read(logits: Any, rows: Sequence[Row]) -> list[list[float]]:
    """The log-probabilities of each row's targets."""
    torch = require("torch", package="carb-scorers", extra="hf")
    found = []
    for line, row in enumerate(rows):
        own = logits[line, -row.keep :].float()
        targets = torch.tensor(row.targets, device=own.device)
        picked = own[0, targets] if row.keep == 1 else own.gather(-1, targets[:, None])[:, 0]
        found.append((picked.double() - own.logsumexp(-1).double()).tolist())
    return found


@uncollected()
def open_language_model(target: str, options: HFOptions) -> HFLanguageModel:
    """Load ``target``.

    Raises:
        CarbError: see ``load``.
    """
    model_source(target, gguf=True)  # a typing error is told before torch is imported, which takes seconds
    return HFLanguageModel(target, load(target, options, "AutoModelForCausalLM"), options)


LANGUAGE_MODEL = BackendKind(HFOptions, open_language_model)
