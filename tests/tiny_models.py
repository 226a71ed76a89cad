"""Models of real architectures with few random weights, and a tokenizer trained on the seed's
texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from carb_scorers import Candidate, ScoreRequest

TEXTS = ("Noodles at dawn.", "Nudeln, 10 davon", "ก๋วยเตี๋ยว 面条", "a")
DECODERS = ("llama", "gemma3", "gemma2", "qwen2", "mistral")
TYPED = ("bert", "electra", "albert", "xlnet", "bigbird", "rembert")
"""Encoders whose tokenizers give the two texts of a pair different token types."""
ENCODERS = (*TYPED, "modernbert", "roberta", "t5", "bart")
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIALS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "<|user|>", "<|assistant|>", "<|end|>"]


def request(
    *texts: str, prompt: str = "What do people eat?", request_id: str = "1"
) -> ScoreRequest:
    """A question and some answers, ``TEXTS`` if none are given."""
    found = tuple(Candidate(id=str(n), text=text) for n, text in enumerate(texts or TEXTS))
    return ScoreRequest(
        request_id=request_id, prompt=prompt, candidates=found, culture="thai", language="th"
    )


@cache
def _trained() -> str:
    """A byte-level BPE of 600 entries over ten languages; digits stand alone, as in most models of
    today."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from carb_data import load

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    # A verdict's letter is one token whatever the seed's texts are.
    letters = [" A B C D"] * 500
    raw.train_from_iterator([*letters, *_texts(load("carb-seed")[::5])], trainer)
    return raw.to_str()


def tokenizer(
    *,
    chat: bool,
    encoder: bool = False,
    typed: bool = False,
    padding_side: str = "right",
    pad: str = "</s>",
) -> Any:
    """A tokenizer with its special tokens, and a chat template where one is asked for."""
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer.from_str(_trained())
    if encoder:
        raw.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> $B:1 </s>:1" if typed else "<s> $A </s> $B </s>",
            special_tokens=[("<s>", 0), ("</s>", 1)],
        )
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<s>",
        eos_token="</s>",
        pad_token=pad,
        unk_token="<unk>",
        additional_special_tokens=["<|user|>", "<|assistant|>", "<|end|>"],
        padding_side=padding_side,
        **({"sep_token": "</s>"} if encoder else {}),
        model_input_names=["input_ids", *(["token_type_ids"] if typed else []), "attention_mask"],
    )
    made.chat_template = CHAT if chat else None
    return made


def _texts(sets: Iterable[Any]) -> list[str]:
    return [
        text
        for item in list(sets)[::4]
        for text in (item.prompt_text, *(r.text for r in item.responses))
    ]


def config(architecture: str, pad: int, **changes: Any) -> Any:
    """A small configuration: 3 layers of width 32, of alternating kinds where the architecture has
    them."""
    import transformers

    sizes = {
        "vocab_size": 640,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 1024,
        "pad_token_id": pad,
        "bos_token_id": 0,
        "eos_token_id": 1,
        **changes,
    }
    grouped = {
        name: value
        for name, value in {"num_key_value_heads": 2, "head_dim": 8}.items()
        if name not in changes
    }
    windowed = {"sliding_window": 48}
    if architecture == "gemma3":
        kinds = ["sliding_attention", "sliding_attention", "full_attention"]
        return transformers.Gemma3TextConfig(**sizes, **grouped, **windowed, layer_types=kinds)
    if architecture in {"t5", "bart", "xlnet", "gpt_neo", "reformer"}:
        return _of_another_form(architecture, pad, **changes)
    named = {
        "llama": (transformers.LlamaConfig, grouped),
        "qwen2": (transformers.Qwen2Config, {"num_key_value_heads": 2}),
        "mistral": (transformers.MistralConfig, {**grouped, **windowed}),
        "gemma2": (transformers.Gemma2Config, {**grouped, **windowed}),
        "bert": (transformers.BertConfig, {}),
        "electra": (transformers.ElectraConfig, {"embedding_size": 32}),
        "albert": (transformers.AlbertConfig, {"embedding_size": 16}),
        "bigbird": (transformers.BigBirdConfig, {"attention_type": "original_full"}),
        "rembert": (
            transformers.RemBertConfig,
            {"input_embedding_size": 16, "output_embedding_size": 16},
        ),
        "roberta": (transformers.RobertaConfig, {"max_position_embeddings": 1026}),
        "modernbert": (
            transformers.ModernBertConfig,
            {"cls_token_id": 0, "sep_token_id": 1, "local_attention": 32},
        ),
    }
    kind, added = named[architecture]
    return kind(**{**sizes, **added})


