"""Loose texts: they become requests to a scorer, from any thread. Best-of-N among
responses at hand."""

import math
import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any

import polars as pl
from pydantic import ValidationError

from carb_data import (
    UNDETERMINED,
    UNSPECIFIED,
    CarbError,
    Message,
    as_text,
    rounded,
    shuffled,
    validate,
)
from carb_scorers.evaluation import score_all
from carb_scorers.questions import Question, conversation_of
from carb_scorers.scorer import (
    Candidate,
    Results,
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

_OF_A_MESSAGE = "content tool_calls function_call reasoning_content reasoning refusal tool function"
"""Each is a key of messages, which may then lack the others, or a role."""
_ROLES = {"developer": "system", "human": "user"} | dict.fromkeys(
    ("model", "ai", "bot", "gpt", "chatbot"), "assistant"
)
_UNSAID = re.compile("think|reason|tool|function|refusal")
"""Types of parts of a content that are no part of an answer."""
Messages = Sequence[Mapping[str, object]]
"""A conversation as chat APIs have it: a ``role`` and a ``content`` for each turn."""
About = tuple[Question, str, str]
"""Prompt, culture and language."""
Key = tuple[About, str | None]
"""What is asked about a response, and its answer; null where it has none."""


@dataclass(frozen=True, slots=True)
class Text:
    """A response, with its prompt."""

    prompt: Question
    response: str
    culture: str
    language: str

    @classmethod
    def of(
        cls,
        prompt: object,
        response: str,
        culture: str,
        language: str,
    ) -> "Text":
        """A response to a prompt as trainers give it, which may begin the response's thought."""
        from carb_scorers.models.marks import opened_thought

        begun = isinstance(prompt, str) and opened_thought(prompt, "")
        if begun:
            response = f"{begun}{response}"
        return cls(as_prompt(prompt), response, culture, language)

    @property
    def about(self) -> About:
        """The response aside."""
        return self.prompt, self.culture, self.language

    @property
    def key(self) -> Key:
        """The response aside, and its answer (``answer_in``)."""
        from carb_scorers.models.marks import answer_in  # a baseline is opened without models

        return self.about, answer_in(self.response)


@dataclass(frozen=True)
class Scored:
    """A score, or why there is none."""

    score: float | None
    rationale: str | None = None
    error: ScoreError | None = None


UNANSWERED = Scored(
    None,
    error=ScoreError(
        kind="no-answer", message="the text holds a thought and no answer that is apart from it"
    ),
)


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
            self._scorer = scorer
            self.name = scorer.spec.name
        self._lock = threading.Lock()

    def __reduce__(self) -> "tuple[type[Opened], tuple[Scorer | str]]":
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
        fields = {name: getattr(text, name) for name in Text.__slots__}
        validate(Text, fields, f"Response {number}")
    keys = [text.key for text in texts]
    groups = {}
    for number, (about, responses) in enumerate(grouped(keys).items()):
        check_about(*about[1:])
        groups[about] = request_about(str(number), *about, responses, seed)
    results: dict[str, ScoreResult] = {}

    def keep(part: Results) -> None:
        results.update((result.request_id, result) for result in part)

    await score_all(scorer, list(groups.values()), keep)
    scored: dict[Key, Scored] = {}
    for about, request in groups.items():
        for answer, one in scores_of(request, results[request.request_id]):
            scored[about, answer] = one
    return [scored.get(key, UNANSWERED) for key in keys]


def check_company(spec: ScorerSpec, texts: Sequence[Text], remedy: str) -> None:
    """Refuse a response that stands alone where a scorer compares.

    Raises:
        CarbError: a prompt has one response.
    """
    if spec.comparative and 1 in Counter(text.about for text in texts).values():
        raise CarbError(
            f"'{spec.name}' compares responses to a prompt, and got one alone. {remedy}, or take a "
            "scorer that rates each alone (for a judge mode=pointwise)."
        )


def grouped(keys: Sequence[Key]) -> dict[About, list[str]]:
    """The different answers to each prompt."""
    groups: dict[About, list[str]] = {}
    for about, answer in dict.fromkeys(keys):
        if answer is not None:
            groups.setdefault(about, []).append(answer)
    return groups


def scores_of(request: ScoreRequest, result: ScoreResult) -> Iterator[tuple[str, Scored]]:
    """The text of each candidate, and its score."""
    for candidate in request.candidates:
        score = result.scores.get(candidate.id)
        yield candidate.text, Scored(score, result.rationale, result.error_of(candidate.id))


def request_about(
    name: str,
    prompt: Question,
    culture: str,
    language: str,
    responses: Iterable[str],
    seed: int,
) -> ScoreRequest:
    """A request about different responses, in an order that depends on the seed, the prompt and
    their texts alone."""
    shown = enumerate(shuffled(responses, f"{seed}\0{as_text(prompt)}"), 1)
    return ScoreRequest(
        request_id=name,
        prompt=prompt,
        candidates=tuple(Candidate(id=str(number), text=text) for number, text in shown),
        culture=culture,
        language=language,
    )


def is_list(values: object, count: int | None = None) -> bool:
    """Whether it is a list or the like (not a text), with ``count`` values where a count is
    given."""
    if isinstance(values, str | Mapping | Set):
        return False
    return isinstance(values, Sized) and count in (None, len(values))


def as_prompt(messages: object) -> Question:
    """A prompt as people, trainers and evaluation tools give it: a text, or messages with ``role``
    and ``content``.

    Turns of a conversation stay as they are, and one message is its text. Turns without a text,
    such as a call of a tool, are left out. Some conversations end with a begun answer or a tool's
    turn: these become one text with the roles before each turn.

    Raises:
        CarbError: it is neither a text nor messages.
    """
    if isinstance(messages, str):
        from carb_scorers.integrations.openrlhf import asked_in

        return asked_in(messages)
    given = entries(messages)
    if given and all(isinstance(turn, Message) for turn in given):
        return tuple(given)
    turns = [turn for turn in turns_of(messages) if turn[1].strip()]
    if len(turns) == 1:
        return turns[0][1]
    try:
        return conversation_of(turns)
    except ValidationError:
        return "\n\n".join(f"{role}: {content}" for role, content in turns)


def turns_of(messages: object) -> list[tuple[str, str]]:
    """Role and text of each message; the text is empty where it has none, such as a call of a tool.

    Raises:
        CarbError: they are no messages, or hold something else than text.
    """
    given = entries(messages)
    if not all(map(_is_message, given)):
        raise CarbError(
            f"Expected a text or a list of messages with 'content', got {type(messages).__name__}."
        )
    turns = []
    for message in given:
        parts = map(_part, entries(message.get("content")))
        turns.append((role_of(message, "user"), "".join(parts)))
    return turns


def role_of(message: object, unnamed: str) -> str:
    """The role of a message, whatever other formats call it."""
    role = unnamed
    if isinstance(message, dict):
        role = str(message.get("role") or unnamed).lower()
    return _ROLES.get(role, role)


def entries(given: object) -> list[Any]:
    """The entries of a list, which Parquet makes an array; anything else is one entry."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return list(given)
    return [given]


def _is_message(message: object) -> bool:
    """Whether it has a content, or is of a tool, calls one, refuses or thinks: then it may have
    none."""
    if not isinstance(message, dict):
        return False
    return not {*_OF_A_MESSAGE.split()}.isdisjoint((*message, message.get("role")))


def _part(part: object) -> str:
    """The text of a content or of a part of it; a thought and a call of a tool have none.

    Raises:
        CarbError: it is something else, such as an image.
    """
    kind = "text"
    if isinstance(part, Mapping):
        kind = str(part.get("type") or kind)
        part = part.get("text")
    if _UNSAID.search(kind) or (part is None and "text" in kind):
        return ""
    if not isinstance(part, str):
        raise CarbError(f"The content of a message must be text, got {part or kind}.")
    return part


@dataclass(frozen=True)
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
    prompt: Question | Messages,
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
        responses: one or more responses. The scorer does not see their order. Of equal
            scores the first is picked.
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
    texts = [Text.of(prompt, response, culture, language) for response in responses]
    scored = _ask(scorer, texts, seed)
    scores = tuple(one.score for one in scored)
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        error = next(one.error for one in scored if one.error is not None)
        return Pick(None, None, scores, scored[0].rationale, error)
    levels = rounded(pl.Series(known, dtype=pl.Float64)).to_list()
    best = [position for position, level in enumerate(levels) if level == max(levels)]
    tied = tuple(best) if len(best) > 1 else ()
    return Pick(best[0], [*responses][best[0]], scores, scored[0].rationale, tied=tied)


def score(
    scorer: Scorer | str,
    prompts: Sequence[Question | Messages],
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
        culture: as for ``best_of_n``.
        language: as for ``best_of_n``.
        seed: as for ``best_of_n``.

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
        Text.of(prompt, response, culture, language)
        for prompt, response in zip(prompts, responses, strict=True)
    ]
    scored = _ask(scorer, texts, seed)
    errors = [one.error for one in scored if one.error is not None]
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
