"""Implicit reward of a policy: log π(response | prompt) - log π_ref(response | prompt).

Rafailov et al. 2023, "Direct Preference Optimization", NeurIPS, eq. 5 without the factor β, which is the same
for all candidates. Without a reference it is the plain log-likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import anyio.to_thread

from carb_scorers.contract import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage, failed
from carb_scorers.hf.forward import continuation_logprobs
from carb_scorers.hf.loading import HFOptions, Loaded, load
from carb_scorers.specs import read_options
from carb_scorers.templates import chat_prefix, plain_prefix


class ImplicitOptions(HFOptions):
    """Options of ``implicit:MODEL``."""

    ref: str = "none"
    """Reference model (folder or hub id), or ``none``."""
    reduce: Literal["sum", "mean"] = "sum"
    """Sum of the response's token log-probabilities, or their mean per token."""


class ImplicitScorer:
    """Scores each candidate on its own; natural logarithms, summed or averaged over the response's tokens."""

    def __init__(self, spec: ScorerSpec, policy: Loaded, reference: Loaded | None, options: ImplicitOptions) -> None:
        self.spec = spec
        self._models: tuple[Loaded, ...] = (policy,) if reference is None else (policy, reference)
        self._options = options

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        return await anyio.to_thread.run_sync(self._score, requests)

    async def aclose(self) -> None:
        self._models = ()

    def _score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        pairs = [(request.prompt, candidate.text) for request in requests for candidate in request.candidates]
        totals: list[Any] = [0.0] * len(pairs)
        counts: list[int] = [0] * len(pairs)
        too_long: dict[int, str] = {}
        for sign, loaded in zip((1.0, -1.0), self._models, strict=False):
            encoded = [_encode(loaded, prompt, text) for prompt, text in pairs]
            for index, (prefix, response) in enumerate(encoded):
                counts[index] += len(prefix) + len(response)
                if len(prefix) + len(response) > loaded.max_tokens:
                    too_long[index] = f"{len(prefix) + len(response)} tokens, the model takes {loaded.max_tokens}"
            rows = [index for index in range(len(pairs)) if index not in too_long]
            logprobs = continuation_logprobs(
                loaded.model,
                [encoded[i][0] for i in rows],
                [encoded[i][1] for i in rows],
                self._options.batch_tokens,
            )
            for index, values in zip(rows, logprobs, strict=True):
                totals[index] += sign * float(values.sum() if self._options.reduce == "sum" else values.mean())
        results = []
        start = 0
        for request in requests:
            place = range(start, start + len(request.candidates))
            start = place.stop
            usage = Usage(input_tokens=sum(counts[i] for i in place))
            long = next((too_long[i] for i in place if i in too_long), None)
            if long is not None:
                results.append(failed(request, "too-long", long, usage))
                continue
            scores = {candidate.id: totals[i] for candidate, i in zip(request.candidates, place, strict=True)}
            results.append(_finite(request, scores, usage))
        return results


def _finite(request: ScoreRequest, scores: dict[str, float], usage: Usage) -> ScoreResult:
    broken = [key for key, value in scores.items() if not abs(value) < float("inf")]
    if broken:
        return failed(request, "non-finite", f"the model gave NaN or infinity for candidates {broken}", usage)
    return ScoreResult(item_id=request.item_id, scores=scores, usage=usage)


def _encode(loaded: Loaded, prompt: str, text: str) -> tuple[list[int], list[int]]:
    """Token ids of prompt and response, split where the response begins.

    The response is tokenised on its own, so that its tokens are the same whatever the prompt ends with.
    """
    tokenizer = loaded.tokenizer
    if tokenizer.chat_template:
        prefix = chat_prefix(tokenizer, [{"role": "user", "content": prompt}])
        response = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        prefix = plain_prefix(tokenizer, prompt + "\n")
        response = tokenizer(text, add_special_tokens=False)["input_ids"]
    return prefix, response


def open_implicit(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``implicit:MODEL?ref=REFERENCE`` or ``implicit:MODEL?ref=none``."""
    read = read_options(ImplicitOptions, name, options)
    policy = load(target, read, "AutoModelForCausalLM")
    reference = None if read.ref == "none" else load(read.ref, read, "AutoModelForCausalLM")
    parameters: dict[str, Any] = read.model_dump(exclude={"backend", "revision"})
    if reference is not None:
        parameters["ref_revision"] = reference.revision
    spec = ScorerSpec(
        name=name, kind="implicit", model=target, revision=policy.revision, parameters=parameters, comparative=False
    )
    return ImplicitScorer(spec, policy, reference, read)
