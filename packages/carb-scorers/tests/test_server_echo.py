"""Which tokens of an echo are the answer's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carb_scorers.models.protocol import Continuation, Failure
from carb_scorers.models.server_echo import SpellingError, answer_tokens

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from openai_server import Server, model, prompts

WORDS = ["What", " do", " people", " eat", "?", "\n"]
PROMPT = "What do people eat?\n"


@pytest.mark.parametrize("before", [[], ["<s>"], ["<|begin_of_text|>"], ["<bos>", "<bos>"]])
@pytest.mark.parametrize("behind", [[], [" and"], ["�"]])
def test_a_start_token_and_what_the_server_wrote_are_no_part_of_it(
    before: list[str], behind: list[str]
) -> None:
    tokens = [*before, *WORDS, "No", "od", "les", *behind]
    first = len(before) + len(WORDS)
    assert answer_tokens(tokens, PROMPT, "Noodles") == range(first, first + 3)


def test_half_characters_are_spelled_by_their_bytes() -> None:
    """Gemma's tokens of one byte each, and a merged token of one and a half characters."""
    for pieces in (["�"] * 9, ["�", "�", "�", "ข", "�", "�", "�"], ["�", "�ข", "��"]):
        tokens = ["<bos>", *WORDS, *pieces, "."]
        answer = "กขค."
        if len(pieces) == 3:
            answer = "กขค."
        found = answer_tokens(tokens, PROMPT, answer)
        assert found == range(7, 7 + len(pieces) + 1)
    exact = [*WORDS, "bytes:\\xe0\\xb8", "bytes:\\x81"]
    assert answer_tokens(exact, PROMPT, "ก") == range(6, 8)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([*WORDS, "No", "odle"], "not spell"),
        (["what", *WORDS[1:], "Noodles"], "not spell"),
        ([*WORDS[:-1], "\nNo", "odles"], "not spell"),
        ([*WORDS, "", "Noodles"], "in several ways"),
        ([], "not spell"),
    ],
    ids=["short", "lower case", "across the border", "an empty token", "none"],
)
def test_what_does_not_spell_it_for_certain_is_refused(tokens: list[str], reason: str) -> None:
    with pytest.raises(SpellingError, match=reason):
        answer_tokens(tokens, PROMPT, "Noodles")


@given(
    st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_tokens_that_are_texts_are_found(before: list[str], after: list[str]) -> None:
    tokens = ["Q", *before, "\n", *after]
    try:
        found = answer_tokens(
            tokens, "Q" + "".join(before) + "\n", "".join(after), counted=len(tokens)
        )
    except SpellingError:  # a text of replacement characters may be spelled in several ways
        assert "�" in "".join(tokens) or "bytes:" in "".join(tokens)
    else:
        assert found == range(len(before) + 2, len(tokens))


def echo(tokens: list[str], offsets: list[int]) -> dict[str, Any]:
    values = [None, *(-float(n) for n in range(1, len(tokens)))]
    logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}
    return {"choices": [{"text": "", "logprobs": logprobs, "finish_reason": "length"}]}


@pytest.mark.parametrize("kept", [slice(1, None), slice(0, -1)], ids=["no null", "one too few"])
def test_as_many_log_probabilities_as_tokens_are_needed(
    serve: Callable[..., Server], kept: slice
) -> None:
    """A server that leaves out the first one's null shifted all others by a token."""
    reply = echo(["Question", " 0", "?", "\n", "Answer:", " Noo", "dles", " and"], [])
    logprobs = reply["choices"][0]["logprobs"]
    logprobs["token_logprobs"] = logprobs["token_logprobs"][kept]
    opened = model(serve([reply]).url, api="completions")
    (found,) = anyio.run(opened.continuation_logprobs, prompts(), ["Noodles"])
    assert isinstance(found, Failure)
    assert found.error.kind == "tokens"
    assert "8 tokens have 7 log-probabilities" in found.error.message


def test_offsets_that_count_the_start_token_are_not_believed(serve: Callable[..., Server]) -> None:
    """As vLLM counts them; 524 of 1,600 answers had another answer's numbers."""
    tokens = ["<s>", "Question", " 0", "?", "\n", "Answer:", " Noo", "dles"]
    offsets = [0, 3, 11, 13, 14, 15, 22, 26]
    server = serve([echo(tokens, offsets), echo(tokens[:-1], offsets[:-1])])
    opened = model(server.url, api="completions")

    async def go() -> list[Continuation | Failure]:
        return [(await opened.continuation_logprobs(prompts(), ["Noodles"]))[0] for _ in range(2)]

    good, bad = anyio.run(go)
    assert isinstance(good, Continuation)
    assert good.logprobs == (-6.0, -7.0)
    assert isinstance(bad, Failure)
    assert bad.error.kind == "tokens"


@pytest.mark.parametrize("mark", [-9999.0, -100.0])
def test_a_token_that_was_not_measured_is_an_error_and_no_part_of_a_sum(
    serve: Callable[..., Server], mark: float
) -> None:
    """Its mark was summed as if it were a log-probability: the answer scored -9999 nats."""
    reply = echo(["Question", " 0", "?", "\n", "Answer:", " Noo", "dles"], [])
    reply["choices"][0]["logprobs"]["token_logprobs"][-1] = mark
    opened = model(serve([reply]).url, api="completions")
    (found,) = anyio.run(opened.continuation_logprobs, prompts(), ["Noodles"])
    assert isinstance(found, Failure)
    assert "measured" in found.error.message
