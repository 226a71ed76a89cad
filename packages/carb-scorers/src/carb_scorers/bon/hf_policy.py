"""A policy on transformers: each prompt is read once and its N answers are sampled together.

All rows of a pass belong to one prompt and have the same length, so nothing is padded; each row has a random
generator of its own, seeded by prompt and index.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio.to_thread

from carb_data import CarbError
from carb_data.extras import require
from carb_scorers.bon.policies import PolicyOptions, PolicyPrompt, PolicySpec, Sampled, is_over, seed_of, tidy
from carb_scorers.models.protocol import Prompt
from carb_scorers.models.tokens import prompt_ids, shortened
from carb_scorers.models.transformers.loading import HFOptions, Loaded, load
from carb_scorers.specs import read_options


class HFPolicyOptions(PolicyOptions, HFOptions):
    """Options of ``hf:MODEL``."""


class HFPolicy:
    """Ancestral sampling from the model's own distribution at a temperature; 0 is greedy."""

    def __init__(self, spec: PolicySpec, loaded: Loaded, options: HFPolicyOptions) -> None:
        self.spec = spec
        self._loaded: Loaded | None = loaded
        self._options = options

    async def sample(self, prompts: Sequence[PolicyPrompt], indices: Sequence[int]) -> list[list[Sampled]]:
        return await anyio.to_thread.run_sync(lambda: [self._sample(prompt, indices) for prompt in prompts])

    async def aclose(self) -> None:
        self._loaded = None

    def _sample(self, prompt: PolicyPrompt, indices: Sequence[int]) -> list[Sampled]:
        if self._loaded is None:
            raise CarbError(f"The policy '{self.spec.name}' was closed.")
        tokenizer = self._loaded.tokenizer
        whole = prompt_ids(tokenizer, prompt.prompt)
        room = self._loaded.max_length - self._options.max_new_tokens
        prefix: Sequence[int] | None = whole
        if len(whole) > room:
            prefix = _shortened(tokenizer, prompt.prompt, room) if self._options.truncate == "middle" else None
        if prefix is None:
            told = (
                f"too-long: {len(whole)} tokens, the model takes {room} before {self._options.max_new_tokens} new ones"
            )
            return [Sampled(error=told, finished=False) for _ in indices]
        seeds = [seed_of(self._options.sampling_seed, index, prompt.id) for index in indices]
        rows = _generate(self._loaded, prefix, seeds, self._options, one_line=prompt.one_line)
        return [
            Sampled(
                text=tidy(tokenizer.decode(ids, skip_special_tokens=True), one_line=prompt.one_line),
                finished=done,
                cut_tokens=len(whole) - len(prefix),
            )
            for ids, done in rows
        ]


def _shortened(tokenizer: Any, prompt: Prompt, room: int) -> list[int] | None:
    """Token ids of a prompt with the middle of its question cut out; null where even that does not fit."""

    def ids(text: str) -> list[int]:
        assert prompt.with_question is not None  # policy_prompts gives it
        return prompt_ids(tokenizer, replace(prompt, messages=prompt.with_question(text)))

    text = shortened(tokenizer, prompt.question, lambda text: len(ids(text)) - room)
    return None if text is None else ids(text)


def _generate(
    loaded: Loaded, prefix: Sequence[int], seeds: Sequence[int], options: HFPolicyOptions, *, one_line: bool
) -> list[tuple[list[int], bool]]:
    """Token ids of each answer, and whether it came to its own end."""
    torch = require("torch", package="carb-scorers", extra="hf")
    model, tokenizer = loaded.model, loaded.tokenizer
    ends = _end_tokens(loaded)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    rows: list[list[int]] = [[] for _ in seeds]
    done = [False] * len(seeds)
    with torch.inference_mode():
        ids = torch.tensor([list(prefix)], device=model.device)
        out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        cache = copy.deepcopy(out.past_key_values)
        cache.batch_repeat_interleave(len(seeds))
        logits = out.logits[:, -1].expand(len(seeds), -1)
        alive = list(range(len(seeds)))
        for step in range(options.max_new_tokens):
            picked = [_draw(torch, logits[n], options.temperature, generators[row]) for n, row in enumerate(alive)]
            keep = []
            for n, row in enumerate(alive):
                if picked[n] in ends:
                    done[row] = True
                    continue
                rows[row].append(picked[n])
                if one_line and is_over(tokenizer.decode(rows[row])):
                    done[row] = True
                    continue
                keep.append(n)
            if not keep or step + 1 == options.max_new_tokens:
                break
            if len(keep) < len(alive):
                cache.batch_select_indices(torch.tensor(keep, device=model.device))
            alive = [alive[n] for n in keep]
            ids = torch.tensor([[picked[n]] for n in keep], device=model.device)
            out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, logits = out.past_key_values, out.logits[:, -1]
    return list(zip(rows, done, strict=True))


def _draw(torch: Any, logits: Any, temperature: float, generator: Any) -> int:
    if temperature == 0:
        return int(logits.argmax())
    # Gumbel's trick: the maximum of logits plus Gumbel noise is a sample of their softmax, without computing it.
    uniform = torch.rand(logits.shape, generator=generator).clamp_(1e-20, 1 - 1e-7)
    return int((logits.float().cpu() / temperature - (-uniform.log()).log()).argmax())


def _end_tokens(loaded: Loaded) -> set[int]:
    found: set[int] = set()
    for source in (loaded.tokenizer, getattr(loaded.model, "generation_config", None), loaded.model.config):
        value = getattr(source, "eos_token_id", None)
        found |= set(value) if isinstance(value, list | tuple) else {value} if isinstance(value, int) else set()
    return found


def open_hf_policy(name: str, target: str, options: Mapping[str, str]) -> HFPolicy:
    """Open ``hf:MODEL?temperature=0.8&max_new_tokens=16``."""
    read = read_options(HFPolicyOptions, name, options)
    loaded = load(target, read, "AutoModelForCausalLM")
    own = {"temperature", "max_new_tokens", "sampling_seed", "shots", "dtype", "attention"}
    given = read.model_dump(mode="json", include={"max_length", "truncate"}, exclude_defaults=True)
    spec = PolicySpec(
        name=name,
        kind="hf",
        model=target,
        revision=loaded.revision,
        parameters=read.model_dump(mode="json", include=own) | given,
    )
    return HFPolicy(spec, loaded, read)
