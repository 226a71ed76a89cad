"""What a vLLM engine loses by being drained between windows of requests: windows of 64 against all requests at once.

All at once is the most that an engine fed without windows could reach. Both ways are run in turn on one engine, with
prefix caches emptied in between; only their ratio is of interest where other programs use the machine.

Usage: .nox/vllm/bin/python benchmarks/bench_vllm_windows.py MODEL_FOLDER [REQUESTS] [PAIRS]
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from carb_data import load
from carb_scorers.models.protocol import Prompt
from carb_scorers.models.tokens import prompt_ids
from carb_scorers.models.vllm_engine import Engine, VLLMOptions

WINDOW = 64
LENGTHS = (8, 96)
"""Tokens written to each prompt, drawn evenly: judges' verdicts differ that much in length."""


def main(folder: str, requests: int = 192, pairs: int = 3) -> None:
    """Print the seconds of both ways and their ratio, for reading (one token) and for writing."""
    from vllm import SamplingParams

    engine = Engine(folder, VLLMOptions(dtype="float32", max_length=512, eager=True))
    texts = [item.prompt for item in load("carb-seed") if isinstance(item.prompt, str)][:requests]
    rows = [prompt_ids(engine.tokenizer, Prompt(({"role": "user", "content": text},))) for text in texts]
    lengths = random.Random(0)
    ways: dict[str, list[Any]] = {
        "read": [SamplingParams(max_tokens=1, temperature=0.0) for _ in rows],
        "write": [SamplingParams(max_tokens=lengths.randint(*LENGTHS), temperature=0.0, ignore_eos=True) for _ in rows],
    }

    def seconds(parameters: list[Any], window: int) -> float:
        engine.run(lambda llm: llm.reset_prefix_cache())
        start = time.perf_counter()
        for first in range(0, len(parameters), window):
            inputs = [{"prompt_token_ids": row} for row in rows[first : first + window]][: len(parameters)]
            chosen = parameters[first : first + window]
            engine.run(lambda llm, i=inputs, c=chosen: llm.generate(i, c, use_tqdm=False))  # type: ignore[misc]
        return time.perf_counter() - start

    try:
        for name, parameters in ways.items():
            seconds(parameters[:WINDOW], WINDOW)  # what is compiled and allocated at first use
            found = [(seconds(parameters, WINDOW), seconds(parameters, len(rows))) for _ in range(pairs)]
            ratios = [windows / whole for windows, whole in found]
            shown = ", ".join(f"{windows:.1f}/{whole:.1f}" for windows, whole in found)
            print(
                f"{name}: {len(rows)} requests, windows of {WINDOW} / at once, seconds: {shown}; "
                f"median ratio {statistics.median(ratios):.2f}",
                flush=True,
            )
    finally:
        engine.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
