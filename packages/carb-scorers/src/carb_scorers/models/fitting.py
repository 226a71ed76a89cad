"""Prompts put into rows of tokens: one that cannot be, or that is too long for a model, is an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jinja2 import TemplateError

from carb_scorers.models.protocol import Failure, Prompt
from carb_scorers.models.tokens import conversation_key
from carb_scorers.scorer import ScoreError, Usage

R = TypeVar("R")


def fitted(
    asked: Sequence[tuple[Prompt, str]],
    make: Callable[[Prompt, str], R],
    sizes: Callable[[R], Sequence[int]],
    *,
    limit: int,
) -> list[tuple[R | Failure, Usage]]:
    """The rows of some prompts, each with its tokens, or why there are none.

    Args:
        asked: the prompts, each with a given answer, which may be empty.
        make: the rows of one of them; raises where it cannot be put into tokens.
        sizes: how many tokens each of these rows has; the first one's are counted as the prompt's.
        limit: the largest number of tokens that a row may have.
    """
    known: dict[object, tuple[R | Failure, Usage]] = {}  # equal candidates are put into tokens once
    out = []
    for prompt, answer in asked:
        key = conversation_key(prompt), answer
        if key not in known:
            made = _row(prompt, answer, make, sizes, limit)
            known[key] = made
        out.append(known[key])
    return out


def _row(
    prompt: Prompt, answer: str, make: Callable[[Prompt, str], R], sizes: Callable[[R], Sequence[int]], limit: int
) -> tuple[R | Failure, Usage]:
    try:
        rows = make(prompt, answer)
    except (ValueError, TypeError, TemplateError) as error:
        # A lone surrogate (UnicodeEncodeError is a ValueError), no tokens, or a template that objects.
        return Failure(ScoreError(kind="text", message=f"cannot be put into tokens: {error}")), Usage()
    usage = Usage(input_tokens=sizes(rows)[0])
    if (longest := max(sizes(rows))) > limit:
        message = f"{longest} tokens, there is room for {limit}"
        return Failure(ScoreError(kind="too-long", message=message)), usage
    return rows, usage
