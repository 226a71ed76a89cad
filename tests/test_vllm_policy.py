"""Policies on vLLM's engine for real: samples on a small model, against transformers' own greedy answers.

Runs in an environment of its own: ``nox -s vllm``.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

import torch

from carb_data.tasks import Task, TaskPrompt
from carb_scorers import open_scorer
from carb_scorers.bon import Policy, SamplePool, bon_curve, collect, grade_pool, open_policy, score_pool
from carb_scorers.bon.policy import policy_prompts
from carb_scorers.models.tokens import prompt_ids
from carb_scorers.models.vllm import VLLMOptions, open_language_model
from carb_scorers.spec import read_options
from vllm_small import FLOAT32, SMALL, run

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

QUESTIONS = {
    "france": "What is the capital of France?",
    "egypt": "Name a river in Egypt.",
    "japan": "How do people greet each other in Japan?",
    "vietnam": "Which dish is eaten at Tết?",
    "mexico": "What do families put on an altar on the Day of the Dead?",
    "turkey": "What is drunk with breakfast in Turkey?",
    "india": "Which lights are lit at Diwali?",
    "norway": "What do children wave on the national day of Norway?",
}


FEW = dict(list(QUESTIONS.items())[:4])


class Questions(Task):
    """Questions whose answers are worth more the shorter they are."""

    name = "questions:none"
    instruction = "Answer in one sentence."
    shots = (("What is the capital of Spain?", "Madrid is the capital of Spain."),)

    def __init__(self, questions: dict[str, str] = QUESTIONS, *, one_line: bool = False) -> None:
        self.one_line = one_line
        self.prompts = tuple(
            TaskPrompt(id=key, text=text, culture="thai", language="en", source_item=key)
            for key, text in questions.items()
        )

    def grade(self, prompt_id: str, text: str) -> float:
        return 1 / (1 + len(text))


@pytest.fixture(scope="module")
def engine(smollm: Path) -> Iterator[Any]:
    opened = open_language_model(str(smollm), read_options(VLLMOptions, "test", SMALL))
    yield opened
    anyio.run(opened.aclose)


@pytest.fixture
def vllm(smollm: Path, engine: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Policy]:
    """Opens a policy by its options, on the engine that is running already; a second one would cost a minute."""
    import carb_scorers.models.vllm as backend

    monkeypatch.setattr(backend, "LANGUAGE_MODEL", backend.BackendKind(VLLMOptions, lambda *_: engine))
    return lambda options: open_policy(f"vllm:{smollm}?dtype=float32&max_length=512&eager=true&{options}")


@pytest.fixture
def hf(smollm: Path) -> Callable[[str], Policy]:
    return lambda options: open_policy(f"hf:{smollm}?dtype=float32&max_length=512&{options}")


def texts(pool: SamplePool) -> dict[str, list[str]]:
    assert pool.errors == 0
    return {key: [sample.text for sample in row] for key, row in pool.samples.items()}


def test_a_seed_gives_the_same_samples_and_another_seed_others(vllm: Any, tmp_path: Path) -> None:
    def draw(seed: int, n: int, name: str) -> dict[str, list[str]]:
        policy = vllm(f"temperature=1&max_new_tokens=8&sampling_seed={seed}")
        return texts(run(collect, policy, Questions(FEW), n, tmp_path / f"{name}.jsonl"))

    first = draw(3, 4, "first")
    assert list(first) == list(FEW)
    assert all(len(row) == 4 for row in first.values())
    assert all(len(set(row)) > 1 for row in first.values())  # each index has a seed of its own
    assert draw(3, 4, "again") == first
    assert all(row != first[key] for key, row in draw(4, 4, "other").items())
    small = draw(3, 2, "grows")
    assert small == {key: row[:2] for key, row in first.items()}
    assert draw(3, 4, "grows") == first  # a pool of four extends one of two


def test_a_sample_depends_on_its_own_prompt_alone(vllm: Any) -> None:
    prompts = policy_prompts(Questions(FEW))
    policy = vllm("temperature=1&max_new_tokens=8")
    together = run(policy.sample, prompts, range(2))
    alone = [run(policy.sample, [prompt], [1])[0][0] for prompt in reversed(prompts)][::-1]
    assert [row[1] for row in together] == alone


@pytest.mark.parametrize(("one_line", "shots"), [(True, True), (False, False)])
def test_greedy_answers_are_those_of_transformers(
    vllm: Any, hf: Any, smollm: Path, tmp_path: Path, one_line: bool, shots: bool
) -> None:
    """All eight: greedy texts can only part where the best two tokens are within the backends' rounding.

    Along none of these answers are they: the test says how close the closest were.
    """
    task, options = Questions(one_line=one_line), f"temperature=0&max_new_tokens=16&shots={str(shots).lower()}"
    ours = run(collect, vllm(options), task, 2, tmp_path / "vllm.jsonl")
    theirs = run(collect, hf(options), task, 1, tmp_path / "hf.jsonl")
    assert all(len(set(row)) == 1 for row in texts(ours).values())
    margin = smallest_margin(smollm, task, shots)
    print(f"smallest margin of the best token over the next: {margin:.4f}")
    assert margin > FLOAT32
    assert texts(ours.first(1)) == texts(theirs)
    finished = [{key: row[0].finished for key, row in pool.samples.items()} for pool in (ours, theirs)]
    assert finished[0] == finished[1]


def smallest_margin(smollm: Path, task: Questions, shots: bool) -> float:
    """By how much, in log-probability, the best token led at the closest step of all greedy answers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm)
    model = AutoModelForCausalLM.from_pretrained(smollm, dtype=torch.float32).eval()
    margins = []
    for prompt in policy_prompts(task, shots=shots):
        ids = torch.tensor([prompt_ids(tokenizer, prompt.prompt)])
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=16,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        for step in out.logits:
            best, second = step[0].topk(2).values.tolist()
            margins.append(best - second)
    return min(margins)


