"""The contract's models refuse what must not be, and the contract check finds scorers that break
it."""

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from carb_scorers import (
    Candidate,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    Usage,
    open_scorer,
)
from carb_scorers.scorer import failed
from carb_scorers.testing import check_scorer


class Lengths:
    """A whole scorer in ten lines, and some that break the contract."""

    def __init__(self, fault: str = "") -> None:
        self.spec = ScorerSpec(name="lengths", kind="test", comparative=False)
        self.fault = fault
        self.calls = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        self.calls += 1
        results = []
        for r in requests:
            scores = {c.id: self.one(r, c, place, requests) for place, c in enumerate(r.candidates)}
            results.append(ScoreResult(request_id=r.request_id, scores=scores))
        return results[:-1] if self.fault == "count" and len(results) > 1 else results

    def one(
        self,
        request: ScoreRequest,
        candidate: Candidate,
        place: int,
        requests: Sequence[ScoreRequest],
    ) -> float:
        extra = {"neighbours": len(requests), "order": place, "id": len(request.request_id)}
        return float(len(candidate.text) + extra.get(self.fault, 0))

    async def aclose(self) -> None:
        pass


def test_a_fake_scorer_is_a_scorer() -> None:
    assert isinstance(Lengths(), Scorer)
    results = anyio.run(check_scorer, Lengths())
    assert all(result.error is None for result in results)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("count", "one result per request"),
        ("neighbours", "other requests"),
        ("order", "order of candidates"),
        ("id", "item's id"),
    ],
)
def test_the_check_finds_what_breaks_the_contract(fault: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        anyio.run(check_scorer, Lengths(fault))


@pytest.mark.parametrize("spec", ["baseline:random", "baseline:length"])
def test_baselines_keep_the_contract(spec: str) -> None:
    anyio.run(check_scorer, open_scorer(spec))


def test_a_request_has_no_place_for_a_label() -> None:
    fields = set(ScoreRequest.model_fields) | set(Candidate.model_fields)
    assert fields == {"request_id", "prompt", "candidates", "culture", "language", "id", "text"}
    with pytest.raises(ValidationError):
        Candidate.model_validate({"id": "1", "text": "x", "role": "chosen"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_scores_are_finite(value: float | None) -> None:
    with pytest.raises(ValidationError):
        ScoreResult.model_validate({"request_id": "a", "scores": {"1": value}})


def test_a_result_is_scores_or_an_error() -> None:
    error = ScoreError(kind="parse", message="no verdict")
    with pytest.raises(ValidationError, match="either"):
        ScoreResult(request_id="a")
    with pytest.raises(ValidationError, match="either"):
        ScoreResult(request_id="a", scores={"1": 1.0}, error=error)


@given(st.text(st.characters(), max_size=20), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_a_model_writes_survives_the_journal(text: str, score: float) -> None:
    for broken in (text, text + "\ud83d", "\udc80" + text):
        request = ScoreRequest(
            request_id="a",
            prompt="p",
            candidates=(Candidate(id="1", text="t"),),
            culture="english",
            language="en",
        )
        for result in (
            ScoreResult(
                request_id="a", scores={"1": score}, rationale=broken, usage=Usage(input_tokens=1)
            ),
            failed(request, "parse", broken),
        ):
            assert ScoreResult.model_validate_json(result.model_dump_json()) == result
