"""A scorer in a few lines for tests, and a request."""

from collections.abc import Callable, Sequence
from typing import Any

from carb_scorers import Candidate, ScoreRequest, ScoreResult, ScorerSpec
from carb_scorers.scorer import failed

Rule = Callable[[Sequence[str]], Sequence[float]]


def lengths(texts: Sequence[str]) -> list[float]:
    """Longer is better; a text with ``bad`` in it fails its request."""
    if any("bad" in text for text in texts):
        raise ValueError("no verdict")
    return [float(len(text)) for text in texts]


class FakeScorer:
    """Scores the texts of a request by a rule, whose ``ValueError`` fails it; remembers what it was
    asked."""

    def __init__(self, rule: Rule = lengths, *, name: str = "fake", **spec: Any) -> None:
        self.spec = ScorerSpec(name=name, kind="test", **{"revision": "1", **spec})
        self.rule = rule
        self.requests: list[ScoreRequest] = []
        self.calls: list[list[str]] = []
        self.closed = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        self.requests += requests
        self.calls.append([request.request_id for request in requests])
        return [self.result(request) for request in requests]

    def result(self, request: ScoreRequest) -> ScoreResult:
        try:
            values = self.rule([candidate.text for candidate in request.candidates])
        except ValueError as error:
            return failed(request, "parse", str(error))
        scores = {
            candidate.id: value for candidate, value in zip(request.candidates, values, strict=True)
        }
        return ScoreResult(request_id=request.request_id, scores=scores, rationale="why")

    async def aclose(self) -> None:
        self.closed += 1


def request(*texts: str, **changes: str) -> ScoreRequest:
    """A question, and candidates ``c0``, ``c1``, … with these texts."""
    fields = {"request_id": "1", "prompt": "How?", "culture": "thai", "language": "th", **changes}
    candidates = tuple(Candidate(id=f"c{n}", text=text) for n, text in enumerate(texts))
    return ScoreRequest(candidates=candidates, **fields)
