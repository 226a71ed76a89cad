"""Best-of-N: the response that a scorer likes best."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carb_data import CarbError
from carb_data.models import Conversation
from carb_scorers.integrations.asking import Opened, Scored, Text, as_prompt, is_list, score_texts
from carb_scorers.scorer import UNDETERMINED, UNKNOWN, ScoreError, Scorer
from carb_scorers.waiting import wait_for

Messages = Sequence[Mapping[str, object]]
"""A conversation as chat APIs have it: a ``role`` and a ``content`` for each turn."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Which response was picked."""

    index: int | None
    """Place in the responses given; the first of several that score equally. ``None`` where a response could not be
    scored, since that one could have been the best."""
    response: str | None
    scores: tuple[float | None, ...]
    """Score of each response, in the given order."""
    rationale: str | None = None
    error: ScoreError | None = None


async def best_of_n_async(
    scorer: Scorer | str,
    prompt: str | Conversation | Messages,
    responses: Sequence[str],
    *,
    culture: str = UNKNOWN,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> Pick:
    """``best_of_n`` for callers that have an event loop already (asyncio or trio)."""
    if not is_list(responses) or len(responses) == 0:
        raise CarbError("best_of_n needs a list of at least one response.")
    asked = as_prompt(prompt)
    texts = [Text(asked, response, culture, language) for response in responses]
    used = Opened(scorer).get()
    try:
        found = await score_texts(used, texts, seed=seed)
    finally:
        if isinstance(scorer, str):
            await used.aclose()
    scores = tuple(one.score for one in found)
    known = [(score, -place) for place, score in enumerate(scores) if score is not None]
    if len(known) < len(scores):
        error = next(one.error for one in found if one.error is not None)
        return Pick(None, None, scores, found[0].rationale, error)
    place = -max(known)[1]
    return Pick(place, responses[place], scores, found[0].rationale)


def best_of_n(
    scorer: Scorer | str,
    prompt: str | Conversation | Messages,
    responses: Sequence[str],
    *,
    culture: str = UNKNOWN,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> Pick:
    """Pick the response that a scorer likes best.

    Args:
        scorer: a spec string (opened and closed here) or a ``Scorer`` (left open).
        prompt: the text or the conversation (messages with ``role`` and ``content``) that the responses answer; a
            conversation ends with a turn of the user.
        responses: one or more responses; their order does not matter, since the scorer does not see it.
        culture: id of the culture that the prompt is about. Without it a judge is not asked about any culture, and
            ``baseline:label``, which looks for its names, is refused.
        language: BCP 47 tag of the prompt's language.
        seed: seed of the order in which the scorer sees the responses.

    Returns:
        The pick. Where scoring failed it has no index, and says why.

    Raises:
        CarbError: no responses, an argument of another kind, or the scorer cannot be opened.
    """

    async def pick() -> Pick:
        return await best_of_n_async(scorer, prompt, responses, culture=culture, language=language, seed=seed)

    return wait_for(pick)


def score(
    scorer: Scorer | str,
    prompts: Sequence[str | Conversation | Messages],
    responses: Sequence[str],
    *,
    culture: str = UNKNOWN,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> list[float]:
    """The scores of responses, one for each: ``score("classifier:MODEL", prompts, responses)``.

    Responses to the same prompt share a request, so that scorers that compare (judges) have something to compare.

    Args:
        scorer: a spec string (opened and closed here) or a ``Scorer`` (left open).
        prompts: the text or the conversation (messages with ``role`` and ``content``) that each response answers; a
            conversation ends with a turn of the user.
        responses: the responses, one for each prompt.
        culture: id of the culture that the prompts are about. Without it a judge is not asked about any culture, and
            ``baseline:label``, which looks for its names, is refused.
        language: BCP 47 tag of the prompts' language.
        seed: seed of the order in which the scorer sees the responses to a prompt.

    Returns:
        A finite number for each response, higher is better; NaN where it could not be scored, with a warning.

    Raises:
        CarbError: prompts and responses differ in number, an argument is of another kind, or the scorer cannot be
            opened.
    """
    if not (is_list(prompts) and is_list(responses, len(prompts))):
        raise CarbError("score needs a list of prompts and a list of as many responses.")

    async def ask() -> list[Scored]:
        used = Opened(scorer).get()
        try:
            texts = [Text(as_prompt(p), r, culture, language) for p, r in zip(prompts, responses, strict=True)]
            return await score_texts(used, texts, seed=seed)
        finally:
            if isinstance(scorer, str):
                await used.aclose()

    found = wait_for(ask)
    errors = [one.error for one in found if one.score is None and one.error is not None]
    if errors:
        message = f"{len(errors)} of {len(found)} responses have no score (the first: {errors[0].message})"
        warnings.warn(message, stacklevel=2)
    return [math.nan if one.score is None else one.score for one in found]
