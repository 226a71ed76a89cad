from __future__ import annotations

import math

import anyio
import pytest

from carb_data import CarbError
from carb_scorers import Candidate, ScoreRequest, evaluate, open_scorer
from carb_scorers.testing import check_scorer, example_dataset, example_requests
from tal_rlvr import judge_as_scorer
from tal_rlvr import scorer as module
from tal_rlvr.bradley_terry import bradley_terry
from tal_rlvr.generation import Written
from tal_rlvr.judgement import write_judgement

pytest.importorskip("torch", reason="needs tal-rlvr[train]")


def test_two_candidates_have_the_closed_form():
    # with prior 0.1: (3 + 0.1) / (1 + 0.1) is the ratio of the strengths, and logs sum to 0
    scores = bradley_terry(["x", "y"], {("x", "y"): 3.0, ("y", "x"): 1.0})
    assert scores["x"] == pytest.approx(math.log(3.1 / 1.1) / 2)
    assert scores["x"] + scores["y"] == pytest.approx(0)


def test_the_estimate_solves_the_likelihood_equations():
    wins = {("a", "b"): 2.0, ("b", "c"): 1.5, ("c", "a"): 0.5, ("a", "c"): 1.0, ("b", "a"): 0.2}
    scores = bradley_terry(["c", "a", "b"], wins)
    for i in "abc":
        others = [j for j in "abc" if j != i]
        won = sum(wins.get((i, j), 0) + 0.1 for j in others)
        played = {j: wins.get((i, j), 0) + wins.get((j, i), 0) + 0.2 for j in others}
        expected = sum(n / (1 + math.exp(scores[j] - scores[i])) for j, n in played.items())
        assert won == pytest.approx(expected, abs=1e-9)
    assert bradley_terry(["b", "c", "a"], wins) == scores


def test_unbeaten_and_single_candidates_are_finite():
    scores = bradley_terry(["a", "b", "c"], {("a", "b"): 2, ("a", "c"): 2, ("b", "c"): 2})
    assert scores["a"] > scores["b"] > scores["c"] > -10
    assert bradley_terry(["a"], {}) == {"a": 0.0}


def says(pick):
    """A ``write`` that judges by a rule on the prompt's text."""

    def write(model, tokenizer, prompts, **_):
        texts = [pick(tokenizer.decode(prompt)) for prompt in prompts]
        ids = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
        return [Written(row, text, 0.0) for row, text in zip(ids, texts, strict=True)]

    return write


def judgement(verdict):
    return write_judgement([("fact", "known", 3, verdict)], "It fits.", verdict)


def first_is_longer(prompt):
    first, second = prompt.split("Response A:\n> ")[1].split("\n\nResponse B:\n> ")
    return judgement("A" if len(first) > len(second.split("\n")[0]) else "B")


@pytest.fixture
def scorer(tiny_folder):
    opened = open_scorer(f"think:{tiny_folder}?max_new_tokens=8&read=verdict")
    yield opened
    anyio.run(opened.aclose)


REQUEST = ScoreRequest(
    request_id="i",
    prompt="q",
    candidates=tuple(Candidate(id=str(n), text="x" * n) for n in (2, 9, 4, 6)),
    culture="thai",
    language="th",
)


def test_verdicts_over_all_pairs_become_a_ranking(scorer, monkeypatch):
    monkeypatch.setattr(module, "write", says(first_is_longer))
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert result.error is None
    assert sorted(result.scores, key=result.scores.get) == ["2", "4", "6", "9"]
    assert sum(result.scores.values()) == pytest.approx(0)
    assert result.rationale.count("Verdict:") == 12
    assert scorer.spec.kind == "think"


def test_a_judge_that_always_says_a_gives_everyone_the_same(scorer, monkeypatch):
    monkeypatch.setattr(module, "write", says(lambda _: judgement("A")))
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert list(result.scores.values()) == pytest.approx([0, 0, 0, 0])


def test_a_knockout_needs_fewer_pairs(tiny_folder, monkeypatch):
    """Four candidates meet in (2, 9) and (4, 6), then 9 meets 6."""
    monkeypatch.setattr(module, "write", says(first_is_longer))
    opened = judge_as_scorer(tiny_folder, max_new_tokens=8, read="verdict", pairs="knockout")
    (result,) = anyio.run(opened.score, [REQUEST])
    assert result.rationale.count("Verdict:") == 6
    assert max(result.scores, key=result.scores.get) == "9"
    assert set(result.scores) == {"2", "9", "4", "6"}
    (three,) = anyio.run(opened.score, [REQUEST.model_copy(update={"candidates": REQUEST.candidates[:3]})])
    assert three.rationale.count("Verdict:") == 4, "the third has no opponent in the first round"
    assert three.rationale.startswith("A = 2, B = 9")
    anyio.run(opened.aclose)


def test_every_item_is_kept_as_it_comes(scorer, monkeypatch):
    monkeypatch.setattr(module, "write", says(first_is_longer))
    seen = []
    evaluate(example_dataset(3), [scorer], on_progress=lambda progress: seen.append(progress.done))
    assert set(seen) >= {1, 2, 3}


def test_outputs_without_form_are_an_error_row(scorer, monkeypatch):
    monkeypatch.setattr(module, "write", says(lambda _: "I cannot say."))
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert result.error.kind == "parse"
    assert "6 of the pairs" in result.error.message


def test_one_readable_order_of_each_pair_is_enough(scorer, monkeypatch):
    def half(prompt):
        text = first_is_longer(prompt)
        return text if text.endswith("A") else "no idea"

    monkeypatch.setattr(module, "write", says(half))
    (result,) = anyio.run(scorer.score, [REQUEST])
    assert sorted(result.scores, key=result.scores.get) == ["2", "4", "6", "9"]


def test_it_keeps_the_contract(tiny_folder, monkeypatch):
    opened = judge_as_scorer(tiny_folder, name="mine", max_new_tokens=8)
    assert opened.spec.name == "mine"
    requests = example_requests(opened, 3)

    monkeypatch.setattr(module, "write", says(first_is_longer))
    results = anyio.run(check_scorer, opened, requests)
    assert all(result.error is None for result in results)
    monkeypatch.undo()
    anyio.run(check_scorer, opened, requests[:2])  # a random model's real outputs: error rows, but no exception
    anyio.run(opened.aclose)
    with pytest.raises(CarbError, match="closed"):
        anyio.run(opened.score, requests)


def test_long_requests_are_error_rows(tiny_folder):
    opened = judge_as_scorer(tiny_folder, max_length=100, max_new_tokens=50)
    (result,) = anyio.run(opened.score, [REQUEST])
    assert result.error.kind == "too-long"


def test_bad_options_and_settings_are_named(tiny_folder, tmp_path):
    with pytest.raises(CarbError, match="did you mean 'read'"):
        open_scorer(f"think:{tiny_folder}?reed=verdict")
    (tmp_path / "think.json").write_text("{")
    with pytest.raises(CarbError, match=r"think\.json is not valid"):
        open_scorer(f"think:{tmp_path}")
