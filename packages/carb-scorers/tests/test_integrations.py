"""Scorers in other projects, without the other projects: what they are asked and what they give
back."""

import inspect
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from carb_data import CarbError
from carb_scorers import ScoreRequest, ScoreResult, best_of_n, open_scorer, score
from carb_scorers.integrations import as_trl_reward, as_verl_reward
from carb_scorers.integrations.verl import NoRewardError
from carb_scorers.texts import as_prompt
from fake_scorer import FakeScorer

PLACE = {"culture": "german", "language": "de"}


class Fake(FakeScorer):
    """Scores by length; a text with ``bad`` in it fails its request."""

    def __init__(self, comparative: bool = False) -> None:
        super().__init__(comparative=comparative)


def test_best_of_n_picks_what_the_scorer_likes_best() -> None:
    scorer = Fake(comparative=True)
    pick = best_of_n(scorer, "Was?", ["kurz", "am längsten", "länger", "am längsten"], **PLACE)
    assert (pick.index, pick.response) == (1, "am längsten")
    assert pick.scores == (4.0, 11.0, 6.0, 11.0)
    assert pick.tied == (1, 3)
    assert best_of_n(scorer, "Was?", ["kurz", "länger"], **PLACE).tied == ()
    scorer.requests.pop()
    assert pick.rationale == "why"
    (request,) = scorer.requests
    assert sorted(c.text for c in request.candidates) == [
        "am längsten",
        "kurz",
        "länger",
    ]  # each text once
    assert (request.prompt, request.culture, request.language) == ("Was?", "german", "de")
    assert scorer.closed == 0


def test_best_of_n_calls_scores_that_differ_by_floating_noise_a_tie() -> None:
    scores = {"a": 0.1, "b": 0.3, "c": 0.1 + 0.2}
    noisy = FakeScorer(lambda texts: [scores[text] for text in texts])
    pick = best_of_n(noisy, "Was?", list(scores), **PLACE)
    assert (pick.index, pick.tied) == (1, (1, 2))


def test_best_of_n_makes_nothing_up_when_scoring_fails() -> None:
    pick = best_of_n(Fake(), "Was?", ["gut", "bad"], **PLACE)
    assert (pick.index, pick.response, pick.scores) == (None, None, (None, None))
    assert pick.error is not None
    assert pick.error.kind == "parse"


@pytest.mark.parametrize("responses", [[], "a text"])
def test_best_of_n_needs_responses(responses: Any) -> None:
    with pytest.raises(CarbError, match="list of at least one"):
        best_of_n("baseline:length", "Was?", responses, **PLACE)


def test_trl_rewards_of_texts_with_columns() -> None:
    scorer = Fake(comparative=True)
    reward = as_trl_reward(scorer)
    assert reward.__name__ == "fake"
    logged: dict[str, float] = {}
    rewards = reward(
        prompts=["Was?", "Was?", "What?", "What?"],
        completions=["eins", "zwölf", "one", "bad"],
        completion_ids=[[1], [2], [3], [4]],
        trainer_state=object(),
        log_extra=print,
        log_metric=logged.__setitem__,
        culture=["german", "german", "english", "english"],
        language=["de", "de", "en", "en"],
    )
    assert rewards == [4.0, 5.0, None, None]
    assert logged == {"rewards/fake/failed": 0.5}
    assert [len(r.candidates) for r in scorer.requests] == [2, 2]  # a group is one request
    assert [r.culture for r in scorer.requests] == ["german", "english"]


def test_trl_rewards_need_to_know_the_culture() -> None:
    with pytest.raises(CarbError, match=r"column 'culture'.*as_trl_reward\(culture="):
        as_trl_reward("baseline:label")(prompts=["a"], completions=["b"])
    assert as_trl_reward("baseline:length")(prompts=["a"], completions=["b"]) == [1.0]
    with pytest.raises(CarbError, match="'prompts' must be a list"):  # each letter was a prompt
        as_trl_reward("baseline:length")(prompts="ab", completions=["c", "d"])