def _of_another_form(architecture: str, pad: int, **changes: Any) -> Any:
    """The same for architectures that call their sizes otherwise."""
    import transformers

    if architecture == "gpt_neo":
        kinds = [[["global", "local"], 1]]
        sizes = {"vocab_size": 640, "hidden_size": 32, "num_layers": 2, "num_heads": 4, **changes}
        return transformers.GPTNeoConfig(
            **sizes, attention_types=kinds, pad_token_id=pad, bos_token_id=0, eos_token_id=1
        )
    if architecture == "reformer":
        sizes = {"vocab_size": 640, "hidden_size": 32, "attention_head_size": 16, **changes}
        chance = {"attn_layers": ["lsh", "local"], "num_buckets": 8, "num_attention_heads": 2}
        chunks = {"lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8}
        places = {"axial_pos_shape": [32, 32], "axial_pos_embds_dim": [16, 16]}
        ids = {"pad_token_id": pad, "eos_token_id": 1}
        return transformers.ReformerConfig(**sizes, **chance, **chunks, **places, **ids)
    shared = {"vocab_size": 640, "d_model": 32, "pad_token_id": pad, "eos_token_id": 1, **changes}
    if architecture == "xlnet":
        return transformers.XLNetConfig(**shared, n_layer=2, n_head=4, d_inner=48, bos_token_id=0)
    if architecture == "t5":
        sizes = {"d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4}
        return transformers.T5Config(**shared, **sizes, decoder_start_token_id=pad)
    layers = {"layers": 2, "ffn_dim": 48, "attention_heads": 4}
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in layers.items()}
    return transformers.BartConfig(**shared, **sizes, bos_token_id=0, decoder_start_token_id=1)


def folder(
    base: Path,
    architecture: str,
    kind: str,
    *,
    chat: bool = False,
    padding_side: str = "right",
    pad: str = "</s>",
    seed: int = 0,
    **changes: Any,
) -> Path:
    """A folder with a model and its tokenizer, made on first use.

    Args:
        base: where to make it.
        architecture: one of ``DECODERS`` or ``ENCODERS``.
        kind: ``CausalLM`` or ``SequenceClassification``.
        chat: with a chat template.
        padding_side: what the tokenizer would do.
        pad: the padding token; by default the end of text.
        seed: of the weights.
        changes: to the configuration.
    """
    import torch
    import transformers

    marks = [f"{name}{value}".replace(" ", "") for name, value in sorted(changes.items())]
    name = "-".join(
        [architecture, kind, str(chat), padding_side, str(SPECIALS.index(pad)), str(seed), *marks]
    )
    place = base / name
    if not place.is_dir():
        made = tokenizer(
            chat=chat,
            encoder=architecture in ENCODERS,
            typed=architecture in TYPED,
            padding_side=padding_side,
            pad=pad,
        )
        labels = (
            {"num_labels": 1}
            if kind == "SequenceClassification" and "num_labels" not in changes
            else {}
        )
        torch.manual_seed(seed)
        model_config = config(architecture, made.pad_token_id, **labels, **changes)
        model = getattr(transformers, f"AutoModelFor{kind}").from_config(model_config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(
                    torch.randn_like(parameter) * 0.1
                )  # far enough from 0 for scores to differ
        model.save_pretrained(place)
        made.save_pretrained(place)
    return place


@contextmanager
def watched(room: float = math.inf, error: Exception | None = None) -> Iterator[list[list[Any]]]:
    """The padded rows of each forward pass, as a list that grows; a pass of more than ``room``
    tokens runs out of memory."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    passes: list[list[Any]] = []

    def hook(module: Any, given: Any) -> None:
        if isinstance(module, torch.nn.Embedding):
            [ids] = given
            passes.append(ids.tolist())
            if ids.numel() > room:
                raise error or torch.OutOfMemoryError("CUDA out of memory.")

    with register_module_forward_pre_hook(hook):
        yield passes
