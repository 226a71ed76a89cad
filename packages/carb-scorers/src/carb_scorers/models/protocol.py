"""The seam between scorers and the places where models run.

A scorer asks in messages and reads texts and log-probabilities; a backend knows tokens, batches,
memory, servers and retries. Every operation answers each prompt on its own. One bad prompt is a
``Failure`` in its place, never an exception. No answer depends on the prompts beside it.
"""

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field, FiniteFloat, create_model

from carb_data import CarbError, Frozen, Message, read_options
from carb_scorers.scorer import ScoreError, ScorerSpec, Usage

__all__ = ["Watch", "message", "read_backend_options"]


_UNUSED = Usage()
NonNegative = Annotated[FiniteFloat, Field(ge=0)]
"""A finite number that is not below 0."""


class CannotError(CarbError):
    """A backend has no such operation; the message names the option to change. Not an
    operation that failed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for a model: a chat that ends with the user's turn."""

    messages: tuple[Message, ...]
    cue: str = ""
    """Text put after the messages for a model without a chat template, whose answer then continues
    the text."""
    bare: bool = False
    """Without a chat template: whether only the tokenizer's own special tokens stand before the
    text, as in trainers. Otherwise the start token always does."""
    at_once: bool = False
    """Whether an answer stands directly behind it, so that no thought may come before."""
    group: int | None = None
    """Prompts of one item have the same number within a call. A backend may compute them together,
    but must not let prompts of another item change their result. ``None``: an item of its own."""


Prompts = Sequence[Prompt]
Texts = Sequence[str]


@dataclass(frozen=True)
class Watch:
    """A point in a model's text whose probabilities of some words are wanted."""

    after: str
    """The place is behind the last of these in the text: ``Verdict:``."""
    words: tuple[str, ...]
    """Each is one token, behind a space: ``A`` and ``B``."""


@dataclass(frozen=True)
class Writing:
    """How answers are written."""

    max_tokens: int
    """Longest answer, in tokens."""
    temperature: float = 0.0
    """The sampling temperature; 0 takes the most probable token."""
    seed: int | tuple[int, ...] = 0
    """The seed of sampling: one for all prompts of a call, or one for each; see ``seeds_for``."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer; they are not part of it."""
    watch: Watch | None = None
    """Places and words whose probabilities are wanted as well, for ``Generation.choices``."""
    entropy: bool = False
    """Whether ``Generation.entropy`` is wanted; backends that cannot measure it leave it out."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a prompt has no answer."""

    error: ScoreError
    usage: Usage = _UNUSED


@dataclass(frozen=True, slots=True)
class Generation:
    """A model's answer."""

    text: str
    """The model's own output alone: no prompt, no special tokens. Thinking blocks are still in
    it."""
    usage: Usage = _UNUSED
    finished: bool = True
    """``False`` where ``max_tokens`` cut the text off, or something else did."""
    choices: "Choices | None" = None
    """How probable each word of a ``Watch`` was where one of them was written; ``None`` where none
    was."""
    entropy: float | None = None
    """Mean entropy, in nats, of the distributions that the tokens were drawn from; ``None`` where
    it was not requested or the backend gives no whole distributions."""
    reason: str = ""
    """Why a server broke it off; empty for its length."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How probable each wanted string is as the beginning of the model's answer, compared with the
    others."""

    logprobs: Mapping[str, float]
    """Wanted string to natural log-probability. Strings that a server does not report are
    missing."""
    floor: float | None = None
    """Upper bound for the log-probability of the missing ones."""
    mass: float | None = None
    """How much probability the wanted strings hold together; ``None`` where it was not measured."""
    usage: Usage = _UNUSED


@dataclass(frozen=True, slots=True)
class Continuation:
    """How probable a given answer is."""

    logprobs: tuple[float, ...]
    """Natural log-probability of each token of the answer given all before it."""
    usage: Usage = _UNUSED


@dataclass(frozen=True, slots=True)
class Reward:
    """The output of a reward model's head for one conversation, in the model's own units; higher is
    better."""

    value: float
    usage: Usage = _UNUSED


class Model(Protocol):
    """The interface that all models share."""

    model: str
    revision: str | None
    """A resolved commit or a hash of the weights; ``None`` where a server does not say."""
    in_flight: int | None
    """How many requests it takes at once, see ``ScorerSpec.in_flight``; ``None`` for a model that
    wants windows."""

    async def aclose(self) -> None:
        """Give back memory, processes and connections. May be called more than once."""
        ...


class LanguageModel(Model, Protocol):
    """A generative model behind ``judge`` and ``implicit``.

    A backend that cannot do one of the operations raises ``CannotError`` from it, with the option
    to change.
    """

    async def generate(self, prompts: Prompts, writing: Writing) -> Sequence[Generation | Failure]:
        """The model's answer to each prompt, in order."""
        ...

    async def next_logprobs(self, prompts: Prompts, wanted: Texts) -> Sequence[Choices | Failure]:
        """Log-probabilities that each answer is one of some short strings, from one forward pass
        per prompt.

        The strings are taken bare after a chat template, and after a space behind a plain cue. A
        string may be several tokens. Where one wanted string is a beginning of another (``1`` and
        ``10``), the shorter one's probability excludes the longer one's.
        """
        ...

    async def continuation_logprobs(
        self, prompts: Prompts, answers: Texts, *, end_of_turn: bool = True
    ) -> Sequence[Continuation | Failure]:
        """Log-probability of each token of ``answers[i]`` as the whole answer to ``prompts[i]``.

        Args:
            prompts: The prompts that are answered.
            answers: one for each prompt.
            end_of_turn: with a chat template, whether the token that ends the assistant's turn is
                part of the answer.
        """
        ...


