"""Written answers: those of transformers' own generation, each as if it were alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")

import torch
import transformers

import tiny_models
from carb_scorers.models.hf_language import open_language_model
from carb_scorers.models.hf_loading import HFOptions
from carb_scorers.models.protocol import Generation, Prompt, Watch, Writing, message
from tiny_server import greedy

QUESTIONS = ["What do people eat?", "Was essen die Leute zum Neujahr, und warum?", "年夜饭", "?"]


def prompts(*questions: str) -> list[Prompt]:
    return [Prompt((message("user", q),), cue="\nAnswer:") for q in questions or QUESTIONS]


def opened(base: Path, architecture: str = "llama", *, chat: bool = True, **options: Any) -> Any:
    folder = tiny_models.folder(base, architecture, "CausalLM", chat=chat)
    return open_language_model(str(folder), HFOptions(**options))


def write(model: Any, asked: list[Prompt], **options: Any) -> list[Generation]:
    async def run() -> Any:
        return await model.generate(asked, Writing(**{"max_tokens": 12, **options}))

    found = anyio.run(run)
    assert all(isinstance(entry, Generation) for entry in found)
    return list(found)


@pytest.mark.parametrize("architecture", tiny_models.DECODERS)
@pytest.mark.parametrize("chat", [False, True])
def test_greedy_texts_are_transformers_own(base: Path, architecture: str, chat: bool) -> None:
    folder = tiny_models.folder(base, architecture, "CausalLM", chat=chat)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = write(opened(base, architecture, chat=chat), prompts())
    for question, own in zip(QUESTIONS, found, strict=True):
        text = (
            f"<|user|>\n{question}<|end|>\n<|assistant|>\n" if chat else f"<s>{question}\nAnswer:"
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        written = greedy(model, ids, 12, tokenizer.eos_token_id)
        ended = written[-1] == tokenizer.eos_token_id
        assert own.text == tokenizer.decode(
            written[:-1] if ended else written, skip_special_tokens=True
        )
        assert own.usage.output_tokens == len(written)
        assert own.usage.input_tokens == len(ids)
        assert own.finished == ended


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_neighbours_and_batches_do_not_matter(base: Path, temperature: float) -> None:
    together = write(opened(base), prompts(), temperature=temperature, seed=5)
    small = opened(base, batch_tokens=1)
    assert [
        write(small, [prompt], temperature=temperature, seed=5)[0] for prompt in prompts()
    ] == together
    backwards = write(opened(base), prompts()[::-1], temperature=temperature, seed=5)
    assert backwards[::-1] == together


def test_draws_follow_the_softmax(base: Path) -> None:
    """Chi-squared over the three likeliest texts and the rest, 2,000 rows, fixed seeds: 16.27 is
    the 0.1% point for 3 degrees of freedom."""
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("<|user|>\n?<|end|>\n<|assistant|>\n", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1].double()
    temperature, rows = 0.3, 2000
    expected: dict[str, float] = {}
    for token, probability in enumerate((logits / temperature).softmax(-1).tolist()):
        text = tokenizer.decode([token], skip_special_tokens=True)
        expected[text] = expected.get(text, 0.0) + rows * probability
    likely = sorted(expected, key=lambda text: -expected[text])[:3]
    written = write(
        opened(base),
        [Prompt((message("user", "?"),))] * rows,
        max_tokens=1,
        temperature=temperature,
        seed=tuple(range(rows)),
    )
    count = [sum(answer.text == text for answer in written) for text in likely]
    wanted = [expected[text] for text in likely]
    off = [n - m for n, m in zip(count, wanted, strict=True)]
    squares = [d**2 / m for d, m in zip(off, wanted, strict=True)]
    assert sum(squares) + sum(off) ** 2 / (rows - sum(wanted)) < 16.27


def test_a_watched_word_has_the_probability_that_a_forward_pass_gives(
    base: Path, tmp_path: Path
) -> None:
    """In an answer of a model whose head is turned so that it writes ": a"."""
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    before = ids("<|user|>\nWhich?<|end|>\n<|assistant|>\n")
    (colon,) = ids(":")
    a, b = (ids(f":{word}")[-1] for word in (" a", " b"))
    row = torch.tensor([[*before, colon]])
    with torch.no_grad():
        first, second = model.model(row).last_hidden_state[0, -2:]
        across = first @ second
        model.lm_head.weight[colon] = 20 * (first / across - second / second.square().sum())
        model.lm_head.weight[a] = 20 * (second / across - first / first.square().sum())
        logits = model(row).logits[0, -1].double()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    asked = [Prompt((message("user", "Which?"),))]
    watch = Watch(after=":", words=("a", "b"))
    opened_there = open_language_model(str(tmp_path), HFOptions())
    (answer,) = write(opened_there, asked, watch=watch, max_tokens=2)
    assert answer.text == ": a"
    assert answer.choices is not None
    logprobs = answer.choices.logprobs
    assert logprobs["a"] - logprobs["b"] == pytest.approx((logits[a] - logits[b]).item(), abs=1e-5)
