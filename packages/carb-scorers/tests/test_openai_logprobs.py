"""Log-probabilities from an OpenAI-compatible server."""

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import Candidate, ScoreRequest, open_scorer
from carb_scorers.models.protocol import Choices, Failure

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_scorers.models.server_language import ServerLanguageModel
from openai_server import Server, chat, model, prompts, reply

REQUEST = ScoreRequest(
    request_id="1", prompt="?", candidates=(Candidate(id="1", text="x"),), culture="thai", language="th"
)


def top(*pairs: tuple[object, object]) -> dict[str, Any]:
    entries = [
        {"token": token, "logprob": value, **({"bytes": list(token.encode())} if isinstance(token, str) else {})}
        for token, value in pairs
    ]
    return chat(" A", logprobs={"content": [{"token": "A", "logprob": -0.1, "top_logprobs": entries}]})


def choices(opened: ServerLanguageModel, *wanted: str) -> Choices | Failure:
    async def go() -> Choices | Failure:
        (found,) = await opened.next_logprobs(prompts(), wanted)
        return found

    return anyio.run(go)


def test_log_probabilities_of_short_answers(serve: Callable[..., Server]) -> None:
    server = serve([top(("A", -0.5), (" A", -2.0), ("10", -3.0), ("1", -4.0), ("ไ", -6.0), ("the", -7.0))])
    found = choices(model(server.url), "A", "B", "1", "10", "ไ")
    assert isinstance(found, Choices)
    assert found.logprobs == {
        "A": pytest.approx(math.log(math.exp(-0.5) + math.exp(-2.0))),
        "1": -4.0,
        "10": -3.0,
        "ไ": -6.0,
    }
    assert found.floor == -7.0
    assert server.bodies[0] | {"messages": 0} == {
        "model": "m", "messages": 0, "max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20,
    }  # fmt: skip


class Digits:
    """A server whose tokenizer splits digits: the token ``1`` is the beginning of ``10``, too.

    It goes on with an answer that has begun, refuses to, or takes it for a whole turn without a word.
    """

    def __init__(self, ratings: dict[str, float], *, goes_on: bool = True, refuses: bool = True) -> None:
        self.ratings, self.goes_on, self.refuses = ratings, goes_on, refuses

    def __call__(self, _: int, body: dict[str, Any]) -> object:
        last = body["messages"][-1]
        if last["content"].startswith("Repeat this"):
            return top(("1", -0.01), ("The", -5.0))
        first: dict[str, float] = {}
        for rating, share in self.ratings.items():
            first[rating[0]] = first.get(rating[0], 0.0) + share
        if last["role"] == "user":
            return top(*((token, math.log(share)) for token, share in first.items()), ("the", -30.0))
        if not self.goes_on:
            said = top(("I", -0.1), ("The", -3.0), ("\n", -4.0))
            return reply({"error": {"message": "unknown field"}}, 400) if self.refuses else said
        assert (body["add_generation_prompt"], body["continue_final_message"]) == (False, True)
        if body["messages"][-2]["content"].startswith("Repeat this"):
            return top(("0", -0.01), (".", -5.0))
        ten = self.ratings.get("10", 0.0) / first["1"]
        behind = ((token, math.log(share)) for token, share in (("0", ten), (".", 1 - ten)) if share > 0)
        return top(*behind, ("the", -30.0))


RATINGS = [str(value) for value in range(1, 11)]


@pytest.mark.parametrize("ratings", [{"10": 0.9, "2": 0.1}, {"2": 0.9, "1": 0.06, "10": 0.04}, {"1": 0.5, "3": 0.5}])
def test_a_tokenizer_that_splits_digits(serve: Callable[..., Server], ratings: dict[str, float]) -> None:
    found = choices(model(serve(Digits(ratings)).url), *RATINGS)
    assert isinstance(found, Choices)
    for rating, share in ratings.items():
        assert math.exp(found.logprobs[rating]) == pytest.approx(share)
    assert sum(map(math.exp, found.logprobs.values())) == pytest.approx(1.0)


def test_a_pointwise_judge_over_a_server_does_not_turn_its_scale_around(serve: Callable[..., Server]) -> None:
    """At first a judge 90% sure of 10 scored 1.8, and one 90% sure of 2 scored 2.0."""
    scores = []
    for ratings in ({"10": 0.9, "9": 0.1}, {"2": 0.9, "3": 0.1}):
        scorer = open_scorer(f"judge:m?backend=openai&mode=pointwise&url={serve(Digits(ratings)).url}")
        (result,) = anyio.run(scorer.score, [REQUEST])
        scores.append(result.scores["1"])
    assert scores == [pytest.approx(9.9), pytest.approx(2.1)]


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "takes it for a whole turn"])
def test_a_server_that_cannot_say_what_follows_a_digit(serve: Callable[..., Server], *, refuses: bool) -> None:
    """One that says nothing about it gave the token 1 the whole probability of 10: a sure 10 scored below a sure 2."""
    found = choices(model(serve(Digits({"10": 0.9, "2": 0.1}, goes_on=False, refuses=refuses)).url), *RATINGS)
    assert isinstance(found, Failure)
    assert found.error.kind == "logprobs"
    assert "read=generate" in found.error.message


def test_a_server_without_log_probabilities_is_said_so(serve: Callable[..., Server]) -> None:
    with pytest.raises(CarbError, match="read=generate"):
        choices(model(serve([chat()]).url), "A")


@pytest.mark.parametrize(
    "answer",
    [
        top(("A", "x")),
        top(("A", math.nan)),
        top(("A", 5.0)),
        top((None, -1.0), ("A", None)),
        chat(logprobs={"content": []}),
    ],
    ids=["text", "nan", "positive", "null", "none"],
)
def test_nonsense_in_log_probabilities_is_a_failure(serve: Callable[..., Server], answer: object) -> None:
    found = choices(model(serve([answer]).url), "A")
    assert isinstance(found, Failure)
    assert found.error.kind == "http"


def test_what_is_not_reported_is_bounded_by_what_is_left(serve: Callable[..., Server]) -> None:
    """The bound was the least that is reported, however little probability was left: two letters tied, or turned."""
    found = choices(model(serve([top(("A", math.log(0.6)), ("B", math.log(0.399)))]).url), "A", "B", "C")
    assert isinstance(found, Choices)
    assert found.floor is not None
    assert math.exp(found.floor) == pytest.approx(0.001)
    assert found.mass == pytest.approx(0.999)
