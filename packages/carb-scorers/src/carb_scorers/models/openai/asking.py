"""One request to a server and its answer, or the failure that stands in the answer's place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from carb_scorers.models.client import Endpoint, EndpointError
from carb_scorers.models.protocol import Failure
from carb_scorers.scorer import ScoreError, Usage

_BYTES_PER_TOKEN = 3
"""For the estimate that the limit on tokens needs before an answer tells the true number."""
_TEXTS = ("messages", "prompt", "input", "text_1", "text_2")
"""Where a body holds what the model reads."""
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)

T = TypeVar("T")


async def ask(
    endpoint: Endpoint, path: str, body: Mapping[str, Any], read: Callable[[Mapping[str, Any], Usage], T | Failure]
) -> T | Failure:
    """Send a request, and read its answer.

    Args:
        endpoint: The server that is asked.
        path: The path below the server's URL.
        body: The content that is sent as JSON; a null is left out.
        read: the function of the answer and what it cost; what it raises of an answer of another form is a failure.

    Raises:
        CarbError: see ``Endpoint.post``, and what ``read`` raises.
    """
    body = {name: value for name, value in body.items() if value is not None}
    asked = json.dumps([body[name] for name in _TEXTS if name in body], ensure_ascii=False)
    tokens = len(asked.encode("utf-8", "replace")) // _BYTES_PER_TOKEN
    tokens += int(body.get("max_tokens", body.get("max_completion_tokens", 0)))
    try:
        answer, attempts = await endpoint.post(path, body, tokens=tokens)
    except EndpointError as error:
        return Failure(error.error, Usage(requests=error.attempts))
    usage = _usage(answer, attempts)
    try:
        return read(answer, usage)
    except _MALFORMED as error:
        reason = f"{type(error).__name__}: {error}"[:100]
        message = f"the server's answer does not have the form of {path} ({reason})"
        return Failure(ScoreError(kind="http", message=message), usage)


def _usage(answer: Mapping[str, Any], attempts: int) -> Usage:
    usage = answer.get("usage")
    counts = usage if isinstance(usage, dict) else {}

    def count(name: str) -> int:
        value = counts.get(name)
        return value if isinstance(value, int) and value >= 0 else 0

    return Usage(input_tokens=count("prompt_tokens"), output_tokens=count("completion_tokens"), requests=attempts)
