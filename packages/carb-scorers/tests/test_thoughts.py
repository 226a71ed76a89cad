"""A policy's thought is no part of its answer, whichever way the answer comes."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from carb_scorers import best_of_n, score
from carb_scorers.integrations import as_trl_reward, as_verl_reward
from carb_scorers.integrations.verl import NoRewardError
from carb_scorers.models.marks import answer_in, marks

ANSWER = "Blumen."
CHANNELS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"

CUT = [
    "<think>Hm.</think>Blumen.",
    "\n<think>\nHm.\n</think>\n\nBlumen.<|im_end|>",
    "Hm. Rosen?\n</think>\n\nBlumen.",  # the template begins the thought
    "Hm.◁/think▷Blumen.",
    "<think></think>Blumen.",
    "<think>a</think><think>b</think>Blumen.",
    "<think>a <think>b</think> c</think>Blumen.",
    "<Thinking>Hm.</Thinking>Blumen.",
    "<reasoning effort='high'>Hm.</reasoning>\nBlumen.",
    "<think>Erst <plan>x</plan>, dann y.</think>Blumen.",
    f"{CHANNELS}Blumen.<|return|>",
    "analysisHm, Rosen?assistantfinalBlumen.",
]
OPEN = [
    "<think>Hm. Rosen",
    "<think>Hm.</think>",
    "Hm.</think>\n",
    "<think>a</think>Blumen.<think>b",
    "<think>",
    "Hm.<|end_of_thought|>",
    "<|channel|>analysis<|message|>Hm. Rosen",
    "Gut. <think>Hm.</think>Blumen.",  # which of the two is the answer?
    "analysisWe think of Rosen",
]
WHOLE = [
    "Blumen.",
    "",
    " ",
    "Ich denke, <b>Blumen</b>.",
    "So: <plan>Rosen</plan>, dann mehr.",
    "<details><summary>Mehr</summary>Rosen</details>\nBlumen.",
    "Analysis: Blumen. Der Gedanke ist alt.",
    "3 < 4, [x] und </b>.",
    "Das </plan> schließt den Plan.",
    "Mit `</think>` endet ein Gedanke.",
]


@pytest.mark.parametrize("text", CUT)
def test_a_thought_before_an_answer_is_cut(text: str) -> None:
    assert answer_in(text) == ANSWER


@pytest.mark.parametrize(("begin", "end"), marks().thoughts)
def test_a_thought_of_every_kind_is_cut(begin: str, end: str) -> None:
    behind = ">" if begin.endswith('"') else ""
    assert answer_in(f"{begin}{behind}Hm.{end}\n\n{ANSWER}") == ANSWER
    assert answer_in(f"{begin}{behind}Hm.") is None


@pytest.mark.parametrize("text", OPEN)
def test_a_text_that_is_a_thought_alone_holds_no_answer(text: str) -> None:
    assert answer_in(text) is None


@pytest.mark.parametrize("text", WHOLE)
def test_an_answer_with_marks_of_other_things_stays(text: str) -> None:
    assert answer_in(text) == text


@pytest.mark.parametrize("text", CUT[:3])
def test_a_thought_in_a_plain_text_is_cut_at_every_door(text: str) -> None:
    """It was scored as a part of the answer, where one in a part of a message was cut."""
    prompts = [[{"role": "user", "content": "Was?"}]]
    turns = [[{"role": "assistant", "content": text}]]
    parts = [[{"role": "assistant", "content": [{"type": "text", "text": text}]}]]
    info = {"prompt": "Was?"}
    assert as_trl_reward("baseline:length")(prompts=["Was?"], completions=[text]) == [7]
    assert as_trl_reward("baseline:length")(prompts=prompts, completions=turns) == [7]
    assert as_trl_reward("baseline:length")(prompts=prompts, completions=parts) == [7]
    assert as_verl_reward("baseline:length")("x", text, "", info) == 7
    assert score("baseline:length", ["Was?"], [text]) == [7]
    picked = best_of_n("baseline:length", "Was?", [text, "Nein."])
    assert (picked.response, picked.scores) == (text, (7, 5))


@pytest.mark.parametrize("text", OPEN[:3])
def test_a_thought_that_never_ends_has_no_score_at_any_door(text: str) -> None:
    turns = [[{"role": "assistant", "content": text}]]
    reward = as_trl_reward("baseline:length")
    assert reward(prompts=["Was?"] * 2, completions=[text, ANSWER]) == [None, 7]
    assert reward(prompts=[[{"role": "user", "content": "Was?"}]], completions=turns) == [None]
    paid: Any = as_verl_reward("baseline:length")
    with pytest.raises(NoRewardError, match="thought"):
        paid("x", text, "", {"prompt": "Was?"})
    paid = as_verl_reward("baseline:length", when_failed=-1.0)
    assert paid("x", text, "", {"prompt": "Was?"}) == -1
    with pytest.warns(UserWarning, match="thought"):
        found = score("baseline:length", ["Was?"] * 2, [text, ANSWER])
    assert math.isnan(found[0])
    assert found[1] == 7
    picked = best_of_n("baseline:length", "Was?", [text, ANSWER])
    assert (picked.index, picked.scores) == (None, (None, 7))
    assert picked.error is not None
    assert picked.error.kind == "no-answer"


def test_each_turn_of_a_completion_has_a_thought_of_its_own() -> None:
    call = {"role": "assistant", "content": "<think>a</think>Ich sehe nach."}
    tool = {"role": "tool", "content": "Rosen"}
    last = {"role": "assistant", "content": "<think>b</think>Blumen."}
    alone = {"role": "assistant", "content": "<think>a</think>"}
    cut = {"role": "assistant", "content": "<think>b"}
    asked = {"prompts": [[{"role": "user", "content": "Was?"}]] * 3}
    turns = [[call, tool, last], [alone, tool, last], [call, tool, cut]]
    assert as_trl_reward("baseline:length")(completions=turns, **asked) == [23, 7, None]


@pytest.mark.parametrize(
    "text",
    [
        "<" + "think" * 200_000,
        "&lt;think " * 100_000,
        "<|" + "think" * 200_000,
        "<think>" * 100_000,
    ],
)
def test_a_hostile_text_is_read_in_linear_time(text: str) -> None:
    """Twenty thousand characters took three seconds."""
    began = time.process_time()
    answer_in(text)
    assert time.process_time() - began < 5
