"""What a judge is asked about an item: which candidates it sees in which orders, and what its answers amount to.

The orders of candidates, and the swap of a pair, are in ``presented_orders``.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from carb_data import CarbError
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
    """Each candidate alone. Nothing stands beside it; what can be shown in both orders is the scale of ratings."""
    ratings = tuple(asker.wording.ratings)
    return [
        Ask((candidate.id,), asker.ask(request, [candidate.text], "A", reads=reads, falling=falling), ratings)
        for candidate in request.candidates
        for falling in ((False,) if orders == "one" else (False, True))
    ]


def mean_scores(presentations: Sequence[Presentation], ids: Sequence[str]) -> dict[str, float]:
    """Each candidate's mean over the presentations that show it; over pairs, the share of them that it won.

    Every two candidates of an item are compared equally often, so the shares rank them as the strengths of Bradley and
    Terry would (Ford 1957, "Solution of a Ranking Problem from Binary Comparisons", American Mathematical Monthly 64).
    """
    values = {key: [shown.scores[key] for shown in presentations if key in shown.scores] for key in ids}
    # An exact sum: candidates that won the same shares, in whatever order, have the same score.
    return {key: math.fsum(own) / len(own) if own else 0.0 for key, own in values.items()}
