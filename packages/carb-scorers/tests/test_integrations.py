"""Scorers in other projects, without the other projects: what they are asked and what they give back."""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from carb_data import CarbError
from carb_scorers import ScoreRequest, ScoreResult, ScorerSpec, best_of_n, open_scorer, score, texts
from carb_scorers.integrations import as_trl_reward, as_verl_reward
from carb_scorers.integrations.verl import NoRewardError
from carb_scorers.scorer import failed

PLACE = {"culture": "german", "language": "de"}


class Fake:
    """Scores by length; a text with ``bad`` in it fails its request."""

    def __init__(self, comparative: bool = False) -> None:
        self.spec = ScorerSpec(name="fake", kind="test", comparative=comparative)
        self.requests: list[ScoreRequest] = []
        self.closed = 0

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        self.requests += requests
        return [
            failed(r, "parse", "no verdict")
            if any("bad" in c.text for c in r.candidates)
            else ScoreResult(
                request_id=r.request_id, scores={c.id: float(len(c.text)) for c in r.candidates}, rationale="why"
            )
            for r in requests
        ]

    async def aclose(self) -> None:
        self.closed += 1


def test_best_of_n_picks_what_the_scorer_likes_best() -> None:
    scorer = Fake(comparative=True)
    pick = best_of_n(scorer, "Was?", ["kurz", "am längsten", "länger", "am längsten"], **PLACE)
    assert (pick.index, pick.response) == (1, "am längsten")
    assert pick.scores == (4.0, 11.0, 6.0, 11.0)
    assert pick.rationale == "why"
    (request,) = scorer.requests
    assert sorted(c.text for c in request.candidates) == ["am längsten", "kurz", "länger"]  # each text once
    assert (request.prompt, request.culture, request.language) == ("Was?", "german", "de")
    assert scorer.closed == 0


def test_best_of_n_makes_nothing_up_when_scoring_fails() -> None:
    pick = best_of_n(Fake(), "Was?", ["gut", "bad"], **PLACE)
    assert (pick.index, pick.response, pick.scores) == (None, None, (None, None))
    assert pick.error is not None
    assert pick.error.kind == "parse"


@pytest.mark.parametrize("responses", [[], "a text"])
def test_best_of_n_needs_responses(responses: Any) -> None:
    with pytest.raises(CarbError, match="list of at least one"):
        best_of_n("baseline:length", "Was?", responses, **PLACE)
    with pytest.raises(CarbError, match="Unknown baseline"):
        best_of_n("baseline:lengthy", "Was?", ["a"], **PLACE)


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
        as_trl_reward("baseline:length")(prompts=["a"], completions=["b"])


def test_trl_rewards_do_not_depend_on_batch_or_order() -> None:
    reward = as_trl_reward(open_scorer("baseline:random"), **PLACE)
    prompts, completions = ["a", "b", "a"], ["x", "y", "z"]
    together = reward(prompts=prompts, completions=completions)
    alone = [reward(prompts=[p], completions=[c])[0] for p, c in zip(prompts, completions, strict=True)]
    assert together == alone == reward(prompts=prompts[::-1], completions=completions[::-1])[::-1]


INFO = {"prompt": "Was?", **PLACE}


def test_verls_signature() -> None:
    one = as_verl_reward(Fake())
    assert one(data_source="d", solution_str="vier", ground_truth=None, extra_info=INFO) == 4.0
    assert one("d", "vier", "unused", {**INFO, "prompt": [{"role": "user", "content": "Was?"}]}, num_turns=1) == 4.0


def test_verls_threads_share_one_scorer_and_one_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
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

    def open_waiting(spec: str) -> Fake:
        opened.append(Waiting())
        return opened[-1]

    monkeypatch.setattr(texts, "open_scorer", open_waiting)
    reward = as_verl_reward("fake:any")
    with ThreadPoolExecutor(count) as pool:
        rewards = list(pool.map(lambda n: reward("d", "x" * n, None, INFO), range(1, count + 1)))
    assert rewards == [1.0, 2.0, 3.0, 4.0]
    assert len(opened) == 1
    assert len(loops) == count
    assert len(set(loops)) == 1


def test_verl_needs_the_prompt() -> None:
    one = as_verl_reward(Fake())
    with pytest.raises(CarbError, match="lacks prompt, culture;"):
        one("d", "vier", None, {**INFO, "prompt": None, "culture": None})
    with pytest.raises(CarbError, match="Expected a text"):
        one("d", "vier", None, {**INFO, "prompt": 7})
    with pytest.raises(CarbError, match="lacks prompt, language"):
        one("d", "vier", None, {"culture": "german"})
    with pytest.raises(CarbError, match="lacks prompt, culture, language"):
        one("d", "vier", None)


def test_verl_gets_no_made_up_reward() -> None:
    with pytest.raises(NoRewardError, match=r"parse: no verdict.*when_failed"):
        as_verl_reward(Fake())("d", "bad", None, INFO)
    assert as_verl_reward(Fake(), when_failed=-1.0)("d", "bad", None, INFO) == -1.0


def test_a_scorer_that_compares_is_refused_by_verl() -> None:
    with pytest.raises(CarbError, match="mode=pointwise"):
        as_verl_reward(Fake(comparative=True))("d", "vier", None, INFO)


def test_scores_of_loose_texts() -> None:
    assert score("baseline:length", ["Was?", "Wo?", "Was?"], ["eins", "da", "drei!"]) == [4.0, 2.0, 5.0]
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