class RewardModel(Model, Protocol):
    """A model with a scalar head behind ``classifier``."""

    async def rewards(self, prompts: Prompts, answers: Texts) -> Sequence[Reward | Failure]:
        """The reward of ``answers[i]`` as the assistant's turn after ``prompts[i]``."""
        ...


def spec_of(
    name: str,
    kind: str,
    target: str,
    model: Model,
    read: Frozen,
    *,
    comparative: bool,
    **added: Any,
) -> ScorerSpec:
    """The spec of a scorer that asks a model: it records all options, with the resolved
    revisions."""
    options = read.model_dump(mode="json", exclude={"revision", "ref_revision"})
    return ScorerSpec(
        name=name,
        kind=kind,
        model=target,
        revision=model.revision,
        parameters={**options, **added},
        comparative=comparative,
        in_flight=model.in_flight,
    )


def failure(kind: str, message: str, usage: Usage | None = None) -> Failure:
    """Why a prompt has no answer, by the kind and the message of its error."""
    return Failure(ScoreError(kind=kind, message=message), usage or Usage())


def log_sum(logprobs: Collection[float]) -> float:
    """The logarithm of the sum of probabilities, from their logarithms; minus infinity for 0."""
    top = max(logprobs, default=-math.inf)
    if top == -math.inf:
        return top
    total = math.fsum(math.exp(value - top) for value in logprobs)
    return top + math.log(total)


def seeds_for(prompts: Prompts, writing: Writing) -> list[int]:
    """Each prompt's own seed in [0, 2**31), from the run's seed and its messages, whatever its
    neighbours are."""
    given = writing.seed
    if isinstance(given, int):
        given = (given,) * len(prompts)
    seeds = []
    for seed, prompt in zip(given, prompts, strict=True):
        content = json.dumps([seed, chat(prompt.messages)], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        seeds.append(int.from_bytes(digest[:4], "big") >> 1)
    return seeds


def message(role: Literal["system", "user", "assistant"], content: str) -> Message:
    """A message to a model, which may be blank, unlike those of a set."""
    return Message.model_construct(role=role, content=content)


def chat(messages: Iterable[Message], guard: Callable[[str], str] = str) -> list[dict[str, str]]:
    """Messages as chat templates and servers take them, their contents guarded."""
    return [{"role": one.role, "content": guard(one.content)} for one in messages]


def plain_text(prompt: Prompt) -> str:
    """A prompt for a model without a chat template: the messages as paragraphs, then the cue."""
    return "\n\n".join(message.content for message in prompt.messages) + prompt.cue


S = TypeVar("S", bound=Frozen)


class BackendKind(NamedTuple):
    """A backend as its module offers it: ``LANGUAGE_MODEL = BackendKind(MyOptions,
    open_my_model)``."""

    options: type[Frozen]
    """Options of its own, besides those of the scorer; their names must not collide with a
    scorer's."""
    open: Callable[[str, Any], Any]
    """``(target, options) -> model``. The options given hold the scorer's too. Raises
    ``CarbError``."""


LANGUAGE_MODELS = {
    "hf": "carb_scorers.models.hf_language:LANGUAGE_MODEL",
    "openai": "carb_scorers.models.server_models:LANGUAGE_MODEL",
    "vllm": "carb_scorers.models.vllm:LANGUAGE_MODEL",
}
"""Backend name to ``module:BackendKind``, imported when first used."""

REWARD_MODELS = {
    "hf": "carb_scorers.models.hf_reward:REWARD_MODEL",
    "openai": "carb_scorers.models.server_models:REWARD_MODEL",
    "vllm": "carb_scorers.models.vllm:REWARD_MODEL",
}


def read_backend_options(
    scorer_options: type[S],
    name: str,
    options: Mapping[str, str],
    table: Mapping[str, str] = LANGUAGE_MODELS,
) -> tuple[S, BackendKind]:
    """Read a scorer's and its backend's options from one flat list.

    Args:
        scorer_options: the scorer's own; has a field ``backend``.
        name: the spec string, for messages.
        options: The options that ``parse_spec`` gives.
        table: The known backends: ``LANGUAGE_MODELS`` or ``REWARD_MODELS``.

    Returns:
        One options object with the fields of both, and the backend to open with it.

    Raises:
        CarbError: unknown backend, or unknown or bad options.
    """
    chosen = options.get("backend", scorer_options.model_fields["backend"].default)
    if chosen not in table:
        raise CarbError(
            f"backend={chosen}: there is no such backend here. Choose one of: {', '.join(table)}."
        )
    module, _, attribute = table[chosen].partition(":")
    kind: BackendKind = getattr(importlib.import_module(module), attribute)
    both: type[S] = _joined(scorer_options, kind.options)
    return read_options(both, f"Scorer '{name}'", options), kind


@cache  # for the descriptions of a new class pydantic looks through all modules
def _joined(scorer_options: type[Frozen], backend_options: type[Frozen]) -> type[Any]:
    return create_model(scorer_options.__name__, __base__=(scorer_options, backend_options))
