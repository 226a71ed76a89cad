"""Rows of tokens through a model on transformers: batches, prefixes computed once, and running out
of memory."""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import anyio.from_thread

from carb_data import CarbError
from carb_data.errors import require
from carb_scorers.models.chat_tokens import groups_of
from carb_scorers.models.hf_loading import HFOptions, Loaded
from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.shared_prefix import (
    PrefixCache,
    common_prefix,
    padded,
    token_budget_batches,
)
from carb_scorers.models.token_rows import Row, RowsOf, fitted
from carb_scorers.scorer import ScoreError, Usage

ITEM_TOKENS = 512
"""Padded tokens in a pass over several rows of one item, where items have passes of their own:
short rows share one, and longer ones, in which padding would cost more than a pass, do not."""
ANSWER_TOKENS = 128
"""The same where every token of an answer is read: each place, padding too, costs a row of the
whole vocabulary."""

PROBE = (
    "What do people eat on New Year's Eve?",
    " Noodles, for a long life.",
    " A carp, and they keep one scale.",
)
TOLERANCES = {"float64": 1e-6, "float32": 1e-3, "float16": 0.03, "bfloat16": 0.15}
"""Largest distance of two vectors, relative to the length of one, that passes for rounding. On
Gemma 3 270M and SmolLM2 135M a wrong mask or wrong positions are 0.23 to 0.55 away, rounding is
7e-6 (float32) and 0.07 (bfloat16)."""

FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError)
"""What a model raises that does not take what it is given."""

T = TypeVar("T")
A = TypeVar("A")


Read = Callable[[Any, Sequence[Row]], Sequence[T]]
"""From outputs ``(rows, places, D)`` to an outcome for each row; only the last ``keep`` places
count."""


