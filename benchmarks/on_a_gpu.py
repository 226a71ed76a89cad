"""What one GPU does with carb: speed, share of its peak, memory; as JSON lines.

``python benchmarks/on_a_gpu.py [--small]``: models of the real shapes of Qwen3 0.6B and 8B, with
random weights, which need no download; speed does not depend on weights. A plain loop of
transformers (batches of 8, sorted by length) stands beside carb's classifier. Then twenty steps of
GRPO in the shape of the preset ``qwen2.5-1.5b``. ``--small`` runs all of it in minutes on a CPU.

Every line is printed when it is measured, the most important ones first: what is killed loses the
line that it was at. The classifiers come first in both shapes, then the judges, then the steps.
None of it has run on a GPU. By arithmetic (a third of an H200's peak, 30 ms a written token)
classifiers take four minutes, judges four, and a step with and without R_appr half a minute, so
that a limit of ten minutes falls among the steps: ``--only train`` in a second call has them whole.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parent)]

SHAPES = {
    "qwen3-0.6b": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "qwen3-8b": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
}
"""From the models' published configurations."""
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
VOCABULARY = 151_936
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense bfloat16 operations a second, from NVIDIA's data sheets."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="tiny shapes, a few texts, a CPU")
    parser.add_argument("--only", choices=[*SHAPES, "train"], help="one part alone")
    options = parser.parse_args()
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    if not options.small and not torch.cuda.is_available():
        parser.error("no GPU is here; --small runs all of it on a CPU")
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"
    say("machine", device=device, torch=torch.__version__)
    shapes = {
        name: TINY if options.small else shape
        for name, shape in SHAPES.items()
        if options.only in (None, name)
    }
    for part in (classifiers, judges):
        for name, shape in shapes.items():
            with tempfile.TemporaryDirectory() as folder:
                part(name, shape, Path(folder), device, options.small)
    if options.only in (None, "train"):
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder), options.small)


def say(what: str, **numbers: object) -> None:
    print(json.dumps({"what": what, **numbers}), flush=True)


