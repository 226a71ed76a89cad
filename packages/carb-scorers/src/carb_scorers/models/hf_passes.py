"""Rows of tokens through a model on transformers: batches, prefixes computed once, and running out
of memory."""

from __future__ import annotations

import gc
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio.from_thread

from carb_data import CarbError
from carb_scorers.models.chat_tokens import groups_of
from carb_scorers.models.hf_loading import HFOptions, Loaded
from carb_scorers.models.hf_memory import batch_tokens
from carb_scorers.models.protocol import Failure, Prompt, message
from carb_scorers.models.shared_prefix import (
    PrefixCache,
    common_prefix,
    padded,
    token_budget_batches,
)
from carb_scorers.models.source import hf_library
from carb_scorers.models.token_rows import Row, RowsOf, fitted, without_padding
from carb_scorers.scorer import ScoreError, Usage

ITEM_TOKENS = 512
"""Padded tokens in a pass over several rows of one item, where items have passes of their own.
Short rows share a pass. Longer ones do not: padding would cost more than a pass."""
ANSWER_TOKENS = 128
"""The same where every token of an answer is read: each place, padding too, costs a row of the
whole vocabulary."""

PROBE = (
    "What do people eat on New Year's Eve?",
    "What do people drink then?",
)
PROBE_ANSWERS = (" Noodles, for a long life.", " A carp, and they keep one scale.")
HELD = 4
"""Rows of the first request that a head's short cut is held against the model's own pass on."""
TOLERANCES = {"float64": 1e-6, "float32": 1e-3, "float16": 0.03, "bfloat16": 0.15}
"""Largest distance of two vectors, relative to the length of one, that passes for rounding. On
Gemma 3 270M and SmolLM2 135M a wrong mask or wrong positions are 0.23 to 0.55 away, rounding is
7e-6 (float32) and 0.07 (bfloat16)."""

FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError)
"""Errors of a model that does not accept its inputs."""

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Way:
    """How rows are computed."""

    cached: bool
    """The common beginning of rows is computed once; else each row by the model's own pass over
    whole rows."""
    batched: bool
    """Rows may be padded to one another."""


Batches = Iterator[tuple[Sequence[Row], Any]]
"""Rows of a pass, and its outputs ``(rows, places, D)``."""
Read = Callable[[Any, Sequence[Row]], Sequence[T]]
"""From outputs ``(rows, places, D)`` to an outcome for each row; only the last ``keep`` places
count."""