class Passes:
    """Forward passes of one model.

    Args:
        loaded: the model and its tokenizer.
        options: the options that decide batches.
        forward: a causal model, or its body, that remembers prefixes.
        outputs: function from what ``forward`` gives to a tensor ``(rows, places, D)``.
        whole: function from ids and mask, padded on the right, to ``(rows, places, D)``, by the
            model's own forward pass over whole rows: what every other way must agree with.
    """

    def __init__(
        self,
        loaded: Loaded,
        options: HFOptions,
        *,
        forward: Callable[..., Any] | None,
        outputs: Callable[[Any], Any],
        whole: Callable[[Any, Any], Any],
    ) -> None:
        self.loaded: Loaded | None = loaded
        self._torch = require("torch", package="carb-scorers", extra="hf")
        self._outputs, self._whole = outputs, whole
        self._device = loaded.model.device
        self._keeps = (
            forward is not None and "logits_to_keep" in inspect.signature(forward).parameters
        )
        merges = {"item": False, "budget": True, "auto": self._device.type != "cpu"}
        self.merges = merges[options.batching]
        self.budget = options.batch_tokens if self.merges else ITEM_TOKENS
        config = loaded.model.config.get_text_config()
        self._window: int | None = getattr(config, "sliding_window", None)
        self._lock = threading.Lock()
        self._forward, self._batches = forward, True
        self._probe()

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
        made = fitted(prompts, answers, rows_of, limit=self.open().max_length)
        items: list[list[Row]] = []
        placed: dict[int, tuple[int, list[Row]]] = {}
        for number, group in enumerate(groups_of([prompt.group for prompt in prompts])):
            found = {i: own[0] for i in group if not isinstance(own := made[i], Failure)}
            every = [row.tokens for rows in found.values() for row in rows]
            start = common_prefix(every) if every else 0
            for i, rows in found.items():
                placed[i] = (
                    number,
                    [replace(row, own=start) if row.own is None else row for row in rows],
                )
            distinct = {row for i in found for row in placed[i][1]}
            items.append(sorted(distinct, key=lambda row: (row.tokens, row.targets)))
        with self._lock:
            outcomes = self._compute(items, read)
        out: list[A | Failure] = []
        for i, own in enumerate(made):
            if isinstance(own, Failure):
                out.append(own)
                continue
            number, rows = placed[i]
            parts = [outcomes[number][row] for row in rows]
            good = [part for part in parts if not isinstance(part, Failure)]
            failure = next((part for part in parts if isinstance(part, Failure)), None)
            out.append(finish(good, own[1]) if failure is None else Failure(failure.error, own[1]))
        return out

    def _compute(
        self, items: Sequence[Sequence[Row]], read: Read[T]
    ) -> list[dict[Row, T | Failure]]:
        """An outcome for each row of each item, computed once for equal rows that may share a
        pass."""
        if self.merges:
            rows = list(dict.fromkeys(row for own in items for row in own))
            shared = dict[Row, T | Failure]()
            for batch in token_budget_batches([len(row.tokens) for row in rows], self.budget):
                self._group([rows[i] for i in batch], read, shared)
            return [shared] * len(items)
        found = [dict[Row, T | Failure]() for _ in items]
        for own, done in zip(items, found, strict=True):
            if own:
                self._group(own, read, done)
        return found

    def _group(self, rows: Sequence[Row], read: Read[T], done: dict[Row, T | Failure]) -> None:
        """Compute rows whose prefixes are read once; where memory runs out, in halves."""
        check_cancelled()
        try:
            with self._torch.inference_mode():
                for batch, outputs in self._forwards(rows):
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

    def _forwards(self, rows: Sequence[Row]) -> Any:
        """Batches of rows with their outputs; what rows begin with is computed once for all of
        them."""
        if self._forward is None:
            for batch in self._split(rows, [len(row.tokens) for row in rows]):
                yield batch, self._padded_right(batch)
            return
        start = {row: min(row.own or 0, len(row.tokens) - row.keep) for row in rows}
        prefixes = list(dict.fromkeys(row.tokens[: start[row]] for row in rows))
        if len(prefixes) > 1 and not (
            all(prefixes) and self._pads(max(len(row.tokens) for row in rows))
        ):
            for prefix in prefixes:
                yield from self._forwards(
                    [row for row in rows if row.tokens[: start[row]] == prefix]
                )
            return
        batches = self._split(
            rows, [len(row.tokens) - start[row] for row in rows], max(map(len, prefixes))
        )
        known = PrefixCache(self._forward, prefixes, device=self._device, **self._keeping(()))
        for batch in batches:
            pairs = [(row.tokens[: start[row]], row.tokens[start[row] :]) for row in batch]
            found = known.outputs_behind(pairs, last=batch is batches[-1], **self._keeping(batch))
            yield batch, self._outputs(found)

    def _pads(self, length: int) -> bool:
        """Whether rows of that many tokens may be padded. Padding would push tokens out of a
        sliding window."""
        return self._batches and (self._window is None or length <= self._window)

    def _split(
        self, rows: Sequence[Row], lengths: Sequence[int], before: int = 0
    ) -> list[list[Row]]:
        """Rows that share a pass: none that padding could change."""
        budget = self.budget if self._pads(before + max(lengths)) else 1
        if not self.merges and any(row.keep > 1 for row in rows):
            budget = min(budget, ANSWER_TOKENS)
        return [[rows[i] for i in batch] for batch in token_budget_batches(lengths, budget)]

    def _keeping(self, rows: Sequence[Row]) -> dict[str, int]:
        return {"logits_to_keep": max((row.keep for row in rows), default=1)} if self._keeps else {}

    def _padded_right(self, rows: Sequence[Row]) -> Any:
        """The logits of the last places of each row, from the model's own forward pass over whole
        rows."""
        torch = self._torch
        token = getattr(self.open().model.config.get_text_config(), "pad_token_id", None) or 0
        found = self._whole(
            *padded([row.tokens for row in rows], self._device, right=True, token=token)
        )
        if found.shape[1] == 1:
            return found
        last = torch.arange(-max(row.keep for row in rows), 0, device=self._device)
        return torch.stack(
            [found[line, (last + len(r.tokens)).clamp(min=0)] for line, r in enumerate(rows)]
        )

    def _probe(self) -> None:
        """Try on a few tokens which short cuts give what the model's own forward pass gives; the
        others are left."""
        tokenizer = self.open().tokenizer
        question, *ends = (
            tokenizer(text, add_special_tokens=False)["input_ids"] or [0] for text in PROBE
        )
        starts = (question, question, question[1:])
        rows = [
            Row((*start, *end), len(start))
            for start, end in zip(starts, (*ends, ends[0]), strict=True)
        ]
        rows = rows[
            : 3 if self.merges else 2
        ]  # those of one item have one prefix, and are padded to one another alone
        forward = self._forward

        def agrees(batches: bool, tried: Callable[..., Any] | None, count: int) -> bool:
            self._batches, self._forward = batches, tried
            found: dict[Row, Any] = {}
            try:
                with self._torch.inference_mode():
                    for batch, outputs in self._forwards(rows[:count]):
                        found.update(zip(batch, outputs, strict=True))
                return all(close(found[row][-1:], alone[row][-1:]) for row in rows[:count])
            except FAILURES:
                return False

        with self._torch.inference_mode():
            alone = {row: self._padded_right([row])[0] for row in rows}
        counts = (True, len(rows)), (False, 1)
        ways = [(batches, tried, count) for tried in (forward, None) for batches, count in counts]
        # What no way gives is left to the model's own pass over each row: NaN agrees with nothing,
        # itself included.
        self._batches, self._forward = next(
            ((batches, tried) for batches, tried, count in ways if agrees(batches, tried, count)),
            (False, None),
        )


def close(first: Any, second: Any) -> bool:
    """Whether the lines of two tensors agree within rounding; never where there is NaN."""
    if first.shape != second.shape:
        return False
    tolerance = max(
        TOLERANCES.get(str(t.dtype).removeprefix("torch."), 0.0) for t in (first, second)
    )
    first, second = first.double(), second.double()
    return bool(((first - second).norm(dim=-1) <= tolerance * second.norm(dim=-1)).all())


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
