"""Scorers that rate each candidate on its own: reward models with a head, and implicit rewards of a
policy.

Implicit reward: log π(response | prompt) - log π_ref(response | prompt). Rafailov et al. 2023,
"Direct Preference Optimization", NeurIPS, eq. 5 without the factor β, which is the same for all
candidates. Without a reference it is the plain log-likelihood.
"""

import math
import re
from collections.abc import Iterable
from typing import Literal

from carb_data import CarbError, Frozen, as_text
from carb_scorers.known import resolved
from carb_scorers.models.protocol import (
    REWARD_MODELS,
    Continuation,
    Failure,
    LanguageModel,
    Prompt,
    Reward,
    RewardModel,
    message,
    read_backend_options,
    spec_of,
)
from carb_scorers.scorer import (
    Requests,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
    Usage,
    failed,
)
from carb_scorers.spec import Kind, Options, Planned


class ClassifierOptions(Frozen):
    """Options of ``classifier:MODEL``, besides those of its backend."""

    backend: str = "hf"
    """Where the model runs: ``hf`` (transformers in this process), ``vllm`` or ``openai`` (a
    server)."""


class ClassifierScorer:
    """The reward of each response, in the model's own units."""

    def __init__(self, spec: ScorerSpec, model: RewardModel) -> None:
        self.spec = spec
        self._model = model

    async def score(self, requests: Requests) -> list[ScoreResult]:
        """See ``Scorer``."""
        prompts, answers = flatten(requests)
        rewards = await self._model.rewards(prompts, answers)
        return collect(requests, rewards)

    async def aclose(self) -> None:
        """Close the backend."""
        await self._model.aclose()


def _open_classifier(name: str, target: str, options: Options) -> Scorer:
    """Open ``classifier:MODEL?backend=hf``; see ``ClassifierOptions`` and the backend's own.

    Raises:
        CarbError: an option is wrong, or the model cannot be opened or is no reward model.
    """
    read, kind = read_backend_options(ClassifierOptions, name, options, REWARD_MODELS)
    target = resolved(target, "classifier")
    # a copy under another name is not told from InternLM2-Reward, whose class it has
    if re.search(r"polar-\d", target, re.IGNORECASE):
        raise CarbError(
            f"'{target}': POLAR compares an answer with a reference answer, and none is given "
            "here, so that its score would mean nothing. Choose another reward model."
        )
    model: RewardModel = kind.open(target, read)
    return ClassifierScorer(
        spec_of(name, "classifier", target, model, read, comparative=False), model
    )


NO_NUMBER = ScoreError(kind="non-finite", message="the model gave NaN or infinity")

CUE = "\n"
"""Between prompt and response for a model without a chat template."""


class ImplicitOptions(Frozen):
    """Options of ``implicit:MODEL``, besides those of its backend."""

    backend: str = "hf"
    """Where the model runs: ``hf`` (transformers in this process), ``vllm`` or ``openai`` (a
    server)."""
    ref: str = "none"
    """Reference model (folder or hub id); with ``none`` the score is the policy's log-likelihood
    alone."""
    ref_revision: str | None = None
    """Revision of the reference model on the hub; by default its main branch."""
    reduce: Literal["sum", "mean"] = "sum"
    """Whether the response's token log-probabilities (nats) are summed or averaged over its
    tokens."""
    end_of_turn: bool = True
    """Whether the token that ends the assistant's turn counts, as in DPO's training; only with a
    chat template."""


class ImplicitScorer:
    """Scores each candidate on its own; natural logarithms, summed or averaged over the response's
    tokens."""

    def __init__(
        self,
        spec: ScorerSpec,
        policy: LanguageModel,
        reference: LanguageModel | None,
        options: ImplicitOptions,
    ) -> None:
        self.spec = spec
        self._policy = policy
        self._reference = reference
        self._options = options

    async def score(self, requests: Requests) -> list[ScoreResult]:
        """See ``Scorer``."""
        prompts, answers = flatten(requests, CUE)
        end = self._options.end_of_turn
        given = await self._policy.continuation_logprobs(prompts, answers, end_of_turn=end)
        rewards = [*map(self._reduced, given)]
        if self._reference is not None:
            given = await self._reference.continuation_logprobs(prompts, answers, end_of_turn=end)
            rewards = [*map(_difference, rewards, map(self._reduced, given))]
        return collect(requests, rewards)

    async def aclose(self) -> None:
        """Close the backends."""
        await self._policy.aclose()
        if self._reference is not None:
            await self._reference.aclose()

    def _reduced(self, given: Continuation | Failure) -> Reward | Failure:
        if isinstance(given, Failure):
            return given
        value = math.fsum(given.logprobs)  # exact: the order of summation cannot show
        if self._options.reduce == "mean":
            value /= len(given.logprobs)
        return Reward(value, given.usage)