class Passes:
    """Forward passes of one model.

    Args:
        loaded: the model and its tokenizer.
        options: the options that decide batches.
        probe: the rows of a prompt and an answer, on which short cuts are tried.
        forward: a causal model, or its body, that remembers prefixes.
        outputs: function from what ``forward`` gives to a tensor ``(rows, places, D)``.
        whole: function from the model's inputs (``input_ids``, ``attention_mask``, and
            ``token_type_ids`` where rows have some), padded on the right, to ``(rows, places, D)``,
            by the model's own forward pass, with which every other way must agree.
        head: whether one number is read from a row. The model's own pass chooses the place: the
            last token that is not the padding, even where the padding ends each turn.
    """

    def __init__(
        self,
        loaded: Loaded,
        options: HFOptions,
        probe: RowsOf,
        *,
        forward: Callable[..., Any] | None,
        outputs: Callable[[Any], Any],
        whole: Callable[[dict[str, Any]], Any],
        head: bool = False,
    ) -> None:
        self.loaded: Loaded | None = loaded
        self._torch = hf_library("torch")
        self._forward, self._outputs, self._whole = forward, outputs, whole
        self._device = loaded.model.device
        self._keeps = (
            forward is not None and "logits_to_keep" in inspect.signature(forward).parameters
        )
        merges = {"item": False, "budget": True, "auto": self._device.type != "cpu"}
        self.merges = merges[options.batching]
        shared = batch_tokens(options.batch_tokens, loaded.model, logits=not head)
        self.budget = shared if self.merges else ITEM_TOKENS
        config = loaded.model.config.get_text_config()
        self._window: int | None = getattr(config, "sliding_window", None)
        padding = getattr(config, "pad_token_id", None)
        # Some configurations name -1, or a token beyond the table: no row holds that one.
        real = padding is not None and 0 <= padding < (loaded.embeddings or math.inf)
        self._padding: int | None = padding if real else None
        self._head = head
        self._lock = threading.Lock()
        self._way = self._fastest(probe)
        self._held = not head

    def close(self) -> None:
        """Drop the model."""
        self.loaded = self._forward = None

    def open(self) -> Loaded:
        """The model.

        Raises:
            CarbError: it was closed.
        """
        if self.loaded is None:
            raise CarbError("This scorer was closed; open it again.")
        return self.loaded

    @property
    def in_flight(self) -> int | None:
        """How many requests a scorer may have under way: alone, each is kept when it is done."""
        return None if self.merges else 1

    def run(
        self,
        prompts: Sequence[Prompt],
        answers: Sequence[str] | None,
        rows_of: RowsOf,
        read: Read[T],
        finish: Callable[[Sequence[T], Usage], A],
    ) -> list[A | Failure]:
        """An answer to each prompt, in order, which ``finish`` makes from what ``read`` gives for
        its rows.

        Prompts of one group are computed together.
        """
        loaded = self.open()
        made = fitted(
            prompts, answers, rows_of, limit=loaded.max_length, embeddings=loaded.embeddings
        )
        items: list[list[Row]] = []
        numbers: dict[int, int] = {}
        rows_at: dict[int, list[Row]] = {}
        for number, group in enumerate(groups_of([prompt.group for prompt in prompts])):
            rows = _with_prefix(
                {i: entry[0] for i in group if not isinstance(entry := made[i], Failure)}
            )
            rows_at |= rows
            numbers |= dict.fromkeys(rows, number)
            distinct = {row for some in rows.values() for row in some}
            items.append(sorted(distinct, key=lambda row: (row.tokens, row.targets)))
        with self._lock:
            self._hold(next((rows for rows in items if rows), []))
            outcomes = self._compute(items, read)
        out: list[A | Failure] = []
        for i, entry in enumerate(made):
            if isinstance(entry, Failure):
                out.append(entry)
                continue
            parts = [outcomes[numbers[i]][row] for row in rows_at[i]]
            good = [part for part in parts if not isinstance(part, Failure)]
            failure = next((part for part in parts if isinstance(part, Failure)), None)
            usage = entry[1]
            out.append(finish(good, usage) if failure is None else Failure(failure.error, usage))
        return out

    def _compute(
        self, items: Sequence[Sequence[Row]], read: Read[T]
    ) -> list[dict[Row, T | Failure]]:
        """An outcome for each row of each item, computed once for equal rows that may share a
        pass."""
        if self.merges:
            rows = list(dict.fromkeys(row for item in items for row in item))
            shared = dict[Row, T | Failure]()
            for batch in token_budget_batches([len(row.tokens) for row in rows], self.budget):
                self._group([rows[i] for i in batch], read, shared)
            return [shared] * len(items)
        outcomes = [dict[Row, T | Failure]() for _ in items]
        for item, done in zip(items, outcomes, strict=True):
            if item:
                self._group(item, read, done)
        return outcomes

    def _group(self, rows: Sequence[Row], read: Read[T], done: dict[Row, T | Failure]) -> None:
        """Compute rows whose prefixes are read once; where memory runs out, in halves."""
        check_cancelled()
        try:
            with self._torch.inference_mode():
                for batch, outputs in self._by(self._way, rows):
                    done.update(zip(batch, read(outputs, batch), strict=True))
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(self._torch, error):
                raise
        gc.collect()
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        if len(rows) == 1:
            done[rows[0]] = Failure(out_of_memory(len(rows[0].tokens)))
            return
        self.budget = max(1, self.budget // 2)
        middle = len(rows) // 2
        for half in (rows[:middle], rows[middle:]):
            self._group(half, read, done)

    def _by(self, way: Way, rows: Sequence[Row]) -> Batches:
        """Batches of rows with their outputs; what rows begin with is computed once for all of
        them."""
        if not way.cached or any(any(row.types) for row in rows):
            for batch in self._split(way, rows, [len(row.tokens) for row in rows]):
                yield batch, self._padded_right(batch)
            return
        # a head reads up to its token: what follows cannot change that state
        tokens = {
            row: without_padding(row.tokens, self._padding) if self._head else row.tokens
            for row in rows
        }
        start = {row: min(row.shared or 0, len(tokens[row]) - row.keep) for row in rows}
        prefixes = list(dict.fromkeys(tokens[row][: start[row]] for row in rows))
        longest = max(map(len, tokens.values()))
        if len(prefixes) > 1 and not (all(prefixes) and self._pads(way, longest)):
            for prefix in prefixes:
                yield from self._by(
                    way, [row for row in rows if tokens[row][: start[row]] == prefix]
                )
            return
        behind = [len(tokens[row]) - start[row] for row in rows]
        batches = self._split(way, rows, behind, max(map(len, prefixes)))
        forward = self._forward
        assert forward is not None
        known = PrefixCache(forward, prefixes, device=self._device, **self._keeping(()))
        for batch in batches:
            pairs = [(tokens[row][: start[row]], tokens[row][start[row] :]) for row in batch]
            output = known.outputs_behind(pairs, last=batch is batches[-1], **self._keeping(batch))
            yield batch, self._outputs(output)

    def _pads(self, way: Way, length: int) -> bool:
        """Whether rows of that many tokens may be padded. Padding would push tokens out of a
        sliding window."""
        return way.batched and (self._window is None or length <= self._window)

    def _split(
        self, way: Way, rows: Sequence[Row], lengths: Sequence[int], before: int = 0
    ) -> list[list[Row]]:
        """Rows that share a pass: none that padding could change."""
        budget = self.budget if self._pads(way, before + max(lengths)) else 1
        if not self.merges and any(row.keep > 1 for row in rows):
            budget = min(budget, ANSWER_TOKENS)
        return [[rows[i] for i in batch] for batch in token_budget_batches(lengths, budget)]

    def _keeping(self, rows: Sequence[Row]) -> dict[str, int]:
        return {"logits_to_keep": max((row.keep for row in rows), default=1)} if self._keeps else {}

    def _padded_right(self, rows: Sequence[Row]) -> Any:
        """The logits of the last places of each row, from the model's own forward pass over whole
        rows."""
        torch = self._torch
        ids, mask = padded(
            [row.tokens for row in rows], self._device, right=True, token=self._padding or 0
        )
        inputs = {"input_ids": ids, "attention_mask": mask}
        if any(row.types for row in rows):
            types = [row.types or [0] * len(row.tokens) for row in rows]
            inputs["token_type_ids"] = padded(types, self._device, right=True)[0]
        logits = self._whole(inputs)
        if logits.shape[1] == 1:
            return logits
        last = torch.arange(-max(row.keep for row in rows), 0, device=self._device)
        return torch.stack(
            [logits[line, (last + len(r.tokens)).clamp(min=0)] for line, r in enumerate(rows)]
        )

    def _fastest(self, rows_of: RowsOf) -> Way:
        """The fastest way that gives, on a few texts, what the model's own pass gives for each row
        alone. A row that ends with the padding is among them, since heads look for it."""
        questions = (PROBE[0], PROBE[0], PROBE[1])
        prompts = [
            Prompt((message("user", question),), group=n // 2)
            for n, question in enumerate(questions)
        ]
        answers = (*PROBE_ANSWERS, PROBE_ANSWERS[0])
        loaded = self.open()
        made = fitted(
            prompts, answers, rows_of, limit=loaded.max_length, embeddings=loaded.embeddings
        )
        rows = [entry[0][0] for entry in made if not isinstance(entry, Failure)]
        if len(rows) < len(made):
            return Way(cached=False, batched=False)
        starts = [common_prefix([row.tokens for row in rows[:2]])] * 2 + [len(rows[2].tokens) // 2]
        rows = [replace(row, shared=start) for row, start in zip(rows, starts, strict=True)]
        if self._head and self._padding is not None:
            rows[1] = _lengthened(rows[1], self._padding)
        if not self.merges:
            rows = rows[:2]  # an item's rows have one prefix, and are padded to one another alone
        alone = self._alone(rows)
        for cached in (True, False) if self._forward is not None else (False,):
            for batched in (True, False):
                way = Way(cached, batched)
                if self._agrees(way, rows if batched else rows[:1], alone):
                    return way
        # What no way gives is left to the model's own pass over each row: NaN agrees with nothing,
        # itself included.
        return Way(cached=False, batched=False)

    def _hold(self, rows: Sequence[Row]) -> None:
        """Hold a head's first rows against the model's own pass; where they differ, use that."""
        if self._held or not rows:
            return
        some = rows[:HELD]
        try:
            if not self._agrees(self._way, some, self._alone(some)):
                self._way = Way(cached=False, batched=False)
            self._held = True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(self._torch, error):
                raise  # else the next request is held, or the rows fail on their own

    def _alone(self, rows: Sequence[Row]) -> dict[Row, Any]:
        """The last output of each row, by the model's own pass over that row alone."""
        with self._torch.inference_mode():
            return {row: self._padded_right([row])[0, -1] for row in rows}

    def _agrees(self, way: Way, rows: Sequence[Row], alone: Mapping[Row, Any]) -> bool:
        """Whether a way gives for rows what the model's own pass gives, within rounding."""
        last: dict[Row, Any] = {}
        try:
            with self._torch.inference_mode():
                for batch, outputs in self._by(way, rows):
                    last.update(zip(batch, outputs[:, -1], strict=True))
            stacked = (self._torch.stack([some[row] for row in rows]) for some in (last, alone))
            return close(*stacked)
        except FAILURES as error:
            if is_out_of_memory(self._torch, error):
                raise
            return False


def _with_prefix(rows: Mapping[int, Sequence[Row]]) -> dict[int, list[Row]]:
    """An item's rows; those that say nothing else share what all of them begin with."""
    every = [row.tokens for some in rows.values() for row in some]
    start = common_prefix(every) if every else 0
    return {
        i: [replace(row, shared=start) if row.shared is None else row for row in some]
        for i, some in rows.items()
    }


def _lengthened(row: Row, token: int) -> Row:
    """A row with a token at its end."""
    return replace(row, tokens=(*row.tokens, token), types=(*row.types, *row.types[-1:]))


def close(first: Any, second: Any) -> bool:
    """Whether the lines of two tensors agree within rounding; never where there is NaN.

    Rounding is measured by the longest line, since a reward may be close to 0.
    """
    if first.shape != second.shape:
        return False
    tolerance = max(
        TOLERANCES.get(str(t.dtype).removeprefix("torch."), 0.0) for t in (first, second)
    )
    first, second = first.double(), second.double()
    longest = second.norm(dim=-1).max()
    return bool(((first - second).norm(dim=-1) <= tolerance * longest).all())


def is_out_of_memory(torch: Any, error: Exception) -> bool:
    """Whether an exception means that memory, of a GPU or of the machine, ran out."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        "DefaultCPUAllocator" in str(error) and "memory" in str(error)
    )


def out_of_memory(tokens: int) -> ScoreError:
    """The error of a row that does not even fit alone."""
    message = f"out of memory on {tokens} tokens alone; use a smaller dtype or max_length"
    return ScoreError(kind="out-of-memory", message=message)


def check_cancelled() -> None:
    """Raise where the task that waits for this thread was cancelled; elsewhere nothing happens."""
    with suppress(RuntimeError):
        anyio.from_thread.check_cancelled()
