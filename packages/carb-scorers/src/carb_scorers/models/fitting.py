"""What becomes of a prompt that is too long for a model: an error of its own, or a shorter question for all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from jinja2 import TemplateError

from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.tokens import GAP, conversation_key, shortened
from carb_scorers.scorer import ScoreError, Usage

R = TypeVar("R")


def fitted(
    tokenizer: Any,
    asked: Sequence[tuple[Prompt, str]],
    make: Callable[[Prompt, str], R],
    sizes: Callable[[R], Sequence[int]],
    *,
    limit: int,
    truncate: Literal["error", "middle"],
) -> list[tuple[R | Failure, Usage]]:
    """The rows of one item's prompts, each with its tokens, or why there are none.

    With ``truncate=middle`` every prompt of the item is shortened, until its longest row fits, so that no candidate is
    asked about less than another. A row that does not fit even so fails, and the others do not.

    Args:
        tokenizer: the tokenizer, which decides where a question is cut.
        asked: the item's prompts, each with a given answer, which may be empty.
        make: the rows of one of them; raises where it cannot be put into tokens.
        sizes: how many tokens each of these rows has; the first one's are counted as the prompt's.
        limit: the largest number of tokens that a row may have.
        truncate: what becomes of a text that is too long, as said above.
    """
    known: dict[object, R | Failure] = {}  # equal candidates are put into tokens once
    keys = [(conversation_key(prompt), answer) for prompt, answer in asked]
    for key, pair in zip(keys, asked, strict=True):
        if key not in known:
            try:
                known[key] = make(*pair)
            except (ValueError, TypeError, TemplateError) as error:
                # A lone surrogate (UnicodeEncodeError is a ValueError), no tokens, or a template that objects.
                known[key] = Failure(ScoreError(kind="text", message=f"cannot be put into tokens: {error}"))
    out: dict[int, tuple[R | Failure, Usage]] = {}
    full: dict[int, R] = {}
    for place, key in enumerate(keys):
        if isinstance(made := known[key], Failure):
            out[place] = made, Usage()
        else:
            full[place] = made
    rows = full
    if truncate == "middle" and any(max(sizes(own)) > limit for own in full.values()):
        rows = full | _shorter(tokenizer, {i: asked[i] for i in full}, make, sizes, limit)
    for place, own in rows.items():
        before, after = sizes(full[place])[0], sizes(own)[0]
        if (longest := max(sizes(own))) > limit:
            hint = "truncate=middle" if truncate == "error" else "a shorter question is not enough"
            too_long = ScoreError(kind="too-long", message=f"{longest} tokens, there is room for {limit} ({hint})")
            out[place] = Failure(too_long), Usage(input_tokens=before)
        else:
            out[place] = own, Usage(input_tokens=after, cut_tokens=before - after)
    return [out[place] for place in range(len(asked))]


def _shorter(
    tokenizer: Any,
    asked: Mapping[int, tuple[Prompt, str]],
    make: Callable[[Prompt, str], R],
    sizes: Callable[[R], Sequence[int]],
    limit: int,
) -> dict[int, R]:
    """Rows with shorter questions; those that nothing makes fit are missing."""
    questions = {prompt.question for prompt, _ in asked.values()}
    if len(questions) != 1 or any(prompt.with_question is None for prompt, _ in asked.values()):
        return {}

    def made(text: str) -> dict[int, R]:
        return {
            place: make(replace(prompt, messages=prompt.with_question(text)), answer)
            for place, (prompt, answer) in asked.items()
            if prompt.with_question is not None
        }

    least = made(GAP)
    asked = {place: pair for place, pair in asked.items() if max(sizes(least[place])) <= limit}
    if not asked:
        return {}

    def excess(text: str) -> int:
        return max(max(sizes(own)) for own in made(text).values()) - limit

    text = shortened(tokenizer, questions.pop(), excess)
    return {} if text is None else made(text)
