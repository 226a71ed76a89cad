"""What a judge is asked about an item: which candidates it sees in which orders, and what its answers amount to.

The orders of candidates, and the swap of a pair, are in ``presented_orders``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from carb_data import CarbError
from carb_scorers.judge.bradley_terry import strengths
from carb_scorers.judge.prompt import Asker
from carb_scorers.models.protocol import Prompt
from carb_scorers.scorer import Candidate, Presentation, ScoreRequest

LETTERS = string.ascii_uppercase

Orders = Literal["one", "both", "rotated"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt, and the answers that it allows."""

    order: tuple[str, ...]
    """Ids of the candidates in the order in which the prompt shows them."""
    prompt: Prompt
    labels: tuple[str, ...]
    """The allowed answers: a letter for each candidate, or the ratings."""
    note: str = ""
    """Text that stands before what is written, in the result's rationale."""


Combine = Callable[[Sequence[Presentation], Sequence[str]], dict[str, float]]
"""From what each presentation said, and the candidates' ids, to their scores."""


def presented_orders(ids: tuple[str, ...], orders: Orders) -> list[tuple[str, ...]]:
    """``one``: as given. ``both``: as given and reversed. ``rotated``: every candidate once in every position."""
    if orders == "both" and len(ids) > 1:
        return [ids, ids[::-1]]
    return [ids[turn:] + ids[:turn] for turn in range(len(ids) if orders == "rotated" else 1)]


def listwise_asks(request: ScoreRequest, asker: Asker, *, reads: bool, orders: Orders) -> list[Ask]:
    """All candidates at once, under a letter each."""
    texts = {candidate.id: candidate.text for candidate in request.candidates}
    if len(texts) > len(LETTERS):
        raise CarbError(f"A listwise judge shows at most {len(LETTERS)} candidates; use mode=pairwise.")
    letters = tuple(LETTERS[: len(texts)])
    return [
        Ask(order, asker.ask(request, [texts[key] for key in order], letters, reads=reads), letters)
        for order in presented_orders(tuple(texts), orders)
    ]


def pairwise_asks(
    request: ScoreRequest, ask: Callable[[ScoreRequest, Candidate, Candidate], Ask], *, orders: Orders
) -> list[Ask]:
    """All pairs of candidates.

    Args:
        request: The request that holds the item's prompt and candidates.
        ask: the prompt about two candidates, the first shown as A.
        orders: The orders in which a pair is shown.
    """
    by_id = {candidate.id: candidate for candidate in request.candidates}
    pairs = [order for pair in combinations(by_id, 2) for order in presented_orders(pair, orders)]
    return [ask(request, by_id[first], by_id[second]) for first, second in pairs]


def pointwise_asks(request: ScoreRequest, asker: Asker, *, reads: bool, orders: Orders) -> list[Ask]:
    """A candidate alone. Nothing stands beside it; what can be shown in both orders is the scale of ratings."""
    (candidate,) = request.candidates
    ratings = tuple(asker.wording.ratings)
    return [
        Ask((candidate.id,), asker.ask(request, [candidate.text], "A", reads=reads, falling=falling), ratings)
        for falling in ((False,) if orders == "one" else (False, True))
    ]


def mean_scores(presentations: Sequence[Presentation], ids: Sequence[str]) -> dict[str, float]:
    """The mean over the orders shown."""
    return {key: sum(shown.scores[key] for shown in presentations) / len(presentations) for key in ids}


def pair_strengths(presentations: Sequence[Presentation], ids: Sequence[str]) -> dict[str, float]:
    """Strengths by Bradley and Terry from the shares with which each of two won."""
    place = {key: number for number, key in enumerate(ids)}
    wins = [[0.0] * len(ids) for _ in ids]
    for shown in presentations:
        first, second = shown.order
        wins[place[first]][place[second]] += shown.scores[first]
        wins[place[second]][place[first]] += shown.scores[second]
    return dict(zip(ids, strengths(wins), strict=True))
