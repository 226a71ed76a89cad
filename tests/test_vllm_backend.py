"""vLLM's engine for real, on small models, against transformers' own numbers.

Runs in an environment of its own: ``nox -s vllm``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

import torch

from carb_data import CarbError
from carb_scorers.models.protocol import Continuation, Failure, Prompt, Reward, Writing
from carb_scorers.models.tokens import answer_ids, conversation_ids, prompt_ids
from carb_scorers.models.vllm import VLLMOptions, open_language_model, open_reward_model
from carb_scorers.spec import read_options
from vllm_small import FLOAT32, SMALL, run

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

QUESTIONS = ["What is the capital of France?", "Name a river in Egypt.", "How do people greet each other in Japan?",
             "Which dish is eaten at Tết?"]  # fmt: skip
PROMPTS = [Prompt(({"role": "user", "content": q},), cue="\nAnswer:") for q in QUESTIONS]


def options(**more: str) -> VLLMOptions:
    return read_options(VLLMOptions, "test", {**SMALL, **more})


@pytest.fixture(scope="module")
def judge(smollm: Path) -> Iterator[Any]:
    opened = open_language_model(str(smollm), options())
    yield opened
    anyio.run(opened.aclose)


@pytest.fixture(scope="module")
def reference(smollm: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(smollm, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(
        smollm
    )


def logprobs(reference: tuple[Any, Any], ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return reference[0](torch.tensor([ids])).logits[0].double().log_softmax(-1)


def test_prefixes_are_cached(judge: Any) -> None:
    """An item's common prompt is computed once: the engine finds its blocks again."""
    from vllm import SamplingParams

    engine = judge._engine
    assert engine._llm.vllm_config.cache_config.enable_prefix_caching
    text = "Name one thing that people of a town on a river do on a market day. " * 16
    first, second = (Prompt(({"role": "user", "content": text + end},), cue="\nAnswer:") for end in ("Why?", "Who?"))
    rows = [tuple(prompt_ids(engine.tokenizer, prompt)) for prompt in (first, second)]
    assert len(rows[0]) > 128
    found = [run(engine.ask, [(row, SamplingParams(max_tokens=1))])[0] for row in rows]
    assert found[1].num_cached_tokens >= 128
    assert found[0].num_cached_tokens < found[1].num_cached_tokens


def test_sampled_texts_depend_on_their_own_prompt_alone(judge: Any) -> None:
    together = run(judge.generate, PROMPTS, Writing(max_tokens=12, temperature=1.0, seed=5))
    alone = [run(judge.generate, [p], Writing(max_tokens=12, temperature=1.0, seed=5))[0] for p in reversed(PROMPTS)][
        ::-1
    ]
    assert [g.text for g in together] == [g.text for g in alone]
    assert [g.text for g in run(judge.generate, PROMPTS, Writing(max_tokens=12, temperature=1.0, seed=6))] != [
        g.text for g in together
    ]


def test_log_probabilities_of_answers_are_those_of_transformers(judge: Any, reference: tuple[Any, Any]) -> None:
    answers = ["Paris.", "The Nile.", "They bow.", "Bánh chưng."]
    tokenizer = reference[1]
    for prompt, answer, one in zip(PROMPTS, answers, run(judge.continuation_logprobs, PROMPTS, answers), strict=True):
        assert isinstance(one, Continuation)
        start, end = prompt_ids(tokenizer, prompt), answer_ids(tokenizer, answer, end_of_turn=True)
        values = logprobs(reference, [*start, *end])
        direct = [float(values[len(start) - 1 + i, token]) for i, token in enumerate(end)]
        assert list(one.logprobs) == pytest.approx(direct, abs=FLOAT32)


def test_log_probabilities_do_not_depend_on_neighbours(judge: Any, record_property: Any) -> None:
    together = run(judge.next_logprobs, PROMPTS * 4, ["A", "B"])
    alone = [run(judge.next_logprobs, [p], ["A", "B"])[0] for p in PROMPTS] * 4
    apart = max(abs(a.logprobs[k] - b.logprobs[k]) for a, b in zip(together, alone, strict=True) for k in "AB")
    record_property("largest difference in float32", apart)
    assert apart <= FLOAT32


def test_what_cannot_be_loaded_is_said_so(tmp_path: Path, smollm: Path) -> None:
    with pytest.raises(CarbError, match="no model folder"):
        open_language_model("/no/such/folder", options())
    with pytest.raises(CarbError, match="not JSON"):
        open_language_model(str(smollm), options(engine_args="{"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CarbError, match="vLLM cannot load"):
        open_language_model(str(tmp_path), options())


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, smollm: Path) -> tuple[Path, Any, Any]:
    """A small classifier with random weights and a real tokenizer."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    folder = tmp_path_factory.mktemp("classifier")
    tokenizer = AutoTokenizer.from_pretrained(smollm)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_labels=1,
        max_position_embeddings=2048,
        pad_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForSequenceClassification(config).eval()
    model.score.weight.data.normal_(0, 1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, model, tokenizer


def test_rewards_are_those_of_transformers(classifier: tuple[Path, Any, Any]) -> None:
    folder, model, tokenizer = classifier
    opened = open_reward_model(str(folder), options())
    try:
        answers = ["Paris.", "The Nile, which flows north.", "They bow.", "word " * 600]
        found = run(opened.rewards, PROMPTS, answers)
        assert isinstance(found[3], Failure)
        assert found[3].error.kind == "too-long"
        direct = []
        for prompt, answer in zip(PROMPTS[:3], answers, strict=False):
            with torch.inference_mode():
                direct.append(float(model(torch.tensor([conversation_ids(tokenizer, prompt, answer)])).logits))
        assert all(isinstance(one, Reward) for one in found[:3])
        assert [one.value for one in found[:3]] == pytest.approx(direct, abs=1e-4)
        alone = [run(opened.rewards, [p], [a])[0].value for p, a in zip(PROMPTS[:3], answers, strict=False)]
        assert [one.value for one in found[:3]] == pytest.approx(alone, abs=1e-4)
    finally:
        anyio.run(opened.aclose)
    anyio.run(opened.aclose)
    with pytest.raises(CarbError, match="closed"):
        run(opened.rewards, PROMPTS[:1], ["x"])