def test_a_scorer_that_compares_refuses_one_completion_alone() -> None:
    """A process that gets a part of a group would reward each completion with the same number."""
    reward = as_trl_reward(Fake(comparative=True), **PLACE)
    with pytest.raises(CarbError, match=r"per_device_train_batch_size.*mode=pointwise"):
        reward(prompts=["Was?", "Was?", "Wer?"], completions=["a", "b", "c"])
    with pytest.raises(CarbError, match="mode=pointwise"):  # about two cultures
        reward(["Was?"] * 2, ["a", "b"], culture=["german", "thai"])
    assert reward(prompts=["Was?"] * 2, completions=["a", "a"]) == [1.0, 1.0]
    assert as_trl_reward(Fake(), **PLACE)(prompts=["Wer?"], completions=["c"]) == [1.0]


@pytest.mark.parametrize("wrap", [as_trl_reward, as_verl_reward])
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("models/judge", "KIND:TARGET"),
        ("judges:models/judge", "judges"),
        ("judge:models/judge?moed=listwise", "moed"),
    ],
)
def test_a_wrong_spec_is_found_before_the_policy_is_loaded(
    wrap: Callable[[str], object], spec: str, reason: str
) -> None:
    with pytest.raises(CarbError, match=reason):
        wrap(spec)


def test_trl_logs_a_reward_under_its_own_name() -> None:
    reward = as_trl_reward("taste=baseline:length", **PLACE)
    logged: dict[str, float] = {}
    assert reward(prompts=["Was?"], completions=["a"], log_metric=logged.__setitem__) == [1.0]
    assert (reward.__name__, list(logged)) == ("taste", ["rewards/taste/failed"])


def test_trl_rewards_do_not_depend_on_batch_or_order() -> None:
    reward = as_trl_reward(open_scorer("baseline:random"), **PLACE)
    prompts, completions = ["a", "b", "a"], ["x", "y", "z"]
    together = reward(prompts=prompts, completions=completions)
    alone = [
        reward(prompts=[p], completions=[c])[0] for p, c in zip(prompts, completions, strict=True)
    ]
    assert together == alone == reward(prompts=prompts[::-1], completions=completions[::-1])[::-1]


INFO = {"prompt": "Was?", **PLACE}


def test_verls_signature() -> None:
    one = as_verl_reward(Fake())
    assert one(data_source="d", solution_str="vier", ground_truth=None, extra_info=INFO) == 4.0
    assert (
        one(
            "d",
            "vier",
            "unused",
            {**INFO, "prompt": [{"role": "user", "content": "Was?"}]},
            num_turns=1,
        )
        == 4.0
    )


@pytest.mark.parametrize("given", [{}, {"solution_str": None}, {"solution_image": [[0.5]]}])
def test_verl_without_a_text_gets_no_reward(given: dict[str, object]) -> None:
    """verl's managers of images give no text, and each image got the reward of an empty one."""
    with pytest.raises(CarbError, match="solution_str"):
        as_verl_reward(Fake())(data_source="d", ground_truth=None, extra_info=INFO, **given)


def test_a_tools_words_are_no_completion() -> None:
    tool = {"role": "tool", "content": "vier"}
    rewards = as_trl_reward(Fake(), culture="german", language="de")
    answered = [tool, {"role": "assistant", "content": "ja"}]
    assert rewards(["Was?"] * 2, [[tool], answered]) == [None, 2]