def classifiers(name: str, shape: dict[str, int], folder: Path, device: str, small: bool) -> None:
    """Scoring with a classifier, and by a plain loop."""
    answers, lengths = (12, (20, 60)) if small else (2000, (200, 1000))
    head = save(folder / "head", shape, small, head=True)
    for length in lengths:
        sets = requests(head, answers // 4, length)
        weights = parameters(shape)
        for way, call in {"carb": carb_classifier, "plain loop": plain_loop}.items():
            with timed(f"{name} classifier, {length} tokens, {way}", device, weights) as count:
                count(call(head, sets))


def judges(name: str, shape: dict[str, int], folder: Path, device: str, small: bool) -> None:
    """Scoring with the same shape as a judge, in three ways."""
    writer = save(folder / "writer", shape, small, head=False)
    judged = requests(writer, 4 if small else 100, 20 if small else 200)
    tokens = 8 if small else 256
    asked = {
        "listwise": "mode=listwise",
        "pointwise": "mode=pointwise",
        "generate": f"mode=listwise&read=generate&max_tokens={tokens}",
    }
    for way, query in asked.items():
        with timed(f"{name} judge, {way}", device, parameters(shape)) as count:
            count(score(f"judge:{writer}?{query}", judged))


def parameters(shape: dict[str, int]) -> int:
    """Weights that a token goes through, the vocabulary's aside."""
    size, inner, head = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    heads, shared = shape["num_attention_heads"], shape["num_key_value_heads"]
    attention = size * head * (2 * heads + 2 * shared)
    return shape["num_hidden_layers"] * (attention + 3 * size * inner)


@contextmanager
def timed(what: str, device: str, weights: int) -> Iterator[Callable[[int], None]]:
    """Prints seconds, tokens a second, the share of the peak and the memory of what is done
    within; it is given the tokens that were read."""
    import torch

    cuda = torch.cuda.is_available()
    read: list[int] = []
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    yield read.append
    seconds = time.perf_counter() - begun
    peak = next((value for card, value in PEAKS.items() if card in device), None)
    rate = sum(read) / seconds
    say(
        what,
        seconds=round(seconds, 2),
        tokens_a_second=round(rate),
        share_of_peak=None if peak is None else round(2 * weights * rate / peak, 3),
        gigabytes=round(torch.cuda.max_memory_allocated() / 1e9, 1) if cuda else None,
    )


def save(folder: Path, shape: dict[str, int], small: bool, *, head: bool) -> Path:
    """A model of a shape with random weights, in bfloat16, made where it is fast."""
    import torch
    import transformers

    from tiny_models import tokenizer

    words = tokenizer(chat=True)
    config = transformers.Qwen3Config(
        vocab_size=len(words) if small else VOCABULARY,
        num_labels=1,
        pad_token_id=words.pad_token_id,
        tie_word_embeddings=False,
        max_position_embeddings=8192,
        **shape,
    )
    kind = transformers.Qwen3ForSequenceClassification if head else transformers.Qwen3ForCausalLM
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            kind(config).save_pretrained(folder)
    finally:
        torch.set_default_dtype(before)
    words.save_pretrained(folder)
    return folder


def requests(folder: Path, sets: int, length: int) -> list[Any]:
    """Sets of four answers of about ``length`` tokens each."""
    import random

    from transformers import AutoTokenizer

    from carb_data import load
    from carb_scorers import Candidate, ScoreRequest

    words = AutoTokenizer.from_pretrained(folder)
    text = " ".join(item.chosen.text for item in load("carb-seed") if item.language == "en")
    ids = words(text, add_special_tokens=False)["input_ids"]
    draw = random.Random(0)

    def answer() -> str:
        start = draw.randrange(max(1, len(ids) - 2 * length))
        return str(words.decode(ids[start : start + draw.randint(length // 2, 3 * length // 2)]))

    return [
        ScoreRequest(
            request_id=str(number),
            prompt="What would people say?",
            candidates=tuple(Candidate(id=str(n), text=answer()) for n in range(4)),
            culture="unspecified",
            language="en",
        )
        for number in range(sets)
    ]


def texts(sets: Sequence[Any]) -> list[tuple[str, str]]:
    return [(one.prompt, candidate.text) for one in sets for candidate in one.candidates]


def carb_classifier(folder: Path, sets: Sequence[Any]) -> int:
    return score(f"classifier:{folder}?dtype=bfloat16", sets)


def score(spec: str, sets: Sequence[Any]) -> int:
    """Tokens that a scorer read; opening it counts."""
    from carb_scorers import ScoreError, open_scorer

    async def run() -> int:
        scorer = open_scorer(spec)
        try:
            results = await scorer.score(sets)
        finally:
            await scorer.aclose()
        failed = [one for one in results if isinstance(one, ScoreError)]
        if failed:
            raise SystemExit(f"{spec}: {failed[0].message}")
        return sum(result.usage.input_tokens + result.usage.output_tokens for result in results)

    return anyio.run(run)


def plain_loop(folder: Path, sets: Sequence[Any]) -> int:
    """As RewardBench does it: chat template, batches of 8 sorted by length, padded."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    words = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    model = model.to(device).eval()
    rendered = [
        words.apply_chat_template(
            [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}],
            tokenize=False,
        )
        for prompt, text in texts(sets)
    ]
    rendered.sort(key=len)
    read = 0
    for start in range(0, len(rendered), 8):
        batch = words(rendered[start : start + 8], return_tensors="pt", padding=True)
        read += int(batch["attention_mask"].sum())
        with torch.inference_mode():
            model(batch["input_ids"].to(device), attention_mask=batch["attention_mask"].to(device))
    return read


def train(folder: Path, small: bool) -> None:
    """Steps of GRPO with R_corr alone and with R_appr, in the shape of qwen2.5-1.5b."""
    import bench_tal

    shape = TINY | {"num_key_value_heads": 2}
    if not small:
        shape = {
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "head_dim": 128,
        }
    from transformers import AutoTokenizer

    from tal_tiny import make_tiny

    model = save(folder / "policy", shape, small, head=False)
    AutoTokenizer.from_pretrained(make_tiny(folder / "words")).save_pretrained(model)
    options = argparse.Namespace(
        model=str(model),
        steps=2 if small else 20,
        batch=8,
        group=4 if small else 8,
        new_tokens=8 if small else 384,
    )
    say("train", **bench_tal.cost(options, partial(say, "train step")))


if __name__ == "__main__":
    main()