def _difference(policy: Reward | Failure, reference: Reward | Failure) -> Reward | Failure:
    if isinstance(policy, Failure):
        return policy
    usage = policy.usage + reference.usage
    if isinstance(reference, Failure):
        return Failure(reference.error, usage)
    return Reward(policy.value - reference.value, usage)


def _open_implicit(name: str, target: str, options: Options) -> Scorer:
    """Open ``implicit:MODEL?ref=REFERENCE`` or ``implicit:MODEL?ref=none``; see
    ``ImplicitOptions``.

    Raises:
        CarbError: an option is wrong, or a model cannot be opened.
    """
    read, kind = read_backend_options(ImplicitOptions, name, options)
    policy: LanguageModel = kind.open(target, read)
    reference: LanguageModel | None = None
    added = {}
    if read.ref != "none":
        reference = kind.open(read.ref, read.changed(revision=read.ref_revision))
        added["ref_revision"] = reference.revision
    spec = spec_of(name, "implicit", target, policy, read, comparative=False, **added)
    return ImplicitScorer(spec, policy, reference, read)


# the signature of every planner, see Kind.plan
def _plan_classifier(name: str, target: str, options: Options) -> Planned:  # noqa: ARG001
    read_backend_options(ClassifierOptions, name, options, REWARD_MODELS)
    return _planned(models=1)


# the signature of every planner, see Kind.plan
def _plan_implicit(name: str, target: str, options: Options) -> Planned:  # noqa: ARG001
    read, _ = read_backend_options(ImplicitOptions, name, options)
    return _planned(models=1 if read.ref == "none" else 2)


def _planned(models: int) -> Planned:
    """Each answer behind its prompt, by the reference model as well where there is one."""

    def asks(request: ScoreRequest) -> list[tuple[str, str]]:
        prompt = as_text(request.prompt)
        return [(prompt, candidate.text) for candidate in request.candidates] * models

    return Planned(asks)


open_classifier = Kind(_open_classifier, _plan_classifier)
open_implicit = Kind(_open_implicit, _plan_implicit)


def flatten(requests: Requests, cue: str = "") -> tuple[list[Prompt], list[str]]:
    """The item's prompt, once for each candidate, and the candidates' texts."""
    prompts: list[Prompt] = []
    texts: list[str] = []
    for number, request in enumerate(requests):
        prompts += [_asked(request, cue, number)] * len(request.candidates)
        texts += [candidate.text for candidate in request.candidates]
    return prompts, texts


def collect(requests: Requests, outcomes: Iterable[Reward | Failure]) -> list[ScoreResult]:
    """Results from one score per candidate; a failure, NaN or infinity is the error of its own
    candidate alone."""
    results = []
    values = iter(outcomes)
    for request in requests:
        scores: dict[str, float] = {}
        errors: dict[str, ScoreError] = {}
        usage = Usage()
        for candidate in request.candidates:
            entry = next(values)
            usage += entry.usage
            if isinstance(entry, Failure):
                errors[candidate.id] = entry.error
            elif not math.isfinite(entry.value):
                errors[candidate.id] = NO_NUMBER
            else:
                scores[candidate.id] = entry.value
        if scores:
            name = request.request_id
            result = ScoreResult(request_id=name, scores=scores, errors=errors, usage=usage)
        else:
            first = next(iter(errors.values()))
            result = failed(request, first.kind, first.message, usage)
        results.append(result)
    return results


def _asked(request: ScoreRequest, cue: str, group: int) -> Prompt:
    """A conversation as it is; a text is a turn of the user."""
    turns = request.prompt
    if isinstance(turns, str):
        turns = (message("user", turns),)
    return Prompt(turns, cue=cue, at_once=True, group=group)
