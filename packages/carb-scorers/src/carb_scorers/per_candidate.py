"""Scorers that rate each candidate on its own: requests flattened into prompts and answers, and put back together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from carb_scorers.models.protocol import Failure, Prompt, Turn
from carb_scorers.scorer import ScoreError, ScoreRequest, ScoreResult, Usage, failed


def flatten(requests: Sequence[ScoreRequest], cue: str = "") -> tuple[list[Prompt], list[str]]:
    """The item's prompt, once for each candidate, and the candidates' texts."""
    prompts = [
        prompt for n, request in enumerate(requests) for prompt in [_asked(request, cue, n)] * len(request.candidates)
    ]
    return prompts, [candidate.text for request in requests for candidate in request.candidates]


def collect(requests: Sequence[ScoreRequest], found: Sequence[tuple[float, Usage] | Failure]) -> list[ScoreResult]:
    """Results from one score per candidate; a failure, NaN or infinity is the error of its own candidate alone."""
    results = []
    values = iter(found)
    for request in requests:
        scores: dict[str, float] = {}
        errors: dict[str, ScoreError] = {}
        usage = Usage()
        for candidate in request.candidates:
            entry = next(values)
            usage += entry.usage if isinstance(entry, Failure) else entry[1]
            if isinstance(entry, Failure):
                errors[candidate.id] = entry.error
            elif not math.isfinite(entry[0]):
                errors[candidate.id] = ScoreError(kind="non-finite", message="the model gave NaN or infinity")
            else:
                scores[candidate.id] = entry[0]
        if scores:
            results.append(ScoreResult(request_id=request.request_id, scores=scores, errors=errors, usage=usage))
        else:
            first = next(iter(errors.values()))
            results.append(failed(request, first.kind, first.message, usage))
    return results


def _asked(request: ScoreRequest, cue: str, group: int) -> Prompt:
    """A conversation as it is; a text is a turn of the user."""
    given = request.prompt
    if isinstance(given, str):
        return Prompt((Turn(role="user", content=given),), cue=cue, group=group)
    return Prompt(tuple(Turn(role=m.role, content=m.content) for m in given), cue=cue, group=group)
