"""An item's rows: made, shortened where the user asked for that, computed, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio.to_thread

from carb_data import CarbError
from carb_scorers.models.fitting import fitted
from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.tokens import groups_of
from carb_scorers.models.transformers.batching import Row
from carb_scorers.models.transformers.cores import HasCore
from carb_scorers.models.transformers.executor import Executor, Read
from carb_scorers.models.transformers.loading import HFOptions, Loaded
from carb_scorers.scorer import Usage


class HasLoaded(HasCore, Protocol):
    """A worker that knows its model."""

    @property
    def loaded(self) -> Loaded:
        """Model and tokenizer."""
        ...


W = TypeVar("W", bound=HasLoaded)
T = TypeVar("T")
A = TypeVar("A")

RowsOf = Callable[[Prompt, str], Sequence[Row]]
"""The rows of a prompt and an answer; raises ``ValueError`` where there can be none."""


def shares_passes(options: HFOptions, device: Any) -> bool:
    """Whether items share passes on a device of torch."""
    return options.batching == "budget" or (options.batching == "auto" and device.type != "cpu")


class ItemRunner(Generic[W]):
    """From prompts to answers through an executor.

    Args:
        workers: each with ``core`` and ``loaded``.
        options: the options that decide batches, packing and what becomes of long rows.
    """

    def __init__(self, workers: Sequence[W], options: HFOptions) -> None:
        merge = shares_passes(options, workers[0].core.device)
        self._workers: tuple[W, ...] = tuple(workers)
        self.executor: Executor[W] = Executor(workers, budget=options.batch_tokens, merge=merge)
        self._tokenizer = workers[0].loaded.tokenizer
        self._max_length = workers[0].loaded.max_length
        self._truncate: Literal["error", "middle"] = options.truncate

    @property
    def workers(self) -> tuple[W, ...]:
        """The workers.

        Raises:
            CarbError: they were closed.
        """
        if not self._workers:
            raise CarbError("This scorer was closed; open it again.")
        return self._workers

    def close(self) -> None:
        """Drop the models."""
        self._workers = ()
        self.executor.close()

    async def run(
        self,
        prompts: Sequence[Prompt],
        answers: Sequence[str] | None,
        rows_of: RowsOf,
        read: Read[W, T],
        finish: Callable[[Sequence[T], Usage], A],
        *,
        packing: bool,
    ) -> list[A | Failure]:
        """An answer to each prompt, in order; prompts of one group are computed together.

        Args:
            prompts: The prompts to ask.
            answers: given answers, one for each prompt, or none.
            rows_of: the rows of a prompt.
            read: the function that reads outcomes, as for ``Executor.map``.
            finish: the function from the outcomes of a prompt's rows to its answer.
            packing: the way of packing, as for ``Executor.map``.
        """
        assert self.workers  # open
        members = groups_of([prompt.group for prompt in prompts])
        made: dict[int, list[tuple[int, Usage]]] = {}

        def encode(which: int) -> list[Row | Failure]:
            indices = members[which]
            parts = self._rows(
                [prompts[i] for i in indices], None if answers is None else [answers[i] for i in indices], rows_of
            )
            made[which] = [(len(rows), usage) for rows, usage in parts]
            return [row for rows, _ in parts for row in rows]

        numbers = range(len(members))
        outcomes = await anyio.to_thread.run_sync(lambda: self.executor.map(numbers, encode, read, packing=packing))
        out: dict[int, A | Failure] = {}
        for which, found in enumerate(outcomes):
            at = 0
            for index, (count, usage) in zip(members[which], made[which], strict=True):
                parts = found[at : at + count]
                at += count
                failure = next((part for part in parts if isinstance(part, Failure)), None)
                good = [part for part in parts if not isinstance(part, Failure)]
                out[index] = finish(good, usage) if failure is None else Failure(failure.error, usage)
        return [out[index] for index in range(len(prompts))]

    def encode(self, prompts: Sequence[Prompt], rows_of: RowsOf, *, room: int) -> list[tuple[Row | Failure, Usage]]:
        """The first row of each prompt, with room left behind it."""
        parts = [self._rows([prompt], None, rows_of, room)[0] for prompt in prompts]
        return [(rows[0], usage) for rows, usage in parts]

    def _rows(
        self, prompts: Sequence[Prompt], answers: Sequence[str] | None, rows_of: RowsOf, room: int = 0
    ) -> list[tuple[Sequence[Row | Failure], Usage]]:
        """All rows of an item's prompts, and the tokens of each prompt; see ``fitted``."""
        asked = list(zip(prompts, answers or [""] * len(prompts), strict=True))
        limit = max(1, self._max_length - room)
        found = fitted(self._tokenizer, asked, rows_of, _sizes, limit=limit, truncate=self._truncate)
        return [([rows] if isinstance(rows, Failure) else rows, usage) for rows, usage in found]


def _sizes(rows: Sequence[Row]) -> list[int]:
    return [len(row.tokens) for row in rows]