def test_verls_threads_share_one_scorer_and_one_event_loop(
    kind: Callable[[str, object], None],
) -> None:
    """verl asks from a pool of threads; a server's limits hold for all of them together."""
    count = 4
    met = threading.Barrier(count)
    opened: list[Fake] = []
    loops: list[object] = []

    class Waiting(Fake):
        async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
            loops.append(anyio.lowlevel.current_token())
            await anyio.to_thread.run_sync(met.wait)  # until all others are here
            return await super().score(requests)

    def open_waiting(*_: object) -> Fake:
        opened.append(Waiting())
        return opened[-1]

    kind("waiting", open_waiting)
    reward = as_verl_reward("waiting:any")
    with ThreadPoolExecutor(count) as pool:
        rewards = list(pool.map(lambda n: reward("d", "x" * n, None, INFO), range(1, count + 1)))
    assert rewards == [1.0, 2.0, 3.0, 4.0]
    assert len(opened) == 1
    assert len(loops) == count
    assert len(set(loops)) == 1


def test_verl_needs_the_prompt_and_what_the_scorer_reads() -> None:
    one = as_verl_reward("baseline:label")
    assert one("d", "In Thailand", None, {"prompt": "Wo?", "culture": "thai"}) == 1.0
    for info in (None, {}, {"prompt": None, "culture": "thai"}):
        with pytest.raises(CarbError, match="prompt: put it into verl's extra_info"):
            one("d", "vier", None, info)
    with pytest.raises(CarbError, match="culture of each prompt: put it into verl's extra_info"):
        one("d", "vier", None, {"prompt": "Was?"})
    with pytest.raises(CarbError, match="Expected a text"):
        one("d", "vier", None, {**INFO, "prompt": 7})
    assert as_verl_reward("baseline:length")("d", "vier", None, {"prompt": "Was?"}) == 4.0


@pytest.mark.parametrize("culture", ["thia", "Thailand"])
def test_a_culture_that_is_not_registered_is_refused(culture: str) -> None:
    told: Any = {"prompts": ["Was?"], "completions": ["a"]}
    with pytest.raises(CarbError, match=f"'{culture}'.*'?thai'?"):
        as_trl_reward("baseline:label", culture=culture)(**told)
    with pytest.raises(CarbError, match=f"'{culture}'.*'?thai'?"):
        as_verl_reward("baseline:label")("d", "a", None, {"prompt": "Was?", "culture": culture})


def test_verl_gets_no_made_up_reward() -> None:
    with pytest.raises(NoRewardError, match=r"parse: no verdict.*when_failed"):
        as_verl_reward(Fake())("d", "bad", None, INFO)
    assert as_verl_reward(Fake(), when_failed=-1.0)("d", "bad", None, INFO) == -1.0


def test_a_scorer_that_compares_gets_whole_groups_from_verls_batch_manager() -> None:
    scorer = Fake(comparative=True)
    reward = as_verl_reward(scorer)
    with pytest.raises(CarbError, match=r"reward_manager=batch.*mode=pointwise"):
        reward("d", "vier", None, INFO)
    infos = [INFO, {**INFO, "prompt": "Wo?"}] * 2
    # as verl/workers/reward_manager/batch.py calls it
    lists = {"data_sources": ["d"] * 4, "ground_truths": [None] * 4}
    answers = ["eins", "da", "zwölf", "dort!!"]
    rewards = reward(solution_strs=answers, extra_infos=infos, **lists)
    assert rewards == [4.0, 2.0, 5.0, 6.0]
    assert [len(r.candidates) for r in scorer.requests] == [2, 2]
    with pytest.raises(CarbError, match=r"val_kwargs\.n"):  # validation writes one by default
        reward(solution_strs=answers[:2], extra_infos=infos[:2], **lists)


def test_an_awaited_reward_gives_the_same_numbers_and_compares_whole_groups() -> None:
    prompts, completions = ["Was?", "Wo?", "Was?", "Wo?"], ["eins", "da", "zwölf", "dort!!"]
    asked = {"prompts": prompts, "completions": completions}
    scorer = Fake(comparative=True)
    reward = as_trl_reward(scorer, awaited=True, **PLACE)
    assert inspect.iscoroutinefunction(reward.__call__)  # by which TRL tells
    assert reward.__name__ == "fake"
    assert (
        anyio.run(partial(reward, **asked))
        == as_trl_reward(Fake(), **PLACE)(**asked)
        == [4.0, 2.0, 5.0, 6.0]
    )
    assert [len(r.candidates) for r in scorer.requests] == [2, 2]


