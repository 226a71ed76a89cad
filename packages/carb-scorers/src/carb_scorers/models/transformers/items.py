"""An item's rows: made, shortened where the user asked for that, computed, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Literal, Protocol, TypeVar

import anyio.to_thread
from jinja2 import TemplateError

from carb_data import CarbError
from carb_scorers.contract import ScoreError, Usage
from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.tokens import GAP, conversation_key, groups_of, shortened
from carb_scorers.models.transformers.batching import Row
from carb_scorers.models.transformers.cores import HasCore
from carb_scorers.models.transformers.executor import Executor, Read
from carb_scorers.models.transformers.loading import HFOptions, Loaded


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


class ItemRunner(Generic[W]):
    """From prompts to answers through an executor.

    Args:
        workers: each with ``core`` and ``loaded``.
        options: decide batches, packing and what becomes of long rows.
    """

    def __init__(self, workers: Sequence[W], options: HFOptions) -> None:
        on_gpu = workers[0].core.device.type != "cpu"
        merge = options.batching == "budget" or (options.batching == "auto" and on_gpu)
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
            prompts: what to ask.
            answers: given answers, one for each prompt, or none.
            rows_of: the rows of a prompt.
            read: see ``Executor.map``.
            finish: from the outcomes of a prompt's rows to its answer.
            packing: see ``Executor.map``.
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
        """All rows of an item's prompts, and the tokens of each prompt.

        With ``truncate=middle`` every prompt of the item is shortened, until its longest row fits, so that no
        candidate is asked about less than another. A row that does not fit even so fails, and the others do not.
        """
        pairs = list(zip(prompts, answers or [""] * len(prompts), strict=True))
        limit = max(1, self._max_length - room)
        known: dict[object, Sequence[Row] | Failure] = {}  # equal candidates are put into tokens once
        keys = [(conversation_key(prompt), answer) for prompt, answer in pairs]
        for key, pair in zip(keys, pairs, strict=True):
            if key not in known:
                try:
                    known[key] = rows_of(*pair)
                except (ValueError, TypeError, TemplateError) as error:
                    # A lone surrogate (UnicodeEncodeError is a ValueError), no tokens, or a template that objects.
                    message = f"cannot be put into tokens: {error}"
                    known[key] = Failure(ScoreError(kind="text", message=message))
        out: dict[int, tuple[Sequence[Row | Failure], Usage]] = {}
        full: dict[int, Sequence[Row]] = {}
        for place, key in enumerate(keys):
            if isinstance(made := known[key], Failure):
                out[place] = [made], Usage()
            else:
                full[place] = made
        rows = full
        if self._truncate == "middle" and _longest(full) > limit:
            rows = full | self._shortened({i: pairs[i] for i in full}, rows_of, limit)
        for place, own in rows.items():
            before, after = (len(kept[place][0].tokens) for kept in (full, rows))
            if (longest := _longest({place: own})) > limit:
                hint = "truncate=middle" if self._truncate == "error" else "a shorter question is not enough"
                message = f"{longest} tokens, there is room for {limit} ({hint})"
                failure = Failure(ScoreError(kind="too-long", message=message))
                out[place] = [failure], Usage(input_tokens=before)
            else:
                out[place] = own, Usage(input_tokens=after, cut_tokens=before - after)
        return [out[place] for place in range(len(pairs))]

    def _shortened(
        self, pairs: Mapping[int, tuple[Prompt, str]], rows_of: RowsOf, limit: int
    ) -> dict[int, Sequence[Row]]:
        """Rows with shorter questions; those that nothing makes fit are missing."""
        questions = {prompt.question for prompt, _ in pairs.values()}
        if len(questions) != 1 or any(prompt.with_question is None for prompt, _ in pairs.values()):
            return {}

        def made(text: str) -> dict[int, Sequence[Row]]:
            return {
                place: rows_of(replace(prompt, messages=prompt.with_question(text)), answer)
                for place, (prompt, answer) in pairs.items()
                if prompt.with_question is not None
            }

        least = made(GAP)
        pairs = {place: pair for place, pair in pairs.items() if _longest({place: least[place]}) <= limit}
        if not pairs:
            return {}
        text = shortened(self._tokenizer, questions.pop(), lambda text: _longest(made(text)) - limit)
        return {} if text is None else made(text)


def _longest(rows: Mapping[int, Sequence[Row]]) -> int:
    return max((len(row.tokens) for own in rows.values() for row in own), default=0)
