"""Implicit reward of a policy: log π(response | prompt) - log π_ref(response | prompt).

Rafailov et al. 2023, "Direct Preference Optimization", NeurIPS, eq. 5 without the factor β, which is the same
for all candidates. Without a reference it is the plain log-likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from carb_data.models import Frozen
from carb_scorers.models.protocol import LANGUAGE_MODELS, Continuation, Failure, LanguageModel, read_backend_options
from carb_scorers.per_candidate import collect, flatten
from carb_scorers.scorer import Scorer, ScoreRequest, ScoreResult, ScorerSpec, Usage

CUE = "\n"
"""Between prompt and response for a model without a chat template."""


class ImplicitOptions(Frozen):
    """Options of ``implicit:MODEL``, besides those of its backend."""

    backend: str = "hf"
    """Where the model runs: ``hf`` (transformers in this process), ``vllm`` or ``openai`` (a server)."""
    ref: str = "none"
    """Reference model (folder or hub id); with ``none`` the score is the policy's log-likelihood alone."""
    ref_revision: str | None = None
    """Revision of the reference model on the hub; by default its main branch."""
    reduce: Literal["sum", "mean"] = "sum"
    """Whether the response's token log-probabilities (nats) are summed or averaged over its tokens."""
    end_of_turn: bool = True
    """Whether the token that ends the assistant's turn counts, as in DPO's training; only with a chat template."""


class ImplicitScorer:
    """Scores each candidate on its own; natural logarithms, summed or averaged over the response's tokens."""

    def __init__(
        self, spec: ScorerSpec, policy: LanguageModel, reference: LanguageModel | None, options: ImplicitOptions
    ) -> None:
        self.spec = spec
        self._policy = policy
        self._reference = reference
        self._options = options

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """See ``Scorer``."""
        prompts, answers = flatten(requests, CUE)
        end = self._options.end_of_turn
        found = [self._reduced(c) for c in await self._policy.continuation_logprobs(prompts, answers, end_of_turn=end)]
        if self._reference is not None:
            other = await self._reference.continuation_logprobs(prompts, answers, end_of_turn=end)
            found = [_difference(a, self._reduced(b)) for a, b in zip(found, other, strict=True)]
        return collect(requests, found)

    async def aclose(self) -> None:
        """Close the backends."""
        await self._policy.aclose()
        if self._reference is not None:
            await self._reference.aclose()

    def _reduced(self, given: Continuation | Failure) -> tuple[float, Usage] | Failure:
        if isinstance(given, Failure):
            return given
        total = math.fsum(given.logprobs)  # exact: the order of summation cannot show
        return total if self._options.reduce == "sum" else total / len(given.logprobs), given.usage


def _difference(
    policy: tuple[float, Usage] | Failure, reference: tuple[float, Usage] | Failure
) -> tuple[float, Usage] | Failure:
    if isinstance(policy, Failure):
        return policy
    if isinstance(reference, Failure):
        return Failure(reference.error, policy[1] + reference.usage)
    return policy[0] - reference[0], policy[1] + reference[1]


def open_implicit(name: str, target: str, options: Mapping[str, str]) -> Scorer:
    """Open ``implicit:MODEL?ref=REFERENCE`` or ``implicit:MODEL?ref=none``; see ``ImplicitOptions``.

    Raises:
        CarbError: an option is wrong, or a model cannot be opened.
    """
    read, kind = read_backend_options(ImplicitOptions, LANGUAGE_MODELS, name, options)
    policy: LanguageModel = kind.open(target, read)
    parameters: dict[str, Any] = read.model_dump(mode="json", exclude={"revision", "ref_revision"})
    reference: LanguageModel | None = None
    if read.ref != "none":
        reference = kind.open(read.ref, read.model_copy(update={"revision": read.ref_revision}))
        parameters["ref_revision"] = reference.revision
    spec = ScorerSpec(
        name=name,
        kind="implicit",
        model=target,
        revision=policy.revision,
        parameters=parameters,
        comparative=False,
        in_flight=policy.in_flight,
    )
    return ImplicitScorer(spec, policy, reference, read)