def test_a_scale_makes_rewards_of_scores() -> None:
    asked = {"prompts": ["Was?"] * 2, "completions": ["eins", "bad"]}
    assert as_trl_reward(Fake(), scale=math.sqrt, **PLACE)(**asked) == [
        None,
        None,
    ]  # a failed score has no reward
    assert as_trl_reward("baseline:length", scale=math.sqrt, **PLACE)(**asked) == [
        2.0,
        math.sqrt(3),
    ]
    assert as_verl_reward("baseline:length", scale=math.sqrt)("d", "eins", None, INFO) == 2.0


def test_scores_of_loose_texts() -> None:
    assert score("baseline:length", ["Was?", "Wo?", "Was?"], ["eins", "da", "drei!"]) == [
        4.0,
        2.0,
        5.0,
    ]
    assert score("baseline:length", [], []) == []
    with pytest.raises(CarbError, match="as many responses"):
        score("baseline:length", ["Was?"], [])


WRONG: Any = None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score(Fake(), ["p"], [WRONG]), "Response 1: response: must be a text"),
        (lambda: best_of_n(Fake(), "p", [WRONG, "a"]), "Response 1: response: must be a text"),
        (lambda: score(Fake(), ["p"], ["a"], culture=WRONG), "Response 1: culture: must be a text"),
        (lambda: score(Fake(), ["p"], WRONG), "as many responses"),
        (lambda: score(Fake(), ["p"], ["a"], culture="thia"), r"'thia'.*Did you mean 'thai'"),
        (lambda: score(Fake(), ["p"], ["a"], language="Thai"), r"'Thai'.*Did you mean 'th'"),
        (lambda: best_of_n(Fake(), "p", ["a"], language="Deutsch"), "'Deutsch' is no language tag"),
        (lambda: as_trl_reward(Fake(), culture="thia", language="th"), "'thia'"),
        (lambda: as_trl_reward(Fake(), culture="thai", language="Thai"), "'Thai'"),
        (lambda: score(WRONG, ["p"], ["a"]), r"NoneType.*baseline:length"),
        (lambda: best_of_n(WRONG, "p", ["a"]), r"NoneType.*baseline:length"),
        (lambda: as_verl_reward(WRONG), r"NoneType.*baseline:length"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(CarbError, match=message):
        call()


def test_a_response_without_a_score_is_nan_and_named() -> None:
    with pytest.warns(UserWarning, match="1 of 1 responses have no score"):
        (found,) = score(Fake(), ["Was?"], ["bad"])
    assert math.isnan(found)


CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "look_up", "arguments": {}}}]}
ANSWER = {"role": "assistant", "content": "Blumen."}
PART = {"type": "text", "text": "Blumen."}


