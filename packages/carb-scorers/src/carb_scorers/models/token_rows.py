"""Prompts as rows of tokens, and models that read rows. A row that cannot be made is an error of
its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jinja2 import TemplateError

from carb_scorers.models.chat_tokens import Ids, answer_ids, prompt_ids, word_tree
from carb_scorers.models.protocol import (
    Choices,
    Continuation,
    Failure,
    Prompt,
    Prompts,
    Texts,
    failure,
)
from carb_scorers.scorer import Usage

A = TypeVar("A")
Finish = Callable[[Sequence[Sequence[float]], Usage], A]
"""Makes an answer from the log-probabilities of a prompt's rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids, and the readings at their last places."""

    tokens: Ids
    shared: int | None = None
    """How many of the first tokens are computed once for all rows that share them; ``None``: the
    common part of an item's rows."""
    keep: int = 1
    """How many of the last places are read."""
    targets: Ids = ()
    """Tokens whose log-probabilities are wanted there: any number at one place, or one for each of
    several."""
    types: Ids = ()
    """Token types, for a model that takes them from its tokenizer; else none."""


Rows = Sequence[Row]
RowsOf = Callable[[Prompt, str], Rows]
"""The rows of a prompt and an answer; raises ``ValueError`` where there can be none."""


Fitted = tuple[Rows, Usage] | Failure


def fitted(
    prompts: Prompts,
    answers: Texts | None,
    rows_of: RowsOf,
    *,
    limit: int,
    embeddings: int | None = None,
) -> list[Fitted]:
    """The rows of each prompt, none over the limit in tokens or with a token beyond the model's
    embeddings. Only the first row's tokens count as its own."""
    known: dict[object, Fitted] = {}  # equal candidates are put into tokens once
    out = []
    if answers is None:
        answers = [""] * len(prompts)
    for prompt, answer in zip(prompts, answers, strict=True):
        key = prompt.messages, prompt.cue, answer
        if key not in known:
            known[key] = _fitted(prompt, answer, rows_of, limit, embeddings)
        out.append(known[key])
    return out


def without_padding(tokens: Ids, padding: int | None) -> Ids:
    """A row up to its last token that is not the padding, where transformers reads a head."""
    end = len(tokens)
    while end > 1 and tokens[end - 1] == padding:
        end -= 1
    return tokens[:end]


def _fitted(
    prompt: Prompt, answer: str, rows_of: RowsOf, limit: int, embeddings: int | None
) -> Fitted:
    try:
        rows = rows_of(prompt, answer)
    except (ValueError, TypeError, TemplateError) as error:
        # A lone surrogate (UnicodeEncodeError is a ValueError), no tokens, or a template that
        # objects.
        return failure("text", f"cannot be put into tokens: {error}")
    usage = Usage(input_tokens=len(rows[0].tokens))
    if (longest := max(len(row.tokens) for row in rows)) > limit:
        return failure("too-long", f"{longest} tokens, there is room for {limit}", usage)
    largest = max(max(row.tokens) for row in rows)
    if embeddings is not None and largest >= embeddings:
        message = (
            f"token {largest} has no embedding: the tokenizer has more tokens than the model's "
            f"{embeddings}; the two do not belong together"
        )
        return failure("text", message, usage)
    return rows, usage


class TokenLanguageModel:
    """Shared by language models that take token ids; see ``LanguageModel``."""

    def __init__(self, model: str, revision: str, tokenizer: Any) -> None:
        self.model = model
        self.revision: str | None = revision
        self._tokenizer = tokenizer

    def _asked(self, prompt: Prompt, _: str) -> list[Row]:
        """The row behind which a model writes."""
        return [Row(tuple(prompt_ids(self._tokenizer, prompt)))]

    async def _logprobs(
        self,
        prompts: Prompts,
        answers: Texts | None,
        rows_of: RowsOf,
        finish: Finish[A],
    ) -> list[A | Failure]:
        """An answer to each prompt, which ``finish`` makes from the log-probabilities of its rows'
        targets."""
        raise NotImplementedError

    async def next_logprobs(self, prompts: Prompts, wanted: Texts) -> list[Choices | Failure]:
        """See ``LanguageModel``. A string of several tokens costs a further row.

        Raises:
            CarbError: the tokenizer gives strings the same tokens.
        """
        tree = word_tree(self._tokenizer, wanted)

        def rows_of(prompt: Prompt, _: str) -> list[Row]:
            before = prompt_ids(self._tokenizer, prompt, answers_at_once=True)
            ids = (*before, *tree.lead)
            return [Row((*ids, *path), targets=tokens) for path, tokens in tree.after.items()]

        return await self._logprobs(prompts, None, rows_of, tree.choices)

    async def continuation_logprobs(
        self, prompts: Prompts, answers: Texts, *, end_of_turn: bool = True
    ) -> list[Continuation | Failure]:
        """See ``LanguageModel``."""
        known: dict[object, list[int]] = {}

        def rows_of(prompt: Prompt, answer: str) -> list[Row]:
            key = prompt.messages, prompt.cue
            if key not in known:  # an item's prompt is the same for all of its candidates
                known[key] = prompt_ids(self._tokenizer, prompt, answers_at_once=prompt.at_once)
            before = known[key]
            after = answer_ids(self._tokenizer, answer, end_of_turn=end_of_turn)
            if not before or not after:
                raise ValueError("the prompt or the answer has no tokens")
            # The prompt's last token predicts the answer's first. What the answer's last token
            # predicts is not asked.
            tokens = (*before, *after[:-1])
            shared = len(before) - 1
            return [Row(tokens, shared, len(after), tuple(after))]

        def read(logprobs: Sequence[Sequence[float]], usage: Usage) -> Continuation:
            return Continuation(tuple(logprobs[0]), usage)

        return await self._logprobs(prompts, answers, rows_of, read)
