"""Loose texts: they become requests to a scorer, from any thread. Best-of-N among
responses at hand."""

from __future__ import annotations

import hashlib
import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from carb_data import UNDETERMINED, UNSPECIFIED, CarbError, Conversation, Message, as_text, validate
from carb_scorers.evaluation import score_all
from carb_scorers.scorer import (
    Candidate,
    ScoreError,
    Scorer,
    ScoreRequest,
    ScoreResult,
    ScorerSpec,
)
from carb_scorers.spec import (
    check_about,
    check_given,
    open_scorer,
    parse_spec,
    plan_of,
    using,
)
from carb_scorers.waiting import wait_for

_conversation: TypeAdapter[Conversation] = TypeAdapter(Conversation)
About = tuple[str | Conversation, str, str]
"""Prompt, culture and language."""
_MAY_BE_ALONE = frozenset(
    ("content", "tool_calls", "function_call", "reasoning_content", "reasoning", "refusal")
)
Messages = Sequence[Mapping[str, object]]
"""A conversation as chat APIs have it: a ``role`` and a ``content`` for each turn."""


@dataclass(frozen=True, slots=True)
class Text:
    """A response, with its prompt."""

    prompt: str | Conversation
    response: str
    culture: str
    language: str

    @property
    def about(self) -> About:
        """The response aside."""
        return self.prompt, self.culture, self.language

    @property
    def answer(self) -> str:
        """The response without the line breaks around it, which trainers and servers add or leave
        out. A space stays: the model's own forward pass reads it, too."""
        return self.response.strip("\r\n")


_text: TypeAdapter[Text] = TypeAdapter(Text)


@dataclass(frozen=True, slots=True)
class Scored:
    """A score, or why there is none."""

    score: float | None
    rationale: str | None = None
    error: ScoreError | None = None


class Opened:
    """A scorer that is opened when it is first used, from its spec; or one that is open already.

    Threads may share it. Sent to another process it is opened there again.
    """

    def __init__(self, scorer: Scorer | str) -> None:
        check_given(scorer)
        self._given = scorer
        self._scorer: Scorer | None = None
        if isinstance(scorer, str):
            parsed = parse_spec(scorer)
            plan_of(parsed)  # a wrong kind or option is found before a trainer loads its policy
            self.name = parsed.name
        else:
            self._scorer, self.name = scorer, scorer.spec.name
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Opened], tuple[Scorer | str]]:
        return Opened, (self._given,)

    def get(self) -> Scorer:
        """The scorer.

        Raises:
            CarbError: it cannot be opened.
        """
        with self._lock:
            if self._scorer is None:
                self._scorer = open_scorer(str(self._given))
            return self._scorer


async def score_texts(scorer: Scorer, texts: Sequence[Text], *, seed: int = 0) -> list[Scored]:
    """Score responses; those to the same prompt share a request, in a seeded random order, each
    text once.

    Raises:
        CarbError: a user's mistake, such as a response that is no text or a model that is missing.
    """
    for number, text in enumerate(texts, 1):
        validate(
            _text, {field: getattr(text, field) for field in Text.__slots__}, f"Response {number}"
        )
    for culture, language in {(text.culture, text.language) for text in texts}:
        check_about(culture, language)
    groups = {
        about: request_about(str(number), *about, responses, seed)
        for number, (about, responses) in enumerate(grouped(texts).items())
    }
    results: dict[str, ScoreResult] = {}

    def keep(part: Sequence[ScoreResult]) -> None:
        results.update((result.request_id, result) for result in part)

    await score_all(scorer, list(groups.values()), keep)
    scored = {
        (about, text): one
        for about, request in groups.items()
        for text, one in scores_of(request, results[request.request_id])
    }
    return [scored[text.about, text.answer] for text in texts]