@pytest.mark.parametrize(
    ("turns", "length"),
    [
        ([ANSWER], 7),
        ([CALL, {"role": "tool", "content": "Rosen"}, ANSWER], 7),
        ([CALL | {"content": None}, ANSWER], 7),
        ([CALL | {"content": ""}, ANSWER], 7),
        ([CALL, {"role": "tool", "name": "look_up"}, ANSWER], 7),
        ([{"role": "assistant", "function_call": {"name": "look_up"}}, ANSWER], 7),
        ([CALL | {"content": "\n\n"}, ANSWER], 7),
        ([CALL | {"content": []}, ANSWER], 7),
        ([{"role": "assistant", "refusal": "No."}, ANSWER], 7),
        ([CALL], None),
        ([CALL, {"role": "tool", "content": "Rosen"}], None),
        ([{"role": "tool", "content": "Rosen"}], None),
        ([CALL | {"content": "  "}], None),
        ([CALL, {"role": "tool", "content": "Rosen"}, ANSWER | {"content": ""}], 0),
        ([ANSWER | {"content": ""}], 0),
        ([ANSWER | {"content": None}], None),
        # Arrow fills what a message or a part lacks with null
        ([ANSWER | {"content": "", "tool_calls": None}], 0),
        ([ANSWER | {"role": None, "name": None}], 7),
        ([ANSWER | {"content": [{"type": "text", "text": None}, PART]}], 7),
        ([ANSWER | {"content": ["Blu", "men."]}], 7),
        ([ANSWER | {"content": PART}], 7),
        ([ANSWER | {"content": [{"type": "thinking", "text": "Hm."}, PART]}], 7),
        ([{"role": "tool", "content": [{"type": "image", "text": None}]}, ANSWER], 7),
        ([], None),
        ([ANSWER | {"role": "model"}], 7),
        ([ANSWER | {"role": "Assistant"}], 7),
        ([ANSWER | {"role": "ai"}], 7),
        ([ANSWER | {"role": "bot"}], 7),
        ([ANSWER | {"role": "gpt"}], 7),
        ([ANSWER | {"role": "ASSISTANT"}, {"role": "observer", "content": "?"}], 7),
        ([ANSWER, CALL, ANSWER], 16),
        ([{"role": "assistant", "reasoning_content": "Hm."}], None),
        ([{"role": "assistant", "reasoning_content": "Hm.", "content": ""}], None),
        ([{"role": "assistant", "refusal": "No."}], None),
        ([{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}], None),
    ],
)
def test_a_turn_that_only_calls_a_tool_adds_nothing_to_the_text(
    turns: Any, length: int | None
) -> None:
    """It added two line breaks, or the message without ``content`` was refused. A completion that
    ends without an answer counted as an empty one."""
    prompts = [[{"role": "user", "content": "Was?"}]]
    assert as_trl_reward("baseline:length")(prompts=prompts, completions=[turns]) == [length]


def test_a_completion_of_an_unknown_speaker_is_refused() -> None:
    """It had no reward, and no word said why."""
    turns = [{"role": "narrator", "content": "Blumen."}]
    with pytest.raises(CarbError, match="their role is narrator"):
        as_trl_reward("baseline:length")(prompts=["Was?"], completions=[turns])
    asked = [{"role": "human", "content": "Was?"}, ANSWER | {"role": "gpt"}]
    found = as_prompt([*asked, {"role": "User", "content": "Wo?"}])
    assert not isinstance(found, str)
    assert [turn.role for turn in found] == ["user", "assistant", "user"]


ASKED = {"prompt": "Was?"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"solution_strs": ["a", "b"], "extra_infos": [ASKED]}, "as many extra_infos"),
        ({"solution_strs": ["a"]}, "as many extra_infos"),
        ({"solution_strs": "ab", "extra_infos": [ASKED] * 2}, "as many extra_infos"),
        ({"solution_str": "a", "extra_info": '{"prompt": "Was?"}'}, "extra_info"),
        ({"solution_str": "a", "extra_info": ["Was?"]}, "extra_info"),
        ({"solution_strs": ["a"], "extra_infos": ["Was?"]}, "extra_info"),
        ({"solution_strs": [None], "extra_infos": [ASKED]}, "must be a text"),
    ],
)
def test_what_verl_gives_in_another_form_is_named(given: Any, told: str) -> None:
    """It was a traceback of Python."""
    with pytest.raises(CarbError, match=told):
        as_verl_reward("baseline:length")(**given)


CHATML = "<|im_start|>user\nWas?<|im_end|>\n<|im_start|>assistant\n"
LLAMA_2 = "<s>[INST] Was? [/INST]"


