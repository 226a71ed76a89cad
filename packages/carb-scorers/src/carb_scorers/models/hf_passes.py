"""Rows of tokens through a model on transformers: batches, prefixes computed once, and running out
of memory."""

import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple, TypeVar

import anyio.from_thread

from carb_data import CarbError
from carb_scorers.models.chat_tokens import Ids, groups_of
from carb_scorers.models.hf_loading import HFOptions, Loaded
from carb_scorers.models.hf_memory import batch_tokens
from carb_scorers.models.protocol import Failure, Prompt, Prompts, Texts, message
from carb_scorers.models.shared_prefix import (
    PrefixCache,
    common_prefix,
    padded,
    token_budget_batches,
)
from carb_scorers.models.source import hf_library
from carb_scorers.models.token_rows import Fitted, Row, Rows, RowsOf, fitted, without_padding
from carb_scorers.scorer import ScoreError, Usage

ITEM_TOKENS = 512
"""Padded tokens in a pass over several rows of one item, where items have passes of their own.
Short rows share a pass. Longer ones do not: padding would cost more than a pass."""
ANSWER_TOKENS = 128
"""The same where every token of an answer is read: each place, padding too, costs a row of the
whole vocabulary."""

PROBES = (
    ("What do people eat on New Year's Eve?", " Noodles, for a long life."),
    ("What do people eat on New Year's Eve?", " A carp, and they keep one scale."),
    ("What do people drink then?", " Noodles, for a long life."),
)
"""Questions and answers on which short cuts are tried; the first two rows are of one item."""
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


class Way(NamedTuple):
    """How rows are computed."""

    cached: bool
    """The common beginning of rows is computed once; else each row by the model's own pass over
    whole rows."""
    batched: bool
    """Rows may be padded to one another."""


ONE_BY_ONE = Way(cached=False, batched=False)

