"""Language models on transformers: the ``hf`` backend of ``judge`` and ``implicit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio.to_thread

from carb_data.extras import require
from carb_scorers.models.hf_loading import HFOptions, Loaded, load, uncollected
from carb_scorers.models.hf_passes import Passes, Row
from carb_scorers.models.hf_writing import generate
from carb_scorers.models.protocol import (
    BackendKind,
    Choices,
    Continuation,
    Failure,
    Generation,
    Prompt,
    Writing,
    seeds_for,
)
from carb_scorers.models.source import model_source
from carb_scorers.models.tokens import answer_ids, conversation_key, prompt_ids, word_tree
from carb_scorers.scorer import Usage


class HFLanguageModel:
    """See ``LanguageModel``; what the prompts of an item have in common is computed once."""

    def __init__(self, target: str, loaded: Loaded, options: HFOptions) -> None:
        model = loaded.model
        self.model = target
        self.revision: str | None = loaded.revision
        self._tokenizer = loaded.tokenizer
        self._passes = Passes(
            loaded,
            options,
            forward=model,
            outputs=lambda output: output.logits,
            whole=lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits,
        )
        self.in_flight: int | None = None if self._passes.merges else 1  # each request is kept when it is done
        self._budget = options.batch_tokens

    @property
    def is_chat(self) -> bool:
        """Whether prompts go through a chat template."""
        return bool(self._tokenizer.chat_template)

    async def aclose(self) -> None:
        """Drop the model."""
        self._passes.close()

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. Greedy texts are the same in any batch, but for ties within rounding."""
        seeds = seeds_for(prompts, writing)

        def row_of(prompt: Prompt, _: str) -> list[Row]:
            return [Row(tuple(prompt_ids(self._tokenizer, prompt)))]

        def run() -> list[Generation | Failure]:
            made = [self._passes.encode([prompt], None, row_of, room=writing.max_tokens)[0] for prompt in prompts]
            encoded = [(rows if isinstance(rows, Failure) else rows[0].tokens, usage) for rows, usage in made]
            return generate(self._passes.open(), seeds, encoded, writing, budget=self._budget)

        return await anyio.to_thread.run_sync(run)

    async def next_logprobs(self, prompts: Sequence[Prompt], wanted: Sequence[str]) -> list[Choices | Failure]:
        """See ``LanguageModel``."""
        tree = word_tree(self._tokenizer, wanted)

        def rows_of(prompt: Prompt, _: str) -> list[Row]:
            ids = (*prompt_ids(self._tokenizer, prompt, answers_at_once=True), *tree.lead)
            return [Row((*ids, *path), targets=tokens) for path, tokens in tree.after.items()]

        def read(logits: Any, rows: Sequence[Row]) -> list[dict[int, float]]:
            logprobs = logits[:, -1].float().log_softmax(-1).double()
            return [
                dict(zip(row.targets, logprobs[line, list(row.targets)].tolist(), strict=True))
                for line, row in enumerate(rows)
            ]

        def choices(found: Sequence[dict[int, float]], usage: Usage) -> Choices:
            return tree.choices(dict(zip(tree.after, found, strict=True)), usage)

        return await self._passes.run(prompts, None, rows_of, read, choices)

    async def continuation_logprobs(
        self, prompts: Sequence[Prompt], answers: Sequence[str], *, end_of_turn: bool = True
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``. Logits are computed at the answers' tokens alone."""
        torch = require("torch", package="carb-scorers", extra="hf")
        known: dict[tuple[str, ...], list[int]] = {}

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            key = conversation_key(prompt)
            if key not in known:  # an item's prompt is the same for all of its candidates
                known[key] = prompt_ids(self._tokenizer, prompt)
            before = known[key]
            after = answer_ids(self._tokenizer, answer, end_of_turn=end_of_turn)
            if not before or not after:
                raise ValueError("the prompt or the answer has no tokens")
            # The prompt's last token foretells the answer's first; the answer's last token foretells nothing asked.
            return [Row((*before, *after[:-1]), len(before) - 1, len(after), tuple(after))]

        def read(logits: Any, rows: Sequence[Row]) -> list[tuple[float, ...]]:
            found = []
            for line, row in enumerate(rows):
                own = logits[line, -row.keep :].float()
                picked = own.gather(-1, torch.tensor(row.targets, device=own.device)[:, None])[:, 0]
                found.append(tuple((picked.double() - own.logsumexp(-1).double()).tolist()))
            return found

        def continuation(found: Sequence[tuple[float, ...]], usage: Usage) -> Continuation:
            return Continuation(found[0], usage)

        return await self._passes.run(prompts, answers, rows_of, read, continuation)


@uncollected()
def open_language_model(target: str, options: HFOptions) -> HFLanguageModel:
    """Load ``target``.

    Raises:
        CarbError: see ``load``.
    """
    model_source(target, gguf=True)  # a typing error is told before torch is imported, which takes seconds
    return HFLanguageModel(target, load(target, options, "AutoModelForCausalLM"), options)


LANGUAGE_MODEL = BackendKind(HFOptions, open_language_model)
