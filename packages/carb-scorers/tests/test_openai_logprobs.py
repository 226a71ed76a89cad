"""Log-probabilities from an OpenAI-compatible server."""

import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from carb_data import CarbError
from carb_scorers.models.protocol import Choices, Failure

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from carb_scorers.models.server_models import ServerLanguageModel
from openai_server import Server, chat, model, prompts


def top(*pairs: tuple[object, object]) -> dict[str, Any]:
    entries = [
        {
            "token": token,
            "logprob": value,
            **({"bytes": list(token.encode())} if isinstance(token, str) else {}),
        }
        for token, value in pairs
    ]
    written, value = pairs[0]
    return chat(
        " A", logprobs={"content": [{"token": written, "logprob": value, "top_logprobs": entries}]}
    )


def choices(opened: ServerLanguageModel, *wanted: str) -> Choices | Failure:
    async def go() -> Choices | Failure:
        (found,) = await opened.next_logprobs(prompts(), wanted)
        return found

    return anyio.run(go)


def test_log_probabilities_of_short_answers(serve: Callable[..., Server]) -> None:
    server = serve(
        [top(("A", -0.5), (" A", -2.0), ("10", -3.0), ("1", -4.0), ("ไ", -6.0), ("the", -7.0))]
    )
    found = choices(model(server.url), "A", "B", "1", "10", "ไ")
    assert isinstance(found, Choices)
    assert found.logprobs == {
        "A": pytest.approx(math.log(math.exp(-0.5) + math.exp(-2.0))),
        "1": -4.0,
        "10": -3.0,
        "ไ": -6.0,
    }
    assert found.floor == -7.0
    options = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20}
    assert server.bodies[0] | {"messages": 0} == {"model": "m", "messages": 0, **options}


RATINGS = [str(value) for value in range(1, 11)]


def test_a_tokenizer_that_may_split_digits_is_a_failure_where_it_matters(
    serve: Callable[..., Server],
) -> None:
    """The token 1 had the whole probability of 10: a sure 10 scored below a sure 2."""
    server = serve(
        [
            top(("1", math.log(0.9)), ("2", math.log(0.1))),
            top(("2", -0.0005), ("1", math.log(0.0004))),
        ]
    )
    found = choices(model(server.url), *RATINGS)
    assert isinstance(found, Failure)
    assert (found.error.kind, "read=generate" in found.error.message) == ("logprobs", True)
    assert isinstance(choices(model(server.url), *RATINGS), Choices)


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": []}, {"content": None}, {"top_logprobs": None}, {"top_logprobs": [{}]}],
    ids=str,
)
def test_a_server_without_log_probabilities_stops_the_run(
    serve: Callable[..., Server], api: str, logprobs: object
) -> None:
    answer = chat(logprobs=logprobs, text="A")
    server = serve([answer])
    with pytest.raises(CarbError, match=r"--max-logprobs.*read=generate"):
        choices(model(server.url, api=api), "A")
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("of_choice", "of_reply", "kind"),
    [
        ({"finish_reason": "content_filter"}, {}, "refused"),
        ({"stop_reason": "refusal"}, {}, "refused"),
        ({"message": {"content": "A", "refusal": "I can't"}}, {}, "refused"),
        ({}, {"incomplete_details": {"reason": "content_filter"}}, "refused"),
        ({"finish_reason": "abort"}, {}, "cut-off"),
        ({}, {"truncated": True}, "cut-off"),
        ({}, {"status": "failed"}, "cut-off"),
    ],
    ids=str,
)
def test_no_number_is_read_off_an_answer_that_was_refused_or_broke_off(
    serve: Callable[..., Server],
    of_choice: dict[str, object],
    of_reply: dict[str, object],
    kind: str,
) -> None:
    answer = top(("A", -0.1), ("B", -3.0)) | of_reply
    answer["choices"][0] |= of_choice
    found = choices(model(serve([answer]).url), "A", "B")
    assert isinstance(found, Failure)
    assert found.error.kind == kind
    whole = top(("A", -0.1), ("B", -3.0))
    whole["choices"][0]["finish_reason"] = "length"
    assert isinstance(choices(model(serve([whole]).url), "A", "B"), Choices)


@pytest.mark.parametrize(
    "name", ["reasoning_content", "reasoning", "thinking", "reasoning_details"]
)
def test_log_probabilities_of_a_thought_stop_the_run(
    serve: Callable[..., Server], name: str
) -> None:
    """A reasoning parser takes the only token out of the answer; its numbers are no verdict's."""
    answer = top(("A", -0.1))
    answer["choices"][0]["message"] = {"role": "assistant", "content": "", name: "A"}
    with pytest.raises(CarbError, match="reasoning parser"):
        choices(model(serve([answer]).url), "A", "B")