@pytest.mark.parametrize("prompt", [CHATML, LLAMA_2, f"{CHATML}<think>\n"])
def test_a_prompt_as_the_policy_read_it_is_undone_at_every_door(prompt: str) -> None:
    """Its control tokens were broken up, and the question was another one."""
    assert as_prompt(prompt) == "Was?"
    scorer = Fake()
    said = "Hm.</think>ab" if prompt.endswith("<think>\n") else "ab"
    assert as_trl_reward(scorer)(prompts=[prompt], completions=[said]) == [2.0]
    assert as_verl_reward(scorer)("x", said, "", {"prompt": prompt}) == 2.0
    assert score(scorer, [prompt], [said]) == [2.0]
    picked = best_of_n(scorer, prompt, [said, "a"] if said == "ab" else [said, "Hm.</think>a"])
    assert (picked.response, picked.scores) == (said, (2.0, 1.0))
    assert {one.prompt for one in scorer.requests} == {"Was?"}


def test_an_answer_within_the_thought_that_its_prompt_begins_is_none() -> None:
    prompt = f"{CHATML}<think>\n"
    assert as_trl_reward("baseline:length")(prompts=[prompt], completions=["Hm. ab"]) == [None]


@pytest.mark.parametrize(
    "prompt",
    [
        '[{"role": "user", "content": "Was?"}]',
        "[{'role': 'user', 'content': 'Was?'}]",
        '{"messages": [{"role": "user", "content": "Was?"}]}',
        "<|odd|>Was?<|odder|>",
    ],
)
def test_a_prompt_that_is_no_question_is_refused_at_every_door(prompt: str) -> None:
    """Messages as a text of JSON were the question."""
    calls: list[Callable[[], object]] = [
        lambda: as_trl_reward("baseline:length")(prompts=[prompt], completions=["a"]),
        lambda: as_verl_reward("baseline:length")("x", "a", "", {"prompt": prompt}),
        lambda: score("baseline:length", [prompt], ["a"]),
        lambda: best_of_n("baseline:length", prompt, ["a"]),
    ]
    for call in calls:
        with pytest.raises(CarbError, match="list of messages"):
            call()


def test_a_language_that_is_missing_as_pandas_says_it_is_none() -> None:
    """NaN was the tag of Southern Min."""
    pytest.importorskip("lingua", reason="needs the extra carb-data[checks]")
    reward = as_trl_reward("baseline:language", language="de")
    asked = {"prompts": ["Was ist das?"], "completions": ["Das ist ein Brot."]}
    assert reward(**asked, language=[math.nan]) == reward(**asked, language=["de"]) == [1.0]
    with pytest.raises(CarbError, match="column 'culture'"):
        as_trl_reward("baseline:label")(**asked, culture=[math.nan], language=["de"])


def test_a_prompt_has_no_turn_that_only_calls_a_tool() -> None:
    question = {"role": "user", "content": "Was?"}
    turns = [question, CALL, {"role": "tool", "tool_call_id": "1"}, question]
    found = as_prompt(turns)
    assert not isinstance(found, str)
    assert [(turn.role, turn.content) for turn in found] == [("user", "Was?")] * 2
    assert as_prompt([question, CALL]) == "Was?"


@pytest.mark.parametrize("content", ["Was?", ["Wa", "s?"], {"type": "text", "text": "Was?"}])
def test_a_question_in_parts_is_read_in_any_form(content: Any) -> None:
    """Parts as texts or as one object were an empty question."""
    asked = [{"role": "developer", "content": "Kurz."}, {"role": "user", "content": content}]
    turns = [(turn.role, turn.content) for turn in as_prompt(asked)]
    assert turns == [("system", "Kurz."), ("user", "Was?")]


def test_a_question_in_arrays_of_parquet_is_read() -> None:
    np = pytest.importorskip("numpy", reason="needs carb-data[checks]")
    parts = np.array([{"text": "Was?"}])
    asked = [{"role": "developer", "content": "Kurz."}, {"role": "user", "content": parts}]
    turns = [(turn.role, turn.content) for turn in as_prompt(np.array(asked, dtype=object))]
    assert turns == [("system", "Kurz."), ("user", "Was?")]