Batches = Iterator[tuple[Rows, Any]]
"""Rows of a pass, and its outputs ``(rows, places, D)``."""
Read = Callable[[Any, Rows], Sequence[T]]
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
        self._forward = forward
        self._outputs = outputs
        self._whole = whole
        self._device = loaded.model.device
        self._keeps = (
            forward is not None and "logits_to_keep" in inspect.signature(forward).parameters
        )
        merges = {"item": False, "budget": True, "auto": self._device.type != "cpu"}
        self.merges = merges[options.batching]
        shared = batch_tokens(options.batch_tokens, loaded.model, logits=not head)
        self.budget = ITEM_TOKENS
        if self.merges:
            self.budget = shared
        config = loaded.model.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        # Llama 4 attends within chunks, whose borders padding would move.
        self._window = getattr(config, "attention_chunk_size", window)
        # Rows from this length on have other positions, those of their first tokens, too.
        self._stretched = _stretched_from(config)
        self._padding = _padding(config, loaded.embeddings)
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
        if self.merges:
            return None
        return 1

    def run(
        self,
        prompts: Prompts,
        answers: Texts | None,
        rows_of: RowsOf,
        read: Read[T],
        finish: Callable[[Sequence[T], Usage], A],
    ) -> list[A | Failure]:
        """An answer to each prompt, in order, which ``finish`` makes from what ``read`` gives for
        its rows.

        Prompts of one group are computed together.
        """
        made = self._fitted(prompts, answers, rows_of)
        fit = {i: entry[0] for i, entry in enumerate(made) if not isinstance(entry, Failure)}
        items: list[list[Row]] = []
        numbers: dict[int, int] = {}
        rows_at: dict[int, list[Row]] = {}
        for number, group in enumerate(groups_of([prompt.group for prompt in prompts])):
            rows = _with_prefix({i: fit[i] for i in group if i in fit})
            rows_at |= rows
            numbers |= dict.fromkeys(rows, number)
            distinct = set[Row]().union(*rows.values())
            items.append(sorted(distinct, key=lambda row: (row.tokens, row.targets)))
        with self._lock:
            self._hold(next(filter(None, items), []))
            outcomes = self._compute(items, read)
        out: list[A | Failure] = []
        for i, entry in enumerate(made):
            if isinstance(entry, Failure):
                out.append(entry)
                continue
            known = outcomes[numbers[i]]
            parts = [known[row] for row in rows_at[i]]
            out.append(_answer(parts, entry[1], finish))
        return out

    def _fitted(self, prompts: Prompts, answers: Texts | None, rows_of: RowsOf) -> list[Fitted]:
        loaded = self.open()
        limit = loaded.max_length
        embeddings = loaded.embeddings
        return fitted(prompts, answers, rows_of, limit=limit, embeddings=embeddings)

    def _compute(self, items: Sequence[Rows], read: Read[T]) -> list[dict[Row, T | Failure]]:
        """An outcome for each row of each item, computed once for equal rows that may share a
        pass."""
        if self.merges:
            rows = list(dict.fromkeys(chain.from_iterable(items)))
            lengths = [len(row.tokens) for row in rows]
            shared = dict[Row, T | Failure]()
            for batch in token_budget_batches(lengths, self.budget):
                shared |= self._group([rows[i] for i in batch], read)
            return [shared] * len(items)
        return [self._group(item, read) for item in items]

    def _group(self, rows: Rows, read: Read[T]) -> dict[Row, T | Failure]:
        """An outcome for rows whose prefixes are read once; where memory runs out, in halves."""
        if not rows:
            return {}
        check_cancelled()
        done = dict[Row, T | Failure]()
        try:
            with self._torch.inference_mode():
                for batch, outputs in self._by(self._way, rows):
                    done.update(zip(batch, read(outputs, batch), strict=True))
            return done
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(self._torch, error):
                raise
        gc.collect()
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        if len(rows) == 1:
            return {rows[0]: Failure(out_of_memory(len(rows[0].tokens)))}
        self.budget = max(1, self.budget // 2)
        middle = len(rows) // 2
        return self._group(rows[:middle], read) | self._group(rows[middle:], read)

    def _by(self, way: Way, rows: Rows) -> Batches:
        """Batches of rows with their outputs; what rows begin with is computed once for all of
        them."""
        if not way.cached or any(any(row.types) for row in rows):
            lengths = [len(row.tokens) for row in rows]
            for batch in self._split(way, rows, lengths):
                yield batch, self._padded_right(batch)
            return
        parts = {row: self._parts(row) for row in rows}
        prefixes = list(dict.fromkeys(prefix for prefix, _ in parts.values()))
        longest = max(sum(map(len, pair)) for pair in parts.values())
        together = all(prefixes) and self._pads(way, longest)
        if len(prefixes) > 1 and not together:
            for prefix in prefixes:
                alike = [row for row in rows if parts[row][0] == prefix]
                yield from self._by(way, alike)
            return
        behind = [len(parts[row][1]) for row in rows]
        batches = self._split(way, rows, behind, max(map(len, prefixes)))
        forward = self._forward
        assert forward is not None
        known = PrefixCache(forward, prefixes, device=self._device, **self._keeping(()))
        for batch in batches:
            pairs = [parts[row] for row in batch]
            last = batch is batches[-1]
            output = known.outputs_behind(pairs, last=last, **self._keeping(batch))
            yield batch, self._outputs(output)

    def _parts(self, row: Row) -> tuple[Ids, Ids]:
        """The beginning that a row shares, and the rest of it."""
        tokens = row.tokens
        if self._head:  # it reads up to its token: what follows cannot change that state
            tokens = without_padding(tokens, self._padding)
        start = 0
        if len(row.tokens) <= self._stretched:
            start = min(row.shared or 0, len(tokens) - row.keep)
        return tokens[:start], tokens[start:]

    def _pads(self, way: Way, length: int) -> bool:
        """Whether rows of that many tokens may be padded. Padding would push tokens out of a
        sliding window or chunk, and a longer row would stretch the positions of a shorter one."""
        fits = self._window is None or length <= self._window
        return way.batched and fits and length <= self._stretched

    def _split(
        self, way: Way, rows: Rows, lengths: Sequence[int], before: int = 0
    ) -> list[list[Row]]:
        """Rows that share a pass: none that padding could change."""
        budget = 1
        if self._pads(way, before + max(lengths)):
            budget = self.budget
        if not self.merges and any(row.keep > 1 for row in rows):
            budget = min(budget, ANSWER_TOKENS)
        return [[rows[i] for i in batch] for batch in token_budget_batches(lengths, budget)]

    def _keeping(self, rows: Rows) -> dict[str, int]:
        if not self._keeps:
            return {}
        most = max((row.keep for row in rows), default=1)
        return {"logits_to_keep": most}

    def _padded_right(self, rows: Rows) -> Any:
        """The logits of the last places of each row, from the model's own forward pass over whole
        rows."""
        tokens = [row.tokens for row in rows]
        ids, mask = padded(tokens, self._device, right=True, token=self._padding or 0)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if any(row.types for row in rows):
            types = [row.types or [0] * len(row.tokens) for row in rows]
            inputs["token_type_ids"], _ = padded(types, self._device, right=True)
        logits = self._whole(inputs)
        if logits.shape[1] == 1:
            return logits
        most = max(row.keep for row in rows)
        last = self._torch.arange(-most, 0, device=self._device)
        lines = []
        for line, row in enumerate(rows):
            indices = (last + len(row.tokens)).clamp(min=0)
            lines.append(logits[line, indices])
        return self._torch.stack(lines)

    def _fastest(self, rows_of: RowsOf) -> Way:
        """The fastest way that agrees, on a few texts, with the model's own pass over each row
        alone. A row that ends with the padding is among them, since heads look for it."""
        prompts = [Prompt((message("user", question),)) for question, _ in PROBES]
        made = self._fitted(prompts, [answer for _, answer in PROBES], rows_of)
        rows = [entry[0][0] for entry in made if not isinstance(entry, Failure)]
        if len(rows) < len(made):
            return ONE_BY_ONE
        common = common_prefix([row.tokens for row in rows[:2]])
        half = len(rows[2].tokens) // 2
        starts = (common, common, half)
        rows = [replace(row, shared=start) for row, start in zip(rows, starts, strict=True)]
        if self._head and self._padding is not None:
            rows[1] = _lengthened(rows[1], self._padding)
        if not self.merges:
            rows = rows[:2]  # an item's rows have one prefix, and are padded to one another alone
        alone = self._alone(rows)
        finite = all(numbers.isfinite().all() for numbers in alone.values())
        if finite and not self._agrees(ONE_BY_ONE, rows, alone):
            raise CarbError(
                "This model gives one text another score at each pass (its attention is random); "
                "choose another model."
            )
        for cached, batched in product((True, False), (True, False)):
            if cached and self._forward is None:
                continue
            way = Way(cached, batched)
            if self._agrees(way, rows if batched else rows[:1], alone):
                return way
        # What no way gives is left to the model's own pass over each row: NaN agrees with nothing,
        # itself included.
        return ONE_BY_ONE

    def _hold(self, rows: Rows) -> None:
        """Hold a head's first rows against the model's own pass; where they differ, use that."""
        if self._held or not rows:
            return
        some = rows[:HELD]
        try:
            if not self._agrees(self._way, some, self._alone(some)):
                self._way = ONE_BY_ONE
            self._held = True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(self._torch, error):
                raise  # else the next request is held, or the rows fail on their own

    def _alone(self, rows: Rows) -> dict[Row, Any]:
        """The last output of each row, by the model's own pass over that row alone."""
        with self._torch.inference_mode():
            return {row: self._padded_right([row])[0, -1] for row in rows}

    def _agrees(self, way: Way, rows: Rows, alone: Mapping[Row, Any]) -> bool:
        """Whether a way agrees with the model's own pass on rows, within rounding."""
        last: dict[Row, Any] = {}
        try:
            with self._torch.inference_mode():
                for batch, outputs in self._by(way, rows):
                    last.update(zip(batch, outputs[:, -1], strict=True))
            stack = self._torch.stack
            given = stack([last[row] for row in rows])
            expected = stack([alone[row] for row in rows])
            return close(given, expected)
        except FAILURES as error:
            if is_out_of_memory(self._torch, error):
                raise
            return False


def _stretched_from(config: Any) -> int:
    """The length from which longrope stretches all positions of a row."""
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        return int(rope["original_max_position_embeddings"])
    return sys.maxsize


def _padding(config: Any, embeddings: int | None) -> int | None:
    """The padding token. Some configurations name -1, or a token beyond the table: no row holds
    that one."""
    padding: int | None = getattr(config, "pad_token_id", None)
    if padding in range(embeddings or sys.maxsize):
        return padding
    return None


def _answer(
    parts: Sequence[T | Failure], usage: Usage, finish: Callable[[Sequence[T], Usage], A]
) -> A | Failure:
    """The answer that the outcomes of a prompt's rows make; a failure where one of them is."""
    good = []
    for part in parts:
        if isinstance(part, Failure):
            return Failure(part.error, usage)
        good.append(part)
    return finish(good, usage)


def _with_prefix(rows: Mapping[int, Rows]) -> dict[int, list[Row]]:
    """An item's rows; those that say nothing else share what all of them begin with."""
    every = [row.tokens for some in rows.values() for row in some]
    start = 0
    if every:
        start = common_prefix(every)

    def shared(row: Row) -> Row:
        if row.shared is None:
            return replace(row, shared=start)
        return row

    return {index: [*map(shared, some)] for index, some in rows.items()}


def _lengthened(row: Row, token: int) -> Row:
    """A row with a token at its end."""
    tokens = (*row.tokens, token)
    types = (*row.types, *row.types[-1:])
    return replace(row, tokens=tokens, types=types)


def close(first: Any, second: Any) -> bool:
    """Whether the lines of two tensors agree within rounding; never where there is NaN.

    Rounding is measured by the longest line, since a reward may be close to 0.
    """
    if first.shape != second.shape:
        return False
    names = [str(tensor.dtype).removeprefix("torch.") for tensor in (first, second)]
    tolerance = max(TOLERANCES.get(name, 0.0) for name in names)
    first = first.double()
    second = second.double()
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
