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
from carb_scorers.models import hf_language as writing
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


def test_draws_follow_the_softmax() -> None:
    """Chi-squared over 4 tokens, 4,000 rows, fixed seeds: 16.27 is the 0.1% point for 3 degrees of
    freedom."""
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5])
    sampling = Writing(max_tokens=1, temperature=0.7)
    rows = 4000
    drawn = writing._Gumbel(torch, range(rows), sampling)(None, logits.repeat(rows, 1)).argmax(-1)
    counts = torch.bincount(drawn, minlength=4).double()
    expected = rows * (logits.double() / 0.7).softmax(-1)
    assert float(((counts - expected) ** 2 / expected).sum()) < 16.27


def test_a_watched_word_has_the_probability_that_a_forward_pass_gives(base: Path) -> None:
    folder = tiny_models.folder(base, "llama", "CausalLM", chat=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = (" a", " b")
    before = tokenizer("<|user|>\nWhich?<|end|>\n<|assistant|>\nx:", add_special_tokens=False)[
        "input_ids"
    ]
    a, b = (tokenizer(f":{word}", add_special_tokens=False)["input_ids"][-1] for word in words)
    with torch.no_grad():
        logits = model(torch.tensor([before])).logits[0, -1].double()
    notes = writing._Notes([a, b], entropies=False)
    row = tokenizer("x:", add_special_tokens=False)["input_ids"]
    notes(None, logits[None].float())
    for _ in row:
        notes.watched.insert(0, torch.zeros(1, 2))
    sampling = Writing(max_tokens=9, watch=Watch(after=":", words=("a", "b")))
    found = writing._finish(tokenizer, 0, [*row, a], [], sampling, notes)
    assert found.choices is not None
    own = found.choices.logprobs
    assert own["a"] - own["b"] == pytest.approx((logits[a] - logits[b]).item(), abs=1e-5)
