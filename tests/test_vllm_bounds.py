"""How far vLLM's bfloat16 is from float32, and the implicit reward against a reference model, on real engines.

Runs in an environment of its own: ``nox -s vllm``.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("vllm", reason="needs vLLM; run nox -s vllm")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from carb_data import load
from carb_scorers import open_scorer
from carb_scorers.blind import blind
from carb_scorers.models.protocol import Choices, Continuation, Prompt
from carb_scorers.models.tokens import answer_ids, prompt_ids, wanted_ids
from carb_scorers.models.vllm import VLLMOptions, open_language_model
from carb_scorers.spec import read_options
from vllm_small import FLOAT32, SMALL, run

# What vLLM and its dependencies warn of is not ours to fix.
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

LETTER, MEAN = 0.25, 0.05
"""How far bfloat16 may be from float32: a letter's log-probability among the letters, and a response's mean
log-probability per token; and either from what it is in another batch."""
LETTERS = ["A", "B", "C", "D"]

ITEMS = [next(item for item in load("carb-seed@2") if item.language == language) for language in
         sorted({item.language for item in load("carb-seed@2")})]  # fmt: skip
PROMPTS = [Prompt(({"role": "user", "content": item.prompt},), cue="\n") for item in ITEMS]
ANSWERS = [item.responses[0].text for item in ITEMS]


@pytest.fixture(scope="module")
def reference(smollm: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(smollm, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(
        smollm
    )


@pytest.fixture(scope="module")
def narrow(smollm: Path) -> Iterator[Any]:
    opened = open_language_model(str(smollm), read_options(VLLMOptions, "test", {**SMALL, "dtype": "bfloat16"}))
    yield opened
    anyio.run(opened.aclose)


@pytest.fixture(scope="module")
def other(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reference model: small, of random weights, with the policy's tokenizer."""
    folder = tmp_path_factory.mktemp("reference")
    tokenizer = AutoTokenizer.from_pretrained(smollm)
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, max_position_embeddings=2048, **sizes, **ids)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def logprobs(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def of_answer(model: Any, tokenizer: Any, prompt: Prompt, answer: str) -> list[float]:
    """The log-probability of each of the answer's tokens."""
    before, after = prompt_ids(tokenizer, prompt), answer_ids(tokenizer, answer, end_of_turn=True)
    values = logprobs(model, [*before, *after])
    return [float(values[len(before) - 1 + place, token]) for place, token in enumerate(after)]


def among(choices: dict[str, float]) -> dict[str, float]:
    """Log-probabilities among the letters alone, as a listwise judge reads them."""
    total = math.log(sum(map(math.exp, choices.values())))
    return {name: value - total for name, value in choices.items()}


def test_bfloat16_letters_stay_near_float32(narrow: Any, reference: tuple[Any, Any]) -> None:
    model, tokenizer = reference
    tokens = [word[0] for word in wanted_ids(tokenizer, LETTERS)]
    apart = []
    for prompt, one in zip(PROMPTS, run(narrow.next_logprobs, PROMPTS, LETTERS), strict=True):
        assert isinstance(one, Choices)
        last = logprobs(model, prompt_ids(tokenizer, prompt))[-1]
        direct = among(dict(zip(LETTERS, last[tokens].tolist(), strict=True)))
        found = among(one.logprobs)
        apart += [abs(found[letter] - direct[letter]) for letter in LETTERS]
    print("largest difference from float32", max(apart))
    assert 0 < max(apart) <= LETTER


def test_bfloat16_answers_stay_near_float32(narrow: Any, reference: tuple[Any, Any]) -> None:
    model, tokenizer = reference
    apart = []
    for prompt, answer, one in zip(PROMPTS, ANSWERS, run(narrow.continuation_logprobs, PROMPTS, ANSWERS), strict=True):
        assert isinstance(one, Continuation)
        direct = of_answer(model, tokenizer, prompt, answer)
        apart.append(abs(sum(one.logprobs) - sum(direct)) / len(direct))
    print("largest difference from float32", max(apart))
    assert 0 < max(apart) <= MEAN


def test_bfloat16_does_not_depend_on_neighbours_beyond_its_rounding(narrow: Any) -> None:
    together = run(narrow.next_logprobs, PROMPTS, LETTERS), run(narrow.continuation_logprobs, PROMPTS, ANSWERS)
    letters = [run(narrow.next_logprobs, [prompt], LETTERS)[0] for prompt in PROMPTS]
    answers = [run(narrow.continuation_logprobs, [p], [a])[0] for p, a in zip(PROMPTS, ANSWERS, strict=True)]
    pairs = zip(together[0], letters, strict=True)
    apart = max(abs(among(a.logprobs)[k] - among(b.logprobs)[k]) for a, b in pairs for k in LETTERS)
    pairs = zip(together[1], answers, strict=True)
    mean = max(abs(sum(a.logprobs) - sum(b.logprobs)) / len(a.logprobs) for a, b in pairs)
    print("largest difference of a letter", apart)
    print("largest difference of a mean", mean)
    assert apart <= LETTER
    assert mean <= MEAN


def test_an_implicit_reward_against_a_reference(smollm: Path, other: Path, reference: tuple[Any, Any]) -> None:
    """Two engines side by side, each with a model of its own."""
    spec = f"implicit:{other}?backend=vllm&ref={smollm}&max_length=512&dtype=float32&eager=true"
    scorer = open_scorer(spec)
    try:
        (blinded,) = blind(ITEMS[0].model_copy(update={"perturbed": ()}), seed=0, comparative=False)
        (result,) = run(scorer.score, [blinded.request])
    finally:
        anyio.run(scorer.aclose)
    assert scorer.spec.parameters["ref_revision"] != scorer.spec.revision
    model, tokenizer = reference
    policy = AutoModelForCausalLM.from_pretrained(other, dtype=torch.float32).eval()
    assert result.error is None
    for candidate in blinded.request.candidates:
        own, theirs = (of_answer(m, tokenizer, PROMPTS[0], candidate.text) for m in (policy, model))
        assert result.scores[candidate.id] == pytest.approx(sum(own) - sum(theirs), abs=2 * FLOAT32 * len(own))