def check_company(spec: ScorerSpec, texts: Sequence[Text], remedy: str) -> None:
    """Refuse a response that stands alone where a scorer compares.

    Raises:
        CarbError: a prompt has one response.
    """
    if spec.comparative and 1 in Counter(text.prompt for text in texts).values():
        raise CarbError(
            f"'{spec.name}' compares responses to a prompt, and got one alone. {remedy}, or take a "
            "scorer that rates each alone (for a judge mode=pointwise)."
        )


def grouped(texts: Sequence[Text]) -> dict[About, list[str]]:
    """The different responses to each prompt."""
    groups: dict[About, list[str]] = {}
    for text in dict.fromkeys((one.about, one.answer) for one in texts):
        groups.setdefault(text[0], []).append(text[1])
    return groups


def scores_of(request: ScoreRequest, result: ScoreResult) -> Iterator[tuple[str, Scored]]:
    """The text of each candidate, and its score."""
    for candidate in request.candidates:
        score = result.scores.get(candidate.id)
        yield candidate.text, Scored(score, result.rationale, result.error_of(candidate.id))


def request_about(
    name: str,
    prompt: str | Conversation,
    culture: str,
    language: str,
    responses: Iterable[str],
    seed: int,
) -> ScoreRequest:
    """A request about different responses, in an order that depends on the seed, the prompt and
    their texts alone."""

    beginning = hashlib.sha256(f"{seed}\0{as_text(prompt)}\0".encode("utf-8", "surrogatepass"))

    def rank(text: str) -> bytes:
        digest = beginning.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.digest()

    return ScoreRequest(
        request_id=name,
        prompt=prompt,
        candidates=tuple(
            Candidate(id=str(i), text=text) for i, text in enumerate(sorted(responses, key=rank), 1)
        ),
        culture=culture,
        language=language,
    )


def is_list(values: object, count: int | None = None) -> bool:
    """Whether it is a list or the like (not a text), with ``count`` values where a count is
    given."""
    return (
        isinstance(values, Sized) and not isinstance(values, str) and count in (None, len(values))
    )


def as_prompt(messages: object) -> str | Conversation:
    """A prompt as people, trainers and evaluation tools give it: a text, or messages with ``role``
    and ``content``.

    Turns of a conversation stay as they are, and one message is its text. Turns without a text,
    such as a call of a tool, are left out. Some conversations end with a begun answer or a tool's
    turn: these become one text with the roles before each turn.

    Raises:
        CarbError: it is neither a text nor messages.
    """
    if isinstance(messages, str):
        return messages
    if (
        isinstance(messages, Sequence)
        and messages
        and all(isinstance(message, Message) for message in messages)
    ):
        return tuple(messages)
    turns = [turn for turn in _turns(messages) if turn[1].strip()]
    if len(turns) == 1:
        return turns[0][1]
    try:
        return _conversation.validate_python(
            [{"role": role, "content": content} for role, content in turns]
        )
    except ValidationError:
        return "\n\n".join(f"{role}: {content}" for role, content in turns)


def text_of(messages: object) -> str:
    """The text of messages, one after the other, without their roles and without those that have
    none, such as a call of a tool.

    Raises:
        CarbError: it is neither a text nor messages.
    """
    if isinstance(messages, str):
        return messages
    return "\n\n".join(content for _, content in _turns(messages) if content.strip())


def _turns(messages: object) -> list[tuple[str, str]]:
    if not isinstance(messages, Sequence) or not all(map(_is_message, messages)):
        raise CarbError(
            f"Expected a text or a list of messages with 'content', got {type(messages).__name__}."
        )
    return [(str(m.get("role", "user")), _content(m.get("content"))) for m in messages]


def _is_message(message: object) -> bool:
    """Whether it has a content, or is of a tool, calls one, refuses or thinks: then it may have
    none."""
    return isinstance(message, dict) and (
        message.get("role") in ("tool", "function") or not _MAY_BE_ALONE.isdisjoint(message)
    )


