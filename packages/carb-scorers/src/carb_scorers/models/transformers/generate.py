"""Texts written by a language model, each as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from carb_data.extras import require
from carb_scorers.contract import Usage
from carb_scorers.models.protocol import Failure, Generation, Prompt, prompt_seed
from carb_scorers.models.transformers.batching import Row, token_budget_batches
from carb_scorers.models.transformers.executor import check_cancelled, is_out_of_memory, out_of_memory
from carb_scorers.models.transformers.loading import Loaded, quiet


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to write."""

    max_tokens: int
    temperature: float
    seed: int
    stop: tuple[str, ...]


def generate(
    copies: Sequence[Loaded],
    prompts: Sequence[Prompt],
    encoded: Sequence[tuple[Row | Failure, Usage]],
    sampling: Sampling,
    *,
    budget: int,
) -> list[Generation | Failure]:
    """An answer to each prompt.

    Prompts are batched by length and padded on the left, with positions that do not count the padding.

    Args:
        copies: of the model, one on each device; every copy writes a share of the answers.
        prompts: for their seeds.
        encoded: the tokens of each prompt, or why there are none.
        sampling: see there.
        budget: padded tokens in a batch, those to be written included.
    """
    by_length = sorted(range(len(encoded)), key=lambda i: (-_length(encoded[i][0]), i))
    shares = [sorted(by_length[number :: len(copies)]) for number in range(len(copies))]
    stopped = threading.Event()

    def write(number: int) -> list[Generation | Failure]:
        own = shares[number]
        return _share(copies[number], [prompts[i] for i in own], [encoded[i] for i in own], sampling, budget, stopped)

    with quiet(), ThreadPoolExecutor(len(copies), "write") as crew:
        others = [crew.submit(write, number) for number in range(1, len(copies))]
        try:
            written = [write(0)]  # in the calling thread, which may be told to stop
            written.extend(other.result() for other in others)
        finally:
            stopped.set()
    out: dict[int, Generation | Failure] = {}
    for own, texts in zip(shares, written, strict=True):
        out.update(zip(own, texts, strict=True))
    return [out[index] for index in range(len(encoded))]


def _share(
    loaded: Loaded,
    prompts: Sequence[Prompt],
    encoded: Sequence[tuple[Row | Failure, Usage]],
    sampling: Sampling,
    budget: int,
    stopped: threading.Event,
) -> list[Generation | Failure]:
    """The answers that one copy writes."""
    out: dict[int, Generation | Failure] = {}
    waiting: list[int] = []
    for index, (row, usage) in enumerate(encoded):
        if isinstance(row, Failure):
            out[index] = Failure(row.error, usage)
        else:
            waiting.append(index)
    while waiting:
        lengths = [_length(encoded[i][0]) + sampling.max_tokens for i in waiting]
        for batch in token_budget_batches(lengths, budget):
            check_cancelled()
            if stopped.is_set():
                raise RuntimeError("another worker failed")
            chosen = [waiting[i] for i in batch]
            rows = [row for row, _ in (encoded[i] for i in chosen) if isinstance(row, Row)]
            texts = _attempt(loaded, rows, [prompts[i] for i in chosen], sampling)
            if texts is None and len(chosen) > 1:
                budget = max(1, min(budget, max(lengths) * len(chosen)) // 2)
                break
            for place, index in enumerate(chosen):
                usage = encoded[index][1]
                if texts is None:
                    out[index] = Failure(out_of_memory(lengths[batch[place]]), usage)
                else:
                    text, count, finished = texts[place]
                    out[index] = Generation(text, usage + Usage(output_tokens=count), finished)
        waiting = [index for index in waiting if index not in out]
    return [out[index] for index in range(len(encoded))]


def _length(row: Row | Failure) -> int:
    return len(row.tokens) if isinstance(row, Row) else 0


def _attempt(
    loaded: Loaded, rows: Sequence[Row], prompts: Sequence[Prompt], sampling: Sampling
) -> list[tuple[str, int, bool]] | None:
    """Text, tokens and whether it ended by itself, for each row; ``None`` where memory ran out."""
    torch = require("torch", package="carb-scorers", extra="hf")
    try:
        with torch.inference_mode():
            return _generate(torch, loaded, rows, prompts, sampling)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(torch, error):
            raise
    return None


def _generate(
    torch: Any, loaded: Loaded, rows: Sequence[Row], prompts: Sequence[Prompt], sampling: Sampling
) -> list[tuple[str, int, bool]]:
    transformers = require("transformers", package="carb-scorers", extra="hf")
    model, tokenizer = loaded.model, loaded.tokenizer
    width = max(len(row.tokens) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for line, row in enumerate(rows):
        ids[line, width - len(row.tokens) :] = torch.tensor(row.tokens)
        mask[line, width - len(row.tokens) :] = 1
    ends = _ends(model, tokenizer)
    config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=sampling.max_tokens, eos_token_id=ends or None, pad_token_id=(ends or [0])[0]
    )
    processors = transformers.LogitsProcessorList()
    if sampling.temperature > 0:
        processors.append(_Gumbel(torch, [prompt_seed(sampling.seed, prompt) for prompt in prompts], sampling))
    written = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        generation_config=config,
        logits_processor=processors,
        **({"stop_strings": list(sampling.stop), "tokenizer": tokenizer} if sampling.stop else {}),
    )[:, width:].tolist()
    found = []
    for tokens in written:
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        text = str(tokenizer.decode(tokens if end is None else tokens[:end], skip_special_tokens=True))
        cut = min((text.index(word) for word in sampling.stop if word in text), default=None)
        finished = end is not None or cut is not None
        found.append((text[:cut], len(tokens) if end is None else end + 1, finished))
    return found


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Tokens that end an answer: the model's own, and the tokenizer's."""
    own = getattr(model.generation_config, "eos_token_id", None)
    listed = own if isinstance(own, list) else [own]
    return sorted({token for token in (*listed, tokenizer.eos_token_id) if token is not None})


class _Gumbel:
    """Sampling as a greedy choice: argmax(logits / T + g), g standard Gumbel, is a draw from softmax(logits / T).

    Gumbel 1954; used so that every row draws from a generator of its own, whatever stands beside it.
    """

    def __init__(self, torch: Any, seeds: Sequence[int], sampling: Sampling) -> None:
        self._torch = torch
        self._temperature = sampling.temperature
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002 - transformers' signature
        noise = self._torch.stack(
            [self._torch.empty(scores.shape[-1]).exponential_(generator=g).log_() for g in self._generators]
        )
        return scores / self._temperature - noise.to(scores.device)
