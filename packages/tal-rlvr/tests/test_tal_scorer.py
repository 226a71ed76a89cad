from __future__ import annotations

import anyio
import pytest

from carb_data import CarbError, Frozen
from carb_scorers import Candidate, ScoreRequest, open_scorer
from carb_scorers.models import Choices, Generation
from carb_scorers.models.protocol import plain_text
from carb_scorers.spec import needs
from carb_scorers.testing import check_scorer, example_requests
from tal_rlvr import judge_as_scorer
from tal_rlvr.judgement import write_judgement

pytest.importorskip("torch", reason="needs tal-rlvr[train]")


class Says:
    """Judges by a rule on the prompt's text, and is sure of its verdict."""

    revision, in_flight = "1", None

    def __init__(self, pick):
        self.pick = pick

    async def generate(self, prompts, writing):
        texts = [self.pick(plain_text(prompt)) for prompt in prompts]
        await anyio.to_thread.run_sync(
            lambda: None
        )  # as a model does, which lets others run meanwhile
        sure = [
            {"A": -0.1, "B": -3.0} if text.endswith("A") else {"A": -3.0, "B": -0.1}
            for text in texts
        ]
        return [
            Generation(text, choices=None if writing.watch is None else Choices(found))
            for text, found in zip(texts, sure, strict=True)
        ]

    async def aclose(self):
        pass


def judgement(verdict):
    return write_judgement([("fact", "known", 3, verdict)], "It fits.", verdict)


def first_is_longer(prompt):
    first, second = prompt.split("Response A:\n> ")[1].split("\n\nResponse B:\n> ")
    return judgement("A" if len(first) > len(second.split("\n")[0]) else "B")


def test_without_a_culture_no_local_is_asked_for(judge):
    """The prompt spoke of a local of unknown culture."""
    seen = []
    opened = judge(lambda text: seen.append(text) or judgement("A"))
    anyio.run(
        opened.score, [REQUEST.model_copy(update={"culture": "unspecified", "language": "und"})]
    )
    assert seen
    assert not any("unspecified" in text or "local" in text for text in seen)


@pytest.fixture
def judge(backend):
    """A judge that follows a rule."""

    def opened(pick):
        backend("says", Frozen, lambda *_: Says(pick))
        return open_scorer("think:m?backend=says&read=verdict")

    return opened


REQUEST = ScoreRequest(
    request_id="i",
    prompt="q",
    candidates=tuple(Candidate(id=str(n), text="x" * n) for n in (2, 9, 4, 6)),
    culture="thai",
    language="th",
)


def test_it_reads_culture_and_language(judge):
    assert needs(judge(first_is_longer).spec) == ("culture", "language")


def test_verdicts_over_all_pairs_become_a_ranking(judge):
    scorer = judge(first_is_longer)
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert result.error is None
    assert sorted(result.scores, key=result.scores.get) == ["2", "4", "6", "9"]
    assert sorted(result.scores.values()) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert result.rationale.count("Verdict:") == 12
    assert scorer.spec.kind == "think"


def test_a_judge_that_always_says_a_gives_everyone_the_same(judge):
    (result,) = anyio.run(judge(lambda _: judgement("A")).score, [REQUEST])
    assert list(result.scores.values()) == [0.5] * 4


def half(prompt):
    """The judge says A always and is readable when the longer one comes first: that made the
    longest the best."""
    text = first_is_longer(prompt)
    return text if text.endswith("A") else "no idea"


@pytest.mark.parametrize("pick", [lambda _: "I cannot say.", half], ids=["no form", "one order"])
def test_outputs_that_cannot_be_read_in_both_orders_are_an_error_row(judge, pick):
    (result,) = anyio.run(judge(pick).score, [REQUEST])
    assert result.error.kind == "parse"
    assert "no judgement" in result.error.message


def test_it_keeps_the_contract(tiny_folder, judge):
    follows = judge(first_is_longer)
    results = anyio.run(check_scorer, follows, example_requests(follows, 3))
    assert all(result.error is None for result in results)
    opened = judge_as_scorer(tiny_folder, name="mine", max_new_tokens=8)
    assert opened.spec.name == "mine"
    requests = example_requests(opened, 2)
    anyio.run(
        check_scorer, opened, requests
    )  # a random model's real outputs: error rows, but no exception
    anyio.run(opened.aclose)
    with pytest.raises(CarbError, match="closed"):
        anyio.run(opened.score, requests)


def test_bad_options_and_settings_are_named(tiny_folder, tmp_path):
    with pytest.raises(CarbError, match="did you mean 'read'"):
        open_scorer(f"think:{tiny_folder}?reed=verdict")
    (tmp_path / "think.json").write_text("{")
    with pytest.raises(CarbError, match=r"think\.json is not JSON"):
        open_scorer(f"think:{tmp_path}")
