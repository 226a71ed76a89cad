"""Runs packs through cores: tokens prepared ahead, equal work done once, memory that runs out survived."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import anyio.from_thread

from carb_data.extras import require
from carb_scorers.models.protocol import Failure
from carb_scorers.models.transformers.batching import Pack, Row, order, pack_group, plan_passes
from carb_scorers.models.transformers.cores import HasCore, row_alone
from carb_scorers.models.transformers.threads import Threads
from carb_scorers.scorer import ScoreError

PACK_TOKENS = 4096
"""Tokens in a pass of one item's rows, at most (but for a row that is longer alone). Not an option, so that no
option changes a score; where memory runs out, it is halved."""

CHUNK = 64
"""Items that share passes have their tokens prepared so many at once; while one chunk is computed, the next is
prepared. Items with passes of their own are prepared one by one, so that no worker waits long for another's last."""

W = TypeVar("W", bound=HasCore)
X = TypeVar("X")
T = TypeVar("T")

Read = Callable[[W, Any, Sequence[Row]], Sequence[T]]
Done = dict[tuple[Row, ...], dict[Row, T | Failure]]
"""Outcomes of rows by the item that they belong to."""


class _StoppedError(Exception):
    """Another worker has failed, or was told to stop."""


class Executor(Generic[W]):
    """Computes the rows of items on one or more workers, each with a core (a model on a device) of its own.

    Args:
        workers: one core each.
        budget: padded tokens in a pass that items share.
        merge: whether items share passes; see ``plan_passes``.
    """

    def __init__(self, workers: Sequence[W], *, budget: int, merge: bool) -> None:
        self._torch = require("torch", package="carb-scorers", extra="hf")
        self._workers = tuple(workers)
        self._budgets = [budget if merge else PACK_TOKENS] * len(self._workers)
        self.merge = merge
        self._threads = Threads(sum(worker.core.device.type == "cpu" for worker in workers))
        self._lock = threading.Lock()

    @property
    def budget(self) -> int:
        """Padded tokens in a pass, as far as it has been halved by now."""
        return min(self._budgets)

    def close(self) -> None:
        """Drop the workers."""
        self._workers = ()

    def map(
        self, items: Sequence[X], encode: Callable[[X], Sequence[Row | Failure]], read: Read[W, T], *, packing: bool
    ) -> list[list[T | Failure]]:
        """An outcome for each row of each item.

        Args:
            items: the items, of the type that ``encode`` takes.
            encode: the function that makes an item's rows; it is called once per item, in a thread of its own.
            read: the function from states ``(reads, D)`` of some rows to one outcome per row; it is called under
                inference mode.
            packing: whether rows of an item may share a sequence, where a core can do that.

        Returns:
            Per item, per row, in order. Rows that did not fit into memory alone are failures.
        """
        with self._lock:  # cores and heads hold state while they run
            return self._map(items, encode, read, packing)

    def _map(
        self, items: Sequence[X], encode: Callable[[X], Sequence[Row | Failure]], read: Read[W, T], packing: bool
    ) -> list[list[T | Failure]]:
        outcomes: list[list[T | Failure]] = [[] for _ in items]
        done: Done[T] = {}
        stopped = threading.Event()
        size = max(1, min(CHUNK, -(-len(items) // (4 * len(self._workers))))) if self.merge else 1
        starts = iter(range(0, len(items), size))
        lock = threading.Lock()
        with ThreadPoolExecutor(1, "encode") as encoder:

            def prepare(start: int) -> tuple[int, list[Sequence[Row | Failure]]]:
                return start, [encode(item) for item in items[start : start + size]]

            ahead = [encoder.submit(prepare, start) for _, start in zip(self._workers, starts, strict=False)]

            def work(number: int) -> None:
                try:
                    with self._threads.shared():
                        while not stopped.is_set():
                            with lock:
                                if not ahead:
                                    return
                                chunk = ahead.pop(0)
                                if (start := next(starts, None)) is not None:
                                    ahead.append(encoder.submit(prepare, start))
                            first, encoded = chunk.result()
                            found = self._chunk(number, encoded, read, packing, done, stopped)
                            outcomes[first : first + len(encoded)] = found
                except BaseException:
                    stopped.set()
                    raise

            with ThreadPoolExecutor(len(self._workers), "score") as pool:
                others = [pool.submit(work, number) for number in range(1, len(self._workers))]
                with suppress(_StoppedError):  # the error of the worker that stopped the others is told
                    work(0)  # in the calling thread, which may be told to stop
                for other in others:
                    with suppress(_StoppedError):
                        other.result()
        return outcomes

    def _chunk(
        self,
        number: int,
        encoded: Sequence[Sequence[Row | Failure]],
        read: Read[W, T],
        packing: bool,
        done: Done[T],
        stopped: threading.Event,
    ) -> list[list[T | Failure]]:
        """Compute a chunk; items with the very same rows as an earlier one have their outcomes already."""
        keys = [tuple(sorted({r for r in rows if isinstance(r, Row)}, key=order)) for rows in encoded]
        for key in keys:
            done.setdefault(key, {})
        own = dict.fromkeys(keys)
        while groups := [(key, left) for key in own if (left := [r for r in key if r not in done[key]])]:
            for members in self._passes(number, [rows for _, rows in groups], packing):
                if stopped.is_set():
                    break
                if number == 0:
                    check_cancelled()
                packs = [pack for _, pack in members]
                values = self._attempt(self._workers[number], packs, read)
                if values is None:
                    values = self._give_way(number, packs)
                owners = [(groups[which][0], row) for which, pack in members for row in pack.rows]
                for (key, row), value in zip(owners, values, strict=False):
                    done[key][row] = value
                if not values:
                    break  # plan again, with half the budget
            if stopped.is_set():
                raise _StoppedError
        return [
            [entry if isinstance(entry, Failure) else done[key][entry] for entry in rows]
            for key, rows in zip(keys, encoded, strict=True)
        ]

    def _passes(self, number: int, groups: Sequence[Sequence[Row]], packing: bool) -> list[list[tuple[int, Pack]]]:
        core, budget = self._workers[number].core, self._budgets[number]
        divide: Callable[[Sequence[Row]], list[Pack]]
        if core.packable and packing:
            divide = partial(pack_group, cost=core.cost, longest=min(budget, PACK_TOKENS))
        else:
            divide = _alone
        merge = self.merge and core.paddable
        return plan_passes(groups, divide, budget=budget, merge=merge, together=core.together and core.paddable)

    def _attempt(self, worker: W, members: Sequence[Pack], read: Read[W, T]) -> Sequence[T | Failure] | None:
        """The outcomes of a pass, or ``None`` where memory ran out."""
        try:
            with self._torch.inference_mode():
                return read(worker, worker.core.states(members), [row for pack in members for row in pack.rows])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(self._torch, error):
                raise
        gc.collect()
        if worker.core.device.type == "cuda":  # not run on a GPU by any test
            self._torch.cuda.empty_cache()
        return None

    def _give_way(self, number: int, members: Sequence[Pack]) -> Sequence[Failure]:
        """After memory ran out: halve the budget and give nothing, or give up a row that does not fit alone."""
        rows = [row for pack in members for row in pack.rows]
        if len(rows) > 1:
            size = max(pack.length for pack in members) * len(members)
            self._budgets[number] = max(1, min(self._budgets[number], size) // 2)
            return []
        return [Failure(out_of_memory(len(rows[0].tokens)))]


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


def _alone(rows: Sequence[Row]) -> list[Pack]:
    return [row_alone(row) for row in sorted(rows, key=order)]


def each(values: Any, rows: Sequence[Row]) -> Iterator[Any]:
    """Cut a tensor ``(reads, ...)`` into the parts that belong to each row."""
    start = 0
    for row in rows:
        yield values[start : start + len(row.reads)]
        start += len(row.reads)