def _content(content: object) -> str:
    """The text of a message, whose content may be in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


@dataclass(frozen=True, slots=True)
class Pick:
    """The picked response."""

    index: int | None
    """Position in the responses given; the first of those that are ``tied``. ``None`` where a
    response could not be scored, since that one could have been the best."""
    response: str | None
    scores: tuple[float | None, ...]
    """Score of each response, in the given order."""
    rationale: str | None = None
    error: ScoreError | None = None
    tied: tuple[int, ...] = ()
    """Positions of all responses that have the best score, where several have it: to share a
    prize among them, or to draw one."""


def best_of_n(
    scorer: Scorer | str,
    prompt: str | Conversation | Messages,
    responses: Sequence[str],
    *,
    culture: str = UNSPECIFIED,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> Pick:
    """Pick the response that a scorer likes best.

    Args:
        scorer: a spec string (opened and closed here) or a ``Scorer`` (left open).
        prompt: the text or the conversation (messages with ``role`` and ``content``) that the
            responses answer; a conversation ends with a turn of the user.
        responses: one or more responses. The scorer does not see their order; it decides between
            equal scores alone, where the first is picked.
        culture: id of the culture that the prompt is about. Without it a judge is not asked about
            any culture, and ``baseline:label``, which looks for its names, is refused.
        language: BCP 47 tag of the prompt's language.
        seed: seed of the order in which the scorer sees the responses.

    Returns:
        The pick. Where scoring failed it has no index, and the reason.

    Raises:
        CarbError: no responses, an argument of another kind, or the scorer cannot be opened.
    """
    if not is_list(responses) or len(responses) == 0:
        raise CarbError("best_of_n needs a list of at least one response.")
    asked = as_prompt(prompt)
    scored = _ask(
        scorer, [Text(asked, response, culture, language) for response in responses], seed
    )
    scores = tuple(one.score for one in scored)
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        error = next(one.error for one in scored if one.error is not None)
        return Pick(None, None, scores, scored[0].rationale, error)
    best = [position for position, score in enumerate(scores) if score == max(known)]
    tied = tuple(best) if len(best) > 1 else ()
    return Pick(best[0], responses[best[0]], scores, scored[0].rationale, tied=tied)


def score(
    scorer: Scorer | str,
    prompts: Sequence[str | Conversation | Messages],
    responses: Sequence[str],
    *,
    culture: str = UNSPECIFIED,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> list[float]:
    """The scores of responses, one for each: ``score("classifier:MODEL", prompts, responses)``.

    Responses to the same prompt share a request, so that scorers that compare (judges) have
    something to compare.

    Args:
        scorer: a spec string (opened and closed here) or a ``Scorer`` (left open).
        prompts: the text or the conversation that each response answers, as for ``best_of_n``.
        responses: the responses, one for each prompt.
        culture, language, seed: as for ``best_of_n``.

    Returns:
        A finite number for each response, higher is better; NaN where it could not be scored, with
        a warning.

    Raises:
        CarbError: prompts and responses differ in number, an argument is of another kind, or the
            scorer cannot be opened.
    """
    if not (is_list(prompts) and is_list(responses, len(prompts))):
        raise CarbError("score needs a list of prompts and a list of as many responses.")
    texts = [
        Text(as_prompt(p), r, culture, language) for p, r in zip(prompts, responses, strict=True)
    ]
    scored = _ask(scorer, texts, seed)
    errors = [one.error for one in scored if one.score is None and one.error is not None]
    if errors:
        message = (
            f"{len(errors)} of {len(scored)} responses have no score (the first: "
            f"{errors[0].message})"
        )
        warnings.warn(message, stacklevel=2)
    return [math.nan if one.score is None else one.score for one in scored]


def _ask(scorer: Scorer | str, texts: Sequence[Text], seed: int) -> list[Scored]:
    """Score texts from synchronous code; a scorer that was opened here is closed."""

    async def ask() -> list[Scored]:
        async with using(scorer) as used:
            return await score_texts(used, texts, seed=seed)

    return wait_for(ask)