def test_one_answer_without_log_probabilities_among_others_is_one_error(
    serve: Callable[..., Server],
) -> None:
    opened = model(serve([top(("A", -0.2)), chat(logprobs={"content": []})]).url)
    assert isinstance(choices(opened, "A"), Choices)
    assert isinstance(choices(opened, "A"), Failure)


@pytest.mark.parametrize(
    "answer",
    [
        top(("A", "x")),
        top(("A", math.nan)),
        top(("A", 5.0)),
        top((None, -1.0), ("A", None)),
        top(("A", "-0.5"), ("B", "-1.5")),
        top(("A", False), ("B", -1.5)),
        top(("A", -0.1), ("B", -0.1)),
        top(("A", -0.9), ("A", -0.9)),
        top(("A", -0.4 / math.log(10)), ("B", -1.2 / math.log(10))),
        top(("A", -0.9), ("B", -0.5 / math.log(2)), ("C", -20.0 / math.log(2))),
    ],
    ids=[
        "text",
        "nan",
        "positive",
        "null",
        "text of numbers",
        "false",
        "above 1",
        "twice",
        "base 10",
        "base 2",
    ],
)
def test_nonsense_in_log_probabilities_is_a_failure(
    serve: Callable[..., Server], answer: object
) -> None:
    found = choices(model(serve([answer]).url), "A")
    assert isinstance(found, Failure)
    assert found.error.kind == "http"


@pytest.mark.parametrize("space", ["\u2581", "\u0120", " "])
def test_a_tokenizers_own_mark_of_a_space_is_one(serve: Callable[..., Server], space: str) -> None:
    """A server that names tokens as the vocabulary does lost the letter behind a space, and with it
    most of the probability: another answer won."""
    answer = top((f"{space}B", math.log(0.7)), ("A", math.log(0.15)), ("B", math.log(0.05)))
    found = choices(model(serve([answer]).url), "A", "B")
    assert isinstance(found, Choices)
    assert found.logprobs["B"] == pytest.approx(math.log(0.75))


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_the_token_that_was_written_counts_where_the_server_lists_alternatives_alone(
    serve: Callable[..., Server], api: str
) -> None:
    """The letter that the model wrote counted as the least probable of four."""
    answer = top(("A", -3.0), ("C", -5.0), ("D", -7.0))
    answer["choices"][0]["text"] = "B"
    if api == "chat":
        answer["choices"][0]["logprobs"]["content"][0] |= {"token": "B", "logprob": -0.06}
    else:
        alternatives = {"A": -3.0, "C": -5.0, "D": -7.0}
        answer["choices"][0]["logprobs"] = {
            "tokens": ["B"],
            "token_logprobs": [-0.06],
            "top_logprobs": [alternatives],
        }
    found = choices(model(serve([answer]).url, api=api), "A", "B", "C", "D")
    assert isinstance(found, Choices)
    assert found.logprobs == {"A": -3.0, "B": -0.06, "C": -5.0, "D": -7.0}


def test_what_is_not_reported_is_bounded_by_what_is_left(serve: Callable[..., Server]) -> None:
    """The bound was the least that is reported, however little probability was left: two letters
    tied, or turned."""
    found = choices(
        model(serve([top(("A", math.log(0.6)), ("B", math.log(0.399)))]).url), "A", "B", "C"
    )
    assert isinstance(found, Choices)
    assert found.floor is not None
    assert math.exp(found.floor) == pytest.approx(0.001)
    assert found.mass == pytest.approx(0.999)


def test_llama_cpp_answers_completions_in_the_form_of_chats(serve: Callable[..., Server]) -> None:
    """Its native count of tokens, ``n_probs``, goes along in the body."""
    steps = top(("A", -0.25), (" B", -1.6))["choices"][0]["logprobs"]
    answer = {"choices": [{"text": " A", "index": 0, "logprobs": steps, "finish_reason": "length"}]}
    server = serve([answer])
    found = choices(model(server.url, api="completions", body='{"n_probs": 20}'), "A", "B")
    assert isinstance(found, Choices)
    assert found.logprobs == {"A": -0.25, "B": -1.6}
    assert (server.bodies[0]["n_probs"], server.bodies[0]["logprobs"]) == (20, 20)


@pytest.mark.parametrize("mark", [-9999.0, -100.0, -9999, -1e30])
def test_a_mark_of_what_was_not_measured_is_no_log_probability(
    serve: Callable[..., Server], mark: float
) -> None:
    """It counted as a measured probability of nearly 0, and two such letters tied."""
    opened = model(serve([top(("A", -0.5), ("B", -1.0), ("C", mark), ("the", mark))]).url)
    found = choices(opened, "A", "B", "C")
    assert isinstance(found, Choices)
    assert found.logprobs == {"A": -0.5, "B": -1.0}
    assert found.floor == pytest.approx(math.log(1 - math.exp(-0.5) - math.exp(-1.0)))
    with pytest.raises(CarbError, match=r"no log-probabilities.*read=generate"):
        choices(model(serve([top(("A", mark), ("B", mark))]).url), "A", "B")