def test_answers_are_as_long_as_allowed_and_no_longer(vllm: Any, engine: Any, tmp_path: Path) -> None:
    tokenizer = engine._engine.tokenizer
    pool = run(collect, vllm("temperature=1&max_new_tokens=5"), Questions(FEW), 4, tmp_path / "pool.jsonl")
    assert pool.errors == 0
    rows = [sample for row in pool.samples.values() for sample in row]
    assert all(len(tokenizer(sample.text)["input_ids"]) <= 5 for sample in rows)
    assert any(not sample.finished for sample in rows)  # and it is said where the limit cut an answer off


def test_an_answer_of_one_line_ends_with_it(vllm: Any, tmp_path: Path) -> None:
    lists = {"rivers": "Write a list of three rivers, each on a line of its own, and nothing else."}
    for one_line in (True, False):
        policy = vllm("temperature=0&max_new_tokens=40&shots=false")
        task = Questions(lists, one_line=one_line)
        task.instruction = ""
        pool = run(collect, policy, task, 1, tmp_path / f"{one_line}.jsonl")
        (sample,) = pool.samples["rivers"]
        assert sample.text
        assert ("\n" in sample.text) != one_line
        assert sample.finished or not one_line


def test_a_prompt_that_is_too_long_is_an_error_row(vllm: Any, tmp_path: Path) -> None:
    long = {"long": "Why do rivers bend so much on their way to the sea? " * 100, "france": QUESTIONS["france"]}
    policy = vllm("temperature=1&max_new_tokens=8")
    pool = run(collect, policy, Questions(long), 2, tmp_path / "pool.jsonl")
    assert [sample.error is None for sample in pool.samples["france"]] == [True, True]
    for sample in pool.samples["long"]:
        assert (sample.text, sample.finished) == ("", False)
        assert sample.error is not None
        assert sample.error.startswith("too-long: ")
    scores = run(score_pool, pool, Questions(long), open_scorer("baseline:length"))
    result = bon_curve(pool, Questions(long), scores, grade_pool(pool, Questions(long)))
    assert [outcome.prompt_id for outcome in result.prompts] == ["france"]
    assert result.short == 1


def test_examples_are_shown(vllm: Any, tmp_path: Path) -> None:
    """The policy's own ``shots=false`` leaves them out, and the answers are others."""
    found = [
        texts(run(collect, vllm(f"temperature=0&max_new_tokens=8&shots={shots}"), Questions(FEW), 1, tmp_path / shots))
        for shots in ("true", "false")
    ]
    assert found[0] != found[1]


def test_best_of_n_from_samples_to_picks(vllm: Any, tmp_path: Path) -> None:
    """What ``carb bon`` does: draw, score by a baseline, grade, pick; and again without drawing anything."""
    task, file = Questions(FEW, one_line=True), tmp_path / "samples.jsonl"
    pool = run(collect, vllm("temperature=1&max_new_tokens=8"), task, 8, file)
    scores = run(score_pool, pool, task, open_scorer("baseline:length"), tmp_path / "scores")
    assert scores.errors == {}
    result = bon_curve(pool, task, scores, grade_pool(pool, task))
    assert (len(result.prompts), result.n, result.errors, result.short) == (4, 8, 0, 0)
    for outcome in result.prompts:
        lengths = [len(sample.text) for sample in pool.samples[outcome.prompt_id]]
        assert lengths[outcome.pick] == max(lengths)  # the baseline likes long answers, the task short ones
        assert outcome.picked[-1] == pytest.approx(1 / (1 + max(lengths)))
        assert outcome.best[-1] == pytest.approx(1 / (1 + min(lengths)))
    content = file.read_bytes()
    assert run(collect, vllm("temperature=1&max_new_tokens=8"), task, 8, file) == pool
    assert file.read_bytes() == content


def test_a_policy_without_a_template_from_its_spec(smollm: Path, tmp_path: Path) -> None:
    """A second engine, opened and closed by the policy itself: a base model reads paragraphs and continues them."""
    options = "dtype=float32&max_length=512&chat_template=none&temperature=0&max_new_tokens=8"
    task = Questions(FEW, one_line=True)
    ours = open_policy(f"vllm:{smollm}?{options}&eager=true")
    try:
        pool = run(collect, ours, task, 1, tmp_path / "vllm.jsonl")
    finally:
        run(ours.aclose)
    run(ours.aclose)
    theirs = open_policy(f"hf:{smollm}?{options}")
    assert texts(pool) == texts(run(collect, theirs, task, 1, tmp_path / "hf.jsonl"))
    assert ours.spec.revision == theirs.spec.revision
