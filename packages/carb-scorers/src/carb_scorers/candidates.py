"""Scorers that rate each candidate on its own: requests flattened into prompts and answers, and put back together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from carb_scorers.backends.base import Failure, Message, Messages, Prompt
from carb_scorers.contract import ScoreRequest, ScoreResult, Usage, failed


def flatten(requests: Sequence[ScoreRequest], cue: str = "") -> tuple[list[Prompt], list[str]]:
    """The item's question as a user's turn, once for each candidate, and the candidates' texts."""
    prompts = [
        Prompt(_user(r.prompt), cue=cue, question=r.prompt, with_question=_user, group=number)
        for number, r in enumerate(requests)
        for _ in r.candidates
    ]
    return prompts, [candidate.text for request in requests for candidate in request.candidates]


def collect(requests: Sequence[ScoreRequest], found: Sequence[tuple[float, Usage] | Failure]) -> list[ScoreResult]:
    """Results from one score per candidate; an item with a failure, NaN or infinity among them is an error row."""
    results = []
    values = iter(found)
    for request in requests:
        own = [next(values) for _ in request.candidates]
        usage = sum((entry.usage if isinstance(entry, Failure) else entry[1] for entry in own), Usage())
        failure = next((entry for entry in own if isinstance(entry, Failure)), None)
        if failure is not None:
            results.append(failed(request, failure.error.kind, failure.error.message, usage))
            continue
        scores = {c.id: e[0] for c, e in zip(request.candidates, own, strict=True) if not isinstance(e, Failure)}
        if broken := [key for key, value in scores.items() if not math.isfinite(value)]:
            message = f"the model gave NaN or infinity for candidates {', '.join(broken)}"
            results.append(failed(request, "non-finite", message, usage))
        else:
            results.append(ScoreResult(item_id=request.item_id, scores=scores, usage=usage))
    return results


def _user(question: str) -> Messages:
    return (Message(role="user", content=question),)
