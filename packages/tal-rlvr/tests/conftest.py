"""A language model of some thousand weights and a tokenizer that fits the form, made on the
spot."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

CORPUS = (
    "Criteria: - local fact | people there know it | weight 3 | meets A Assessment: A fits "
    "daily life there.\n"
    "Verdict: A Verdict: B Judge as a local of culture. Question: Response: Answer: which is "
    "usual? rice bread tea\n"
    "coffee meets B weight 1 weight 2 weight 4 weight 5 one two three red green blue what is "
    "it called there name why\n"
    "how the responses compare"
)

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def make_tokenizer():
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|end|>", "<|start|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([CORPUS] * 4, trainer)
    inner.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|end|>", pad_token="<|end|>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture
def backend(monkeypatch):
    """Registers a backend of language models, in place of one of the same name."""
    from carb_scorers.models.protocol import LANGUAGE_MODELS, BackendKind

    def register(name, options, opens):
        module = SimpleNamespace(LANGUAGE_MODEL=BackendKind(options, opens))
        monkeypatch.setitem(sys.modules, f"backend_{name}", module)
        monkeypatch.setitem(LANGUAGE_MODELS, name, f"backend_{name}:LANGUAGE_MODEL")

    return register


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A saved model and tokenizer; random weights from a fixed seed."""
    pytest.importorskip("torch", reason="needs tal-rlvr[train]")
    pytest.importorskip("transformers", reason="needs tal-rlvr[train]")
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder)
    return folder


def save_tiny(folder: Path, *, seed: int = 0) -> None:
    """Save that model and tokenizer."""
    import torch
    import transformers

    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.4,
        tie_word_embeddings=False,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture
def tiny_tokenizer(tiny_folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture
def tiny_model(tiny_folder):
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
