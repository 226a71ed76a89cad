"""The scorers that rate each candidate alone, over models that are a few lines of Python."""

import math
from collections.abc import Sequence

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import ScoreError, ScoreRequest, ScoreResult, ScorerSpec, Usage, open_scorer
from carb_scorers.models.protocol import Continuation, Failure, Prompt, Reward
from carb_scorers.per_candidate import ClassifierScorer, ImplicitOptions, ImplicitScorer
from carb_scorers.testing import check_scorer
from fake_scorer import request

SPEC = ScorerSpec(name="s", kind="fake", comparative=False)


class FakeRewards:
    model, revision = "fake", "1"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.closed = 0

    async def rewards(
        self, prompts: Sequence[Prompt], answers: Sequence[str]
    ) -> list[Reward | Failure]:
        self.prompts.extend(prompts)
        special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
        return [
            Failure(ScoreError(kind="too-long", message="too long"), Usage(input_tokens=99))
            if answer == "long"
            else Reward(special.get(answer, float(len(answer))), Usage(input_tokens=1))
            for answer in answers
        ]

    async def aclose(self) -> None:
        self.closed += 1


def classified(*requests: ScoreRequest) -> list[ScoreResult]:
    return anyio.run(ClassifierScorer(SPEC, FakeRewards()).score, requests)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_that_is_none_fails_its_candidate_alone(value: str) -> None:
    good, part, bad = classified(
        request("a"), request("a", value, request_id="2"), request(value, request_id="3")
    )
    assert good.complete
    assert part.scores == {"c0": 1.0}
    assert part.errors["c1"].kind == "non-finite"
    assert bad.error is not None
    assert bad.error.kind == "non-finite"


def test_a_failed_candidate_fails_alone() -> None:
    part, good = classified(request("a", "long"), request("a", request_id="2"))
    assert good.complete
    assert part.error is None
    assert part.scores == {"c0": 1.0}
    assert part.error_of("c1") == ScoreError(kind="too-long", message="too long")
    assert part.usage == Usage(input_tokens=100)


def test_candidates_of_an_item_form_a_group() -> None:
    model = FakeRewards()
    scorer = ClassifierScorer(SPEC, model)
    anyio.run(scorer.score, [request("a", "b"), request("c", request_id="2")])
    assert [prompt.group for prompt in model.prompts] == [0, 0, 1]
    prompt = model.prompts[0]
    assert [turn.model_dump() for turn in prompt.messages] == [{"role": "user", "content": "How?"}]
    anyio.run(check_scorer, scorer)
    anyio.run(scorer.aclose)
    assert model.closed == 1


class FakePolicy:
    """Every character of an answer has the same log-probability."""

    model, revision = "fake", "1"

    def __init__(self, each: float, *, fails: str | None = None) -> None:
        self.each, self.fails, self.closed = each, fails, 0
        self.ends: list[bool] = []

    async def continuation_logprobs(
        self, prompts: Sequence[Prompt], answers: Sequence[str], *, end_of_turn: bool = True
    ) -> list[Continuation | Failure]:
        self.ends.append(end_of_turn)
        return [
            Failure(ScoreError(kind="text", message="no"), Usage(input_tokens=7))
            if answer == self.fails
            else Continuation((self.each,) * len(answer), Usage(input_tokens=len(answer)))
            for answer in answers
        ]

    async def aclose(self) -> None:
        self.closed += 1


def implicit(
    policy: FakePolicy, reference: FakePolicy | None = None, **options: object
) -> ImplicitScorer:
    return ImplicitScorer(SPEC, policy, reference, ImplicitOptions.model_validate(options))


def test_sum_and_mean_with_and_without_a_reference() -> None:
    policy, reference = FakePolicy(-2.0), FakePolicy(-0.5)
    item = [request("a", "abcd")]
    assert anyio.run(implicit(policy).score, item)[0].scores == {"c0": -2.0, "c1": -8.0}
    assert anyio.run(implicit(policy, reduce="mean").score, item)[0].scores == {
        "c0": -2.0,
        "c1": -2.0,
    }
    with_reference = anyio.run(implicit(policy, reference).score, item)[0]
    assert with_reference.scores == {"c0": -1.5, "c1": -6.0}
    assert with_reference.usage == Usage(input_tokens=10)


def test_failures_of_either_model() -> None:
    for models in (
        (FakePolicy(-1.0, fails="b"), FakePolicy(-1.0)),
        (FakePolicy(-1.0), FakePolicy(-1.0, fails="b")),
    ):
        part, good = anyio.run(
            implicit(*models).score, [request("a", "b"), request("a", request_id="2")]
        )
        assert good.scores == part.scores == {"c0": 0.0}
        assert part.errors == {"c1": ScoreError(kind="text", message="no")}


@pytest.mark.parametrize(
    "target",
    ["internlm/POLAR-7B", "models/polar-1_8b-base", "POLAR-7B?backend=openai&url=http://x/v1"],
)
def test_a_model_that_needs_a_reference_answer_is_refused_by_its_name(target: str) -> None:
    """It has the class of InternLM2-Reward, and was scored without its reference."""
    with pytest.raises(CarbError, match="reference answer"):
        open_scorer(f"classifier:{target}")
