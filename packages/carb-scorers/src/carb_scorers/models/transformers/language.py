"""Language models on transformers: the ``hf`` backend of ``judge`` and ``implicit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from carb_data.extras import require
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
from carb_scorers.models.transformers.batching import Row
from carb_scorers.models.transformers.cores import Core, HiddenCore, LanguageHead, OwnCore, OwnLogits
from carb_scorers.models.transformers.executor import each
from carb_scorers.models.transformers.generate import generate
from carb_scorers.models.transformers.items import ItemRunner, shares_passes
from carb_scorers.models.transformers.loading import HFOptions, Loaded, load, uncollected
from carb_scorers.models.transformers.probe import FAILURES, close, probe_rows, try_core
from carb_scorers.models.transformers.workers import open_workers
from carb_scorers.scorer import Usage

__all__ = ["around"]

LOGITS = 2**25
"""Logits held at once, in floats (128 MiB in float32); vocabularies reach 262k entries."""


@dataclass(frozen=True, slots=True)
class LanguageWorker:
    """A language model on a device."""

    loaded: Loaded
    core: Core
    head: LanguageHead | OwnLogits

    def logprobs(self, states: Any, targets: Sequence[int]) -> Any:
        """Natural log-probability of one token at each of some states, float64 ``(reads,)`` on the CPU."""
        torch = require("torch", package="carb-scorers", extra="hf")
        vocabulary = int(self.loaded.model.config.get_text_config().vocab_size)
        step = max(1, LOGITS // vocabulary)
        found = []
        for start in range(0, len(targets), step):
            logits = self.head.logits(states[start : start + step])
            place = torch.tensor(targets[start : start + step], device=logits.device)
            picked = logits.gather(-1, place[:, None])[:, 0]
            found.append((picked.double() - logits.logsumexp(-1).double()).cpu())
        return torch.cat(found)


class HFLanguageModel:
    """See ``LanguageModel``; rows of an item are packed where the architecture allows that."""

    def __init__(self, target: str, workers: Sequence[LanguageWorker], options: HFOptions) -> None:
        self.model = target
        self.revision: str | None = workers[0].loaded.revision
        self.in_flight: int | None = None
        self._tokenizer = workers[0].loaded.tokenizer
        self._items = ItemRunner(workers, options)
        self._packing = options.packing
        self._writers = 1 if options.device == "auto" else len(workers)
        self._budget = options.batch_tokens

    @property
    def is_chat(self) -> bool:
        """Whether prompts go through a chat template."""
        return bool(self._tokenizer.chat_template)

    async def aclose(self) -> None:
        """Drop the model."""
        self._items.close()

    async def generate(self, prompts: Sequence[Prompt], writing: Writing) -> list[Generation | Failure]:
        """See ``LanguageModel``. Greedy texts are the same in any batch, but for ties within rounding.

        Where a prompt is given several times, its answers are written together behind one reading of it.
        """
        seeds = seeds_for(prompts, writing)

        def run() -> list[Generation | Failure]:
            encoded = self._items.encode(prompts, self._ends, room=writing.max_tokens)
            copies = [worker.loaded for worker in self._items.workers]
            return generate(copies[: self._writers], seeds, encoded, writing, budget=self._budget)

        return await anyio.to_thread.run_sync(run)

    async def next_logprobs(self, prompts: Sequence[Prompt], wanted: Sequence[str]) -> list[Choices | Failure]:
        """See ``LanguageModel``. Only the wanted entries of the vocabulary are computed, where one token tells."""
        tree = word_tree(self._tokenizer, wanted)
        first = tree.after[()]
        deeper = {path: tokens for path, tokens in tree.after.items() if path}

        def rows_of(prompt: Prompt, _: str) -> list[Row]:
            ids = (*prompt_ids(self._tokenizer, prompt), *tree.lead)
            end = len(ids) - 1
            rows = [Row(ids, (end,))]
            rows.extend(Row((*ids, *p), (end + len(p),) * len(tokens), tokens) for p, tokens in deeper.items())
            return rows

        def read(worker: LanguageWorker, states: Any, rows: Sequence[Row]) -> list[dict[int, float]]:
            deep = [place for place, row in enumerate(rows) for _ in row.targets]
            flat = [place for place, row in enumerate(rows) if not row.targets]
            targets = [target for row in rows for target in row.targets]
            lines = [place for place, row in enumerate(rows) for _ in row.reads]
            found: list[dict[int, float]] = [{} for _ in rows]
            if flat:
                at = [line for line, place in enumerate(lines) if not rows[place].targets]
                for place, values in zip(flat, worker.head.logits(states[at], first).double().tolist(), strict=True):
                    found[place].update(zip(first, values, strict=True))
            if deep:  # all at once: the whole vocabulary is read for them
                at = [line for line, place in enumerate(lines) if rows[place].targets]
                for place, target, value in zip(
                    deep, targets, worker.logprobs(states[at], targets).tolist(), strict=True
                ):
                    found[place][target] = value
            return found

        def choices(found: Sequence[dict[int, float]], usage: Usage) -> Choices:
            return Choices(tree.logprobs(dict(zip([(), *deeper], found, strict=True))), usage=usage)

        return await self._items.run(prompts, None, rows_of, read, choices, packing=self._packing != "off")

    async def continuation_logprobs(
        self, prompts: Sequence[Prompt], answers: Sequence[str], *, end_of_turn: bool = True
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``. Logits are computed at the answers' tokens alone."""

        known: dict[tuple[str, ...], list[int]] = {}

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            key = conversation_key(prompt)
            if key not in known:  # an item's prompt is the same for all of its candidates
                known[key] = prompt_ids(self._tokenizer, prompt)
            before = known[key]
            after = answer_ids(self._tokenizer, answer, end_of_turn=end_of_turn)
            if not before or not after:
                raise ValueError("the prompt or the answer has no tokens")
            ids = (*before, *after)
            return [Row(ids, tuple(range(len(before) - 1, len(ids) - 1)), tuple(after))]

        def read(worker: LanguageWorker, states: Any, rows: Sequence[Row]) -> list[tuple[float, ...]]:
            values = worker.logprobs(states, [target for row in rows for target in row.targets])
            return [tuple(part.tolist()) for part in each(values, rows)]

        def continuation(found: Sequence[tuple[float, ...]], usage: Usage) -> Continuation:
            return Continuation(found[0], usage)

        packing = self._packing == "on" or (self._packing == "auto" and self._items.executor.merge)
        return await self._items.run(prompts, answers, rows_of, read, continuation, packing=packing)

    def _ends(self, prompt: Prompt, _: str) -> list[Row]:
        ids = tuple(prompt_ids(self._tokenizer, prompt))
        return [Row(ids, (len(ids) - 1,))]


