"""What a vLLM engine gains by never being drained: requests that stream in, against windows of 64,
each waited for.

One judge is asked about the same items in both ways, by the very functions of a run
(``carb_scorers.evaluation.score_all``): with ``in_flight``, as it is, and with ``in_flight=None``,
so that a window ends with its slowest answer. Both are run in turn on one engine, with prefix
caches emptied in between; only their ratio is of interest where other programs use the machine.

Usage: .nox/vllm/bin/python benchmarks/bench_vllm_windows.py MODEL_FOLDER [ITEMS] [PAIRS]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import anyio

from carb_data import load
from carb_scorers import ScoreResult, open_scorer
from carb_scorers.blind import blind
from carb_scorers.evaluation import score_all


async def compare(folder: str, items: int, pairs: int) -> None:
    """Print the seconds of both ways and their ratio, for reading (one token) and for writing (up
    to 64)."""
    sets = load("carb-seed").without_perturbed()
    for read in ("logprob", "generate"):
        spec = (
            f"judge:{folder}?backend=vllm&read={read}&max_tokens=64&max_length=1024&dtype=float32"
        )
        scorer: Any = open_scorer(spec)
        requests = [
            b.request
            for item in sets[:: max(1, len(sets) // items)]
            for b in blind(item, seed=0, comparative=True)
        ]
        requests = requests[:items]

        async def seconds(
            in_flight: int | None, scorer: Any = scorer, requests: Any = requests
        ) -> float:
            scorer.spec = scorer.spec.model_copy(update={"in_flight": in_flight})
            engine = scorer._model.engine
            await asyncio.wrap_future(engine._portal.start_task_soon(engine.llm.reset_prefix_cache))
            results: list[ScoreResult] = []
            start = time.perf_counter()
            await score_all(scorer, requests, results.extend)
            assert len(results) == len(requests)
            return time.perf_counter() - start

        streams = scorer.spec.in_flight
        await seconds(streams, requests=requests[:8])  # what is compiled and allocated at first use
        ratios = []
        for number in range(pairs):
            order = [None, streams] if number % 2 == 0 else [streams, None]
            took = {way: await seconds(way) for way in order}
            ratios.append(took[None] / took[streams])
            print(
                f"{read}: windows {took[None]:.1f} s, streamed {took[streams]:.1f} s: "
                f"{ratios[-1]:.2f}",
                flush=True,
            )
        await scorer.aclose()
        print(
            f"{read}: {len(requests)} items, median ratio of {pairs} pairs "
            f"{statistics.median(ratios):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[2:]]
    anyio.run(compare, sys.argv[1], *(numbers + [192, 5][len(numbers) :]))
