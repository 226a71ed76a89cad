"""Best-of-N: the response that a scorer likes best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from carb_data import CarbError
from carb_data.models import Conversation
from carb_data.waiting import wait_for
from carb_scorers.contract import UNDETERMINED, UNKNOWN, ScoreError, Scorer
from carb_scorers.integrations.asking import Opened, Text, score_texts


@dataclass(frozen=True, slots=True)
class Pick:
    """Which response was picked."""

    index: int | None
    """Place in the responses given; the first of several that score equally. ``None`` where a response could not be
    scored, since that one could have been the best."""
    response: str | None
    scores: tuple[float | None, ...]
    """Of each response, in the order given."""
    rationale: str | None = None
    error: ScoreError | None = None


async def best_of_n_async(
    scorer: Scorer | str,
    prompt: str | Conversation,
    responses: Sequence[str],
    *,
    culture: str = UNKNOWN,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> Pick:
    """``best_of_n`` for callers that have an event loop already (asyncio or trio)."""
    if isinstance(responses, str) or not responses:
        raise CarbError("best_of_n needs a list of at least one response.")
    texts = [Text(prompt, response, culture, language) for response in responses]
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
    prompt: str | Conversation,
    responses: Sequence[str],
    *,
    culture: str = UNKNOWN,
    language: str = UNDETERMINED,
    seed: int = 0,
) -> Pick:
    """Pick the response that a scorer likes best.

    Args:
        scorer: a spec string (opened and closed here) or a ``Scorer`` (left open).
        prompt: what the responses respond to: a text, or a conversation that ends with a turn of the user.
        responses: at least one; the order does not matter, since it is hidden from the scorer.
        culture: id of the culture that the prompt is about. Without it a judge is not asked about any culture; to
            other scorers it makes no difference.
        language: BCP 47 tag of the prompt's language.
        seed: of the order in which the scorer sees the responses.

    Returns:
        The pick. Where scoring failed it has no index, and says why.

    Raises:
        CarbError: no responses, or the scorer cannot be opened.
    """

    async def pick() -> Pick:
        return await best_of_n_async(scorer, prompt, responses, culture=culture, language=language, seed=seed)

    return wait_for(pick)