def make_worker(loaded: Loaded, options: HFOptions) -> LanguageWorker:
    """The fastest core that gives what the model's own forward pass gives, tried on a few tokens."""
    model = loaded.model

    def own(output: Any) -> Any:
        return output.logits

    plain = OwnCore(model, own, per_token=True)
    rows = probe_rows(loaded.tokenizer)
    try:
        core = HiddenCore(model, compiled=options.compile)
        head = LanguageHead(model)
    except (AttributeError, TypeError, KeyError):
        return LanguageWorker(loaded, plain, OwnLogits())
    core.packable = core.packable and options.packing != "off"
    core.paddable = shares_passes(options, core.device)
    seen = []

    def finish(states: Any) -> Any:
        seen.append(states)
        return head.logits(states)

    if not try_core(core, rows, finish, lambda row: plain.alone(row).float()):
        return LanguageWorker(loaded, plain, OwnLogits())
    if not _narrows(head, seen[0]):
        head.output = None
    return LanguageWorker(loaded, core, head)


def _narrows(head: LanguageHead, states: Any) -> bool:
    """Whether some entries of the vocabulary alone have the logits that they have among all."""
    torch = require("torch", package="carb-scorers", extra="hf")
    some = (0, 1, 2)
    with torch.inference_mode():
        try:
            narrow, whole = head.logits(states, some), head.logits(states)[:, list(some)]
        except FAILURES:
            return False
    return close(narrow.to(states.dtype), whole.to(states.dtype))


@uncollected()
def open_language_model(target: str, options: HFOptions) -> HFLanguageModel:
    """Load ``target`` once on every device asked for.

    Raises:
        CarbError: see ``load``.
    """
    model_source(target)  # a typing error is told before torch is imported, which takes seconds

    def opened(device: str) -> LanguageWorker:
        return make_worker(load(target, options, "AutoModelForCausalLM", device), options)

    return HFLanguageModel(target, open_workers(options, opened), options)


def around(model: Any, tokenizer: Any) -> HFLanguageModel:
    """A language model around one of transformers that is open already, such as one in training.

    Args:
        model: a causal language model, in evaluation mode while it is asked.
        tokenizer: The tokenizer of the model.
    """
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1_000_000
    core = OwnCore(model, lambda output: output.logits, per_token=True)
    worker = LanguageWorker(Loaded(model, tokenizer, "", limit), core, OwnLogits())
    return HFLanguageModel("open model", [worker], HFOptions())


LANGUAGE_MODEL = BackendKind(HFOptions, open_language_model)
