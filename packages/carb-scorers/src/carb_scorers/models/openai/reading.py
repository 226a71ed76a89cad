"""What the chat and completions APIs answer, read without trust in its form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from carb_scorers.models.protocol import Choices, Continuation, Failure
from carb_scorers.scorer import ScoreError, Usage


def first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choice = answer["choices"][0]
    if not isinstance(choice, dict):
        raise TypeError("a choice is not an object")
    return choice


def among(tokens: Sequence[tuple[str, float]], wanted: Sequence[str], usage: Usage, *, exact: bool = False) -> Choices:
    """Log-probabilities of strings that are whole tokens: a token ``10`` is not among those of ``1``."""
    found = {}
    for word in wanted:
        same = [value for token, value in tokens if (token == word if exact else token.strip() == word.strip())]
        if same:
            top = max(same)
            found[word] = top + math.log(sum(math.exp(value - top) for value in same)) if top > -math.inf else top
    return Choices(found, floor=min((value for _, value in tokens), default=None), usage=usage)


Step = tuple[str, list[tuple[str, float]]]
"""A token, and the most probable tokens in its place with their log-probabilities."""


def chat_steps(reported: Mapping[str, Any]) -> list[Step]:
    steps = []
    for step in reported["content"]:
        top = [(_token_text(entry), _logprob(entry["logprob"])) for entry in step["top_logprobs"]]
        steps.append((_token_text(step) if "token" in step else "", top))
    return steps


def completion_steps(reported: Mapping[str, Any]) -> list[Step]:
    tokens = reported.get("tokens") or [""] * len(reported["top_logprobs"])
    return [
        (token, [(other, _logprob(value)) for other, value in top.items()])
        for token, top in zip(tokens, reported["top_logprobs"], strict=True)
    ]


def _token_text(entry: Mapping[str, Any]) -> str:
    """A token's text; its bytes say more where it is part of a character."""
    given = entry.get("bytes")
    return bytes(given).decode("utf-8", "replace") if given else str(entry["token"])


def _logprob(value: Any) -> float:
    number = float(value)
    if math.isnan(number) or number > 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return min(number, 0.0)


def continuation(start: int, end: int, choice: Mapping[str, Any], usage: Usage) -> Continuation | Failure:
    """The log-probabilities of the tokens between two characters of the echoed text."""
    reported = choice["logprobs"]
    offsets, values = reported["text_offset"], reported["token_logprobs"]
    places = [place for place, offset in enumerate(offsets) if start <= offset < end]
    if not places or offsets[places[0]] != start:
        message = "the server's tokens do not divide between prompt and answer"
        return Failure(ScoreError(kind="tokens", message=message), usage)
    return Continuation(tuple(_logprob(values[place]) for place in places), usage)