@pytest.mark.parametrize("content", [[{"type": "image", "text": None}, {"text": "Was?"}], 7, [7]])
def test_what_is_no_text_is_refused(content: Any) -> None:
    """An image without a text was the word "None", and a number an empty answer."""
    turns = [{"role": "assistant", "content": content}]
    for asked in ({"prompts": [turns], "completions": ["a"]}, {"completions": [turns]}):
        with pytest.raises(CarbError, match="must be text"):
            as_trl_reward("baseline:length")(**{"prompts": ["Was?"], **asked})


@pytest.mark.parametrize("around", ["\n\n", "\n", "\r\n"])
def test_line_breaks_around_an_answer_change_no_score_whichever_way_it_comes(around: str) -> None:
    """A line break in front of an answer changed the score in every way but ``/get_reward``."""
    spaced = f"{around}Blumen.{around}"
    prompts = [[{"role": "user", "content": "Was?"}]]
    turns = [[{"role": "assistant", "content": spaced}]]
    info = {"prompt": "Was?"}
    assert as_trl_reward("baseline:length")(prompts=["Was?"], completions=[spaced]) == [7]
    assert as_trl_reward("baseline:length")(prompts=prompts, completions=turns) == [7]
    assert as_verl_reward("baseline:length")("x", spaced, "", info) == 7
    assert score("baseline:length", ["Was?"], [spaced]) == [7]
    picked = best_of_n("baseline:length", "Was?", [spaced, "Blumen."])
    assert (picked.response, picked.scores, picked.tied) == (spaced, (7, 7), (0, 1))


@pytest.mark.parametrize(("installed", "refused"), [("1.5.0", True), ("1.16.0", False)])
def test_a_trl_that_takes_none_for_the_best_is_refused_by_name(
    installed: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / f"trl-{installed}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: trl\nVersion: {installed}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    if refused:
        with pytest.raises(CarbError, match=rf"TRL {installed}.*carb-scorers\[trl\]"):
            as_trl_reward("baseline:length")
    else:
        as_trl_reward("baseline:length")


def test_a_space_before_an_answer_is_read_as_the_model_itself_reads_it() -> None:
    """A reward model trained on answers that begin with a space scored other tokens here."""
    assert score("baseline:length", ["Was?"] * 2, [" Blumen.", "Blumen."]) == [8, 7]


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>\n", " <|eot_id|>", "<pad><pad><pad>"])
def test_end_tokens_behind_an_answer_change_no_score_whichever_way_it_comes(end: str) -> None:
    """Trainers that decode with special tokens left them in the answer; servers took them off."""
    ended = f"Blumen.{end}"
    turns = [[{"role": "assistant", "content": ended}]]
    prompts = [[{"role": "user", "content": "Was?"}]]
    assert as_trl_reward("baseline:length")(prompts=["Was?"], completions=[ended]) == [7]
    assert as_trl_reward("baseline:length")(prompts=prompts, completions=turns) == [7]
    assert as_verl_reward("baseline:length")("x", ended, "", {"prompt": "Was?"}) == 7
    assert score("baseline:length", ["Was?"], [ended]) == [7]
    assert score("baseline:length", ["Was?"], [f"{end}?"]) == [len(f"{end}?")]


def test_what_has_no_order_or_other_keys_is_no_list_of_responses() -> None:
    """The keys of a dictionary were scored as the responses."""
    answers = {"Blumen.": "Wein.", "Brot.": "Nichts."}
    for given in (answers, set(answers)):
        with pytest.raises(CarbError, match="a list"):
            best_of_n("baseline:length", "Was?", given)
        with pytest.raises(CarbError, match="a list"):
            score("baseline:length", ["Was?"] * 2, given)


def test_a_table_that_was_filtered_keeps_its_row_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    found = best_of_n("baseline:length", "Was?", pandas.Series(["a", "Blumen."], index=[4, 7]))
    assert (found.index, found.response) == (1, "Blumen.")
